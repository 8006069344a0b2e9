#include "runtime/threads/runners.h"

#include <cstring>
#include <new>

#include "base/system/futex.h"
#include "runtime/threads/affinity.h"

namespace mlc {
namespace {

thread_local bool is_runner = false;

void tell(std::atomic<uint32_t>& turn) {
  turn.fetch_add(1, std::memory_order_release);
  futex_wake(&turn);
}

}  // namespace

bool Runners::on_runner() { return is_runner; }

Runners::~Runners() {
  mu_.lock();
  stop_ = true;
  for (Runner* r = all_; r; r = r->next)
    if (r->state == State::Idle) {
      r->job = nullptr;
      tell(r->turn);
    }
  mu_.unlock();
  while (all_) {  // no other thread changes the list any more
    Runner* const r = all_;
    all_ = r->next;
    pthread_join(r->thread, nullptr);
    delete r;
  }
}

void Runners::reap() {
  for (Runner** at = &all_; *at;) {
    Runner* const r = *at;
    if (r->state != State::Ended) {
      at = &r->next;
      continue;
    }
    *at = r->next;
    pthread_join(r->thread, nullptr);  // it does nothing any more but give up the lock
    delete r;
  }
}

Status Runners::start(Job job, void* context) {
  mu_.lock();
  reap();
  for (Runner* r = all_; r; r = r->next)
    if (r->state == State::Idle) {
      r->state = State::Working;
      --idle_;
      mu_.unlock();
      r->job = job;
      r->context = context;
      tell(r->turn);
      return ok();
    }
  Runner* const r = new (std::nothrow) Runner{this, all_, State::Working, job, context};
  const int error = r ? pthread_create(&r->thread, nullptr, &thread_main, r) : ENOMEM;
  if (error == 0) all_ = r;
  mu_.unlock();
  if (error == 0) return ok();
  delete r;
  return Status(Code::Resource, "no thread for the run: {}", std::strerror(error));
}

unsigned Runners::threads() {
  unsigned count = 0;
  mu_.lock();
  reap();
  for (Runner* r = all_; r; r = r->next) ++count;
  mu_.unlock();
  return count;
}

void* Runners::thread_main(void* runner) {
  Runner& r = *static_cast<Runner*>(runner);
  is_runner = true;
  stay_on(r.owner->cpus_);
  r.owner->work(r);
  return nullptr;
}

void Runners::work(Runner& r) {
  for (uint32_t turn = 0; r.job; ++turn) {
    r.job(r.context);
    mu_.lock();
    const bool stays = !stop_ && idle_ < keep_;
    r.state = stays ? State::Idle : State::Ended;
    idle_ += stays;
    mu_.unlock();
    if (!stays) return;
    while (r.turn.load(std::memory_order_acquire) == turn) futex_wait(r.turn, turn);
  }
}

void Runners::forget() {
  new (&mu_) std::mutex;
  while (all_) {
    Runner* const r = all_;
    all_ = r->next;
    delete r;
  }
  idle_ = 0;
}

}  // namespace mlc
