#include "runtime/container/segment_store.h"

#include <algorithm>
#include <cstring>

#include "base/compose.h"
#include "base/out_of_memory.h"
#include "runtime/container/zstd_frames.h"
#include "signing/hash_tree.h"

namespace mlc::container {

SegmentStore::SegmentStore(const Source& source, const format::Manifest& manifest, format::Placement placement,
                           std::vector<format::SegmentGap> gaps, bool copy, const Allocator* allocator)
    : source_(source), manifest_(manifest), placement_(std::move(placement)), gaps_(std::move(gaps)), copy_(copy), allocator_(allocator),
      tables_(manifest.segments.size()), weights_(manifest.segments.size()) {}

Status SegmentStore::check_range(uint32_t segment, uint64_t offset, uint64_t length) const {
  if (segment >= manifest_.segments.size())
    return Status(Code::Internal, "segment {} does not exist", segment);
  const format::Segment& s = manifest_.segments[segment];
  if (!present(segment))
    return Status(Code::NotFound, "{} is absent: this copy of the file was thinned", label_of(s))
        .hint("mlpack fill --from FULL.mlc");
  if (!range_within(offset, length, s.decoded_len))
    return Status(Code::Internal, "{}: bytes outside the segment are wanted", label_of(s));
  return ok();
}

Result<const LeafTable*> SegmentStore::table(uint32_t segment) const {
  std::lock_guard lock(mu_);
  std::unique_ptr<LeafTable>& slot = tables_[segment];
  if (!slot) {
    MLC_ASSIGN(LeafTable loaded, load_leaf_table(source_, manifest_.segments[segment], placement_.segments[segment]));
    slot = std::make_unique<LeafTable>(std::move(loaded));
  }
  return static_cast<const LeafTable*>(slot.get());
}

// Reads, verifies and decodes: what it fills was hashed there, or decoded from bytes that were.
class SegmentStore::Leaves {
 public:
  Leaves(const Source& source, const format::Segment& segment, uint64_t file_offset, const LeafTable& table)
      : source_(source), segment_(segment), file_offset_(file_offset), table_(table) {}

  static uint64_t offset(uint64_t leaf) { return leaf * format::kLeafLen; }
  uint64_t length(uint64_t leaf) const { return std::min(format::kLeafLen, segment_.decoded_len - offset(leaf)); }

  // `out` has the length of the leaf.
  [[nodiscard]] Status load(uint64_t leaf, std::span<std::byte> out) {
    if (segment_.codec != format::Codec::Zstd) return fetch(leaf, offset(leaf), out);
    const uint64_t start = table_.frame_starts[leaf];
    frame_.resize(table_.frame_starts[leaf + 1] - start);
    MLC_RETURN_IF_ERROR(fetch(leaf, start, frame_));
    if (!decoder_) decoder_ = std::make_unique<FrameDecoder>();
    Status status = decoder_->decode(frame_, out);
    return status.ok() ? ok() : std::move(status).note("{}: {}", label_of(segment_), name(leaf));
  }

 private:
  std::string name(uint64_t leaf) const { return compose("leaf {} of {}", leaf, table_.count()); }

  [[nodiscard]] Status fetch(uint64_t leaf, uint64_t start, std::span<std::byte> stored) {
    if (Status status = source_.read(file_offset_ + start, stored); !status.ok()) return std::move(status).note(label_of(segment_));
    const format::Digest found = leaf_digest(stored);
    return found == table_.digests[leaf] ? ok() : digest_mismatch(segment_, name(leaf), table_.digests[leaf], found, &source_, file_offset_ + start);
  }

