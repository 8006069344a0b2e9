// Launches and copies, kept as a list that a queue plays into a stream. A stream keeps their order, so barriers are nothing here.
#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "loaders/cuda/context.h"
#include "loaders/cuda/memory.h"
#include "loaders/cuda/module.h"
#include "runtime/device.h"

namespace mlc::cuda {

class CudaRecording final : public device::Recording {
 public:
  explicit CudaRecording(Context& context) : context_(context) {}

  device::Fault fault() const override;
  // Everything in order; the context is current.
  Status play(Handle stream) const;

 private:
  friend class CudaRecorder;
  struct Dispatch {
    Kernel kernel;
    uint32_t tiles = 0;
    size_t first = 0;           // of `arguments_`: 8 bytes each, in the order of the parameters
    size_t num_arguments = 0;
  };
  struct Copy {
    DevicePtr to = 0, from = 0;
    uint64_t bytes = 0;
  };
  struct Fill {
    DevicePtr to = 0;
    uint64_t bytes = 0;
    uint8_t byte = 0;
  };
  Status launch(const Dispatch& dispatch, Handle stream) const;

  Context& context_;
  std::vector<std::variant<Dispatch, Copy, Fill>> commands_;
  std::vector<uint64_t> arguments_;
  std::unique_ptr<CudaMemory> faults_, faults_seen_;  // two u32 of the device, and for the host; null: no kernel faults
};

class CudaRecorder final : public device::Recorder {
 public:
  explicit CudaRecorder(Context& context) : context_(context), out_(std::make_unique<CudaRecording>(context)) {}

  Status launch(const device::Module& module, const device::Launch& launch) override;
  void copy(const device::Range& to, const device::Range& from) override;
  void fill(const device::Range& to, uint8_t byte) override;
  void barrier() override {}
  Result<std::unique_ptr<device::Recording>> finish() override;

 private:
  Status check_range(const device::Range& range) const;

  Context& context_;
  std::unique_ptr<CudaRecording> out_;
};

}  // namespace mlc::cuda
