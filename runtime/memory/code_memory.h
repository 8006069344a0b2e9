// Memory that holds machine code, never writable and executable at once.
//
// One reservation with an inaccessible page on each side; segments are placed into it and the rest stays inaccessible.
// Two ways to get executable pages, because systems refuse one or the other:
//   CodePages::Anonymous  an anonymous mapping is written, then made read-execute and never writable again
//   CodePages::SealedFd   a memfd is written, sealed against every change, and mapped read-execute
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/checked.h"
#include "base/status.h"
#include "runtime/memory/code_pages.h"

namespace mlc {

class CodeMemory {
 public:
  CodeMemory() = default;
  CodeMemory(CodeMemory&& other) noexcept { *this = static_cast<CodeMemory&&>(other); }
  CodeMemory& operator=(CodeMemory&& other) noexcept;
  CodeMemory(const CodeMemory&) = delete;
  ~CodeMemory();

  // `size` bytes of address space, rounded up to pages. Nothing is accessible yet.
  static Result<CodeMemory> reserve(uint64_t size, uint64_t page_size);

  std::byte* base() const { return base_; }
  uint64_t size() const { return size_; }

  // Each places `content` at `offset`, zeros behind it up to `length` and to the end of the page. The page range must
  // lie inside the reservation; ranges of different calls must not share a page.
  Status place_code(uint64_t offset, Bytes content, uint64_t length, CodePages strategy, bool bti);
  Status place_data(uint64_t offset, Bytes content, uint64_t length);  // readable and writable
  Status make_read_only(uint64_t offset, uint64_t length);             // of a range given to place_data

 private:
  Status page_range(uint64_t offset, uint64_t length, uint64_t& start, uint64_t& end) const;

  std::byte* base_ = nullptr;
  uint64_t size_ = 0;
  uint64_t page_size_ = 4096;
};

}  // namespace mlc
