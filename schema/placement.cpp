#include "schema/placement.h"

#include "base/checked.h"

namespace mlc::format {
namespace {

// Hands out consecutive ranges; remembers the gaps that alignment leaves.
class Cursor {
 public:
  Cursor(uint64_t start, std::vector<Placement::Gap>& gaps) : at_(start), gaps_(gaps) {}

  std::optional<uint64_t> take(uint64_t length, uint64_t alignment) {
    auto begin = checked_align(at_, alignment);
    if (!begin) return std::nullopt;
    auto end = checked_add(*begin, length);
    if (!end) return std::nullopt;
    if (*begin != at_) gaps_.push_back({at_, *begin - at_});
    at_ = *end;
    return begin;
  }
  uint64_t at() const { return at_; }

 private:
  uint64_t at_;
  std::vector<Placement::Gap>& gaps_;
};

bool is_packed(const SegmentShape& segment) { return segment.stored_len < kPageAlign; }

}  // namespace

std::optional<Placement> place(uint64_t manifest_len, std::span<const SegmentShape> segments) {
  Placement out;
  out.segments.resize(segments.size());
  for (size_t i = 0; i < segments.size(); ++i) {
    if (segments[i].decoded_len > kMaxSegmentLen || segments[i].stored_len > kMaxSegmentLen) return std::nullopt;
    out.segments[i].leaves = leaf_count(segments[i].decoded_len);
  }

  Cursor cursor(kHeaderLen, out.gaps);
  auto table = checked_mul(segments.size(), 8);
  if (!table) return std::nullopt;
  auto placement = cursor.take(*table, 1);
  auto manifest = placement ? cursor.take(manifest_len, 4096) : std::nullopt;
  if (!manifest) return std::nullopt;
  out.placement_off = *placement;
  out.manifest_off = *manifest;

  for (bool packed : {true, false}) {
    for (size_t i = 0; i < segments.size(); ++i) {
      if (!segments[i].present || is_packed(segments[i]) != packed) continue;
      auto offset = cursor.take(segments[i].stored_len, packed ? kPackedAlign : kPageAlign);
      if (!offset) return std::nullopt;
      out.segments[i].offset = *offset;
    }
  }

  auto leaves = cursor.take(0, kLeafTableAlign);
  if (!leaves) return std::nullopt;
  out.leaves_off = *leaves;
  for (size_t i = 0; i < segments.size(); ++i) {
    if (!segments[i].present) continue;
    out.segments[i].table_len = leaf_table_len(segments[i].codec, out.segments[i].leaves);
    auto offset = cursor.take(out.segments[i].table_len, 1);
    if (!offset) return std::nullopt;
    out.segments[i].table_off = *offset;
  }
  out.body_size = cursor.at();
  out.leaves_len = out.body_size - out.leaves_off;
  return out;
}

}  // namespace mlc::format
