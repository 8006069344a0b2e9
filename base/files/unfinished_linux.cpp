#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/files/unfinished.h"

namespace mlc {
namespace {

// What the system call getdents64 writes, one after the other.
struct Entry {
  uint64_t inode;
  int64_t next;
  uint16_t length;
  uint8_t type;
  char name[1];
};
static_assert(offsetof(Entry, name) == 19);

void remove_folder(const char* path) {
  const int folder = ::open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return;
  alignas(Entry) char buffer[4096];
  for (long n; (n = ::syscall(SYS_getdents64, folder, buffer, sizeof buffer)) > 0;) {
    for (long at = 0; at < n;) {
      uint16_t length;
      std::memcpy(&length, buffer + at + offsetof(Entry, length), sizeof length);
      const char* name = buffer + at + offsetof(Entry, name);
      if (std::strcmp(name, ".") != 0 && std::strcmp(name, "..") != 0) ::unlinkat(folder, name, 0);
      at += length;
    }
  }
  ::close(folder);
  ::rmdir(path);
}

}  // namespace

void detail::remove_place(const char* path) noexcept {
  if (::unlink(path) != 0) remove_folder(path);
}

}  // namespace mlc
