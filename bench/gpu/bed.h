// One device with the module of kernels.h on it, and how long recordings take there.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device.h"

namespace mlc::bench {

class Bed {
 public:
  // The first device of an interface, "cuda" or "vulkan"; one that is no software if there is any. `modules`: a folder with
  // TARGET.mlcg as bench_device_modules writes it.
  static Result<std::unique_ptr<Bed>> open(const std::string& api, const std::string& modules);

  device::Device& device() const { return *device_; }
  const device::Info& info() const { return device_->info(); }
  const std::string& target() const { return target_; }
  // The module that ours was loaded from, or another of the same target.
  const std::vector<std::byte>& module_bytes() const { return bytes_; }
  Result<std::unique_ptr<device::Module>> load(std::span<const std::byte> bytes) const;

  Result<device::Range> allocate(uint64_t bytes, device::MemoryKind kind);
  // Numbers between -1 and 1 that no compression finds short; on the device by an upload.
  Status fill_randomly(const device::Range& local);

  using Record = std::function<Status(device::Recorder&)>;
  Status launch(device::Recorder& recorder, uint32_t kernel, uint32_t tiles, std::vector<device::Range> buffers) const;
  Result<std::unique_ptr<device::Recording>> record(const Record& what) const;
  // Nanoseconds of one submission, until it is waited for.
  Result<double> run(device::Recording& recording) const;
  // The median of several submissions of a recording that was submitted before: `seconds` of them, at least three.
  Result<double> median_ns(const Record& what, double seconds) const;

 private:
  explicit Bed(device::Device& device) : device_(&device) {}

  device::Device* device_;
  std::string target_;
  std::vector<std::byte> bytes_;
  std::unique_ptr<device::Module> module_;
  std::unique_ptr<device::Queue> queue_;
  std::vector<std::unique_ptr<device::Memory>> memory_;
};

}  // namespace mlc::bench
