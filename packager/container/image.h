// The body of a container as a sequence of bytes: header page, placement table, manifest, segments, leaf tables, in the
// one order and at the one place that schema/placement.h computes. Knows nothing of what the manifest says, so it also
// assembles thinned files and, for tests, files that break every other rule.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/checked.h"
#include "base/status.h"
#include "schema/format.h"

namespace mlc::container {

using Sink = std::function<Status(Bytes)>;

struct StoredSegment {
  format::Codec codec = format::Codec::Raw;
  uint64_t stored_len = 0;
  uint64_t decoded_len = 0;
  bool present = true;
  std::vector<std::byte> leaf_table;
  std::function<Status(const Sink&)> stored;  // delivers exactly stored_len bytes
};

using Core = std::array<std::byte, format::kCoreLen>;

// The first 64 bytes of the file.
Core make_core(uint64_t manifest_len, uint32_t segment_count);

// Delivers the body in order. Malformed if it cannot be placed, Internal if a segment delivers another length.
[[nodiscard]] Status emit_body(const Core& core, Bytes manifest, const std::vector<StoredSegment>& segments,
                               const Sink& sink);

}  // namespace mlc::container
