// libs: mlc_schema
// Any bytes: refused with a message, or a cubin with entries that have names.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "schema/cubin.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto cubin = mlc::gpu::read_cubin(std::as_bytes(std::span(data, size)));
  if (!cubin.ok() && cubin.status().message.empty()) std::abort();
  if (cubin.ok() && (cubin->entries.empty() || cubin->architecture > 255)) std::abort();
  return 0;
}
