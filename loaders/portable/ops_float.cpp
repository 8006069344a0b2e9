// Arithmetic of F32 and F64. Built without contraction: a * b + c rounds twice on every machine.
#include <cmath>
#include <limits>

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
const Step* test(const Step* s, Frame& f) {
  return each1<V, uint8_t, T>(s, f, F());
}
template <class T, bool V, class F>
const Step* compare(const Step* s, Frame& f) {
  return each2<V, uint8_t, T>(s, f, F());
}

template <class T, bool V>
const Step* fma(const Step* s, Frame& f) {
  T* d = at<T>(f, s->dst);
  const T *a = at<T>(f, s->a), *b = at<T>(f, s->b), *c = at<T>(f, s->c);
  if constexpr (!V) {
    *d = *a * *b + *c;
  } else {
#pragma GCC ivdep
    for (unsigned k = 0, n = s->blocks * kBlock; k < n; ++k) d[k] = a[k] * b[k] + c[k];
  }
  return s + 1;
}

// The step of contractions: accumulators += one element * a vector. Spelled in machine vectors, four in a row, because
// this is where contractions spend their time.
template <class T>
const Step* fma_splat(const Step* s, Frame& f) {
  typedef T Vector __attribute__((vector_size(16), may_alias));
  constexpr unsigned kVectors = kBlock * sizeof(T) / sizeof(Vector);
  Vector* d = at<Vector>(f, s->dst);
  const T one = *at<T>(f, s->a);
  const Vector a = one - Vector{};  // in every lane
  const Vector *b = at<const Vector>(f, s->b), *c = at<const Vector>(f, s->c);
  for (uint32_t n = 0; n < s->blocks; ++n, d += kVectors, b += kVectors, c += kVectors) {
#pragma GCC unroll 8
    for (unsigned k = 0; k < kVectors; ++k) d[k] = a * b[k] + c[k];
  }
  return s + 1;
}

struct Neg { template <class T> T operator()(T x) const { return -x; } };
struct Abs { template <class T> T operator()(T x) const { return std::fabs(x); } };
struct Floor { template <class T> T operator()(T x) const { return std::floor(x); } };
struct Ceil { template <class T> T operator()(T x) const { return std::ceil(x); } };
struct Trunc { template <class T> T operator()(T x) const { return std::trunc(x); } };
struct Rint { template <class T> T operator()(T x) const { return std::nearbyint(x); } };
struct Sqrt { template <class T> T operator()(T x) const { return std::sqrt(x); } };
struct IsNan { template <class T> uint8_t operator()(T x) const { return x != x; } };
struct IsInf { template <class T> uint8_t operator()(T x) const { return std::fabs(x) == std::numeric_limits<T>::infinity(); } };
struct Add { template <class T> T operator()(T x, T y) const { return x + y; } };
struct Sub { template <class T> T operator()(T x, T y) const { return x - y; } };
struct Mul { template <class T> T operator()(T x, T y) const { return x * y; } };
struct Div { template <class T> T operator()(T x, T y) const { return x / y; } };
struct FMod { template <class T> T operator()(T x, T y) const { return std::fmod(x, y); } };
struct Min { template <class T> T operator()(T x, T y) const { return x != x || x < y ? x : y; } };
struct Max { template <class T> T operator()(T x, T y) const { return x != x || x > y ? x : y; } };
struct Lt { template <class T> uint8_t operator()(T x, T y) const { return x < y; } };
struct Le { template <class T> uint8_t operator()(T x, T y) const { return x <= y; } };
struct Eq { template <class T> uint8_t operator()(T x, T y) const { return x == y; } };
struct Ne { template <class T> uint8_t operator()(T x, T y) const { return x != y; } };

template <class T, bool V>
Handler find(Op op) {
  switch (op) {
    case Op::Neg: return unary<T, V, Neg>;
    case Op::Abs: return unary<T, V, Abs>;
    case Op::Floor: return unary<T, V, Floor>;
    case Op::Ceil: return unary<T, V, Ceil>;
    case Op::Trunc: return unary<T, V, Trunc>;
    case Op::Rint: return unary<T, V, Rint>;
    case Op::Sqrt: return unary<T, V, Sqrt>;
    case Op::IsNan: return test<T, V, IsNan>;
    case Op::IsInf: return test<T, V, IsInf>;
    case Op::Add: return binary<T, V, Add>;
    case Op::Sub: return binary<T, V, Sub>;
    case Op::Mul: return binary<T, V, Mul>;
    case Op::Div: return binary<T, V, Div>;
    case Op::FMod: return binary<T, V, FMod>;
    case Op::Min: return binary<T, V, Min>;
    case Op::Max: return binary<T, V, Max>;
    case Op::Lt: return compare<T, V, Lt>;
    case Op::Le: return compare<T, V, Le>;
    case Op::Eq: return compare<T, V, Eq>;
    case Op::Ne: return compare<T, V, Ne>;
    case Op::Fma: return fma<T, V>;
    case Op::FmaSplat: return V ? fma_splat<T> : fma<T, false>;
    default: return nullptr;
  }
}

}  // namespace

Handler float_handler(Op op, Kind kind, bool vector) {
  if (kind == Kind::F32) return vector ? find<float, true>(op) : find<float, false>(op);
  if (kind == Kind::F64) return vector ? find<double, true>(op) : find<double, false>(op);
  return nullptr;
}

}  // namespace mlc::portable
