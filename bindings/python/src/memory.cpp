#include "memory.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace mlrt {

uint64_t OutputMemory::room_for(uint64_t bytes) {
  const uint64_t step = std::max(std::bit_floor(bytes) / 8, uint64_t{64});
  return (bytes + step - 1) / step * step;
}

OutputMemory::~OutputMemory() {
  for (const Block& block : idle_) std::free(block.data);
}

void OutputMemory::begin_run(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  most_ = bytes;
  shrink();
}

void* OutputMemory::take(uint64_t room) {
  {
    const std::lock_guard lock(mutex_);
    const auto fits = std::find_if(idle_.begin(), idle_.end(), [&](const Block& block) { return block.room == room; });
    if (fits != idle_.end()) {
      void* data = fits->data;
      kept_ -= room;
      idle_.erase(fits);
      return data;
    }
  }
  return std::aligned_alloc(64, room);
}

void OutputMemory::give_back(void* block, uint64_t room) {
  const std::lock_guard lock(mutex_);
  idle_.push_back({block, room});
  kept_ += room;
  shrink();
}

void OutputMemory::shrink() {
  while (kept_ > most_) {
    kept_ -= idle_.front().room;
    std::free(idle_.front().data);
    idle_.erase(idle_.begin());
  }
}

}  // namespace mlrt
