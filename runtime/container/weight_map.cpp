#include "runtime/container/weight_map.h"

#include <algorithm>

#include "base/compose.h"
#include "base/on_exit.h"
#include "signing/hash_tree.h"

namespace mlc::container {
namespace {

constexpr uint64_t kReadableBehind = 64;  // kernels may load, never use, that many bytes beyond a buffer

}  // namespace

WeightMap::WeightMap(const Source& source, const format::Segment& segment, uint64_t file_offset,
                     const LeafTable& leaves)
    : source_(source),
      segment_(segment),
      file_offset_(file_offset),
      leaves_(leaves),
      states_(new std::atomic<uint8_t>[leaves.count()]()) {}

Result<std::unique_ptr<WeightMap>> WeightMap::create(const Source& source, const format::Segment& segment,
                                                     uint64_t file_offset, const LeafTable& leaves, bool copy,
                                                     const Allocator* allocator) {
  std::unique_ptr<WeightMap> map(new WeightMap(source, segment, file_offset, leaves));
  if (!copy) {
    if (auto mapped = source.map(file_offset, segment.decoded_len); mapped.ok()) {  // within the source: the header's table was checked
      map->data_ = *mapped;
      return map;
    }
  }
  auto memory = AlignedBlock::allocate(segment.decoded_len + kReadableBehind, allocator);  // at most 16 GiB + 64
  if (!memory.ok()) return std::move(memory).status().note("{}: copy", label_of(segment));
  map->copy_ = std::move(*memory);
  map->data_ = map->copy_.data();
  return map;
}

Status WeightMap::fetch_and_hash(uint64_t leaf) {
  const uint64_t offset = leaf * format::kLeafLen;
  const uint64_t len = std::min(format::kLeafLen, segment_.stored_len - offset);
  if (copy_.data() != nullptr)
    if (Status status = source_.read(file_offset_ + offset, {copy_.data() + offset, len}); !status.ok())
      return std::move(status).note(label_of(segment_));
  format::Digest found = leaf_digest({data_ + offset, len});
  if (found == leaves_.digests[leaf]) return ok();
  return digest_mismatch(segment_, compose("leaf {} of {}", leaf, leaves_.count()), leaves_.digests[leaf], found, &source_, file_offset_ + offset);
}

Status WeightMap::settle(uint64_t leaf) {
  LeafState found = Unknown;  // also where memory for the failure is missing: another thread may try
  const OnExit tell([&] {
    states_[leaf].store(found, std::memory_order_release);
    states_[leaf].notify_all();
  });
  Status status = fetch_and_hash(leaf);
  found = status.ok() ? Good : Bad;
  return status;
}

Status WeightMap::hash_unclaimed(uint64_t offset, uint64_t length) {
  if (length == 0) return ok();
  const uint64_t first = offset / format::kLeafLen, last = (offset + length - 1) / format::kLeafLen;
  for (uint64_t leaf = first; leaf <= last; ++leaf) {
    uint8_t expected = Unknown;
    if (states_[leaf].load(std::memory_order_acquire) == Unknown &&
        states_[leaf].compare_exchange_strong(expected, InFlight))
      MLC_RETURN_IF_ERROR(settle(leaf));
  }
  return ok();
}

Status WeightMap::ensure(uint64_t offset, uint64_t length) {
  if (length == 0) return ok();
  MLC_RETURN_IF_ERROR(hash_unclaimed(offset, length));  // then wait for the leaves of other threads
  const uint64_t first = offset / format::kLeafLen, last = (offset + length - 1) / format::kLeafLen;
  for (uint64_t leaf = first; leaf <= last; ++leaf) {
    states_[leaf].wait(InFlight, std::memory_order_acquire);
    if (states_[leaf].load(std::memory_order_acquire) != Good)
      return Status(Code::BadSignature, 3102,
                    "{}: leaf {} of {} does not match its digest; the file is damaged or was changed",
                            label_of(segment_), leaf, leaves_.count());
  }
  return ok();
}

}  // namespace mlc::container
