// libs: mlc_io
// .npz. Property: what parses is written and parsed again with the same names.
#include <cstdlib>

#include "runtime/io/npz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mlc::io;
  mlc::Bytes bytes(reinterpret_cast<const std::byte*>(data), size);
  auto entries = list_npz(bytes);
  if (!entries.ok()) return 0;
  uint64_t total = 0;
  for (const NpzEntry& e : *entries) total += e.unpacked;
  if (total > 1 << 24) return 0;
  auto arrays = parse_npz(bytes);
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
