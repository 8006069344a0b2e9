// Memory whose size comes from a file: it fits the limits and the file by the time this is called, but the machine may
// still not have it. A vector says so by an exception, which knows no size; so a large one is tried first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <vector>

#include "base/compose.h"
#include "base/status.h"

namespace mlc::container {

[[nodiscard]] inline Result<std::vector<std::byte>> allocate(uint64_t len) {
  constexpr uint64_t kNeverRefused = 1 << 20;
  if (len > kNeverRefused) {
    auto* probe = len <= PTRDIFF_MAX ? static_cast<std::byte*>(::operator new(len, std::nothrow)) : nullptr;
    if (probe == nullptr) return Status(Code::Resource, "no memory for {} bytes", len);
    ::operator delete(probe);
  }
  return std::vector<std::byte>(len);
}

}  // namespace mlc::container
