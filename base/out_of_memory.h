// The one place where exceptions end. Memory that the standard library does not get is the only failure of this project's
// libraries that is not a value: std::bad_alloc (or std::length_error, where the size alone is impossible) leaves every
// function on the way, which releases what it owns, up to the next `has_memory_for`: at each entry of the C API, where a thread
// begins, and where the application calls back. Nothing else catches anything and nothing throws (tests/layering).
#pragma once

#include <exception>

namespace mlc {

// Whether `f` came to its end.
template <class F>
[[nodiscard]] bool has_memory_for(const F& f) {
#if defined(__cpp_exceptions)
  try {
    f();
    return true;
  } catch (const std::exception&) {
    return false;
  }
#else
  f();  // of libraries that are only part of tools, where it ends the process
  return true;
#endif
}

}  // namespace mlc