  const Source& source_;
  const format::Segment& segment_;
  const uint64_t file_offset_;
  const LeafTable& table_;
  std::unique_ptr<FrameDecoder> decoder_;
  std::vector<std::byte> frame_;
};

Result<SegmentStore::Leaves> SegmentStore::leaves(uint32_t segment) const {
  MLC_ASSIGN(const LeafTable* const leaves, table(segment));
  return Leaves(source_, manifest_.segments[segment], placement_.segments[segment].offset, *leaves);
}

Status SegmentStore::check_gaps(uint32_t segment, uint64_t offset, Bytes decoded) const {
  const uint64_t end = offset + decoded.size();
  auto gap = std::lower_bound(gaps_.begin(), gaps_.end(), segment,
                              [](const format::SegmentGap& g, uint32_t s) { return g.segment < s; });
  auto last = std::upper_bound(gap, gaps_.end(), segment,
                               [](uint32_t s, const format::SegmentGap& g) { return s < g.segment; });
  // The first gap that ends behind `offset`; gaps are disjoint and ascend.
  gap = std::lower_bound(gap, last, offset,
                         [](const format::SegmentGap& g, uint64_t o) { return g.offset + g.length <= o; });
  for (; gap != last && gap->offset < end; ++gap) {
    for (uint64_t at = std::max(gap->offset, offset); at < std::min(gap->offset + gap->length, end); ++at)
      if (decoded[at - offset] != std::byte{0})
        return Status(Code::Malformed, "{}: byte {} belongs to nothing and is not zero",
                      label_of(manifest_.segments[segment]), at);
  }
  return ok();
}

Result<AlignedBlock> SegmentStore::read(uint32_t segment, uint64_t offset, uint64_t length) const {
  MLC_RETURN_IF_ERROR(check_range(segment, offset, length));
  MLC_ASSIGN(AlignedBlock out, AlignedBlock::allocate(length, allocator_));
  if (length == 0) return out;
  MLC_ASSIGN(Leaves each, leaves(segment));
  const uint64_t end = offset + length;
  std::vector<std::byte> whole;  // a leaf of which a part is wanted
  for (uint64_t leaf = offset / format::kLeafLen; each.offset(leaf) < end; ++leaf) {
    const uint64_t begin = each.offset(leaf), len = each.length(leaf);
    const uint64_t from = std::max(offset, begin), to = std::min(end, begin + len);
    const std::span<std::byte> place(out.data() + (from - offset), to - from);
    if (place.size() == len) {
      MLC_RETURN_IF_ERROR(each.load(leaf, place));
      continue;
    }
    whole.resize(len);
    MLC_RETURN_IF_ERROR(each.load(leaf, whole));
    std::memcpy(place.data(), whole.data() + (from - begin), place.size());
  }
  return out;
}

Result<AlignedBlock> SegmentStore::read_all(uint32_t segment) const {
  MLC_RETURN_IF_ERROR(check_range(segment, 0, 0));
  MLC_ASSIGN(AlignedBlock out, read(segment, 0, manifest_.segments[segment].decoded_len));
  MLC_RETURN_IF_ERROR(check_gaps(segment, 0, {out.data(), static_cast<size_t>(out.size())}));
  return out;
}

Status SegmentStore::check(uint32_t segment) const {
  MLC_RETURN_IF_ERROR(check_range(segment, 0, 0));
  MLC_ASSIGN(Leaves each, leaves(segment));
  std::vector<std::byte> decoded;
  for (uint64_t leaf = 0; each.offset(leaf) < manifest_.segments[segment].decoded_len; ++leaf) {
    decoded.resize(each.length(leaf));
    MLC_RETURN_IF_ERROR(each.load(leaf, decoded));
    MLC_RETURN_IF_ERROR(check_gaps(segment, each.offset(leaf), decoded));
  }
  return ok();
}

Status SegmentStore::check_mapped(uint32_t segment) const {
  MLC_RETURN_IF_ERROR(check_range(segment, 0, 0));
  const uint64_t len = manifest_.segments[segment].decoded_len;
  MLC_ASSIGN(const std::byte* data, acquire(segment, 0, len));
  return check_gaps(segment, 0, {data, len});
}

Result<WeightMap*> SegmentStore::weights(uint32_t segment) const {
  const format::Segment& s = manifest_.segments[segment];
  MLC_ASSIGN(const LeafTable* leaves, table(segment));
  std::lock_guard lock(mu_);
  std::unique_ptr<WeightMap>& slot = weights_[segment];
  if (!slot) {
    MLC_ASSIGN(slot, WeightMap::create(source_, s, placement_.segments[segment].offset, *leaves, copy_, allocator_));
  }
  return slot.get();
}

Result<WeightMap*> SegmentStore::healthy_weights(uint32_t segment, uint64_t offset, uint64_t length) const {
  MLC_RETURN_IF_ERROR(check_range(segment, offset, length));
  const format::Segment& s = manifest_.segments[segment];
  if (s.kind != format::SegmentKind::Weights || s.codec != format::Codec::Raw)
    return Status(Code::Internal, "{} holds no mappable weights", label_of(s));
  MLC_RETURN_IF_ERROR(poison_.status());
  auto map = weights(segment);
  if (!map.ok() && map.status().code != Code::Resource) poison_.set(map.status());
  return map;
}

Result<const std::byte*> SegmentStore::acquire(uint32_t segment, uint64_t offset, uint64_t length) const {
  MLC_ASSIGN(WeightMap* const map, healthy_weights(segment, offset, length));
  if (Status status = map->ensure(offset, length); !status.ok()) {
    poison_.set(status);
    return poison_.status();  // of several failures all callers see the same
  }
  return map->data() + offset;
}

void SegmentStore::prepare(uint32_t segment, uint64_t offset, uint64_t length) const {
  // Workers call this. Where there is no memory `acquire` will say so.
  (void)has_memory_for([&] {
    auto map = healthy_weights(segment, offset, length);
    if (!map.ok()) return;
    if (Status status = (*map)->hash_unclaimed(offset, length); !status.ok()) poison_.set(status);
  });
}

}  // namespace mlc::container
