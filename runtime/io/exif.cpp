#include "runtime/io/exif.h"

#include <cstring>

namespace mlc::io {
namespace {

constexpr uint32_t kOrientationTag = 0x0112;
constexpr uint32_t kTypeShort = 3;

struct TiffReader {
  Bytes bytes;
  bool big_endian;

  // False out of range. All offsets come from the file.
  bool read(uint64_t at, unsigned n, uint32_t& value) const {
    if (!range_within(at, n, bytes.size())) return false;
    value = 0;
    for (unsigned i = 0; i < n; ++i)
      value |= std::to_integer<uint32_t>(bytes[at + i]) << 8 * (big_endian ? n - 1 - i : i);
    return true;
  }
};

}  // namespace

int exif_orientation(Bytes data) {
  if (data.size() >= 6 && std::memcmp(data.data(), "Exif\0\0", 6) == 0) data = data.subspan(6);
  if (data.size() < 8) return 1;
  bool little = std::memcmp(data.data(), "II*\0", 4) == 0, big = std::memcmp(data.data(), "MM\0*", 4) == 0;
  if (!little && !big) return 1;
  TiffReader r{data, big};
  uint32_t ifd = 0, count = 0;
  if (!r.read(4, 4, ifd) || !r.read(ifd, 2, count)) return 1;
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t entry = uint64_t{ifd} + 2 + 12 * uint64_t{i};
    uint32_t tag = 0, type = 0, n = 0, value = 0;
    if (!r.read(entry, 2, tag) || !r.read(entry + 2, 2, type) || !r.read(entry + 4, 4, n) ||
        !r.read(entry + 8, 2, value))
      return 1;
    if (tag == kOrientationTag)
      return type == kTypeShort && n == 1 && value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace mlc::io
