// The leaf table of a segment: the digests of its leaves and, for zstd, where each frame lies. Checked against the
// segment's digest, which the root covers, when the segment is first touched.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "runtime/container/source.h"
#include "schema/manifest.h"
#include "schema/placement.h"

namespace mlc::container {

struct LeafTable {
  std::vector<format::Digest> digests;
  std::vector<uint64_t> frame_starts;  // zstd: n + 1 offsets of the stored bytes; raw: empty

  uint64_t count() const { return digests.size(); }
};

// Malformed or BadSignature, naming the segment.
[[nodiscard]] Result<LeafTable> load_leaf_table(const Source& source, const format::Segment& segment,
                                                const format::Placement::Item& item);

// "segment \"weights\"", for messages.
[[nodiscard]] std::string label_of(const format::Segment& segment);
// A leaf or table whose bytes do not hash to what was signed. Of a container in parts the one is named that has the byte at `offset` of `source`.
[[nodiscard]] Status digest_mismatch(const format::Segment& segment, const std::string& what, const format::Digest& expected, const format::Digest& found,
                                     const Source* source = nullptr, uint64_t offset = 0);

}  // namespace mlc::container
