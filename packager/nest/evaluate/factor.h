// Factors of sums of products, which are nearly all the work of a model. What is multiplied is what a load reads, made wider without
// loss, and perhaps less a zero point: such factors are read a row at a time, whatever type they are stored in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "packager/ir/expr.h"

namespace mlc::nest {

struct Factor {
  const ir::Expr* of = nullptr;    // a load
  const ir::Expr* less = nullptr;  // a load or a constant, or null
};

// `e` as a factor of a product in `type`; nothing, if it is something else.
std::optional<Factor> factor_of(const ir::Expr* e, DType type);

// What sums of a type are computed in. Integers wrap: the low bits of a sum are the same in any width that has them.
enum class SumIn : uint8_t { F32, F64, Bits32, Bits64 };
std::optional<SumIn> sum_in(DType type);

// Elements of an array in memory, `step` apart.
struct Row {
  const std::byte* base = nullptr;
  DType dtype = DType::None;
  int64_t first = 0, step = 0;
};

// The first `n` of them, made wider. T: float, double, uint32_t, uint64_t.
template <class T>
void read_row(const Row& row, int64_t n, T* out);

// Whether elements of the type are a T as stored in memory.
template <class T>
bool is_stored_as(DType type);

// Calls `body` with a T{} of what sums are computed in.
template <class Body>
auto with_sum(SumIn in, Body&& body) {
  switch (in) {
    case SumIn::F32: return body(float{});
    case SumIn::F64: return body(double{});
    case SumIn::Bits32: return body(uint32_t{});
    case SumIn::Bits64: return body(uint64_t{});
  }
  return body(float{});
}

}  // namespace mlc::nest
