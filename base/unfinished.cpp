#include "base/unfinished.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <utility>

namespace mlc {
namespace {

// A path never moves and is never freed: a handler may read it at any time.
struct Slot {
  enum State : int { Free, Taken, Set };
  std::atomic<int> state{Free};
  char path[PATH_MAX];
};
Slot slots[8];
static_assert(std::atomic<int>::is_always_lock_free);

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

Unfinished::Unfinished(const std::string& path) : slot_(-1) {
  if (path.size() >= sizeof slots[0].path) return;
  for (Slot& slot : slots) {
    int expected = Slot::Free;
    if (!slot.state.compare_exchange_strong(expected, Slot::Taken)) continue;
    std::memcpy(slot.path, path.c_str(), path.size() + 1);
    slot.state = Slot::Set;
    slot_ = static_cast<int>(&slot - slots);
    return;
  }
}

Unfinished::Unfinished(Unfinished&& other) noexcept : slot_(std::exchange(other.slot_, -1)) {}

Unfinished::~Unfinished() {
  if (slot_ >= 0) slots[slot_].state = Slot::Free;
}

void remove_unfinished() noexcept {
  for (const Slot& slot : slots) {
    if (slot.state != Slot::Set) continue;
    if (::unlink(slot.path) != 0) remove_folder(slot.path);
  }
}

void forget_unfinished() noexcept {
  for (Slot& slot : slots) slot.state = Slot::Taken;  // never free again: an Unfinished of the parent still holds it
}

}  // namespace mlc
