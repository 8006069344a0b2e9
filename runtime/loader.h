// What every kind of device implements: a loader turns verified bytes into a module of kernels.
//
// Loaders live in loaders/<kind>, all of one shape: a `make_<kind>_loader()` in `loaders/<kind>/<kind>_loader.h`.
// loaders/null is the smallest one and the place to start reading.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/status.h"
#include "base/work_meter.h"
#include "runtime/compatible.h"
#include "runtime/verified.h"
#include "schema/module_abi.h"

namespace mlc {

// What `run` answers when it stopped because the meter said so. No fault code of schema/module_abi.h.
inline constexpr int32_t kRunStopped = -1;

// The form of a launch as the plan states it, known before anything runs.
struct LaunchForm {
  std::span<const uint8_t> writable;  // one per buffer: 1 if the kernel may store to it, 0 if it is read-only memory
  uint32_t num_scalars = 0;
};

// The kernels of one variant, for workers or a device. Immutable after loading; every function may be called from several threads
// at once.
class KernelSet {
 public:
  virtual ~KernelSet() = default;
  virtual uint32_t num_kernels() const = 0;
  // Whether this kernel may be launched with buffers and scalars of this form; asked once per launch instruction when
  // a plan is bound. Code that came without a trusted signature must be refused here if it could touch a buffer or
  // scalar that is not passed, or store to one that is read-only. Native code has no such description: OK.
  virtual Status accepts(uint32_t kernel, const LaunchForm& form) const = 0;
};

// Kernels that workers of this process run.
class KernelModule : public KernelSet {
 public:
  // Bytes of scratch memory that each worker passes to this kernel. `kernel` < num_kernels().
  virtual uint64_t scratch_bytes(uint32_t kernel) const = 0;
  // Runs tiles [tile_begin, tile_end). `kernel` < num_kernels(), the launch has the form that was accepted, and the
  // rules of schema/module_abi.h hold. Returns 0, a fault code of that header, or kRunStopped. Allocates nothing.
  //
  // Code that came without a trusted signature must charge `meter` for all that it does, as it does it, and stop when
  // that says so. Native code cannot: it runs to the end of its tiles, and the executor asks the meter before each call.
  virtual int32_t run(uint32_t kernel, const MlrunLaunch& launch, uint32_t tile_begin, uint32_t tile_end,
                      WorkMeter& meter) const = 0;
};

class Loader {
 public:
  virtual ~Loader() = default;
  // The module format it takes, as variants name it: "elf", "portable", "null".
  virtual std::string_view format() const = 0;
  // Checks all of `bytes` before any of it has an effect. The module keeps what it needs of them.
  virtual Result<std::unique_ptr<KernelModule>> load(Compatible token, VerifiedBytes bytes) const = 0;
};

}  // namespace mlc
