// std::from_chars for numbers of floating point, also where the standard library has it for integers only (libc++ before
// version 20).
#pragma once

#include <charconv>

namespace mlc {

// The same by the C library: the general format, no blanks, no plus, no locale; beyond the range `value` stays.
// Of POSIX alone.
std::from_chars_result real_by_strtod(const char* first, const char* last, double& value);

template <class Real>
std::from_chars_result real_from_chars(const char* first, const char* last, Real& value) {
  if constexpr (requires { std::from_chars(first, last, value); })
    return std::from_chars(first, last, value);
  else
    return real_by_strtod(first, last, value);
}

}  // namespace mlc
