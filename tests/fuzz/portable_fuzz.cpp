// libs: mlc_loader_portable
// Any bytes: refused with a message, or a program that, run on buffers of exactly the promised size, ends with 0 or a
// documented fault and touches nothing else (which the sanitizer sees).
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

#include "loaders/portable/program.h"
#include "runtime/loader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mlc;
  auto programs = portable::decode_module(std::as_bytes(std::span(data, size)));
  if (!programs) {
    if (programs.status().message.empty()) std::abort();
    return 0;
  }
  for (const portable::Program& p : *programs) {
    if (p.param_flags.size() > 16 || p.scratch_bytes > (1 << 20)) continue;
    constexpr size_t kBytes = 192;
    std::vector<void*> buffers;
    std::vector<uint64_t> lengths;
    for (size_t k = 0; k < p.param_flags.size(); ++k) {
      buffers.push_back(std::aligned_alloc(64, kBytes));
      std::memset(buffers.back(), static_cast<int>(k), kBytes);
      lengths.push_back(kBytes - k % 64);
    }
    std::vector<int64_t> scalars(p.num_scalars, 5);
    void* scratch = std::aligned_alloc(64, p.scratch_bytes + 64);
    std::memset(scratch, 0, p.scratch_bytes + 64);
    const MlrunLaunch launch = {buffers.data(), lengths.data(), scalars.data(), scratch, 0, 1};
    WorkMeter meter;
    meter.start({.units = 10'000});
    const int32_t fault = portable::run_program(p, launch, 0, 3, meter);
    if (fault < kRunStopped || fault > MLRUN_FAULT_BOUND) std::abort();
    std::free(scratch);
    for (void* b : buffers) std::free(b);
  }
  return 0;
}
