#include <sys/mman.h>

#include <string>
#include <utility>

#include "base/compose.h"
#include "runtime/memory/aligned_block.h"
#include "runtime/memory/poison.h"

namespace mlc {
namespace {

uint64_t mapped_for(uint64_t bytes) { return (bytes + 64 + 4095) & ~uint64_t{4095}; }

}  // namespace

AlignedBlock& AlignedBlock::operator=(AlignedBlock&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

AlignedBlock::~AlignedBlock() {
  if (!data_) return;
  unpoison(data_, mapped_for(size_));
  munmap(data_, mapped_for(size_));
}

std::byte* AlignedBlock::release() {
  size_ = 0;
  return std::exchange(data_, nullptr);
}

AlignedBlock AlignedBlock::adopt(std::byte* data, uint64_t bytes) {
  AlignedBlock b;
  b.data_ = data;
  b.size_ = bytes;
  return b;
}

Result<AlignedBlock> AlignedBlock::allocate(uint64_t bytes) {
  const Status none(Code::Resource, "no memory for {} bytes", bytes);
  if (bytes > uint64_t{1} << 46) return none;
  const uint64_t mapped = mapped_for(bytes);
  void* p = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return none;
  if (mapped >= (uint64_t{4} << 20)) madvise(p, mapped, MADV_HUGEPAGE);
  // Nobody may touch what lies behind the promised length; of pages only a sanitizer can be told so.
  auto* data = static_cast<std::byte*>(p);
  expose(data, bytes, mapped);
  return adopt(data, bytes);
}

}  // namespace mlc
