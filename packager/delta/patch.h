// One part of a delta as a zstd frame, alone or against bytes that both sides have. The only file of deltas that knows zstd.
#pragma once

#include <cstddef>
#include <vector>

#include "base/checked.h"
#include "base/status.h"

namespace mlc::delta {

// `reference` may be empty. Both have at most kMaxPart bytes.
[[nodiscard]] Result<std::vector<std::byte>> pack(Bytes bytes, Bytes reference);
// Malformed unless `packed` is one frame of exactly `length` bytes. Takes memory for those and for a window of 4 MiB.
[[nodiscard]] Result<std::vector<std::byte>> unpack(Bytes packed, Bytes reference, uint64_t length);

}  // namespace mlc::delta
