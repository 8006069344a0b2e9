// libs: mlc_io
// .npy. Property: what parses is written and parsed again to the same tensor.
#include <cstdlib>
#include <cstring>

#include "runtime/io/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto tensor = mlc::io::parse_npy({reinterpret_cast<const std::byte*>(data), size});
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
