#include "base/links.h"

#include <limits.h>
#include <unistd.h>

namespace mlc {

Result<std::string> behind_links(const std::string& path) {
  constexpr int kMostLinks = 40;  // as the kernel does
  std::string place = path;
  for (int links = 0; links <= kMostLinks; ++links) {
    char text[PATH_MAX];
    const ssize_t length = ::readlink(place.c_str(), text, sizeof text);
    if (length <= 0) return place;
    const std::string target(text, static_cast<size_t>(length));
    const size_t slash = place.rfind('/');
    place = target.starts_with('/') || slash == std::string::npos ? target : place.substr(0, slash + 1) + target;
  }
  return Status(Code::NotFound, "{}: too many symbolic links", path);
}

}  // namespace mlc
