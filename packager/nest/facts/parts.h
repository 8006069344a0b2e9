// Arrays that are written into an output as they are: keys and values side by side, a result under another shape. Such an
// array is a part of the output's memory from the start, and nothing is copied: the runtime's plan places it there.
#pragma once

#include <cstdint>
#include <vector>

#include "packager/nest/nest.h"

namespace mlc::nest {

struct Parts {
  struct Part {
    uint32_t array = 0, output = 0;    // arrays of the function
    const ir::Expr* offset = nullptr;  // bytes of the output before it, a multiple of `alignment`
  };
  std::vector<Part> parts;
  std::vector<bool> is_done;  // per statement: it only copies a part to its place, and has no launch
};

// Of outputs whose elements are all written by statements that write a range of neighbours each, in order, so that no two write
// the same: those ranges that are copies of a temporary array, where they begin at a multiple of `alignment`. No launch has both a part and its output
// among its operands.
Parts parts_of_outputs(ir::Context& ctx, const Function& f, int64_t alignment);

}  // namespace mlc::nest
