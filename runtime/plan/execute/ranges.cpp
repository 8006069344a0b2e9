#include "runtime/plan/execute/ranges.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/system/clock.h"

namespace mlc::exec {
namespace {

constexpr uint64_t kSpinNs = 50'000;
constexpr unsigned kSpinsPerLook = 64;  // about a microsecond: a thread that runs comes to its own range within it

}  // namespace

void Ranges::start(std::span<const Turn> turns, const Crowd& crowd, Team* team) {
  turns_ = turns;
  crowd_ = &crowd;
  team_ = team;
  idle_.store(0, std::memory_order_relaxed);
  halted_.store(false, std::memory_order_relaxed);
  for (unsigned r = 0; r < count_; ++r) {
    ranges_[r].done.store(0, std::memory_order_relaxed);
    ranges_[r].held.store(false, std::memory_order_relaxed);
    ranges_[r].is_away = false;
  }
}

void Ranges::come(const Thread& t) {
  if (!std::exchange(ranges_[t.own].is_away, false)) return;
  idle_.fetch_sub(1, std::memory_order_relaxed);
}

uint32_t Ranges::skip(uint32_t range, uint32_t step) const {
  while (step < turns_.size() && range >= turns_[step].shares) ++step;
  return step;
}

bool Ranges::have_done(Thread& t, uint32_t after) {
  if (after <= t.reached) return true;
  if (after != t.wanted) t.wanted = after, t.behind = 0;
  for (; t.behind < count_; ++t.behind)
    if (ranges_[t.behind].done.load(std::memory_order_seq_cst) < after) return false;
  t.reached = after;
  return true;
}

uint32_t Ranges::least_done() const {
  uint32_t least = UINT32_MAX;
  for (unsigned r = 0; r < count_; ++r) least = std::min(least, ranges_[r].done.load(std::memory_order_seq_cst));
  return least;
}

// Whether there is something to do in a range, for the thread that holds it.
bool Ranges::may_go_on(Thread& t, uint32_t range) {
  const uint32_t step = ranges_[range].done.load(std::memory_order_seq_cst);
  return step < turns_.size() && (range >= turns_[step].shares || have_done(t, turns_[step].after));
}

bool Ranges::is_over(Thread& t) {
  return halted_.load(std::memory_order_seq_cst) || have_done(t, static_cast<uint32_t>(turns_.size()));
}

// By the thread that holds the range.
void Ranges::move_to(uint32_t range, uint32_t step) {
  const uint32_t before = ranges_[range].done.load(std::memory_order_relaxed);
  if (before == step) return;
  ranges_[range].done.store(step, std::memory_order_seq_cst);
  // An idle thread raised `idle_` before the last look at the ranges: one of the two sees the other.
  if (idle_.load(std::memory_order_seq_cst) != 0 && lets_others_go_on(before)) wake();
}

// After a range went on from `before`: only the last one that passes what others wait for changes what they may do.
bool Ranges::lets_others_go_on(uint32_t before) const {
  const uint32_t least = least_done();
  if (least <= before) return false;
  for (unsigned r = 0; r < count_; ++r) {
    const uint32_t step = ranges_[r].done.load(std::memory_order_seq_cst);
    if (step < turns_.size() && turns_[step].after > before && turns_[step].after <= least) return true;
  }
  return least == turns_.size();
}

void Ranges::wake() {
  bell_.ring();
  if (team_) team_->call_back();
}

void Ranges::release(Thread& t) {
  t.holds = false;
  ranges_[t.range].held.store(false, std::memory_order_seq_cst);
  // Its thread may have fallen asleep because the range was held.
  if (t.range != t.own && idle_.load(std::memory_order_seq_cst) != 0) wake();
}

bool Ranges::take(Thread& t, uint32_t range) {
  Range& r = ranges_[range];
  if (r.held.load(std::memory_order_relaxed) || !may_go_on(t, range)) return false;
  bool free = false;
  if (!r.held.compare_exchange_strong(free, true, std::memory_order_seq_cst)) return false;
  t.range = range;
  t.holds = true;
  t.step = skip(range, r.done.load(std::memory_order_relaxed));
  move_to(range, t.step);
  if (!halted_.load(std::memory_order_seq_cst) && may_go_on(t, range)) return true;
  release(t);
  return false;
}

bool Ranges::help(Thread& t) {
  for (unsigned k = 1; k < count_; ++k)
    if (take(t, (t.own + k) % count_)) return true;
  return false;
}

bool Ranges::next(Thread& t) {
  if (t.holds) {
    t.step = skip(t.range, t.step + 1);
    move_to(t.range, t.step);
    const bool helped = t.range != t.own;
    if (!helped && !halted_.load(std::memory_order_relaxed) && may_go_on(t, t.range)) return true;
    release(t);
    if (helped && !is_over(t) && (take(t, t.own) || help(t))) return true;
  }
  return !is_over(t) && (take(t, t.own) || wait_for_work(t));
}

bool Ranges::wait_for_work(Thread& t) {
  uint64_t deadline = 0;
  for (;;) {
    for (unsigned i = 0; i < kSpinsPerLook && crowd_->fits(); ++i) {
      if (take(t, t.own)) return true;
      if (halted_.load(std::memory_order_relaxed)) return false;
      pause_cpu();
    }
    if (is_over(t)) return false;
    if (take(t, t.own) || help(t)) return true;
    const uint64_t now = now_ns();
    if (deadline == 0) deadline = now + kSpinNs;
    if (now < deadline && crowd_->fits()) continue;
    deadline = 0;
    idle_.fetch_add(1, std::memory_order_seq_cst);
    const uint32_t count = bell_.count();
    const bool over = is_over(t), found = !over && (take(t, t.own) || help(t));
    if (!over && !found) {
      if (team_ && t.own != 0) {
        ranges_[t.own].is_away = true;
        return false;
      }
      bell_.sleep(count, kForever);
    }
    idle_.fetch_sub(1, std::memory_order_relaxed);
    if (over || found) return found;
  }
}

void Ranges::halt() {
  halted_.store(true, std::memory_order_seq_cst);
  if (idle_.load(std::memory_order_seq_cst) != 0) wake();
}

void Ranges::in_order(const std::function<size_t(size_t)>& choose, const std::function<bool(uint32_t, uint32_t)>& execute) {
  std::vector<uint32_t> ready;
  for (;;) {
    ready.clear();
    Thread t;
    for (uint32_t r = 0; r < count_; ++r) move_to(r, skip(r, ranges_[r].done.load(std::memory_order_relaxed)));
    for (uint32_t r = 0; r < count_; ++r)
      if (may_go_on(t, r)) ready.push_back(r);
    if (ready.empty()) return;
    const uint32_t r = ready[choose(ready.size())];
    const uint32_t step = ranges_[r].done.load(std::memory_order_relaxed);
    if (!execute(r, step)) return;
    move_to(r, step + 1);
  }
}

}  // namespace mlc::exec
