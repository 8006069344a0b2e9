#include "base/files/links.h"

#include <algorithm>

namespace mlc {

bool leads_out(std::string_view path) {
  if (path.starts_with('/')) return true;
  int depth = 0;
  while (!path.empty() && depth >= 0) {
    const std::string_view part = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(path.size(), part.size() + 1));
    if (part == "..") --depth;
    else if (!part.empty() && part != ".") ++depth;
  }
  return depth < 0;
}

}  // namespace mlc
