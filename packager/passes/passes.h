// The passes over a Nest function and the list in which they run. A pass is one file; it rewrites the function in place
// and keeps its meaning: what the interpreter answers before and after is the same.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "packager/ir/context.h"
#include "packager/nest/nest.h"

namespace mlc::passes {

struct Options {
  std::string print_after;  // name of a pass: the function is printed on stderr after it ("all": after each)
  bool check = false;       // interpret before and after each pass on random inputs and compare
};

struct Pass {
  std::string_view name;
  Status (*run)(ir::Context&, nest::Function&);
};

// In the order in which `run` applies them.
std::span<const Pass> pipeline();

Status run(ir::Context& ctx, nest::Function& function, const Options& options = {});

// Const arrays that some statement reads or that are outputs, in order.
std::vector<uint32_t> used_constants(const nest::Function& function);

}  // namespace mlc::passes
