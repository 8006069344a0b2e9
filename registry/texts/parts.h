// Where a container is cut for the shape `parts` (spec/registry.md, section 2): segments that are large enough for pages of their own are
// layers of their own, so that a repository has those once that several versions share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "schema/parts.h"

namespace mlc::registry {

using format::kMaxParts;

struct SegmentPlace {
  uint64_t offset = 0, length = 0;
};

// Lengths of the parts, which joined in this order are the file; none is 0, and there are at most kMaxParts. `segments` lie in the file by
// offset, without overlap.
[[nodiscard]] std::vector<uint64_t> part_lengths(uint64_t file_size, std::span<const SegmentPlace> segments);

}  // namespace mlc::registry
