// Steps that move lanes about, choose between them or fold them.
#include <type_traits>

#include "loaders/portable/step.h"

namespace mlc::portable {
namespace {

template <class T, bool V>
const Step* constant(const Step* s, Frame& f) {
  T v;
  std::memcpy(&v, &s->imm, sizeof v);  // decoding stored the bits at the start on either byte order
  T* d = at<T>(f, s->dst);
  const unsigned n = V ? s->blocks * kBlock : 1;
  for (unsigned k = 0; k < n; ++k) d[k] = v;
  return s + 1;
}
template <class T, bool V>
const Step* move(const Step* s, Frame& f) {
  return each1<V, T, T>(s, f, [](T x) { return x; });
}
template <class T, bool V>
const Step* select(const Step* s, Frame& f) {
  T* d = at<T>(f, s->dst);
  const uint8_t* a = at<uint8_t>(f, s->a);
  const T *b = at<T>(f, s->b), *c = at<T>(f, s->c);
  if constexpr (!V) {
    *d = *a ? *b : *c;
  } else {
#pragma GCC ivdep
    for (unsigned k = 0, n = s->blocks * kBlock; k < n; ++k) {
      const T x = b[k], y = c[k];
      d[k] = a[k] ? x : y;
    }
  }
  return s + 1;
}
template <class T, bool V>
const Step* splat(const Step* s, Frame& f) {
  const T v = *at<T>(f, s->a);
  T* d = at<T>(f, s->dst);
  if constexpr (!V) {
    *d = v;
  } else {
#pragma GCC ivdep
    for (unsigned k = 0, n = s->blocks * kBlock; k < n; ++k) d[k] = v;
  }
  return s + 1;
}
template <class T, bool V>
const Step* repeat(const Step* s, Frame& f) {  // imm: lanes of a
  const T* a = at<T>(f, s->a);
  T* d = at<T>(f, s->dst);
  for (unsigned k = 0, group = static_cast<unsigned>(s->imm); k < s->lanes; k += group) std::memmove(d + k, a, group * sizeof(T));
  return s + 1;
}
template <class T, bool V>
const Step* ramp(const Step* s, Frame& f) {
  using U = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  const U base = *at<U>(f, s->a), step = static_cast<U>(s->imm);
  U* d = at<U>(f, s->dst);
  for (unsigned k = 0; k < s->lanes; ++k) d[k] = base + static_cast<U>(k) * step;
  return s + 1;
}
template <class T, bool V>
const Step* extract(const Step* s, Frame& f) {
  *at<T>(f, s->dst) = at<T>(f, s->a)[s->imm];
  return s + 1;
}
template <class T, bool V>
const Step* insert(const Step* s, Frame& f) {  // lanes: of a
  std::memmove(at<T>(f, s->dst) + s->imm, at<T>(f, s->a), s->lanes * sizeof(T));
  return s + 1;
}

template <class T, bool V>
Handler find(Op op) {
  switch (op) {
    case Op::Const: return constant<T, V>;
    case Op::Move: return move<T, V>;
    case Op::Select: return select<T, V>;
    case Op::Splat: return splat<T, V>;
    case Op::Repeat: return repeat<T, V>;
    case Op::Extract: return extract<T, V>;
    case Op::Insert: return insert<T, V>;
    case Op::Ramp:
      if constexpr (sizeof(T) > 1) return ramp<T, V>;
      return nullptr;
    default: return nullptr;
  }
}

// Halves are combined until one lane is left. `lanes` is a power of two, at most 64.
template <class T, class F>
const Step* fold(const Step* s, Frame& f) {
  T v[kMaxLanes];
  std::memcpy(v, at<T>(f, s->a), s->lanes * sizeof(T));
  for (unsigned n = s->lanes / 2; n; n /= 2)
    for (unsigned k = 0; k < n; ++k) v[k] = F()(v[k], v[k + n]);
  *at<T>(f, s->dst) = v[0];
  return s + 1;
}

// imm: lanes of a and b for each of dst. dst may be c.
template <class T>
const Step* dot(const Step* s, Frame& f) {
  T* d = at<T>(f, s->dst);
  const T *a = at<T>(f, s->a), *b = at<T>(f, s->b), *c = at<T>(f, s->c);
  const unsigned group = static_cast<unsigned>(s->imm);
  for (unsigned l = 0; l < s->lanes; ++l) {
    T sum = c[l];
    for (unsigned g = l * group; g < (l + 1) * group; ++g) {
      const T product = a[g] * b[g];
      sum += product;
    }
    d[l] = sum;
  }
  return s + 1;
}

struct Add { template <class T> T operator()(T x, T y) const { return x + y; } };
struct Mul { template <class T> T operator()(T x, T y) const { return x * y; } };
struct Min { template <class T> T operator()(T x, T y) const { return x != x || x < y ? x : y; } };
struct Max { template <class T> T operator()(T x, T y) const { return x != x || x > y ? x : y; } };

template <class S, class U>
Handler find_fold(Op op) {
  switch (op) {
    case Op::SumLanes: return fold<U, Add>;
    case Op::ProdLanes: return fold<U, Mul>;
    case Op::MinLanes: return fold<S, Min>;
    case Op::MaxLanes: return fold<S, Max>;
    case Op::MinLanesU: return std::is_same_v<S, U> ? nullptr : fold<U, Min>;
    case Op::MaxLanesU: return std::is_same_v<S, U> ? nullptr : fold<U, Max>;
    default: return nullptr;
  }
}

}  // namespace

Handler move_handler(Op op, Kind kind, bool vector) {
  switch (size_of(kind)) {
    case 8: return vector ? find<uint64_t, true>(op) : find<uint64_t, false>(op);
    case 4: return vector ? find<uint32_t, true>(op) : find<uint32_t, false>(op);
    case 1: return vector ? find<uint8_t, true>(op) : find<uint8_t, false>(op);
    default: return nullptr;
  }
}

Handler lanes_handler(Op op, Kind kind) {
  if (op == Op::Dot) return kind == Kind::I32 ? dot<uint32_t> : kind == Kind::F32 ? dot<float> : nullptr;
  switch (kind) {
    case Kind::F32: return find_fold<float, float>(op);
    case Kind::F64: return find_fold<double, double>(op);
    case Kind::I32: return find_fold<int32_t, uint32_t>(op);
    case Kind::I64: return find_fold<int64_t, uint64_t>(op);
    case Kind::Mask: return op == Op::MinLanes || op == Op::MaxLanes ? find_fold<uint8_t, uint8_t>(op) : nullptr;
    case Kind::None: return nullptr;
  }
  return nullptr;
}

}  // namespace mlc::portable
