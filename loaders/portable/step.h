// How the steps reach their registers. Internal to loaders/portable.
#pragma once

#include <cstring>

#include "loaders/portable/program.h"

namespace mlc::portable {

template <class T>
inline T* at(Frame& f, uint32_t offset) {
  return reinterpret_cast<T*>(f.registers + offset);
}

inline const Step* stop(Frame& f, int32_t fault) {
  f.fault = fault;
  return nullptr;
}

// One lane, or whole blocks of lanes. Registers are either equal or disjoint, so lanes never depend on other lanes.
template <bool Vector, class R, class A, class F>
inline const Step* each1(const Step* s, Frame& f, F op) {
  R* d = at<R>(f, s->dst);
  const A* a = at<A>(f, s->a);
  if constexpr (!Vector) {
    *d = op(*a);
  } else {
#pragma GCC ivdep
    for (unsigned k = 0, n = s->blocks * kBlock; k < n; ++k) d[k] = op(a[k]);
  }
  return s + 1;
}

template <bool Vector, class R, class A, class F>
inline const Step* each2(const Step* s, Frame& f, F op) {
  R* d = at<R>(f, s->dst);
  const A* a = at<A>(f, s->a);
  const A* b = at<A>(f, s->b);
  if constexpr (!Vector) {
    *d = op(*a, *b);
  } else {
#pragma GCC ivdep
    for (unsigned k = 0, n = s->blocks * kBlock; k < n; ++k) d[k] = op(a[k], b[k]);
  }
  return s + 1;
}

}  // namespace mlc::portable
