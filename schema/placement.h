// Where everything is in a container: a function of the manifest's length, the segments' lengths and which of them
// are present (spec/container.md, "Placement"). The writer uses it to place, the reader to compare; nothing in the
// file can choose an offset, so order, alignment, absence of overlap and of holes follow.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "schema/format.h"

namespace mlc::format {

// What placement needs to know of a segment.
struct SegmentShape {
  Codec codec = Codec::Raw;
  uint64_t stored_len = 0;
  uint64_t decoded_len = 0;
  bool present = true;
};

struct Placement {
  uint64_t body_size = 0;  // where the signature block begins, or the end of an unsigned file
  uint64_t placement_off = 0, manifest_off = 0, leaves_off = 0, leaves_len = 0;
  struct Item {
    uint64_t offset = 0;       // of the stored bytes, 0 if absent
    uint64_t leaves = 0;       // number of leaves
    uint64_t table_off = 0;    // of the leaf table, 0 if absent
    uint64_t table_len = 0;
  };
  std::vector<Item> segments;  // in index order
  // Zero bytes between items, ascending by offset.
  struct Gap {
    uint64_t offset, length;
  };
  std::vector<Gap> gaps;
};

// One leaf per 2^20 decoded bytes, for either codec.
constexpr uint64_t leaf_count(uint64_t decoded_len) { return decoded_len / kLeafLen + (decoded_len % kLeafLen != 0); }

// n digests, for zstd then n u32 frame lengths, zeros to a multiple of 32. `leaves` is at most kMaxSegmentLen /
// kLeafLen.
constexpr uint64_t leaf_table_len(Codec codec, uint64_t leaves) {
  return leaves * 32 + (codec == Codec::Zstd ? (leaves * 4 + 31) / 32 * 32 : 0);
}

// Where the manifest begins: known before the manifest is read.
constexpr uint64_t manifest_offset(uint32_t segment_count) {
  return kHeaderLen + (uint64_t{segment_count} * 8 + 4095) / 4096 * 4096;
}

// None if a sum exceeds 2^64 or a segment exceeds kMaxSegmentLen.
[[nodiscard]] std::optional<Placement> place(uint64_t manifest_len, std::span<const SegmentShape> segments);

}  // namespace mlc::format
