// What is the same on every system.
#include "runtime/memory/code_memory.h"

#include <utility>

namespace mlc {

CodeMemory& CodeMemory::operator=(CodeMemory&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(size_, other.size_);
  std::swap(page_size_, other.page_size_);
  return *this;
}

Status CodeMemory::page_range(uint64_t offset, uint64_t length, uint64_t& start, uint64_t& end) const {
  const auto limit = checked_add(offset, length);
  const auto rounded = limit ? checked_align(*limit, page_size_) : std::nullopt;
  if (length == 0 || !rounded || *rounded > size_)
    return Status(Code::Malformed, "segment outside the code reservation");
  start = offset & ~(page_size_ - 1);
  end = *rounded;
  return ok();
}

}  // namespace mlc
