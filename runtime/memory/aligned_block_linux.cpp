#include <sys/mman.h>

#include <string>
#include <utility>

#include "runtime/memory/aligned_block.h"

namespace mlc {

AlignedBlock& AlignedBlock::operator=(AlignedBlock&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

AlignedBlock::~AlignedBlock() {
  if (data_) munmap(data_, mapped_);
}

Result<AlignedBlock> AlignedBlock::allocate(uint64_t bytes) {
  const Status none(Code::Resource, "no memory for " + std::to_string(bytes) + " bytes");
  if (bytes > uint64_t{1} << 46) return none;
  const uint64_t mapped = (bytes + 64 + 4095) & ~uint64_t{4095};
  void* p = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return none;
  if (mapped >= (uint64_t{4} << 20)) madvise(p, mapped, MADV_HUGEPAGE);
  AlignedBlock b;
  b.data_ = static_cast<std::byte*>(p);
  b.size_ = bytes;
  b.mapped_ = mapped;
  return b;
}

}  // namespace mlc
