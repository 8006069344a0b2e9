// Integers and masks. Everything is total: wrapping arithmetic, a divisor of 0 counts as 1, wide shifts give 0 or the sign.
#include "loaders/portable/step.h"

namespace mlc::portable {
namespace {

template <class T, bool V, class F>
const Step* unary(const Step* s, Frame& f) {
  return each1<V, T, T>(s, f, F());
}
template <class T, bool V, class F>
const Step* binary(const Step* s, Frame& f) {
  return each2<V, T, T>(s, f, F());
}
template <class T, bool V, class F>
const Step* compare(const Step* s, Frame& f) {
  return each2<V, uint8_t, T>(s, f, F());
}

template <class U> using Signed = std::make_signed_t<U>;

// Operands arrive unsigned; S is the same bits as a signed number.
struct Neg { template <class U> U operator()(U x) const { return U(0) - x; } };
struct Abs { template <class U> U operator()(U x) const { return Signed<U>(x) < 0 ? U(0) - x : x; } };
struct Not { template <class U> U operator()(U x) const { return ~x; } };
struct NotMask { uint8_t operator()(uint8_t x) const { return !x; } };
struct Add { template <class U> U operator()(U x, U y) const { return x + y; } };
struct Sub { template <class U> U operator()(U x, U y) const { return x - y; } };
struct Mul { template <class U> U operator()(U x, U y) const { return x * y; } };
struct Min { template <class U> U operator()(U x, U y) const { return Signed<U>(x) < Signed<U>(y) ? x : y; } };
struct Max { template <class U> U operator()(U x, U y) const { return Signed<U>(x) > Signed<U>(y) ? x : y; } };
struct MinU { template <class U> U operator()(U x, U y) const { return x < y ? x : y; } };
struct MaxU { template <class U> U operator()(U x, U y) const { return x > y ? x : y; } };
struct And { template <class U> U operator()(U x, U y) const { return x & y; } };
struct Or { template <class U> U operator()(U x, U y) const { return x | y; } };
struct Xor { template <class U> U operator()(U x, U y) const { return x ^ y; } };
struct Shl { template <class U> U operator()(U x, U y) const { return y >= sizeof(U) * 8 ? 0 : x << y; } };
struct ShrU { template <class U> U operator()(U x, U y) const { return y >= sizeof(U) * 8 ? 0 : x >> y; } };
struct Shr {
  template <class U> U operator()(U x, U y) const { return U(Signed<U>(x) >> (y >= sizeof(U) * 8 ? sizeof(U) * 8 - 1 : y)); }
};
struct QuotU { template <class U> U operator()(U x, U y) const { return x / (y ? y : 1); } };
struct RemU { template <class U> U operator()(U x, U y) const { return x % (y ? y : 1); } };
struct Quot {
  template <class U> U operator()(U x, U y) const {
    if (y == U(-1)) return U(0) - x;
    return U(Signed<U>(x) / Signed<U>(y ? y : 1));
  }
};
struct Rem {
  template <class U> U operator()(U x, U y) const { return y == 0 || y == U(-1) ? 0 : U(Signed<U>(x) % Signed<U>(y)); }
};
struct FloorQuot {
  template <class U> U operator()(U x, U y) const {
    const U r = Rem()(x, y);
    return Quot()(x, y) - (r != 0 && Signed<U>(r ^ y) < 0);
  }
};
struct FloorRem {
  template <class U> U operator()(U x, U y) const {
    const U r = Rem()(x, y);
    return r != 0 && Signed<U>(r ^ y) < 0 ? r + y : r;
  }
};
struct PowU {
  template <class U> U operator()(U x, U y) const {
    U r = 1;
    for (; y; y >>= 1, x *= x)
      if (y & 1) r *= x;
    return r;
  }
};
struct Pow {
  template <class U> U operator()(U x, U y) const {
    if (Signed<U>(y) >= 0) return PowU()(x, y);
    return x == 1 ? 1 : x == U(-1) ? (y & 1 ? U(-1) : 1) : 0;
  }
};
struct Lt { template <class U> uint8_t operator()(U x, U y) const { return Signed<U>(x) < Signed<U>(y); } };
struct Le { template <class U> uint8_t operator()(U x, U y) const { return Signed<U>(x) <= Signed<U>(y); } };
struct LtU { template <class U> uint8_t operator()(U x, U y) const { return x < y; } };
struct LeU { template <class U> uint8_t operator()(U x, U y) const { return x <= y; } };
struct Eq { template <class U> uint8_t operator()(U x, U y) const { return x == y; } };
struct Ne { template <class U> uint8_t operator()(U x, U y) const { return x != y; } };

template <class T, bool V>
Handler find(Op op) {
  switch (op) {
    case Op::Neg: return unary<T, V, Neg>;
    case Op::Abs: return unary<T, V, Abs>;
    case Op::Not: return unary<T, V, Not>;
    case Op::Add: return binary<T, V, Add>;
    case Op::Sub: return binary<T, V, Sub>;
    case Op::Mul: return binary<T, V, Mul>;
    case Op::Min: return binary<T, V, Min>;
    case Op::Max: return binary<T, V, Max>;
    case Op::MinU: return binary<T, V, MinU>;
    case Op::MaxU: return binary<T, V, MaxU>;
    case Op::Quot: return binary<T, V, Quot>;
    case Op::QuotU: return binary<T, V, QuotU>;
    case Op::Rem: return binary<T, V, Rem>;
    case Op::RemU: return binary<T, V, RemU>;
    case Op::FloorQuot: return binary<T, V, FloorQuot>;
    case Op::FloorRem: return binary<T, V, FloorRem>;
    case Op::Pow: return binary<T, V, Pow>;
    case Op::PowU: return binary<T, V, PowU>;
    case Op::And: return binary<T, V, And>;
    case Op::Or: return binary<T, V, Or>;
    case Op::Xor: return binary<T, V, Xor>;
    case Op::Shl: return binary<T, V, Shl>;
    case Op::Shr: return binary<T, V, Shr>;
    case Op::ShrU: return binary<T, V, ShrU>;
    case Op::Lt: return compare<T, V, Lt>;
    case Op::Le: return compare<T, V, Le>;
    case Op::LtU: return compare<T, V, LtU>;
    case Op::LeU: return compare<T, V, LeU>;
    case Op::Eq: return compare<T, V, Eq>;
    case Op::Ne: return compare<T, V, Ne>;
    default: return nullptr;
  }
}

template <bool V>
Handler find_mask(Op op) {
  switch (op) {
    case Op::Not: return unary<uint8_t, V, NotMask>;
    case Op::And: return binary<uint8_t, V, And>;
    case Op::Or: return binary<uint8_t, V, Or>;
    case Op::Xor: case Op::Ne: return binary<uint8_t, V, Xor>;
    case Op::Eq: return compare<uint8_t, V, Eq>;
    default: return nullptr;
  }
}

}  // namespace

Handler int_handler(Op op, Kind kind, bool vector) {
  if (kind == Kind::I32) return vector ? find<uint32_t, true>(op) : find<uint32_t, false>(op);
  if (kind == Kind::I64) return vector ? find<uint64_t, true>(op) : find<uint64_t, false>(op);
  if (kind == Kind::Mask) return vector ? find_mask<true>(op) : find_mask<false>(op);
  return nullptr;
}

}  // namespace mlc::portable
