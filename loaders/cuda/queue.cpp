#include "loaders/cuda/queue.h"

#include <time.h>

#include <chrono>

#include "loaders/cuda/recorder.h"
#include "loaders/cuda/results.h"

namespace mlc::cuda {
namespace {

// Asked again and again for so long, then after pauses: the driver has no wait that ends at a time. A pause of 50 us takes 110 to 130,
// which most runs of a model would notice.
constexpr std::chrono::microseconds kPolled{2000};
constexpr long kPause = 50'000;  // nanoseconds
constexpr uint64_t kLongestRest = 10'000'000'000;  // nanoseconds, of a submission that was refused half way

}  // namespace

Result<std::unique_ptr<CudaQueue>> CudaQueue::make(Context& context) {
  const Current current(context);
  MLC_RETURN_IF_ERROR(current.status());
  std::unique_ptr<CudaQueue> out(new CudaQueue(context));
  MLC_RETURN_IF_ERROR(context.check(context.call().StreamCreate(&out->stream_, kStreamNonBlocking), "cuStreamCreate"));
  MLC_RETURN_IF_ERROR(context.check(context.call().EventCreate(&out->event_, kEventDisableTiming), "cuEventCreate"));
  return out;
}

CudaQueue::~CudaQueue() {
  const Current current(context_);
  if (!current.status().ok()) return;
  if (event_) (void)context_.check(context_.call().EventDestroy(event_), "cuEventDestroy");
  if (stream_) (void)context_.check(context_.call().StreamDestroy(stream_), "cuStreamDestroy");
}

Status CudaQueue::submit(device::Recording& recording) {
  const Current current(context_);
  MLC_RETURN_IF_ERROR(current.status());  // of a device that was lost in the last one, too
  if (is_cut_) {
    MLC_ASSIGN(const bool is_over, wait(kLongestRest));
    if (!is_over) return Status(Code::Resource, "what a refused submission had begun does not end");
  }
  if (is_busy_) return Status(Code::Internal, "two submissions at a time");
  Status begun = static_cast<CudaRecording&>(recording).submit(stream_);
  // Some of it may be under way when the rest is refused: the next submission waits for that.
  const Status marked = context_.check(context_.call().EventRecord(event_, stream_), "cuEventRecord");
  is_busy_ = marked.ok();
  is_cut_ = is_busy_ && !begun.ok();
  return begun.ok() ? marked : begun;
}

Result<bool> CudaQueue::wait(uint64_t timeout_ns) {
  const Current current(context_);
  MLC_RETURN_IF_ERROR(current.status());
  if (!is_busy_) return true;
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    const Code32 code = context_.call().EventQuery(event_);
    if (code == kSuccess) break;
    if (code != kNotReady) {
      is_busy_ = is_cut_ = false;  // the driver has said what became of it
      return context_.check(code, "cuEventQuery");
    }
    const auto passed = std::chrono::steady_clock::now() - begin;
    if (static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(passed).count()) >= timeout_ns) return false;
    if (passed > kPolled) {
      const timespec pause{0, kPause};
      ::nanosleep(&pause, nullptr);
    }
  }
  is_busy_ = is_cut_ = false;
  return true;
}

}  // namespace mlc::cuda
