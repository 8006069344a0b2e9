// Launches and copies as a command buffer that is made once.
#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "loaders/vulkan/context.h"
#include "loaders/vulkan/memory.h"
#include "loaders/vulkan/module.h"
#include "runtime/device.h"

namespace mlc::vulkan {

class VulkanRecording final : public device::Recording {
 public:
  explicit VulkanRecording(Context& context) : context_(context) {}
  ~VulkanRecording() override;

  device::Fault fault() const override;
  CommandBuffer commands() const { return commands_; }

 private:
  friend class VulkanRecorder;
  Context& context_;
  DescriptorPool descriptors_ = nullptr;
  CommandPool pool_ = nullptr;
  CommandBuffer commands_ = nullptr;
  std::unique_ptr<VulkanMemory> scalars_;  // of kernels with many; null: there are none
  std::unique_ptr<VulkanMemory> faults_;   // two u32; null: no kernel faults
};

class VulkanRecorder final : public device::Recorder {
 public:
  explicit VulkanRecorder(Context& context) : context_(context) {}

  Status launch(const device::Module& module, const device::Launch& launch) override;
  void copy(const device::Range& to, const device::Range& from) override;
  void clear(const device::Range& range) override;
  void barrier() override { commands_.push_back(Barrier{}); }
  Result<std::unique_ptr<device::Recording>> finish() override;

 private:
  struct Dispatch {
    Kernel kernel;
    uint32_t tiles = 0;
    size_t first_range = 0;          // of ranges_
    std::vector<std::byte> push;
    uint64_t scalars_offset = 0;     // in the memory of scalars, if the kernel has so many
    DescriptorSet set = nullptr;
  };
  struct Copy {
    device::Range to, from;
  };
  struct Clear {
    device::Range range;  // of whole words
  };
  struct Barrier {};

  Status check_range(const device::Range& range) const;
  Status make_memory(VulkanRecording& out);
  Status make_sets(VulkanRecording& out);
  void fill_sets(const VulkanRecording& out);
  Status make_commands(VulkanRecording& out);
  void record(const Dispatch& dispatch, CommandBuffer commands) const;
  void record_barrier(CommandBuffer commands) const;

  Context& context_;
  std::vector<std::variant<Dispatch, Copy, Clear, Barrier>> commands_;
  std::vector<device::Range> ranges_;
  std::vector<std::byte> scalars_;  // of kernels with many, each at a multiple of 256
};

}  // namespace mlc::vulkan
