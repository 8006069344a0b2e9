// Operations on registers: plain loops for what models do most, the scalar operations of ir/numeric.h for the rest. Both
// give the same bits.
#include <algorithm>
#include <bit>
#include <cmath>

#include "packager/nest/block/block_machine.h"

namespace mlc::nest {

using ir::Op;
using ir::Scalar;

namespace {

template <class To, class From>
void each(To* dst, const From* a, int64_t n, auto&& op) {
  for (int64_t i = 0; i < n; ++i) dst[i] = static_cast<To>(op(a[i]));
}
template <class To, class From>
void each(To* dst, const From* a, const From* b, int64_t n, auto&& op) {
  for (int64_t i = 0; i < n; ++i) dst[i] = static_cast<To>(op(a[i], b[i]));
}

// False: no loop for this operation.
template <class F>
bool real_loop(Op op, F* d, const F* a, int64_t n) {
  switch (op) {
    case Op::Neg: each(d, a, n, [](F x) { return -x; }); return true;
    case Op::Abs: each(d, a, n, [](F x) { return std::fabs(x); }); return true;
    case Op::Sqrt: each(d, a, n, [](F x) { return std::sqrt(x); }); return true;
    case Op::Exp: each(d, a, n, [](F x) { return std::exp(x); }); return true;
    case Op::Tanh: each(d, a, n, [](F x) { return std::tanh(x); }); return true;
    case Op::Erf: each(d, a, n, [](F x) { return std::erf(x); }); return true;
    case Op::Floor: each(d, a, n, [](F x) { return std::floor(x); }); return true;
    case Op::Rint: each(d, a, n, [](F x) { return std::nearbyint(x); }); return true;
    case Op::Tf32: each(d, a, n, [](F x) { return static_cast<F>(ir::tf32_value(static_cast<float>(x))); }); return true;
    default: return false;
  }
}

template <class F>
bool real_loop(Op op, F* d, const F* a, const F* b, int64_t n) {
  switch (op) {
    case Op::Add: each(d, a, b, n, [](F x, F y) { return x + y; }); return true;
    case Op::Sub: each(d, a, b, n, [](F x, F y) { return x - y; }); return true;
    case Op::Mul: each(d, a, b, n, [](F x, F y) { return x * y; }); return true;
    case Op::Div: each(d, a, b, n, [](F x, F y) { return x / y; }); return true;
    case Op::Min: each(d, a, b, n, [](F x, F y) { return x != x ? x : y != y ? y : x < y ? x : y; }); return true;
    case Op::Max: each(d, a, b, n, [](F x, F y) { return x != x ? x : y != y ? y : x > y ? x : y; }); return true;
    default: return false;
  }
}

// Of floats: truncated, beyond `type` its least or greatest, NaN 0; as Op::SatCast does.
template <class F>
void saturate(DType type, int64_t* d, const F* a, int64_t n) {
  const int64_t least = ir::lowest_int(type), most = ir::highest_int(type);
  const double lo = static_cast<double>(least), hi = static_cast<double>(most);
  each(d, a, n, [=](F x) -> int64_t {
    const double v = static_cast<double>(x);
    return v != v ? 0 : v <= lo ? least : v >= hi ? most : static_cast<int64_t>(v);
  });
}

// Of floats or integers.
template <class T>
bool compare_loop(Op op, int64_t* d, const T* a, const T* b, int64_t n) {
  switch (op) {
    case Op::Lt: each(d, a, b, n, [](T x, T y) { return x < y; }); return true;
    case Op::Le: each(d, a, b, n, [](T x, T y) { return x <= y; }); return true;
    case Op::Eq: each(d, a, b, n, [](T x, T y) { return x == y; }); return true;
    case Op::Ne: each(d, a, b, n, [](T x, T y) { return x != y; }); return true;
    default: return false;
  }
}

// Integers of every width are kept in 64 bits; arithmetic on them is that of 64 bits, wrapped. False: not for this type.
bool wraps(DType t) { return is_int(t) && t != DType::U64 && bits_of(t) >= 8; }

// To half precision and back, without branches, so that a loop of it runs in vectors.
float rounded_to_half(float v) {
  const uint32_t bits = std::bit_cast<uint32_t>(v), sign = bits & 0x80000000u, a = bits ^ sign;
  uint32_t r = (a + 0xfffu + (a >> 13 & 1)) & ~0x1fffu;             // 10 bits of mantissa, ties to even
  r = r > 0x477fe000u ? 0x7f800000u : r;                            // beyond 65504
  const float small = (std::bit_cast<float>(a) + 0.5f) - 0.5f;      // steps of 2^-24
  r = a < 0x38800000u ? std::bit_cast<uint32_t>(small) : r;         // below 2^-14
  r = a > 0x7f800000u ? (a & ~0x1fffu) | 0x400000u : r;             // no number
  return std::bit_cast<float>(r | sign);
}

float round_narrow(DType t, float v) {
  switch (t) {
    case DType::F16: return ir::f16_value(ir::f16_bits(v));
    case DType::BF16: return ir::bf16_value(ir::bf16_bits(v));
    default: return static_cast<float>(ir::round_to(t, v));
  }
}

bool all_set(const int64_t* mask, int64_t n) { return std::all_of(mask, mask + n, [](int64_t v) { return v != 0; }); }
bool any_set(const int64_t* mask, int64_t n) { return std::any_of(mask, mask + n, [](int64_t v) { return v != 0; }); }

}  // namespace

bool BlockMachine::any(int mask) { return mask < 0 || any_set(ints(mask), count(mask)); }
bool BlockMachine::all(int mask) { return mask < 0 || all_set(ints(mask), count(mask)); }

void BlockMachine::copy(int dst, int from) {
  const int64_t n = count(dst);
  switch (kind(dst)) {
    case Register::F32: std::copy_n(floats(from), n, floats(dst)); return;
    case Register::F64: std::copy_n(doubles(from), n, doubles(dst)); return;
    case Register::Int: std::copy_n(ints(from), n, ints(dst)); return;
  }
}

void BlockMachine::broadcast(int dst, int from) {
  const int64_t n = count(dst);
  switch (kind(dst)) {
    case Register::F32: std::fill_n(floats(dst), n, *floats(from)); return;
    case Register::F64: std::fill_n(doubles(dst), n, *doubles(from)); return;
    case Register::Int: std::fill_n(ints(dst), n, *ints(from)); return;
  }
}

void BlockMachine::take(int dst, int from, int mask) {
  if (mask < 0) return copy(dst, from);
  for (int64_t i = 0, n = count(dst); i < n; ++i)
    if (ints(mask)[i]) set(dst, i, get(from, i));
}

void BlockMachine::narrow(DType t, int r) {
  if (t == DType::F32 || kind(r) != Register::F32) return;
  float* v = floats(r);
  if (t == DType::F16) return each(v, v, count(r), [](float x) { return rounded_to_half(x); });
  each(v, v, count(r), [t](float x) { return round_narrow(t, x); });
}

void BlockMachine::wrap(DType t, int r) {
  const auto as = [&](auto width) {
    each(ints(r), ints(r), count(r), [](int64_t v) { return static_cast<decltype(width)>(v); });
  };
  switch (t) {
    case DType::I32: return as(int32_t());
    case DType::I16: return as(int16_t());
    case DType::I8: return as(int8_t());
    case DType::U32: return as(uint32_t());
    case DType::U16: return as(uint16_t());
    case DType::U8: return as(uint8_t());
    default: return;
  }
}

void BlockMachine::unary(const Instr& i) {
  const int64_t n = count(i.dst);
  if (real_unary(i)) return narrow(i.to, i.dst);
  if (i.op == Op::Cast && kind(i.dst) == Register::F32 && kind(i.a) == Register::F32) {
    copy(i.dst, i.a);
    return narrow(i.to, i.dst);
  }
  if (i.op == Op::Cast && i.to == DType::F32 && kind(i.a) == Register::Int && i.from != DType::U64)
    return each(floats(i.dst), ints(i.a), n, [](int64_t x) { return static_cast<double>(x); });
  if (i.op == Op::Cast && kind(i.dst) == Register::Int && kind(i.a) == Register::Int && wraps(i.to)) {
    copy(i.dst, i.a);
    return wrap(i.to, i.dst);
  }
  if (i.op == Op::SatCast && kind(i.dst) == Register::Int && kind(i.a) != Register::Int && i.to != DType::U64 && i.to != DType::Bool)
    return kind(i.a) == Register::F32 ? saturate(i.to, ints(i.dst), floats(i.a), n) : saturate(i.to, ints(i.dst), doubles(i.a), n);
  for (int64_t k = 0; k < n; ++k) set(i.dst, k, ir::apply_unary(i.op, i.from, i.to, get(i.a, k)));
}

bool BlockMachine::real_unary(const Instr& i) {
  if (kind(i.dst) != kind(i.a)) return false;
  switch (kind(i.dst)) {
    case Register::F32: return real_loop(i.op, floats(i.dst), floats(i.a), count(i.dst));
    case Register::F64: return real_loop(i.op, doubles(i.dst), doubles(i.a), count(i.dst));
    case Register::Int: return false;
  }
  return false;
}

void BlockMachine::binary(Op op, DType t, int dst, int a, int b) {
  if (kind(a) == Register::Int ? int_binary(op, t, dst, a, b) : real_binary(op, t, dst, a, b)) return;
  for (int64_t k = 0, n = count(dst); k < n; ++k) set(dst, k, ir::apply_binary(op, t, get(a, k), get(b, k)));
}

bool BlockMachine::real_binary(Op op, DType t, int dst, int a, int b) {
  const int64_t n = count(dst);
  const bool single = kind(a) == Register::F32;
  if (kind(dst) == Register::Int)
    return single ? compare_loop(op, ints(dst), floats(a), floats(b), n) : compare_loop(op, ints(dst), doubles(a), doubles(b), n);
  if (kind(dst) != kind(a)) return false;
  if (!single) return real_loop(op, doubles(dst), doubles(a), doubles(b), n);
  if (!real_loop(op, floats(dst), floats(a), floats(b), n)) return false;
  narrow(t, dst);
  return true;
}

bool BlockMachine::int_binary(Op op, DType t, int dst, int a, int b) {
  const bool boolean = t == DType::Bool;
  if (kind(dst) != Register::Int || !(wraps(t) || boolean)) return false;
  const int64_t n = count(dst);
  int64_t *d = ints(dst), *x = ints(a), *y = ints(b);
  auto go = [&](auto&& f) {
    each(d, x, y, n, f);
    return true;
  };
  auto wrapped = [&](auto&& f) {
    if (boolean) return false;
    each(d, x, y, n, [&](int64_t p, int64_t q) { return f(static_cast<uint64_t>(p), static_cast<uint64_t>(q)); });
    wrap(t, dst);
    return true;
  };
  // Strides are powers of two nearly always, and the same in every lane.
  if ((op == Op::FloorDiv || op == Op::FloorMod) && is_signed_int(t) && n > 0 && y[0] > 0 && (y[0] & (y[0] - 1)) == 0 &&
      std::all_of(y, y + n, [y](int64_t v) { return v == y[0]; })) {
    const int64_t rest = y[0] - 1;
    const int shift = std::countr_zero(static_cast<uint64_t>(y[0]));
    return op == Op::FloorDiv ? go([shift](int64_t p, int64_t) { return p >> shift; }) : go([rest](int64_t p, int64_t) { return p & rest; });
  }
  switch (op) {
    case Op::Add: return wrapped([](uint64_t p, uint64_t q) { return p + q; });
    case Op::Sub: return wrapped([](uint64_t p, uint64_t q) { return p - q; });
    case Op::Mul: return wrapped([](uint64_t p, uint64_t q) { return p * q; });
    case Op::And: return go([](int64_t p, int64_t q) { return (p != 0) & (q != 0); });
    case Op::Or: return go([](int64_t p, int64_t q) { return (p != 0) | (q != 0); });
    case Op::Min: return go([](int64_t p, int64_t q) { return p < q ? p : q; });
    case Op::Max: return go([](int64_t p, int64_t q) { return p > q ? p : q; });
    default: return compare_loop(op, d, x, y, n);
  }
}

void BlockMachine::select(int dst, int condition, int a, int b) {
  const int64_t n = count(dst);
  const int64_t* mask = ints(condition);
  auto go = [&](auto* d, auto* x, auto* y) {
    for (int64_t i = 0; i < n; ++i) d[i] = mask[i] ? x[i] : y[i];
  };
  switch (kind(dst)) {
    case Register::F32: return go(floats(dst), floats(a), floats(b));
    case Register::F64: return go(doubles(dst), doubles(a), doubles(b));
    case Register::Int: return go(ints(dst), ints(a), ints(b));
  }
}

void BlockMachine::fma(const Instr& i) {
  for (int64_t k = 0, n = count(i.dst); k < n; ++k) {
    const Scalar product = ir::apply_binary(Op::Mul, i.to, get(i.a, k), get(i.b, k));
    set(i.dst, k, ir::apply_binary(Op::Add, i.to, product, get(i.c, k)));
  }
}

void BlockMachine::and_masks(const Instr& i) {
  const bool wanted = i.kind == Instr::MaskAnd;
  each(ints(i.dst), ints(i.a), ints(i.b), count(i.dst),
       [wanted](int64_t outer, int64_t condition) { return outer & static_cast<int64_t>((condition != 0) == wanted); });
}

}  // namespace mlc::nest
