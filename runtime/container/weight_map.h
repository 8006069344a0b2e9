// One mapped weights segment and the state of its leaves.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/status.h"
#include "runtime/container/leaf_table.h"
#include "runtime/container/source.h"
#include "runtime/memory/aligned_block.h"
#include "schema/manifest.h"

namespace mlc::container {

// The first failure of a container's weights; from then on nothing is handed out any more.
class Poison {
 public:
  [[nodiscard]] Status status() const {
    if (!set_.load(std::memory_order_acquire)) return ok();
    std::lock_guard lock(mu_);
    return status_;
  }
  void set(const Status& status) {
    std::lock_guard lock(mu_);
    if (set_.load(std::memory_order_relaxed)) return;
    status_ = status;
    set_.store(true, std::memory_order_release);
  }

 private:
  mutable std::mutex mu_;
  std::atomic<bool> set_ = false;
  Status status_;  // guarded by mu_
};

class WeightMap {
 public:
  // `source`, `segment`, `leaves` and `allocator` must outlive the result. With `copy`, or where the source cannot be mapped,
  // the leaves are read into memory of the allocator (null: the system) as they are wanted.
  [[nodiscard]] static Result<std::unique_ptr<WeightMap>> create(const Source& source, const format::Segment& segment,
                                                                 uint64_t file_offset, const LeafTable& leaves,
                                                                 bool copy, const Allocator* allocator);
  WeightMap(const WeightMap&) = delete;
  WeightMap& operator=(const WeightMap&) = delete;

  // Hashes the leaves of the range that no thread has begun. The first failure among them; those of other threads are
  // not waited for.
  [[nodiscard]] Status hash_unclaimed(uint64_t offset, uint64_t length);
  // Returns when every leaf of [offset, offset + length) is good, or with the first failure. Threads that want the
  // same leaves share the hashing.
  [[nodiscard]] Status ensure(uint64_t offset, uint64_t length);
  // The whole segment; only ranges that `ensure` approved may be read. 256-aligned.
  const std::byte* data() const { return data_; }

 private:
  enum LeafState : uint8_t { Unknown, InFlight, Good, Bad };

  WeightMap(const Source& source, const format::Segment& segment, uint64_t file_offset, const LeafTable& leaves);
  [[nodiscard]] Status settle(uint64_t leaf);  // verifies a leaf that this thread has claimed
  [[nodiscard]] Status fetch_and_hash(uint64_t leaf);

  const Source& source_;
  const format::Segment& segment_;
  const uint64_t file_offset_;
  const LeafTable& leaves_;
  AlignedBlock copy_;  // if not mapped
  const std::byte* data_ = nullptr;
  std::unique_ptr<std::atomic<uint8_t>[]> states_;
};

}  // namespace mlc::container
