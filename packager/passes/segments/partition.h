// Cuts a function at what only its run decides.
//
// Statements are put into levels: level 0 needs nothing but the inputs, level n + 1 needs a control whose operands are
// ready at level n. The statements of a level become one function, a segment, whose symbols all follow from its inputs:
// from their extents, or from elements of theirs. Where no input of a segment has the extent that it needs, an array
// that has it is handed to it for the sake of its shape. A program calls the segments and does the controls in between.
// Strings of constants and what is computed from them have levels of their own in front, which sessions do once.
// Bodies of controls are partitioned in the same way. A function without controls is its own only segment.
// spec/plan.md has the programs as the runtime sees them, spec/decisions/plan.md the reasons.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "packager/nest/program.h"

namespace mlc::passes {

struct Parts {
  std::vector<std::unique_ptr<nest::Function>> segments;
  std::vector<std::shared_ptr<const nest::Program>> programs;  // the same for all targets
  // Of passes/segments/derive.h: the segment that computes derived constants, and the bytes of each of these.
  std::string derive;
  std::vector<uint64_t> derived;
  // Segments from this one on are those of passes/segments/cut.h, over the kernels of the others.
  size_t num_whole = SIZE_MAX;
};

// The same segments and programs once more, to be fused otherwise.
Parts copy_of(const Parts& parts);

// Adds what `function` becomes to `parts`: a segment or a program of its name, and what that calls.
Status partition(ir::Context& ctx, nest::Function function, Parts& parts);

// The same for a function without controls, at chosen places: statement k belongs to segment `level[k]`, and levels
// rise. The program is called `program`, its segments `name_of(level)`.
Status partition_at(ir::Context& ctx, nest::Function function, std::vector<size_t> level, std::string program,
                    std::function<std::string(size_t)> name_of, Parts& parts);

}  // namespace mlc::passes
