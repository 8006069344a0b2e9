#include <sys/mman.h>

#include <cstddef>

#include "runtime/memory/pages.h"

namespace mlc {

// Where huge pages are concerned: the system places pages anywhere, and a block of two would have room for one.
void* take_pages(uint64_t room) {
  constexpr uint64_t kHuge = uint64_t{2} << 20;
  const uint64_t spare = room < kHuge ? 0 : kHuge;
  void* const p = mmap(nullptr, room + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  if (spare == 0) return p;
  auto* const begin = static_cast<std::byte*>(p);
  const uint64_t before = (kHuge - reinterpret_cast<uintptr_t>(p) % kHuge) % kHuge;
  if (before > 0) munmap(begin, before);
  if (before < spare) munmap(begin + before + room, spare - before);
  madvise(begin + before, room, MADV_HUGEPAGE);
  return begin + before;
}

void give_pages_back(void* pages, uint64_t room) { munmap(pages, room); }

}  // namespace mlc
