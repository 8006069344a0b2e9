// Included before everything else in the files of libmlrt (see runtime/CMakeLists.txt), which has 400 KB.
#pragma once

#ifdef __cplusplus
#include <new>
#include <string>

#include "base/status.h"

// In C++20 the members of std::string are constexpr, so GCC emits them into every object instead of taking those of
// libstdc++: 60 KB of the library's size.
#ifdef __GLIBCXX__
extern template class std::basic_string<char>;
#endif

// A Status that is passed on: a third of the code. One that is OK holds no memory, so nobody destroys it, and moving and
// destroying any other is one call.
namespace mlc {
[[gnu::noinline]] Status passed_on(Status& status);  // moves out of it and ends its life
}
#undef MLC_RETURN_IF_ERROR
#define MLC_RETURN_IF_ERROR(expr)                                           \
  do {                                                                      \
    alignas(::mlc::Status) char mlc_place_[sizeof(::mlc::Status)];          \
    ::mlc::Status& mlc_status_ = *::new (mlc_place_)::mlc::Status(expr);    \
    if (!mlc_status_.ok()) [[unlikely]] return ::mlc::passed_on(mlc_status_); \
  } while (0)
#endif
