#include "runtime/cli/answers/duration.h"

#include <cstdio>

namespace mlc::cli {

std::string ms_text(uint64_t ns) {
  char text[32];
  if (ns < 100'000) std::snprintf(text, sizeof text, "%.1f us", static_cast<double>(ns) / 1e3);
  else if (ns < 10'000'000) std::snprintf(text, sizeof text, "%.2f ms", static_cast<double>(ns) / 1e6);
  else std::snprintf(text, sizeof text, "%.1f ms", static_cast<double>(ns) / 1e6);
  return text;
}

}  // namespace mlc::cli
