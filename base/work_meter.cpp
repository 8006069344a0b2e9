#include "base/work_meter.h"

#include <algorithm>

#include "base/system/clock.h"

namespace mlc {
void WorkMeter::start(const WorkLimits& limits, CancelFlag* cancelled) {
  limits_ = limits;
  cancelled_ = cancelled;
  started_ns_ = now_ns();
  left_.store(limits.units, std::memory_order_relaxed);
  why_.store(Stop::None, std::memory_order_relaxed);
}

void WorkMeter::sleep(uint32_t count) {
  if (limits_.time_ns == WorkLimits::kNone) return bell().sleep(count, kForever);
  const uint64_t used = ns_used();
  if (used < limits_.time_ns) bell().sleep(count, limits_.time_ns - used);
}

bool WorkMeter::in_time() {
  if (now_ns() - started_ns_ < limits_.time_ns) return true;
  stop(Stop::Time);
  return false;
}

uint64_t WorkMeter::draw_limited(uint64_t least, uint64_t most) {
  uint64_t left = left_.load(std::memory_order_relaxed);
  while (left >= least) {
    const uint64_t drawn = std::min(left, most);
    if (left_.compare_exchange_weak(left, left - drawn, std::memory_order_relaxed)) return drawn;
  }
  stop(Stop::Work);
  return 0;
}

uint64_t WorkMeter::units_used() const {
  return limits_.units == WorkLimits::kNone ? 0 : limits_.units - left_.load(std::memory_order_relaxed);
}

uint64_t WorkMeter::ns_used() const { return now_ns() - started_ns_; }

bool WorkAccount::refill(uint64_t units) {
  const uint64_t missing = units - left_;
  const uint64_t most = missing > UINT64_MAX - WorkMeter::kBatch ? missing : missing + WorkMeter::kBatch;
  const uint64_t drawn = meter_.draw(missing, most);
  left_ = drawn == 0 ? 0 : drawn - missing;  // nothing: once the run must end, every later call says so
  return drawn != 0;
}

}  // namespace mlc
