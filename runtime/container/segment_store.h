// The segments of an open container: every byte that leaves was hashed and compared. Reading (`read`) copies into
// memory of its own; mapping (`acquire`) hands out the file's pages and remembers which leaves are good.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "base/status.h"
#include "runtime/container/leaf_table.h"
#include "runtime/container/source.h"
#include "runtime/container/weight_map.h"
#include "runtime/memory/aligned_block.h"
#include "schema/manifest.h"
#include "schema/placement.h"
#include "schema/validate/tiling.h"

namespace mlc::container {

class SegmentStore {
 public:
  // Source, manifest and allocator (null: the system) must outlive the store and what it hands out. `copy`: weights are read
  // into memory instead of mapped.
  SegmentStore(const Source& source, const format::Manifest& manifest, format::Placement placement,
               std::vector<format::SegmentGap> gaps, bool copy, const Allocator* allocator);

  const format::Placement& placement() const { return placement_; }
  bool copies() const { return copy_; }
  bool present(uint32_t segment) const { return placement_.segments[segment].offset != 0; }

  // Decoded bytes [offset, offset + length).
  [[nodiscard]] Result<AlignedBlock> read(uint32_t segment, uint64_t offset, uint64_t length) const;
  // The whole segment; also checks that alignment between its items is zero.
  [[nodiscard]] Result<AlignedBlock> read_all(uint32_t segment) const;
  // Hashes, decodes and checks alignment without keeping anything.
  [[nodiscard]] Status check(uint32_t segment) const;
  // The same for mappable weights, through the mapping: later acquires need not hash again.
  [[nodiscard]] Status check_mapped(uint32_t segment) const;

  [[nodiscard]] Result<const std::byte*> acquire(uint32_t segment, uint64_t offset, uint64_t length) const;
  void prepare(uint32_t segment, uint64_t offset, uint64_t length) const;

 private:
  class Leaves;  // of a segment, one after the other
  [[nodiscard]] Result<Leaves> leaves(uint32_t segment) const;
  [[nodiscard]] Status check_gaps(uint32_t segment, uint64_t offset, Bytes decoded) const;
  [[nodiscard]] Result<const LeafTable*> table(uint32_t segment) const;
  [[nodiscard]] Result<WeightMap*> weights(uint32_t segment) const;
  // With the checks of `acquire`: the range is inside, the segment can be mapped, and nothing of the file is damaged yet.
  [[nodiscard]] Result<WeightMap*> healthy_weights(uint32_t segment, uint64_t offset, uint64_t length) const;
  [[nodiscard]] Status check_range(uint32_t segment, uint64_t offset, uint64_t length) const;

  const Source& source_;
  const format::Manifest& manifest_;
  const format::Placement placement_;
  const std::vector<format::SegmentGap> gaps_;  // by segment and offset
  const bool copy_;
  const Allocator* const allocator_;
  mutable Poison poison_;

  // Guarded by mu_ until set, constant afterwards.
  mutable std::mutex mu_;
  mutable std::vector<std::unique_ptr<LeafTable>> tables_;
  mutable std::vector<std::unique_ptr<WeightMap>> weights_;
};

}  // namespace mlc::container
