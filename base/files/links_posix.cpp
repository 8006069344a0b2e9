#include "base/files/links.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

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

namespace {

Result<std::string> resolved(const std::string& path) {
  const std::unique_ptr<char, decltype(&free)> real(realpath(path.c_str(), nullptr), &free);
  if (!real) return Status(Code::NotFound, 1003, "{}: {}", path, strerror(errno));
  return std::string(real.get());
}

}  // namespace

Result<std::string> place_inside(const std::string& folder, const std::string& path) {
  const Status outside(Code::Malformed, "it lies outside of the folder");
  if (path.empty() || path.find('\0') != std::string::npos || leads_out(path)) return outside;
  MLC_ASSIGN(std::string top, resolved(folder.empty() ? "." : folder));
  MLC_ASSIGN(std::string place, resolved(folder.empty() ? path : folder + "/" + path));
  if (top != "/") top += '/';
  if (!(place + "/").starts_with(top)) return outside;
  return place;
}

}  // namespace mlc
