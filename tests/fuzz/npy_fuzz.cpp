// libs: mlc_io
// .npy. Properties: what parses is written and parsed again to the same tensor; no more memory is held than may be.
#include <cstdlib>
#include <cstring>

#include "runtime/io/npy.h"
#include "tests/fuzz/heap_peak.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const mlc::fuzz::HeapPeak heap;
  const mlc::Bytes bytes(reinterpret_cast<const std::byte*>(data), size);
  mlc::io::DecodeLimits limits;
  limits.memory = 1 << 20;
  heap.begin();
  auto tensor = mlc::io::parse_npy(bytes, limits);
  heap.check_at_most(limits.beyond(bytes).memory);
  if (!tensor.ok()) return 0;
  auto file = mlc::io::npy_header(*tensor);
  if (!file.ok()) std::abort();
  file->insert(file->end(), tensor->data.data(), tensor->data.data() + tensor->data.size());
  auto again = mlc::io::parse_npy(*file);
  if (!again.ok() || again->dtype != tensor->dtype || again->shape != tensor->shape) std::abort();
  if (tensor->data.size() && std::memcmp(again->data.data(), tensor->data.data(), tensor->data.size()) != 0)
    std::abort();
  return 0;
}
