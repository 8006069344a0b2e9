// What an extent is guessed to be where something must be.
#pragma once

#include "packager/ir/context.h"

namespace mlc::ir {

// 64 for each of its symbols, within their bounds, or as many times more as leave anything of it: the frames of a recording are
// fewer than its samples. What is nothing for all of these, but something in rare runs (where an extent is 1), is the larger of what
// is chosen from. Null: it has no value then.
std::optional<int64_t> typical(const Expr* e);

}  // namespace mlc::ir
