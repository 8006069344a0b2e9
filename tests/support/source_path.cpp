#include "tests/support/source_path.h"

namespace mlc::testing {

std::string source_path(std::string_view relative) {
  std::string path = MLC_SOURCE_DIR;
  if (!relative.empty()) path.append("/").append(relative);
  return path;
}

}  // namespace mlc::testing
