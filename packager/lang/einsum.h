// Einsum is the one operator whose text depends on an attribute: the equation is turned into a definition in the
// operator language, which is then expanded like any other.
#pragma once

#include <string>

#include "base/status.h"

namespace mlc::lang {

// "ij,jk->ik" for two operands:
//   op Einsum@12<T: num>(x0: T[i, j], x1: T[j, k]) -> y: T[i, k]
//     attr equation: string
//     y[i, k] = sum(x0[i, j] * x1[j, k] for j)
// An ellipsis becomes a broadcasting pack. Without "->" the result has the letters that occur once, in alphabetical
// order. `message` explains a refusal.
Result<std::string> einsum_text(const std::string& equation, size_t operands);

}  // namespace mlc::lang
