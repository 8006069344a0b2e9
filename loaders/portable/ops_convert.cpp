// Conversions between kinds, and between a kind and the narrower types it carries.
#include <limits>
#include <type_traits>

#include "base/small_float.h"
#include "loaders/portable/step.h"

namespace mlc::portable {
namespace {

// Truncated and clamped; NaN gives 0.
template <class I, class F>
inline I to_int(F x) {
  constexpr F below = std::is_signed_v<I> ? -static_cast<F>(uint64_t{1} << (sizeof(I) * 8 - 1)) : F(0);  // lowest value
  constexpr F above = static_cast<F>(uint64_t{1} << (sizeof(I) * 8 - 1)) * (std::is_signed_v<I> ? 1 : 2);  // first too large
  if (!(x > below)) return x == x ? std::numeric_limits<I>::lowest() : 0;
  if (x >= above) return std::numeric_limits<I>::max();
  return static_cast<I>(x);
}

template <class To, class From, bool V>
const Step* plain(const Step* s, Frame& f) {
  return each1<V, To, From>(s, f, [](From x) { return static_cast<To>(x); });
}
template <class To, class From, bool V>
const Step* clamped(const Step* s, Frame& f) {
  return each1<V, To, From>(s, f, [](From x) { return to_int<To>(x); });
}
template <bool V>
const Step* resize_odd(const Step* s, Frame& f) {
  return each1<V, float, double>(s, f, [](double x) {
    const float nearest = static_cast<float>(x);
    const double back = nearest;
    uint32_t bits = std::bit_cast<uint32_t>(nearest);
    const double a = back < 0 ? -back : back, b = x < 0 ? -x : x;
    bits -= a > b;
    bits |= a < b || a > b;  // neither for NaN
    return std::bit_cast<float>(bits);
  });
}

template <class T, bool V>
const Step* wrap_signed(const Step* s, Frame& f) {
  return each1<V, int32_t, int32_t>(s, f, [](int32_t x) { return static_cast<int32_t>(static_cast<T>(x)); });
}
template <unsigned Bits, bool V>
const Step* wrap_i(const Step* s, Frame& f) {
  return each1<V, int32_t, uint32_t>(s, f, [](uint32_t x) { return static_cast<int32_t>(x << (32 - Bits)) >> (32 - Bits); });
}
template <unsigned Bits, bool V>
const Step* wrap_u(const Step* s, Frame& f) {
  return each1<V, uint32_t, uint32_t>(s, f, [](uint32_t x) { return x & ((1u << Bits) - 1); });
}
template <DType T, bool V>
const Step* pack(const Step* s, Frame& f) {
  return each1<V, uint32_t, float>(s, f, [](float x) { return encode_small<T>(x); });
}
template <DType T, bool V>
const Step* unpack(const Step* s, Frame& f) {
  return each1<V, float, uint32_t>(s, f, [](uint32_t x) { return decode_small<T>(x & ((1u << small_format(T).bits) - 1)); });
}

template <DType T, bool V>
Handler small(Op op) {
  return op == Op::Pack ? pack<T, V> : unpack<T, V>;
}

template <bool V>
Handler find(Op op, DType type, Kind from, Kind to) {
  auto is = [&](Kind a, Kind b) { return from == a && to == b; };
  using enum Kind;
  switch (op) {
    case Op::Widen: return is(I32, I64) ? plain<int64_t, int32_t, V> : nullptr;
    case Op::WidenU: return is(I32, I64) ? plain<uint64_t, uint32_t, V> : nullptr;
    case Op::Narrow: return is(I64, I32) ? plain<uint32_t, uint64_t, V> : nullptr;
    case Op::FromMask: return is(Mask, I32) ? plain<uint32_t, uint8_t, V> : nullptr;
    case Op::Resize: return is(F32, F64) ? plain<double, float, V> : is(F64, F32) ? plain<float, double, V> : nullptr;
    case Op::ResizeOdd: return is(F64, F32) ? resize_odd<V> : nullptr;
    case Op::ToFloat:
      return is(I32, F32)   ? plain<float, int32_t, V>
             : is(I64, F32) ? plain<float, int64_t, V>
             : is(I32, F64) ? plain<double, int32_t, V>
             : is(I64, F64) ? plain<double, int64_t, V>
                            : nullptr;
    case Op::ToFloatU:
      return is(I32, F32)   ? plain<float, uint32_t, V>
             : is(I64, F32) ? plain<float, uint64_t, V>
             : is(I32, F64) ? plain<double, uint32_t, V>
             : is(I64, F64) ? plain<double, uint64_t, V>
                            : nullptr;
    case Op::ToInt:
      return is(F32, I32)   ? clamped<int32_t, float, V>
             : is(F32, I64) ? clamped<int64_t, float, V>
             : is(F64, I32) ? clamped<int32_t, double, V>
             : is(F64, I64) ? clamped<int64_t, double, V>
                            : nullptr;
    case Op::ToIntU:
      return is(F32, I32)   ? clamped<uint32_t, float, V>
             : is(F32, I64) ? clamped<uint64_t, float, V>
             : is(F64, I32) ? clamped<uint32_t, double, V>
             : is(F64, I64) ? clamped<uint64_t, double, V>
                            : nullptr;
    case Op::Wrap: case Op::Pack: case Op::Unpack: {
      if (op == Op::Wrap) {
        if (!is(I32, I32)) return nullptr;
        switch (type) {
          case DType::I16: return wrap_signed<int16_t, V>;
          case DType::U16: return wrap_signed<uint16_t, V>;
          case DType::I8: return wrap_signed<int8_t, V>;
          case DType::U8: return wrap_signed<uint8_t, V>;
          case DType::I4: return wrap_i<4, V>;
          case DType::U4: return wrap_u<4, V>;
          case DType::I2: return wrap_i<2, V>;
          case DType::U2: return wrap_u<2, V>;
          default: return nullptr;
        }
      }
      if (!(op == Op::Pack ? is(F32, I32) : is(I32, F32))) return nullptr;
      switch (type) {
        case DType::F16: return small<DType::F16, V>(op);
        case DType::BF16: return small<DType::BF16, V>(op);
        case DType::F8E4M3: return small<DType::F8E4M3, V>(op);
        case DType::F8E5M2: return small<DType::F8E5M2, V>(op);
        case DType::F8E4M3FNUZ: return small<DType::F8E4M3FNUZ, V>(op);
        case DType::F8E5M2FNUZ: return small<DType::F8E5M2FNUZ, V>(op);
        case DType::F4E2M1: return small<DType::F4E2M1, V>(op);
        case DType::F6E2M3: return small<DType::F6E2M3, V>(op);
        case DType::F6E3M2: return small<DType::F6E3M2, V>(op);
        case DType::F8E8M0: return small<DType::F8E8M0, V>(op);
        default: return nullptr;
      }
    }
    default: return nullptr;
  }
}

}  // namespace

Handler convert_handler(Op op, DType type, Kind from, Kind to, bool vector) {
  return vector ? find<true>(op, type, from, to) : find<false>(op, type, from, to);
}

}  // namespace mlc::portable
