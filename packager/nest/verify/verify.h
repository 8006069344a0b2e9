// The rules of the Nest level, checked after every pass; all violations are collected.
//
//   arrays     distinct names, a fixed-size element type, extents made of symbols; constants have their bytes; layouts
//              cover every axis exactly once
//   order      an array is read only after its last write; inputs and constants are never written; outputs are written
//   dims       each is bound once on the way to where it is used: by the nest (map or scan) or by a fold
//   writes     in range; a map writes no element twice (every map dim takes part in the index)
//   loads      rank and type of the array; in range under `where`, Select, And and Or, unless Checked or Clamped
//   types      operands as expr.h demands: no implicit conversion
//   nodes      no Var outside of combiners and procs, no vectors
//   controls   operands and results as schema/steps.h says; bodies follow the same rules, at most 64 deep; symbols that a control
//              sets are set once. Only controls read and write lists
//   procs      loops have a positive step or a bound; stores only to what the proc declares
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "packager/nest/nest.h"

namespace mlc::nest {

struct VerifyOptions {
  bool ranges = true;  // prove indices in range (the only part that takes time)
};
// One sentence per violation, naming the statement; empty if the function is in order.
std::vector<std::string> verify(ir::Context& ctx, const Function& f, const VerifyOptions& options = {});
Status verified(ir::Context& ctx, const Function& f, const VerifyOptions& options = {});  // the same as one Internal error

}  // namespace mlc::nest
