#include "runtime/threads/worker_pool.h"

#include <cassert>
#include <cstring>
#include <new>
#include <string>

#include "base/compose.h"
#include "base/system/clock.h"
#include "runtime/threads/affinity.h"
#include "runtime/threads/forks.h"
#include "runtime/threads/team.h"

namespace mlc {
namespace {

constexpr unsigned kMostWorkers = 4096;
// A run that waits is passed over for so long, by runs that are shorter, and not when no shorter run has come back for the second.
constexpr uint64_t kPatienceNs = 1'000'000;
constexpr uint64_t kGraceNs = 5'000;

std::mutex list_mu;
WorkerPool* first_pool = nullptr;  // guarded by list_mu

std::mutex common_mu;  // taken before list_mu
WorkerPool* common_pool = nullptr;  // this and the next guarded by common_mu
unsigned common_users = 0;

}  // namespace

Result<std::unique_ptr<WorkerPool>> WorkerPool::create(const PoolOptions& options) {
  if (options.workers < 1 || options.workers > kMostWorkers)
    return Status(Code::Usage, "number of threads: found {}, expected 1 to {}", options.workers, kMostWorkers);
  static const int watched = watch_forks(&before_fork, &after_fork, &after_fork_in_child);
  if (watched != 0) return Status(Code::Resource, "forks cannot be watched: {}", std::strerror(watched));
  std::unique_ptr<WorkerPool> pool(new WorkerPool(options));
  list_mu.lock();
  pool->next_pool_ = first_pool;
  first_pool = pool.get();
  list_mu.unlock();
  return pool;
}

Result<WorkerPool::Common> WorkerPool::join_common(const PoolOptions& options) {
  const std::lock_guard lock(common_mu);
  if (!common_pool) {
    MLC_ASSIGN(std::unique_ptr<WorkerPool> pool, create(options));
    common_pool = pool.release();
  }
  ++common_users;
  return Common(common_pool);
}

void WorkerPool::Leave::operator()(WorkerPool*) const {
  const std::lock_guard lock(common_mu);
  if (--common_users > 0) return;
  delete common_pool;
  common_pool = nullptr;
}

WorkerPool::WorkerPool(const PoolOptions& options)
    : cpus_(options.cpus), near_cpus_(options.near_cpus), seats_(options.seats.size() < options.workers ? std::vector<int>() : options.seats),
      near_workers_(options.near_workers), pin_(options.pin), crowd_(static_cast<int32_t>(options.workers)), slots_(options.workers),
      free_(options.workers), runners_(options.workers, cpus_) {
  for (Slot& slot : slots_) slot.pool = this;
}

WorkerPool::~WorkerPool() {
  assert(free_ == workers() && "a run goes on");
  list_mu.lock();
  WorkerPool** at = &first_pool;
  while (*at != this) at = &(*at)->next_pool_;
  *at = next_pool_;
  list_mu.unlock();
  for (Slot& slot : slots_) {
    if (!slot.has_thread) continue;
    slot.team = nullptr;
    slot.gate.store(kOpen, std::memory_order_seq_cst);
    slot.turn.fetch_add(1, std::memory_order_seq_cst);
    wake_all(slot.turn, slot.sleepers);
    pthread_join(slot.thread, nullptr);
  }
}

unsigned WorkerPool::waiting() {
  unsigned count = 0;
  mu_.lock();
  for (const Waiter* w = waiters_; w; w = w->next) ++count;
  mu_.unlock();
  return count;
}

bool WorkerPool::seat(Team& team) {
  if (free_ < team.workers_) return false;
  free_ -= team.workers_;
  // From now on a thread must not spin on a CPU that one of them is going to need.
  crowd_.working.fetch_add(static_cast<int32_t>(team.workers_), std::memory_order_relaxed);
  unsigned count = 0;
  for (Slot* slot = slots_.data(); count < team.workers_; ++slot) {
    if (slot->taken) continue;
    slot->taken = true;
    team.slots_[count++] = slot;
  }
  team.is_here_ = true;
  return true;
}

bool WorkerPool::borrow(Team& team, WorkMeter& meter) {
  crowd_.working.fetch_sub(1, std::memory_order_relaxed);  // the caller is one of those that are seated
  mu_.lock();
  if (passed_over_ && !(favoured_ == &team && may_come_back(team))) serve_waiters();
  bool served = (!waiters_ || passed_over_) && seat(team);
  if (served) {
    serve_waiters();  // there may be enough slots for them as well
  } else {
    Waiter waiter{team, meter.bell(), now_ns()};
    Waiter** last = &waiters_;
    while (*last) last = &(*last)->next;
    *last = &waiter;
    for (;;) {
      const uint32_t count = waiter.bell.count();
      served = waiter.served;
      if (served || !meter.poll()) break;
      mu_.unlock();
      meter.sleep(count);
      mu_.lock();
    }
    if (!served) {
      Waiter** at = &waiters_;
      while (*at != &waiter) at = &(*at)->next;
      *at = waiter.next;
      crowd_.working.fetch_add(1, std::memory_order_relaxed);
      serve_waiters();  // it may have been the one that those behind it waited for
    }
  }
  mu_.unlock();
  return served;
}

void WorkerPool::give_back(Team& team) {
  crowd_.working.fetch_sub(static_cast<int32_t>(team.workers_ - 1), std::memory_order_relaxed);
  mu_.lock();
  for (unsigned w = 0; w < team.workers_; ++w) team.slots_[w]->taken = false;
  free_ += team.workers_;
  const Slot& awake = *team.slots_[1];
  team.is_here_ = false;
  // What was borrowed for a run of some microseconds costs several times as much to hand over.
  if (waiters_ && free_ >= waiters_->team.workers_ && may_come_back(team)) {
    favoured_ = &team;
    passed_over_.store(true, std::memory_order_seq_cst);
    if (awake.sleepers.load(std::memory_order_seq_cst) != 0) serve_waiters();
  } else {
    serve_waiters();
  }
  mu_.unlock();
}

bool WorkerPool::may_come_back(const Team& team) const {
  const uint64_t now = now_ns();
  return now - waiters_->since_ns < kPatienceNs && now - team.run_since_ns_ < kPatienceNs;
}

void WorkerPool::serve_waiters() {
  passed_over_.store(false, std::memory_order_relaxed);
  while (waiters_ && seat(waiters_->team)) {
    Waiter& waiter = *waiters_;
    waiters_ = waiter.next;
    waiter.served = true;
    const void* bell = waiter.bell.strike();
    mu_.unlock();  // or it would wake up only to wait for the lock
    futex_wake(bell);
    mu_.lock();
  }
}

Status WorkerPool::start_thread(Slot& slot) {
  if (slot.has_thread) return ok();
  slot.first_turn = slot.turn.load(std::memory_order_relaxed);
  if (const int error = pthread_create(&slot.thread, nullptr, &thread_main, &slot); error != 0)
    return Status(Code::Resource, "thread {} of {} could not be started: {}", &slot - slots_.data(), workers(),
                  std::strerror(error));
  slot.has_thread = true;
  ++threads_;
  return ok();
}

void* WorkerPool::thread_main(void* slot) {
  Slot& s = *static_cast<Slot*>(slot);
  s.pool->work(s);
  return nullptr;
}

bool WorkerPool::may_stay(Seat& seat) {
  const uint64_t now = now_ns();
  bool stays = seat.stays(now);
  if (seat.is_time_to_look(now)) {
    stays = seat.look(now, times_pushed_off());
    if (seat.pushed_off_ns() == now) pushed_off_ns_.store(now, std::memory_order_relaxed);
  }
  return stays || pin_ || cpus_.empty();  // pinning was asked for; there is nowhere else
}

void WorkerPool::wait_for_turn(Slot& slot, uint32_t turn) {
  while (!wait_for_change(slot.turn, turn, slot.sleepers, crowd_, &passed_over_)) {
    if (spin_for_change(slot.turn, turn, kGraceNs, crowd_)) return;
    mu_.lock();
    if (passed_over_) serve_waiters();
    mu_.unlock();
  }
}

void WorkerPool::work(Slot& slot) {
  stay_on(cpus_of(slot));
  bool pinned = false;
  Seat seat;
  for (uint32_t turn = slot.first_turn;;) {
    wait_for_turn(slot, turn);
    turn = slot.turn.load(std::memory_order_seq_cst);  // what is left here from now on moves it again
    uint32_t open = kOpen;
    if (!slot.gate.compare_exchange_strong(open, kInside, std::memory_order_seq_cst)) continue;  // it was done without us
    if (!slot.team) return;
    Team& team = *slot.team;
    if (const bool pins = may_stay(seat) && team.is_pinned_; pinned != pins) {
      pinned = pins;
      stay_on(pinned ? std::span(&seat_of(slot), 1) : std::span(cpus_of(slot)));
    }
    // When the last one has arrived, or has left an offer, the caller goes on and the team may be gone: what is touched then is
    // the pool's.
    Slot& home = *team.slots_[0];
    const uint32_t others = team.workers_ - 1;
    const bool is_offer = slot.is_offer;
    team.job_(team.context_, slot.worker);
    if (is_offer) {
      slot.gate.store(kOpen, std::memory_order_seq_cst);
      wake_all(slot.gate, slot.gate_sleepers);
      continue;
    }
    slot.gate.store(kShut, std::memory_order_relaxed);
    if (home.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 < others) continue;
    home.jobs_done.store(home.jobs_done.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
    wake_all(home.jobs_done, home.caller_sleeps);
  }
}

void WorkerPool::before_fork() {
  common_mu.lock();
  list_mu.lock();
}

void WorkerPool::after_fork() {
  list_mu.unlock();
  common_mu.unlock();
}

void WorkerPool::after_fork_in_child() {
  for (WorkerPool* pool = first_pool; pool; pool = pool->next_pool_) pool->forget_threads();
  after_fork();
}

// Other threads may have been anywhere at the fork, and whatever they held is held for ever.
void WorkerPool::forget_threads() {
  new (&mu_) std::mutex;
  waiters_ = nullptr;
  passed_over_ = false;
  free_ = workers();
  threads_ = 0;
  crowd_.working = 0;
  runners_.forget();
  for (Slot& slot : slots_) {
    slot.taken = slot.has_thread = false;
    slot.sleepers = slot.caller_sleeps = slot.gate_sleepers = 0;
    slot.gate = kShut;
  }
}

}  // namespace mlc
