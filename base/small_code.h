// Included before everything else in the files of libmlrt (see runtime/CMakeLists.txt). In C++20 the members of
// std::string are constexpr, so GCC emits them into every object instead of taking those of libstdc++: 60 KB of the
// library's size.
#pragma once

#ifdef __cplusplus
#include <string>
#ifdef __GLIBCXX__
extern template class std::basic_string<char>;
#endif
#endif
