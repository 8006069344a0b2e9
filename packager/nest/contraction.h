// What counts as a product of two arrays: the rule that layouts, fusion and lowering share.
#pragma once

#include "packager/ir/expr.h"

namespace mlc::nest {

// The load behind one factor of a product: the factor itself, or what it converts to f32 without loss (f16 and bf16,
// whose products are summed in f32). Null: it is neither.
const ir::Expr* operand_load(const ir::Expr* factor);

// A sum over products of two such factors.
bool is_contraction(const ir::Expr* fold);

}  // namespace mlc::nest
