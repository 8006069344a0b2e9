#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/compose.h"
#include "runtime/memory/code_memory.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace mlc {
namespace {

constexpr int kProtBti = 0x10;  // PROT_BTI of aarch64; only passed there

Status refused(const char* what) {
  return Status(Code::Resource, "{} refused: {}", what, std::strerror(errno));
}

bool write_all(int fd, Bytes content) {
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t n = write(fd, content.data() + done, content.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

// Closes on every way out.
struct Fd {
  int fd;
  ~Fd() {
    if (fd >= 0) close(fd);
  }
};

}  // namespace

CodeMemory::~CodeMemory() {
  if (base_) munmap(base_ - page_size_, size_ + 2 * page_size_);
}

Result<CodeMemory> CodeMemory::reserve(uint64_t size, uint64_t page_size) {
  const auto rounded = checked_align(size, page_size);
  if (size == 0 || !rounded || *rounded > (uint64_t{1} << 40))
    return Status(Code::Malformed, "size of code out of range");
  void* p = mmap(nullptr, *rounded + 2 * page_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return refused("address space for code");
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
  if (mprotect(base_ + start, end - start, PROT_READ | PROT_WRITE) != 0) return refused("writable memory");
  if (!content.empty()) std::memcpy(base_ + offset, content.data(), content.size());
  return ok();
}

Status CodeMemory::make_read_only(uint64_t offset, uint64_t length) {
  uint64_t start, end;
  MLC_RETURN_IF_ERROR(page_range(offset, length, start, end));
  if (mprotect(base_ + start, end - start, PROT_READ) != 0) return refused("read-only memory");
  return ok();
}

Status CodeMemory::place_code(uint64_t offset, Bytes content, uint64_t length, CodePages strategy, bool bti) {
  uint64_t start, end;
  MLC_RETURN_IF_ERROR(page_range(offset, length, start, end));
  if (content.size() > length) return Status(Code::Malformed, "segment longer in the file than in memory");
  const int executable = PROT_READ | PROT_EXEC | (bti ? kProtBti : 0);
  switch (strategy) {
    case CodePages::None: return Status(Code::Resource, "this system gives no executable memory");
    case CodePages::Anonymous:
      MLC_RETURN_IF_ERROR(place_data(offset, content, length));
      if (mprotect(base_ + start, end - start, executable) != 0) return refused("executable memory (S1)");
      break;
    case CodePages::SealedFd: {
      // Flag 0 works with vm.memfd_noexec 0 and 1; where that is refused, a memfd that was never executable itself.
      constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
      Fd file{static_cast<int>(syscall(SYS_memfd_create, "mlc-code", kFlags))};
      if (file.fd < 0) file.fd = static_cast<int>(syscall(SYS_memfd_create, "mlc-code", kFlags | MFD_NOEXEC_SEAL));
      if (file.fd < 0) return refused("memfd (S2)");
      if (ftruncate(file.fd, static_cast<off_t>(end - start)) != 0 ||
          lseek(file.fd, static_cast<off_t>(offset - start), SEEK_SET) < 0 || !write_all(file.fd, content))
        return refused("writing to a memfd (S2)");
      if (fcntl(file.fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
        return refused("sealing a memfd (S2)");
      if (mmap(base_ + start, end - start, executable, MAP_PRIVATE | MAP_FIXED, file.fd, 0) == MAP_FAILED)
        return refused("executable memory (S2)");
      break;
    }
  }
  __builtin___clear_cache(reinterpret_cast<char*>(base_ + start), reinterpret_cast<char*>(base_ + end));
  return ok();
}

}  // namespace mlc
