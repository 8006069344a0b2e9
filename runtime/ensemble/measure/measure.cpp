#include "runtime/ensemble/measure/measure.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/system/clock.h"
#include "runtime/plan/device/device_constants.h"

namespace mlc::ensemble {
namespace {

constexpr double kLeastShare = 0.05;  // of a measured time that is left when start and copies are taken off
constexpr uint64_t kSmallCopy = 64 << 10, kLargeCopy = 16 << 20;
constexpr uint64_t kCopyDeadlineNs = 10'000'000'000;

// The best that was seen of a part.
struct Rates {
  double operations = 0, bytes = 0;  // per nanosecond

  void saw(const SegmentWork& w, double ns) {
    operations = std::max(operations, w.operations / ns);
    bytes = std::max(bytes, w.bytes / ns);
  }
  double ns(const SegmentWork& w) const {
    const double by_operations = operations > 0 ? w.operations / operations : 0;
    const double by_bytes = bytes > 0 ? w.bytes / bytes : 0;
    return std::max(by_operations, by_bytes);
  }
};

class Measuring {
 public:
  Measuring(const ProgramWork& work, const TimeSegment& time, Problem& problem) : work_(work), time_(time), problem_(problem) {}

  void run(uint32_t part, double budget_ns) {
    std::vector<uint32_t> order(problem_.segments.size());
    std::iota(order.begin(), order.end(), 0u);
    const auto size = [&](uint32_t s) { return work_.segments[s].operations + work_.segments[s].bytes; };
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return size(a) < size(b); });
    Rates rates;
    double spent = 0;
    for (size_t k = 0; k < order.size(); ++k) {
      double& out = problem_.segments[order[k]].ns[part];
      const SegmentWork& work = work_.segments[order[k]];
      const double around = start_and_copies(part, order[k]);
      // The first one is measured whatever it takes; of the others it is known roughly.
      if (k > 0 && spent + 2 * (rates.ns(work) + around) > budget_ns) {
        out = rates.ns(work);
        continue;
      }
      const auto warm = time_(part, order[k]);
      const auto counted = warm.ok() ? time_(part, order[k]) : warm;
      if (!counted.ok()) {
        out = kImpossible;
        continue;
      }
      spent += *warm + *counted;
      out = std::max(*counted - around, *counted * kLeastShare);
      rates.saw(work, std::max(out, 1.0));
    }
  }

 private:
  // Of this segment, were it a stage.
  double start_and_copies(uint32_t part, uint32_t segment) const {
    const PartCost& cost = problem_.parts[part];
    if (cost.is_processor) return 0;
    double ns = cost.start_ns;
    for (const PassedValue& v : problem_.values)
      if (v.producer == segment || std::find(v.readers.begin(), v.readers.end(), segment) != v.readers.end())
        ns += cost.copy_ns + static_cast<double>(v.bytes) * cost.ns_per_byte;
    return ns;
  }

  const ProgramWork& work_;
  const TimeSegment& time_;
  Problem& problem_;
};

// One copy from the host's memory to the device, as a run makes them; the best of a few.
Result<double> time_copy(device::Device& device, device::Queue& queue, uint64_t bytes) {
  const std::vector<std::byte> from(bytes, std::byte{1});
  MLC_ASSIGN(const auto staging, device.allocate(bytes, device::MemoryKind::Staging));
  MLC_ASSIGN(const auto local, device.allocate(bytes, device::MemoryKind::Local));
  MLC_ASSIGN(const auto recorder, device.make_recorder());
  recorder->copy({local.get(), 0, bytes}, {staging.get(), 0, bytes});
  MLC_ASSIGN(const auto recording, recorder->finish());
  double best = kImpossible;
  for (int k = 0; k < 3; ++k) {
    const uint64_t begin = now_ns();
    std::memcpy(staging->data(), from.data(), bytes);
    MLC_RETURN_IF_ERROR(queue.submit(*recording));
    MLC_RETURN_IF_ERROR(exec::wait_for(device, queue, kCopyDeadlineNs));
    best = std::min(best, static_cast<double>(now_ns() - begin));
  }
  return best;
}

}  // namespace

void measure(const ProgramWork& work, const TimeSegment& time, double budget_ns, Problem& problem) {
  for (uint32_t part = 0; part < problem.parts.size(); ++part)
    Measuring(work, time, problem).run(part, budget_ns / static_cast<double>(problem.parts.size()));
}

Status measure_link(device::Device& device, PartCost& cost) {
  MLC_ASSIGN(const auto queue, device.make_queue());
  const uint64_t large = std::max(std::min(kLargeCopy, device.limits().allocation_bytes / 4), 2 * kSmallCopy);
  MLC_ASSIGN(const double few, time_copy(device, *queue, kSmallCopy));
  MLC_ASSIGN(const double many, time_copy(device, *queue, large));
  cost.ns_per_byte = std::max(0.0, many - few) / static_cast<double>(large - kSmallCopy);
  // Copies of a stage are in the recording of its kernels: what a submission takes counts once.
  cost.start_ns = std::max(0.0, few - cost.ns_per_byte * static_cast<double>(kSmallCopy));
  return ok();
}

uint64_t capacity_of(const device::Device& device) {
  const uint64_t bytes = device.info().memory_bytes;
  return bytes - std::min(bytes, std::max<uint64_t>(uint64_t{256} << 20, bytes / 16));
}

}  // namespace mlc::ensemble
