#include "packager/loop/ops.h"

namespace mlc::loop {

using ir::Op;

namespace {
constexpr OpInfo kOps[] = {
    {Op::Load, "load", 1, 2},
    {Op::Neg, "neg", 1, 1}, {Op::Abs, "abs", 1, 1}, {Op::Not, "not", 1, 1}, {Op::BitNot, "bitnot", 1, 1},
    {Op::Floor, "floor", 1, 1}, {Op::Ceil, "ceil", 1, 1}, {Op::Trunc, "trunc", 1, 1}, {Op::Rint, "rint", 1, 1},
    {Op::Sqrt, "sqrt", 1, 1}, {Op::IsNan, "isnan", 1, 1}, {Op::IsInf, "isinf", 1, 1},
    {Op::Cast, "cast", 1, 1}, {Op::SatCast, "satcast", 1, 1}, {Op::Bitcast, "bitcast", 1, 1}, {Op::Tf32, "tf32", 1, 1}, {Op::Exp2, "exp2", 1, 1},
    {Op::Add, "add", 2, 2}, {Op::Sub, "sub", 2, 2}, {Op::Mul, "mul", 2, 2}, {Op::Div, "div", 2, 2},
    {Op::FloorDiv, "floordiv", 2, 2}, {Op::FloorMod, "floormod", 2, 2}, {Op::TruncDiv, "truncdiv", 2, 2},
    {Op::TruncMod, "truncmod", 2, 2}, {Op::Min, "min", 2, 2}, {Op::Max, "max", 2, 2}, {Op::Pow, "pow", 2, 2},
    {Op::And, "and", 2, 2}, {Op::Or, "or", 2, 2}, {Op::BitAnd, "bitand", 2, 2}, {Op::BitOr, "bitor", 2, 2},
    {Op::BitXor, "bitxor", 2, 2}, {Op::Shl, "shl", 2, 2}, {Op::Shr, "shr", 2, 2},
    {Op::Lt, "lt", 2, 2}, {Op::Le, "le", 2, 2}, {Op::Eq, "eq", 2, 2}, {Op::Ne, "ne", 2, 2},
    {Op::Select, "select", 3, 3}, {Op::Fma, "fma", 3, 3},
    {Op::Splat, "splat", 1, 1}, {Op::Ramp, "ramp", 1, 1}, {Op::Extract, "extract", 1, 1},
    {Op::SumLanes, "sumlanes", 1, 1}, {Op::ProdLanes, "prodlanes", 1, 1}, {Op::MinLanes, "minlanes", 1, 1},
    {Op::MaxLanes, "maxlanes", 1, 1}, {Op::Widen, "widen", 2, 64},
    {Op::Dot, "dot", 3, 3},
};
}  // namespace

const OpInfo* op_info(Op op) {
  for (const OpInfo& info : kOps)
    if (info.op == op) return &info;
  return nullptr;
}

const OpInfo* op_named(std::string_view name) {
  for (const OpInfo& info : kOps)
    if (info.name == name) return &info;
  return nullptr;
}

bool is_cells_of_codes(ir::Type words, ir::Type codes) {
  const bool is_word = words.dtype == DType::I32 || words.dtype == DType::U32, is_code = codes.dtype == DType::I8 || codes.dtype == DType::U8;
  return is_word && is_code && codes.lanes == kCodesOfCell * words.lanes;
}

DType dot_sum(DType a, DType b) {
  const auto is_byte = [](DType t) { return t == DType::I8 || t == DType::U8; };
  if ((is_byte(a) && is_byte(b)) || (a == DType::I16 && b == a)) return DType::I32;
  return a == DType::BF16 && b == a ? DType::F32 : DType::None;
}

bool is_comparison(Op op) { return op >= Op::Lt && op <= Op::Ne; }

}  // namespace mlc::loop
