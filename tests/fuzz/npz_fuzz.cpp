// libs: mlc_io
// .npz. Properties: what parses is written and parsed again with the same names; no more memory is held than may be.
#include <cstdlib>

#include "runtime/io/npz.h"
#include "tests/fuzz/heap_peak.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mlc::io;
  mlc::Bytes bytes(reinterpret_cast<const std::byte*>(data), size);
  static const mlc::fuzz::HeapPeak heap;
  DecodeLimits limits;
  limits.memory = 4 << 20;
  heap.begin();
  auto arrays = parse_npz(bytes, limits);
  heap.check_at_most(limits.beyond(bytes).memory);
  if (!arrays.ok()) return 0;
  std::vector<NpzItem> items;
  for (const auto& a : *arrays) items.push_back({a.name, &a.tensor});
  std::vector<std::byte> file;
  auto written = write_npz(items, [&](mlc::Bytes b) {
    file.insert(file.end(), b.begin(), b.end());
    return mlc::ok();
  });
  if (!written.ok()) return 0;  // a name that is too long with ".npy"
  auto again = parse_npz(file);
  if (!again.ok() || again->size() != arrays->size()) std::abort();
  return 0;
}
