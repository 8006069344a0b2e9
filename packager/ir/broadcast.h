// Extents that meet in a broadcast and of which only the run tells whether they are equal or one of them is 1.
//
// The extent of both together is a chain of choices over all extents that met, e1 == 1 ? (e2 == 1 ? e3 : e2) : e1, by
// ascending id, so that it is one expression in whatever order they meet: broadcast(a, a) = a, broadcast(a, b) =
// broadcast(b, a), broadcast(a, broadcast(a, b)) = broadcast(a, b). An extent that cannot be 1 stands for all. The chain
// means this only where each pair of its extents is equal or holds a 1, which is checked before the run.
//
// An array of such an extent is read at index * step, where the step is 0 if the extent is 1, and 1 if not: the stride is
// chosen at run time, and an address stays linear in its dims.
#pragma once

#include <span>
#include <vector>

#include "packager/ir/context.h"

namespace mlc::ir {

// False only if `extent` is never 1.
bool can_be_one(Context& ctx, const Expr* extent);

// False for extents that are made of the same symbols, or of which one is a constant, and agree wherever one of them is
// 1, as far as values that are tried tell: two ways to write what the model means to be one extent. It is enough to check
// that they are equal.
bool may_differ_by_one(const Expr* a, const Expr* b);

// The extent of both together.
const Expr* broadcast_extent(Context& ctx, const Expr* a, const Expr* b);
// What must hold before the run: a == b, or one of them is 1. True where their form says so.
const Expr* broadcast_condition(Context& ctx, const Expr* a, const Expr* b);
// The extents that an extent made by broadcast_extent is made of, by ascending id; any other is its own only one.
std::vector<const Expr*> broadcast_terms(Context& ctx, const Expr* extent);

// 0 where `extent` is 1, else 1; the constant 1 if it is never 1.
const Expr* broadcast_step(Context& ctx, const Expr* extent);
// True of what broadcast_step gives, constants aside.
bool is_broadcast_step(const Expr* e);
// The steps below `e`, each once.
std::vector<const Expr*> steps_in(const Expr* e);
// `e` with every step as it is where nothing broadcasts: 1.
const Expr* without_steps(Context& ctx, const Expr* e);

// True if `index` is i * step of `extent` and i lies in the extents that `extent` was broadcast to, hence `index` in
// `extent`. `given`: conditions that hold, those checked before the run among them.
bool broadcast_in_range(Context& ctx, const Expr* index, const Expr* extent, std::span<const Expr* const> given = {});

}  // namespace mlc::ir
