// A device beside the processor that runs kernels from memory of its own: what loaders of CUDA and Vulkan implement, and
// all that the rest of the runtime knows of them.
//
// The bytes of a module are a gpu::Module (schema/gpu_module.h), which also says how kernels take their arguments. A run is a
// Recording: launches and copies in the order in which they were recorded, made once and submitted any number of times.
// Nothing is ordered within it but by barriers. A Device may be used by several threads at once; modules are immutable;
// everything else belongs to one thread at a time. A device outlives all that it made; memory, modules and recordings
// outlive the recordings that name them, and these outlive their submission until it is waited for.
//
// A driver that answers with an error, or with numbers that cannot be, gives a Status. A device that was lost stays so for
// the process: every call gives that Status again.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "runtime/device_info.h"
#include "runtime/loader.h"
#include "runtime/verified.h"

namespace mlc::device {

struct Limits {
  uint64_t buffer_alignment = 256;  // of where a buffer begins in its memory
  uint64_t range_bytes = 0;         // the most of a buffer
  uint64_t allocation_bytes = 0;    // the most of one memory
  uint64_t loop_budget = 0;         // steps after which it stops loops without an error; 0: none
};

// Local is the device's own. The host writes Staging and reads Readback, through `data`.
enum class MemoryKind : uint8_t { Local, Staging, Readback };

class Memory {
 public:
  virtual ~Memory() = default;
  uint64_t size() const { return size_; }
  std::byte* data() const { return data_; }  // null: Local
  uint64_t number() const { return number_; }  // of no other memory of this process, before or after

 protected:
  uint64_t size_ = 0;
  std::byte* data_ = nullptr;

 private:
  static inline std::atomic<uint64_t> last_number_{0};
  const uint64_t number_ = ++last_number_;
};

struct Range {
  const Memory* memory = nullptr;
  uint64_t offset = 0, length = 0;  // within the memory
};

// The kernels of a variant on a device, which its recorders launch.
class Module : public KernelSet {};

struct Launch {
  uint32_t kernel = 0;
  uint32_t tiles = 0;
  uint32_t number = 0;  // of the launch in its run, for faults
  std::span<const Range> buffers;
  std::span<const int64_t> scalars;
};

struct Fault {
  uint32_t code = 0;    // 0: none; else of schema/module_abi.h
  uint32_t launch = 0;  // its number
};

class Recording {
 public:
  virtual ~Recording() = default;
  // Of the last submission that was waited for.
  virtual Fault fault() const = 0;
};

class Recorder {
 public:
  virtual ~Recorder() = default;
  // `module` of this device. Unsupported if this device cannot do this launch: its scalars, ranges or tiles are beyond
  // what the kernel or the device takes.
  virtual Status launch(const Module& module, const Launch& launch) = 0;
  // Of equal lengths. Ranges that overlap are equal.
  virtual void copy(const Range& to, const Range& from) = 0;
  // Zeros; up to three bytes behind the range as well.
  virtual void clear(const Range& range) = 0;
  // What follows sees what all before it wrote.
  virtual void barrier() = 0;
  // Behind it the host sees what was written to memory that it reads. Once.
  virtual Result<std::unique_ptr<Recording>> finish() = 0;
};

class Queue {
 public:
  virtual ~Queue() = default;
  // One submission at a time: the last one was waited for.
  virtual Status submit(Recording& recording) = 0;
  // False if it is not done after so long.
  virtual Result<bool> wait(uint64_t timeout_ns) = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const Info& info() const = 0;
  virtual const Limits& limits() const = 0;
  // Resource if there is no such memory; zeros, or whatever was there before. Readable and writable to the next multiple of 256.
  virtual Result<std::unique_ptr<Memory>> allocate(uint64_t bytes, MemoryKind kind) = 0;
  // Wraps device memory that exists in this process, of which `bytes` from `address` on must be allocated: Unsupported where the driver
  // cannot look that up, InputMismatch where they are not. Its size reaches to the end of the allocation. The caller keeps ownership and
  // frees it after this object.
  virtual Result<std::unique_ptr<Memory>> adopt(uint64_t /*address*/, uint64_t /*bytes*/) {
    return Status(Code::Unsupported, "memory that others made cannot be used by {}", info().api);
  }
  // What the driver's interface knows memory by: an address or a handle. And the device, among those that it shows.
  virtual uint64_t address_of(const Memory& memory) const = 0;
  virtual int32_t number() const = 0;
  // Waits for the work that other libraries of this process put into its default queue, as far as there is such a queue.
  virtual Status settle() { return ok(); }
  virtual Result<std::unique_ptr<Module>> load(Compatible token, VerifiedBytes bytes) = 0;
  virtual Result<std::unique_ptr<Recorder>> make_recorder() = 0;
  virtual Result<std::unique_ptr<Queue>> make_queue() = 0;
  // It answers nothing any more: a submission did not end in time. From now on every call fails with this reason.
  virtual void give_up(std::string why) = 0;
  // Lines for people: what this process' work does on it in a slower way than it should, and why.
  virtual std::vector<std::string> remarks() const { return {}; }
};

}  // namespace mlc::device
