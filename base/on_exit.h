// What must be done when a scope ends, however it ends.
#pragma once

#include <utility>

namespace mlc {

template <class F>
class [[nodiscard]] OnExit {
 public:
  explicit OnExit(F f) : f_(std::move(f)) {}
  OnExit(const OnExit&) = delete;
  ~OnExit() { f_(); }  // must not allocate

 private:
  F f_;
};

}  // namespace mlc
