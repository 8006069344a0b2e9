// libs: mlc_schema
// Any bytes: refused with a message, or a module that is written as these very bytes again.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "schema/gpu_module.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mlc;
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto module = gpu::decode(bytes);
  if (!module) {
    if (module.status().message.empty()) std::abort();
    return 0;
  }
  if (!std::ranges::equal(gpu::encode(*module), bytes)) std::abort();
  return 0;
}
