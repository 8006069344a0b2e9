// An open device: what all of its objects share.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/status.h"
#include "loaders/vulkan/physical.h"
#include "runtime/device_api.h"

namespace mlc::vulkan {

struct Layout {
  DescriptorSetLayout set = nullptr;  // null: no buffers
  PipelineLayout pipeline = nullptr;
};

class Context {
 public:
  static Result<std::unique_ptr<Context>> open(const Library& library, Physical physical);
  ~Context();
  Context(const Context&) = delete;

  const Physical& physical() const { return physical_; }
  DeviceHandle handle() const { return handle_; }
  const DeviceFunctions& call() const { return call_; }
  // Where the driver keeps what it compiled, for all modules of the process; drivers lock it. Null where it gives none.
  PipelineCache pipelines() const { return pipelines_; }

  // What a call answered. Remembers that the device is lost.
  Status check(Code32 code, const char* call);
  Status alive() const { return life_.alive(); }
  void give_up(std::string why) { life_.give_up(std::move(why)); }
  std::vector<std::string> remarks() const { return life_.remarks(); }
  // Its objects may be in use by what never ends: they are left as they are.
  bool is_lost() const { return life_.is_lost(); }

  // For kernels with so many buffers, all of them. Kept.
  Result<Layout> layout(uint32_t num_bindings);

  Status submit(CommandBuffer commands, Fence fence);

  // Of memory: one more of that many bytes may be asked for. `local`: they count against the device's own.
  Status reserve(uint64_t bytes, bool local);
  void release(uint64_t bytes, bool local);

 private:
  explicit Context(Physical physical) : physical_(std::move(physical)) {}

  const Physical physical_;
  DeviceHandle handle_ = nullptr;
  DeviceFunctions call_;
  PipelineCache pipelines_ = nullptr;
  QueueHandle queue_ = nullptr;      // used under queue_mu_
  std::mutex queue_mu_;
  device::Life life_{physical_.info};
  std::mutex mu_;
  std::map<uint32_t, Layout> layouts_;  // guarded by mu_
  uint32_t allocations_ = 0;            // guarded by mu_
};

}  // namespace mlc::vulkan
