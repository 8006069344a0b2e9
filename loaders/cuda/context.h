// An open device: what all of its objects share. The context is the one that CUDA keeps for each device and process; it does not
// survive a wrong access, and then every call of ours answers that without asking the driver.
#pragma once

#include <memory>
#include <string>
#include <vector>
#include <string>

#include "base/status.h"
#include "loaders/cuda/physical.h"
#include "runtime/device_api.h"

namespace mlc::cuda {

class Context {
 public:
  // `library` outlives it.
  static Result<std::unique_ptr<Context>> open(const Library& library, Physical physical);
  ~Context();
  Context(const Context&) = delete;

  const Physical& physical() const { return physical_; }
  const Library& call() const { return call_; }

  // What a call answered. Remembers that the device is lost.
  Status check(Code32 code, const char* call);
  Status alive() const { return life_.alive(); }
  void give_up(std::string why) { life_.give_up(std::move(why)); }
  // What was put into the stream that all of the process share by default is done.
  Status settle();
  // device::Device::remarks.
  void remark(std::string line) { life_.remark(std::move(line)); }
  std::vector<std::string> remarks() const { return life_.remarks(); }
  // Of memory of its own.
  Status reserve(uint64_t bytes) { return life_.reserve(bytes); }
  void release(uint64_t bytes) { life_.release(bytes); }

 private:
  friend class Current;
  Context(const Library& library, Physical physical) : call_(library), physical_(std::move(physical)) {}

  const Library& call_;
  const Physical physical_;
  Handle handle_ = nullptr;
  device::Life life_{physical_.info};
};

// The context is the calling thread's while this lives. Calls of the driver stand behind one whose status is OK.
class Current {
 public:
  explicit Current(Context& context);
  ~Current();
  Current(const Current&) = delete;
  const Status& status() const { return status_; }

 private:
  Context& context_;
  Status status_;
};

}  // namespace mlc::cuda
