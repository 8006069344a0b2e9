#include "runtime/ensemble/ensemble.h"

#include <algorithm>
#include <numeric>

#include "base/system/clock.h"
#include "runtime/plan/memory_budget.h"

namespace mlc::ensemble {
namespace {

constexpr double kLearning = 0.125;  // of what a run took longer than expected: first runs of a shape do

double now() { return static_cast<double>(now_ns()); }

}  // namespace

Ensemble::Ensemble(std::vector<Part> parts)
    : parts_(std::move(parts)), runners_(static_cast<unsigned>(parts_.size()), {}), turns_(parts_.size()), lost_(parts_.size(), 0), held_(parts_.size(), 0), asked_(parts_.size()) {}

std::vector<double>& Ensemble::expected(uint32_t function) {
  if (function >= expected_.size()) expected_.resize(function + 1);
  expected_[function].resize(parts_.size());
  return expected_[function];
}

void Ensemble::expect(uint32_t function, uint32_t part, double ns) {
  const std::lock_guard lock(mu_);
  expected(function)[part] = ns;
}

uint64_t Ensemble::held() const {
  const std::lock_guard lock(mu_);
  return std::accumulate(held_.begin(), held_.end(), uint64_t{0});
}

// Of what is left a share, so that those that come at the same time have something, too.
void Ensemble::allot(uint32_t part, const MemoryTogether& memory) {
  uint64_t left = memory.limit - std::min(memory.limit, memory.held);
  for (const uint64_t held : held_) left -= std::min(left, held);
  exec::MemoryBudget& budget = parts_[part].executor->budget();
  budget.limit = held_[part] = budget.held + left / std::max<uint64_t>(memory.at_once, 1);
}

std::optional<Ensemble::Turn> Ensemble::wait(uint32_t function, const std::vector<uint8_t>& may, WorkMeter& meter, const MemoryTogether& memory) {
  Turns::Place place;
  {
    const std::lock_guard lock(mu_);
    for (size_t p = 0; p < parts_.size(); ++p) asked_[p] = may[p] ? expected(function)[p] : kImpossible;
    place = turns_.enter(asked_, now(), &meter.bell());
  }
  for (;;) {
    const uint32_t count = meter.bell().count();
    {
      const std::lock_guard lock(mu_);
      if (turns_.is_first(place)) {
        if (memory.limit != 0) allot(place.part, memory);
        return Turn(*this, function, place);
      }
    }
    if (!meter.poll()) {
      leave(place);
      return std::nullopt;
    }
    meter.sleep(count);
  }
}

void Ensemble::leave(const Turns::Place& place) {
  const void* sleeper = nullptr;
  {
    const std::lock_guard lock(mu_);
    if (turns_.is_first(place)) held_[place.part] = parts_[place.part].executor->budget().held;
    // Struck with the lock held: once it is given up, the thread that sleeps by the bell may be gone with it.
    if (Bell* const bell = turns_.leave(place, now())) sleeper = bell->strike();
  }
  if (sleeper) futex_wake(sleeper);
}

bool Ensemble::lose(uint32_t part) {
  const std::lock_guard lock(mu_);
  return !std::exchange(lost_[part], uint8_t{1});
}

bool Ensemble::is_lost(uint32_t part) const {
  const std::lock_guard lock(mu_);
  return lost_[part] != 0;
}

Ensemble::Turn::Turn(Ensemble& of, uint32_t function, Turns::Place place) : of_(&of), function_(function), place_(place), began_(now_ns()) {}

Ensemble::Turn::~Turn() {
  if (of_) of_->leave(place_);
}

void Ensemble::Turn::succeeded() {
  const auto ns = static_cast<double>(now_ns() - began_);
  const std::lock_guard lock(of_->mu_);
  double& known = of_->expected(function_)[place_.part];
  if (known == 0 || ns < known) known = ns;
  else known += (ns - known) * kLearning;
}

}  // namespace mlc::ensemble
