#include "runtime/threads/team.h"

#include <algorithm>
#include <cassert>

#include "base/on_exit.h"
#include "runtime/threads/affinity.h"

namespace mlc {

Team::Team(const TeamOptions& options)
    : pool_(options.pool), workers_(options.workers == 0 ? pool_.workers() : std::min(options.workers, pool_.workers())),
      is_pinned_(!pool_.seats_.empty() && (pool_.pin_ || (options.pin_caller && workers_ == pool_.workers()))),
      pins_caller_(is_pinned_ && options.pin_caller), slots_(new WorkerPool::Slot*[workers_]) {}

const Crowd& Team::crowd() const { return pool_.crowd_; }

uint64_t Team::pushed_off_ns() const { return pool_.pushed_off_ns_.load(std::memory_order_relaxed); }

Team::~Team() { assert(!is_here_ && "a run goes on"); }

void Team::start_run() {
  pool_.crowd_.working.fetch_add(1, std::memory_order_relaxed);
  if (pool_.workers() == 1 && pins_caller_ && !Runners::on_runner()) pin_caller(pool_.seats_.front(), may_caller_stay());
}

void Team::end_run() {
  dismiss();
  pool_.crowd_.working.fetch_sub(1, std::memory_order_relaxed);
}

Status Team::gather(WorkMeter& meter) {
  if (workers_ == 1 || is_here_) return ok();
  run_since_ns_ = meter.started_ns();
  if (!pool_.borrow(*this, meter)) return Status(Code::Cancelled, "the run ended while it waited for threads");
  bool complete = false;
  const OnExit leave([&] {
    if (!complete) dismiss();
  });
  for (unsigned w = 1; w < workers_; ++w) MLC_RETURN_IF_ERROR(pool_.start_thread(*slots_[w]));
  complete = true;
  const bool stays = may_caller_stay();
  if (pins_caller_ && !Runners::on_runner()) pin_caller(pool_.seat_of(*slots_[0]), stays);
  return ok();
}

bool Team::may_caller_stay() {
  if (!pthread_equal(caller_, pthread_self())) {
    caller_ = pthread_self();
    caller_cpu_ = -1;
    caller_seat_ = {};
  }
  return pool_.may_stay(caller_seat_);
}

void Team::pin_caller(const int& seat, bool stays) {
  if (stays ? seat == caller_cpu_ : caller_cpu_ < 0) return;
  stay_on(stays ? std::span(&seat, 1) : std::span(pool_.cpus_));
  caller_cpu_ = stays ? seat : -1;
}

void Team::dismiss() {
  if (is_here_) pool_.give_back(*this);
}

void Team::leave_job(Job job, void* context, bool is_offer) {
  assert(is_here_ && "nobody is here");
  job_ = job;
  context_ = context;
  for (unsigned w = 1; w < workers_; ++w) {
    WorkerPool::Slot& slot = *slots_[w];
    slot.team = this;
    slot.worker = w;
    slot.is_offer = is_offer;
    slot.gate.store(WorkerPool::kOpen, std::memory_order_seq_cst);
    slot.turn.fetch_add(1, std::memory_order_seq_cst);
    wake_all(slot.turn, slot.sleepers);
  }
}

// A worker that is about to leave took its turn before: it comes again.
void Team::call_back() {
  for (unsigned w = 1; w < workers_; ++w) {
    WorkerPool::Slot& slot = *slots_[w];
    slot.turn.fetch_add(1, std::memory_order_seq_cst);
    wake_all(slot.turn, slot.sleepers);
  }
}

void Team::offer(Job job, void* context) {
  if (workers_ == 1) return job(context, 0);
  leave_job(job, context, true);
  job(context, 0);
  for (unsigned w = 1; w < workers_; ++w) {
    WorkerPool::Slot& slot = *slots_[w];
    for (;;) {
      uint32_t gate = WorkerPool::kOpen;
      if (slot.gate.compare_exchange_strong(gate, WorkerPool::kShut, std::memory_order_seq_cst)) break;
      wait_for_change(slot.gate, gate, slot.gate_sleepers, pool_.crowd_);
    }
  }
}

void Team::run(Job job, void* context) {
  if (workers_ == 1) return job(context, 0);
  WorkerPool::Slot& home = *slots_[0];
  const uint32_t done = home.jobs_done.load(std::memory_order_relaxed);
  home.arrived.store(0, std::memory_order_relaxed);
  leave_job(job, context, false);
  job(context, 0);
  wait_for_change(home.jobs_done, done, home.caller_sleeps, pool_.crowd_);
}

}  // namespace mlc
