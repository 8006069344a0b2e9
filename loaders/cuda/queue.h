// Submissions to a device, one at a time: a stream, and an event behind what was put into it last.
#pragma once

#include <memory>

#include "loaders/cuda/context.h"
#include "runtime/device.h"

namespace mlc::cuda {

class CudaQueue final : public device::Queue {
 public:
  // `context` outlives it.
  static Result<std::unique_ptr<CudaQueue>> make(Context& context);
  ~CudaQueue() override;

  Status submit(device::Recording& recording) override;
  Result<bool> wait(uint64_t timeout_ns) override;

 private:
  explicit CudaQueue(Context& context) : context_(context) {}

  Context& context_;
  Handle stream_ = nullptr, event_ = nullptr;
  bool is_busy_ = false;
  bool is_cut_ = false;   // busy with the beginning of a submission that was refused
};

}  // namespace mlc::cuda
