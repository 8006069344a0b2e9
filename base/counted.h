// "1 vector", "3 vectors".
#pragma once

#include "base/compose.h"

namespace mlc {

// `several` where it is not `one` with an s.
[[nodiscard]] inline std::string counted(uint64_t count, const char* one, const char* several = nullptr) {
  if (count == 1 || several) return compose("{} {}", count, count == 1 ? one : several);
  return compose("{} {}s", count, one);
}

}  // namespace mlc
