#include "runtime/memory/aligned_block.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/compose.h"
#include "runtime/memory/pages.h"
#include "runtime/memory/poison.h"

namespace mlc {
namespace {

constexpr uint64_t kAlignment = 256;

// What is asked for, of the system or of an allocator, for a block of so many bytes.
uint64_t room_for(uint64_t bytes, const Allocator* from) {
  return from ? (std::max<uint64_t>(bytes, 1) + 63) & ~uint64_t{63} : (bytes + 64 + 4095) & ~uint64_t{4095};
}

// Zeros from an allocator, which may give what it likes. Its memory may hold what was in it before.
void* zeros_of(const Allocator& from, uint64_t room) {
  void* p = from.allocate(from.user, room, kAlignment);
  if (p && reinterpret_cast<uintptr_t>(p) % kAlignment != 0) {
    from.release(from.user, p, room, kAlignment);
    return nullptr;
  }
  return p ? std::memset(p, 0, room) : nullptr;
}

}  // namespace

AlignedBlock& AlignedBlock::operator=(AlignedBlock&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(from_, other.from_);
  return *this;
}

AlignedBlock::~AlignedBlock() {
  if (!data_) return;
  const uint64_t room = room_for(size_, from_);
  unpoison(data_, room);
  if (from_) from_->release(from_->user, data_, room, kAlignment);
  else give_pages_back(data_, room);
}

std::byte* AlignedBlock::release() {
  size_ = 0;
  return std::exchange(data_, nullptr);
}

AlignedBlock AlignedBlock::adopt(std::byte* data, uint64_t bytes, const Allocator* from) {
  AlignedBlock b;
  b.data_ = data;
  b.size_ = bytes;
  b.from_ = from;
  return b;
}

Result<AlignedBlock> AlignedBlock::allocate(uint64_t bytes, const Allocator* from) {
  const uint64_t room = room_for(bytes, from);
  void* p = bytes > uint64_t{1} << 46 ? nullptr : from ? zeros_of(*from, room) : take_pages(room);
  if (!p) return Status(Code::Resource, "no memory for {} bytes", bytes);
  // No code may touch what is behind the promised length; of pages only a sanitizer can check it.
  auto* data = static_cast<std::byte*>(p);
  expose(data, bytes, room);
  return adopt(data, bytes, from);
}

}  // namespace mlc
