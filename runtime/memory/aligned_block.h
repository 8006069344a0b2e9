// A block of zeroed pages for arenas, scratch and tensors: 64-byte aligned, readable to the next multiple of 64 beyond
// its length as kernels may rely on. Large blocks are offered to the kernel for huge pages, as a hint.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace mlc {

class AlignedBlock {
 public:
  AlignedBlock() = default;
  AlignedBlock(AlignedBlock&& other) noexcept { *this = static_cast<AlignedBlock&&>(other); }
  AlignedBlock& operator=(AlignedBlock&& other) noexcept;
  AlignedBlock(const AlignedBlock&) = delete;
  ~AlignedBlock();

  // Resource if the system has no such memory. `bytes` 0 gives a block that is still a valid, aligned pointer.
  static Result<AlignedBlock> allocate(uint64_t bytes);

  // For who keeps many blocks in a list of his own: the address alone, and the block of an address that release gave and
  // of the size that it had.
  std::byte* release();
  static AlignedBlock adopt(std::byte* data, uint64_t bytes);

  std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }  // as asked for

 private:
  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace mlc
