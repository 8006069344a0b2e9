// What counts as a product of two arrays: the rule that layouts, fusion and lowering share.
#pragma once

#include "packager/ir/expr.h"

namespace mlc::nest {

// The load behind one factor of a product: the factor itself, or what it converts to f32 without loss (f16 and bf16,
// whose products are summed in f32). Null: it is neither.
const ir::Expr* operand_load(const ir::Expr* factor);

// A sum over products of two such factors.
bool is_contraction(const ir::Expr* fold);

// Columns of a panel, in the layout of weights.
constexpr int64_t kPanel = 16;
// Columns so few that vectors of a product run along k instead (packager/lower/contraction.h), where k allows it.
constexpr int64_t kFewColumns = 4;
// The longest vector of elements along k, a power of two up to `lanes` of which k is a multiple; 1: too short to be worth it.
unsigned lanes_along_k(const ir::Expr* k_extent, unsigned lanes);

}  // namespace mlc::nest
