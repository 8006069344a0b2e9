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

Status SegmentStore::for_each_leaf(uint32_t segment, uint64_t first, uint64_t last, const Visitor& visit) const {
  const format::Segment& s = manifest_.segments[segment];
  MLC_ASSIGN(const LeafTable* leaves, table(segment));
  const bool zstd = s.codec == format::Codec::Zstd;
  FrameDecoder decoder;
  std::vector<std::byte> stored, decoded;
  for (uint64_t leaf = first; leaf <= last; ++leaf) {
    const uint64_t offset = leaf * format::kLeafLen;
    const uint64_t decoded_len = std::min(format::kLeafLen, s.decoded_len - offset);
    const uint64_t start = zstd ? leaves->frame_starts[leaf] : offset;
    stored.resize(zstd ? leaves->frame_starts[leaf + 1] - start : decoded_len);
    const std::string what = compose("leaf {} of {}", leaf, leaves->count());
    if (Status status = source_.read(placement_.segments[segment].offset + start, stored); !status.ok())
      return std::move(status).note(label_of(s));
    if (format::Digest found = leaf_digest(stored); found != leaves->digests[leaf])
      return digest_mismatch(s, what, leaves->digests[leaf], found);
    if (!zstd) {
      MLC_RETURN_IF_ERROR(visit(offset, stored));
      continue;
    }
    decoded.resize(decoded_len);
    if (Status status = decoder.decode(stored, decoded); !status.ok())
      return std::move(status).note("{}: {}", label_of(s), what);
    MLC_RETURN_IF_ERROR(visit(offset, decoded));
  }
  return ok();
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
  MLC_RETURN_IF_ERROR(for_each_leaf(segment, offset / format::kLeafLen, (offset + length - 1) / format::kLeafLen,
                                    [&](uint64_t leaf_offset, Bytes decoded) {
    uint64_t from = std::max(offset, leaf_offset), to = std::min(offset + length, leaf_offset + decoded.size());
    std::memcpy(out.data() + (from - offset), decoded.data() + (from - leaf_offset), to - from);
    return ok();
  }));
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
  uint64_t last = (manifest_.segments[segment].decoded_len - 1) / format::kLeafLen;
  return for_each_leaf(segment, 0, last,
                       [&](uint64_t offset, Bytes decoded) { return check_gaps(segment, offset, decoded); });
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
