// Bytes that are written for others: what a request carries, a file of a layout, an entry of an archive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "base/status.h"

namespace mlc::registry {

// `read` fills all of `out` from `offset` on.
struct Upload {
  uint64_t size = 0;
  std::function<Status(uint64_t offset, std::span<std::byte> out)> read;
};

}  // namespace mlc::registry
