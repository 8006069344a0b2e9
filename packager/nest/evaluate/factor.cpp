#include "packager/nest/evaluate/factor.h"

#include <bit>
#include <cstring>
#include <type_traits>

#include "packager/ir/numeric.h"

namespace mlc::nest {

using ir::Expr;
using ir::Op;

namespace {

// Whether every value of `from` is one of `to`, or, of integers, has the same low bits.
bool widens(DType from, DType to) {
  if (from == to) return true;
  if (!is_float(from) && !is_int(from) && from != DType::Bool) return false;
  if (is_float(to)) return (to == DType::F32 || to == DType::F64) && 2 * bits_of(from) <= bits_of(to);
  return is_int(to) && !is_float(from);
}

// The load below conversions that lose nothing, or null.
const Expr* widened_load(const Expr* e, DType type) {
  if (e->type.dtype != type) return nullptr;
  if (e->op == Op::Cast && widens(e->args[0]->type.dtype, type)) e = e->args[0];
  return e->op == Op::Load ? e : nullptr;
}

// Half precision as a float, without branches, so that a loop of it runs in vectors.
float half(uint16_t h) {
  const uint32_t rest = h & 0x7fffu, sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t finite = std::bit_cast<uint32_t>(std::bit_cast<float>(rest << 13) * 0x1p112f);
  return std::bit_cast<float>(sign | finite | (rest >= 0x7c00u ? 0x7f800000u : 0));
}

float brain_half(uint16_t h) { return std::bit_cast<float>(static_cast<uint32_t>(h) << 16); }

template <class Stored, class T, class Convert>
void convert_row(const Row& row, int64_t n, T* out, Convert&& convert) {
  const std::byte* from = row.base + row.first * static_cast<int64_t>(sizeof(Stored));
  const auto at = [&](int64_t element) {
    Stored v;
    std::memcpy(&v, from + element * static_cast<int64_t>(sizeof(Stored)), sizeof(Stored));
    return static_cast<T>(convert(v));
  };
  if (row.step == 1)
    for (int64_t i = 0; i < n; ++i) out[i] = at(i);
  else
    for (int64_t i = 0; i < n; ++i) out[i] = at(i * row.step);
}

template <class Stored, class T>
void widen_row(const Row& row, int64_t n, T* out) {
  convert_row<Stored>(row, n, out, [](Stored v) { return v; });
}

}  // namespace

std::optional<Factor> factor_of(const Expr* e, DType type) {
  if (const Expr* of = widened_load(e, type)) return Factor{of, nullptr};
  if (e->op != Op::Sub || e->type.dtype != type) return std::nullopt;
  const Expr *of = widened_load(e->args[0], type), *less = e->args[1]->op == Op::Const ? e->args[1] : widened_load(e->args[1], type);
  if (!of || !less || less->type.lanes != 1) return std::nullopt;
  return Factor{of, less};
}

std::optional<SumIn> sum_in(DType type) {
  switch (type) {
    case DType::F32: return SumIn::F32;
    case DType::F64: return SumIn::F64;
    case DType::I64: case DType::U64: return SumIn::Bits64;
    case DType::I32: case DType::U32: case DType::I16: case DType::U16: case DType::I8: case DType::U8: return SumIn::Bits32;
    default: return std::nullopt;
  }
}

template <class T>
bool is_stored_as(DType type) {
  return sum_in(type) && bytes_of(type) == sizeof(T) && is_float(type) == std::is_floating_point_v<T>;
}

template <class T>
void read_row(const Row& row, int64_t n, T* out) {
  switch (row.dtype) {
    case DType::F32: return widen_row<float>(row, n, out);
    case DType::F64: return widen_row<double>(row, n, out);
    case DType::F16: return convert_row<uint16_t>(row, n, out, half);
    case DType::BF16: return convert_row<uint16_t>(row, n, out, brain_half);
    case DType::I64: return widen_row<int64_t>(row, n, out);
    case DType::U64: return widen_row<uint64_t>(row, n, out);
    case DType::I32: return widen_row<int32_t>(row, n, out);
    case DType::U32: return widen_row<uint32_t>(row, n, out);
    case DType::I16: return widen_row<int16_t>(row, n, out);
    case DType::U16: return widen_row<uint16_t>(row, n, out);
    case DType::I8: return widen_row<int8_t>(row, n, out);
    case DType::U8: return widen_row<uint8_t>(row, n, out);
    default: break;
  }
  for (int64_t i = 0; i < n; ++i) {
    const ir::Scalar v = ir::load_element(row.dtype, row.base, static_cast<uint64_t>(row.first + i * row.step));
    out[i] = is_float(row.dtype) ? static_cast<T>(v.f) : static_cast<T>(v.i);
  }
}

template bool is_stored_as<float>(DType);
template bool is_stored_as<double>(DType);
template bool is_stored_as<uint32_t>(DType);
template bool is_stored_as<uint64_t>(DType);
template void read_row<float>(const Row&, int64_t, float*);
template void read_row<double>(const Row&, int64_t, double*);
template void read_row<uint32_t>(const Row&, int64_t, uint32_t*);
template void read_row<uint64_t>(const Row&, int64_t, uint64_t*);

}  // namespace mlc::nest
