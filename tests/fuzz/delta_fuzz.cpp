// libs: mlc_delta
// Deltas. Properties: what parses encodes to the same front; no more is made than it says, and no more memory is held than follows from its size.
#include <algorithm>
#include <cstdlib>

#include "packager/delta/rebuild.h"
#include "tests/fuzz/heap_peak.h"

namespace {

using namespace mlc;

// The container that is there: 64 KiB that repeat now and then.
const std::vector<std::byte>& there() {
  static const std::vector<std::byte> bytes = [] {
    std::vector<std::byte> out(64 << 10);
    for (size_t k = 0; k < out.size(); ++k) out[k] = static_cast<std::byte>((k * k >> 7) ^ (k >> 3));
    return out;
  }();
  return bytes;
}

Result<std::vector<std::byte>> read_there(const delta::Source& source) {
  if (source.segment > 3 || !range_within(source.offset, source.length, there().size())) return Status(Code::Malformed, "no such place");
  const Bytes part = Bytes(there()).subspan(source.offset, source.length);
  return std::vector<std::byte>(part.begin(), part.end());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Bytes file(reinterpret_cast<const std::byte*>(data), size);
  static const mlc::fuzz::HeapPeak heap;
  heap.begin();
  const auto length = delta::front_len(file.first(std::min<size_t>(size, delta::kFrontLen)), size);
  if (!length.ok()) return 0;
  if (*length > size) std::abort();
  const auto front = delta::parse(file.first(*length), size);
  if (!front.ok()) return 0;
  if (front->size > (uint64_t{8} << 20)) return 0;  // which takes long, and tells nothing new
  const auto encoded = delta::encode(*front);
  if (!std::equal(encoded.begin() + 16, encoded.end(), file.begin() + 16, file.begin() + static_cast<ptrdiff_t>(*length))) std::abort();
  size_t at = *length;
  uint64_t made = 0;
  const delta::Inputs inputs{[&](uint32_t count) -> Result<std::vector<std::byte>> {
                               if (count > size - at) std::abort();
                               const Bytes part = file.subspan(at, count);
                               at += count;
                               return std::vector<std::byte>(part.begin(), part.end());
                             },
                             read_there};
  const Status status = delta::rebuild(*front, inputs, [&](Bytes bytes) {
    made += bytes.size();
    return ok();
  });
  if (made > front->size || (status.ok() && (made != front->size || at != size))) std::abort();
  heap.check_at_most(4 * size + (uint64_t{12} << 20));  // the window of zstd, and three parts at most
  return 0;
}
