#include <windows.h>

#include <cstring>

#include "base/system/windows_text.h"
#include "runtime/memory/code_memory.h"

namespace mlc {
namespace {

Status refused(const char* what) { return Status(Code::Resource, "{} refused: {}", what, windows::last_error()); }

bool protect(std::byte* from, uint64_t bytes, DWORD how) {
  DWORD before = 0;
  return VirtualProtect(from, bytes, how, &before) != 0;
}

}  // namespace

CodeMemory::~CodeMemory() {
  if (base_) VirtualFree(base_ - page_size_, 0, MEM_RELEASE);
}

Result<CodeMemory> CodeMemory::reserve(uint64_t size, uint64_t page_size) {
  const auto rounded = checked_align(size, page_size);
  if (size == 0 || !rounded || *rounded > (uint64_t{1} << 40)) return Status(Code::Malformed, "size of code out of range");
  void* p = VirtualAlloc(nullptr, *rounded + 2 * page_size, MEM_RESERVE, PAGE_NOACCESS);
  if (!p) return refused("address space for code");
  CodeMemory m;
  m.base_ = static_cast<std::byte*>(p) + page_size;
  m.size_ = *rounded;
  m.page_size_ = page_size;
  return m;
}

Status CodeMemory::place_data(uint64_t offset, Bytes content, uint64_t length) {
  uint64_t start, end;
  MLC_RETURN_IF_ERROR(page_range(offset, length, start, end));
  if (content.size() > length) return Status(Code::Malformed, "segment longer in the file than in memory");
  if (!VirtualAlloc(base_ + start, end - start, MEM_COMMIT, PAGE_READWRITE)) return refused("writable memory");
  if (!content.empty()) std::memcpy(base_ + offset, content.data(), content.size());
  return ok();
}

Status CodeMemory::make_read_only(uint64_t offset, uint64_t length) {
  uint64_t start, end;
  MLC_RETURN_IF_ERROR(page_range(offset, length, start, end));
  return protect(base_ + start, end - start, PAGE_READONLY) ? ok() : refused("read-only memory");
}

Status CodeMemory::place_code(uint64_t offset, Bytes content, uint64_t length, CodePages strategy, bool) {
  uint64_t start, end;
  MLC_RETURN_IF_ERROR(page_range(offset, length, start, end));
  switch (strategy) {
    case CodePages::None: return Status(Code::Resource, "this system gives no executable memory");
    case CodePages::SealedFd: return Status(Code::Resource, "Windows has no sealed files of memory (S2)");
    case CodePages::Anonymous: break;
  }
  MLC_RETURN_IF_ERROR(place_data(offset, content, length));
  if (!protect(base_ + start, end - start, PAGE_EXECUTE_READ)) return refused("executable memory (S1)");
  FlushInstructionCache(GetCurrentProcess(), base_ + start, end - start);
  return ok();
}

}  // namespace mlc
