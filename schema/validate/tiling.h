// Which item owns which bytes of a segment. Every byte of a segment belongs to exactly one item of the manifest or is zero
// alignment in front of one, so nothing can hide in a segment and no two items share bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "schema/manifest.h"

namespace mlc::format {

// Alignment between two items of a segment's decoded bytes: must be zero, which only a reader of the bytes can check.
struct SegmentGap {
  uint32_t segment;
  uint32_t length;  // < 256
  uint64_t offset;
};

// Checks that the items of each segment tile it, and returns the gaps ordered by segment and offset. Every Ref of the
// manifest must be in range already. Segments of kinds unknown to this version, source maps and parent manifests may
// have no owner.
[[nodiscard]] Result<std::vector<SegmentGap>> tile_segments(const Manifest& manifest);

}  // namespace mlc::format
