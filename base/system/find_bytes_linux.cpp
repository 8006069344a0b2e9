#include <string.h>

#include "base/system/find_bytes.h"

namespace mlc {

size_t find_bytes(std::string_view text, std::string_view what) {
  const void* const found = memmem(text.data(), text.size(), what.data(), what.size());
  return found ? static_cast<size_t>(static_cast<const char*>(found) - text.data()) : text.npos;
}

}  // namespace mlc
