// How operations are written in the text form: infix with a precedence, or as a function of their name. Printer and parser
// share it (text_print.cpp, text_parse.cpp).
#pragma once

#include <string_view>

#include "packager/ir/expr.h"

namespace mlc::ir {

enum Precedence { kOr, kAnd, kCompare, kBitOr, kBitXor, kBitAnd, kShift, kSum, kProduct, kAtom };

struct Infix {
  std::string_view text;
  int precedence;
};
// Without text: not an infix operation.
constexpr Infix infix_of(Op op) {
  switch (op) {
    case Op::Add: return {"+", kSum};
    case Op::Sub: return {"-", kSum};
    case Op::Mul: return {"*", kProduct};
    case Op::Div: return {"/", kProduct};
    case Op::FloorDiv: return {"//", kProduct};
    case Op::FloorMod: return {"%", kProduct};
    case Op::And: return {"and", kAnd};
    case Op::Or: return {"or", kOr};
    case Op::BitAnd: return {"&", kBitAnd};
    case Op::BitOr: return {"|", kBitOr};
    case Op::BitXor: return {"^", kBitXor};
    case Op::Shl: return {"<<", kShift};
    case Op::Shr: return {">>", kShift};
    case Op::Lt: return {"<", kCompare};
    case Op::Le: return {"<=", kCompare};
    case Op::Eq: return {"==", kCompare};
    case Op::Ne: return {"!=", kCompare};
    default: return {};
  }
}

struct Named {
  Op op;
  std::string_view name;
  int operands;  // 0: any number
};
constexpr Named kNamed[] = {
    {Op::Neg, "neg", 1}, {Op::Abs, "abs", 1}, {Op::Not, "not", 1}, {Op::BitNot, "bitnot", 1}, {Op::Floor, "floor", 1},
    {Op::Ceil, "ceil", 1}, {Op::Trunc, "trunc", 1}, {Op::Rint, "rint", 1}, {Op::Sqrt, "sqrt", 1},
    {Op::IsNan, "is_nan", 1}, {Op::IsInf, "is_inf", 1}, {Op::Exp, "exp", 1}, {Op::Log, "log", 1}, {Op::Sin, "sin", 1},
    {Op::Cos, "cos", 1}, {Op::Tan, "tan", 1}, {Op::Asin, "asin", 1}, {Op::Acos, "acos", 1}, {Op::Atan, "atan", 1},
    {Op::Sinh, "sinh", 1}, {Op::Cosh, "cosh", 1}, {Op::Tanh, "tanh", 1}, {Op::Asinh, "asinh", 1},
    {Op::Acosh, "acosh", 1}, {Op::Atanh, "atanh", 1}, {Op::Erf, "erf", 1}, {Op::Tf32, "tf32", 1}, {Op::Exp2, "exp2", 1}, {Op::TruncDiv, "tdiv", 2},
    {Op::TruncMod, "tmod", 2}, {Op::Min, "min", 2}, {Op::Max, "max", 2}, {Op::Pow, "pow", 2},
    {Op::Select, "select", 3}, {Op::Fma, "fma", 3}, {Op::SumLanes, "sum_lanes", 1}, {Op::ProdLanes, "prod_lanes", 1},
    {Op::MinLanes, "min_lanes", 1}, {Op::MaxLanes, "max_lanes", 1}, {Op::Widen, "widen", 0},
    {Op::Dot, "dot", 3},
};
constexpr std::string_view name_of(Op op) {
  for (const Named& n : kNamed)
    if (n.op == op) return n.name;
  return {};
}

}  // namespace mlc::ir
