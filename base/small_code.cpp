// What small_code.h promises. Members of std::string that libstdc++ does not hold: it has only those of C++17.
#include "base/small_code.h"

#include <string>

template bool std::string::starts_with(const char*) const noexcept;
template bool std::string::ends_with(const char*) const noexcept;
template bool std::string::starts_with(std::string_view) const noexcept;
template bool std::string::ends_with(std::string_view) const noexcept;
template bool std::string::starts_with(char) const noexcept;
template bool std::string::ends_with(char) const noexcept;

namespace mlc {

Status passed_on(Status& status) {
  Status out(std::move(status));
  status.~Status();
  return out;
}

}  // namespace mlc
