#include "base/files/unfinished.h"

#include <atomic>
#include <cstring>
#include <iterator>
#include <utility>

namespace mlc {
namespace {

// A path never moves and is never freed: a handler may read it at any time.
struct Slot {
  enum State : int { Free, Taken, Set };
  std::atomic<int> state{Free};
  char path[4096];
};
Slot slots[8];
static_assert(std::atomic<int>::is_always_lock_free);

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
    if (slot.state == Slot::Set) detail::remove_place(slot.path);
  }
}

void forget_unfinished() noexcept {
  for (Slot& slot : slots) slot.state = Slot::Taken;  // never free again: an Unfinished of the parent still holds it
}

}  // namespace mlc
