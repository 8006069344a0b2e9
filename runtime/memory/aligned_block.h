// A block of zeros for arenas, scratch, tensors and segments of containers: 256-byte aligned, readable to the next multiple of
// 64 beyond its length as kernels may rely on. It is pages of its own, or memory of an allocator. Large blocks of
// pages begin where a huge page can, and are offered to the kernel for huge pages, as a hint.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "runtime/memory/allocator.h"

namespace mlc {

class AlignedBlock {
 public:
  AlignedBlock() = default;
  AlignedBlock(AlignedBlock&& other) noexcept { *this = static_cast<AlignedBlock&&>(other); }
  AlignedBlock& operator=(AlignedBlock&& other) noexcept;
  AlignedBlock(const AlignedBlock&) = delete;
  ~AlignedBlock();

  // Resource if there is no such memory. `bytes` 0 gives a block that is still a valid, aligned pointer. `from` outlives the
  // block; null: pages of the system.
  static Result<AlignedBlock> allocate(uint64_t bytes, const Allocator* from = nullptr);

  // For callers that keep many blocks in a list of their own: the address alone, and the block of an address that release gave and
  // of the size that it had.
  std::byte* release();
  static AlignedBlock adopt(std::byte* data, uint64_t bytes, const Allocator* from = nullptr);

  std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }  // as asked for

 private:
  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
  const Allocator* from_ = nullptr;
};

}  // namespace mlc
