// Turns lowered functions into the plan of one variant: buffers with their places, symbols that compute every size at
// run time, launches in order.
//
// Arena. Lifetimes follow the order of the statements. Buffers are placed largest first; one of constant size goes into
// the lowest gap that fits, one of symbolic size on top of whatever lives at the same time (its offset is a symbol, so
// the arena is as small for a small input as a plan built for that input alone). All offsets are multiples of 64,
// or of what a device wants.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "packager/loop/loop.h"
#include "packager/nest/facts/figures.h"
#include "packager/nest/facts/parts.h"
#include "packager/nest/program.h"
#include "packager/plan/arena.h"

namespace mlc::plan {

// A launch of kernel number `entry` of the module. Workspaces are told apart by `statement` and their own number.
struct Launch {
  uint32_t entry = 0;
  uint32_t statement = 0;
  std::vector<loop::Param> params;
  std::vector<const ir::Expr*> scalars;  // extents
  const ir::Expr* tiles = nullptr;
  std::vector<loop::Cut> cuts;           // their chunks are passed behind the scalars
  const ir::Expr* work = nullptr;        // null: not known
  const ir::Expr* steps = nullptr;       // turns of the loops of a lane of a device, at most; null: any number
  const ir::Expr* scratch = nullptr;     // bytes of local arrays whose size follows from extents; null: none
  nest::Figures figures;                 // for profiles
  std::string source;
};

struct FunctionPlan {
  const nest::Function* function = nullptr;  // must outlive the call
  std::vector<Launch> launches;  // of statements that are not done by `parts`
  nest::Parts parts;
  int64_t alignment = kArenaAlignment;
  // The manifest tensor that holds a Const array in its layout, as {tensor, copy}.
  std::function<std::pair<uint32_t, uint32_t>(uint32_t array)> constant;
};

// The constants that a segment, which has neither inputs nor outputs, derives for the others: the bytes of each, by number.
struct DerivedPlan {
  std::string function;
  std::vector<uint64_t> bytes;  // empty: there are none, and no such segment
};

// The bytes of a plan segment. Functions are sorted by name. Fails if a symbol has no source in the inputs' shapes.
Result<std::vector<std::byte>> write_plan(ir::Context& ctx, const std::vector<FunctionPlan>& segments,
                                          const std::vector<std::shared_ptr<const nest::Program>>& programs = {}, const DerivedPlan& derived = {});

}  // namespace mlc::plan
