#include <sys/mman.h>

#include <string>
#include <utility>

#include "base/compose.h"
#include "runtime/memory/aligned_block.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#endif
#endif
#ifndef ASAN_POISON_MEMORY_REGION
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

namespace mlc {

AlignedBlock& AlignedBlock::operator=(AlignedBlock&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

AlignedBlock::~AlignedBlock() {
  if (!data_) return;
  ASAN_UNPOISON_MEMORY_REGION(data_, mapped_);
  munmap(data_, mapped_);
}

Result<AlignedBlock> AlignedBlock::allocate(uint64_t bytes) {
  const Status none(Code::Resource, "no memory for {} bytes", bytes);
  if (bytes > uint64_t{1} << 46) return none;
  const uint64_t mapped = (bytes + 64 + 4095) & ~uint64_t{4095};
  void* p = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return none;
  if (mapped >= (uint64_t{4} << 20)) madvise(p, mapped, MADV_HUGEPAGE);
  // Nobody may touch what lies behind the promised length; of pages only a sanitizer can be told so.
  const uint64_t readable = (bytes + 63) & ~uint64_t{63};
  ASAN_POISON_MEMORY_REGION(static_cast<std::byte*>(p) + readable, mapped - readable);
  AlignedBlock b;
  b.data_ = static_cast<std::byte*>(p);
  b.size_ = bytes;
  b.mapped_ = mapped;
  return b;
}

}  // namespace mlc
