// Launches and copies, kept as a list that is played into a stream, and from the second submission on as a graph that was made of
// the same calls. A stream keeps their order, so barriers are nothing here.
#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "loaders/cuda/context.h"
#include "loaders/cuda/graph.h"
#include "loaders/cuda/memory.h"
#include "loaders/cuda/module.h"
#include "runtime/device.h"

namespace mlc::cuda {

class CudaRecording final : public device::Recording {
 public:
  explicit CudaRecording(Context& context) : context_(context), graph_(context) {}

  device::Fault fault() const override;
  // Everything in order, behind what the stream has to do; the context is current.
  Status submit(Handle stream);

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
  struct Clear {
    DevicePtr to = 0;
    uint64_t bytes = 0;
  };
  Status play(Handle stream) const;
  Status launch(const Dispatch& dispatch, Handle stream) const;

  Context& context_;
  std::vector<std::variant<Dispatch, Copy, Clear>> commands_;
  std::vector<uint64_t> arguments_;
  Graph graph_;
  bool was_played_ = false, stays_plain_ = false;
  std::unique_ptr<CudaMemory> faults_, faults_seen_;  // two u32 of the device, and for the host; null: no kernel faults
};

class CudaRecorder final : public device::Recorder {
 public:
  explicit CudaRecorder(Context& context) : context_(context), out_(std::make_unique<CudaRecording>(context)) {}

  Status launch(const device::Module& module, const device::Launch& launch) override;
  void copy(const device::Range& to, const device::Range& from) override;
  void clear(const device::Range& range) override;
  void barrier() override {}
  Result<std::unique_ptr<device::Recording>> finish() override;

 private:
  Status check_range(const device::Range& range) const;

  Context& context_;
  std::unique_ptr<CudaRecording> out_;
};

}  // namespace mlc::cuda
