// Members of std::string that libstdc++ does not hold although small_code.h says so: it has only those of C++17.
#include <string>

template bool std::string::starts_with(const char*) const noexcept;
template bool std::string::ends_with(const char*) const noexcept;
template bool std::string::starts_with(std::string_view) const noexcept;
template bool std::string::ends_with(std::string_view) const noexcept;
template bool std::string::starts_with(char) const noexcept;
template bool std::string::ends_with(char) const noexcept;
