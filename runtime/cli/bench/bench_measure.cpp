#include "runtime/cli/bench/bench_measure.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <latch>
#include <mutex>
#include <numeric>
#include <thread>

namespace mlc::cli {
namespace {

constexpr size_t kMostSamples = size_t{1} << 20;  // of a session

// What the threads of a measurement share.
struct Shared {
  explicit Shared(size_t sessions) : warm(static_cast<std::ptrdiff_t>(sessions)) {}

  std::latch warm;
  std::atomic<bool> failed{false};
  std::mutex mu;
  Status failure;  // guarded by mu

  void fail(Status status) {
    const std::lock_guard lock(mu);
    if (failure.ok()) failure = std::move(status);
    failed = true;
  }
};

struct Timed {
  std::vector<uint64_t> samples;
  uint64_t first_run_ns = 0, start = 0, end = 0;
};

Status warm_up(const Run& run, uint64_t warmup_ns, Timed& out) {
  const uint64_t begin = now_ns();
  MLC_RETURN_IF_ERROR(run());
  out.first_run_ns = now_ns() - begin;
  while (now_ns() - begin < warmup_ns) MLC_RETURN_IF_ERROR(run());
  return ok();
}

Status measure_runs(const Run& run, uint64_t duration_ns, Timed& out, const std::atomic<bool>& failed) {
  out.start = out.end = now_ns();
  do {
    MLC_RETURN_IF_ERROR(run());
    const uint64_t after = now_ns();
    out.samples.push_back(after - out.end);
    out.end = after;
  } while (out.end - out.start < duration_ns && out.samples.size() < kMostSamples && !failed);
  return ok();
}

void run_session(const Run& run, uint64_t warmup_ns, uint64_t duration_ns, Timed& out, Shared& shared) {
  if (Status status = warm_up(run, warmup_ns, out); !status.ok()) shared.fail(std::move(status));
  out.samples.reserve(kMostSamples);
  shared.warm.arrive_and_wait();
  if (shared.failed) return;
  if (Status status = measure_runs(run, duration_ns, out, shared.failed); !status.ok()) shared.fail(std::move(status));
}

}  // namespace

Status SessionRuns::once() {
  std::fill(outputs_.begin(), outputs_.end(), MlcTensor{});
  MlcError* error = nullptr;
  return status_of(api().run(session_.session.get(), &how_, options_.inputs.data(), static_cast<uint32_t>(options_.inputs.size()),
                             outputs_.data(), static_cast<uint32_t>(outputs_.size()), &error),
                   error);
}

double Measured::mean_ns() const {
  return static_cast<double>(std::accumulate(samples.begin(), samples.end(), uint64_t{0})) /
         static_cast<double>(samples.size());
}

uint64_t Measured::percentile(double q) const {
  const auto rank = static_cast<size_t>(std::ceil(q * static_cast<double>(samples.size())));
  return samples[std::clamp<size_t>(rank, 1, samples.size()) - 1];
}

Result<Measured> measure(const std::vector<Run>& runs, uint64_t warmup_ns, uint64_t duration_ns) {
  Shared shared(runs.size());
  std::vector<Timed> timed(runs.size());
  {
    std::vector<std::thread> threads;
    for (size_t i = 1; i < runs.size(); ++i) threads.emplace_back([&, i] { run_session(runs[i], warmup_ns, duration_ns, timed[i], shared); });
    run_session(runs[0], warmup_ns, duration_ns, timed[0], shared);
    for (std::thread& thread : threads) thread.join();
  }
  if (!shared.failure.ok()) return std::move(shared.failure);
  Measured out;
  uint64_t start = UINT64_MAX, end = 0;
  for (const Timed& t : timed) {
    out.samples.insert(out.samples.end(), t.samples.begin(), t.samples.end());
    out.first_run_ns = std::max(out.first_run_ns, t.first_run_ns);
    start = std::min(start, t.start), end = std::max(end, t.end);
  }
  std::sort(out.samples.begin(), out.samples.end());
  out.seconds = static_cast<double>(end - start) / 1e9;
  return out;
}

}  // namespace mlc::cli
