// libwebp, with its smooth chroma upsampling. Animations are refused.
#include <webp/decode.h>

#include <cstring>

#include "runtime/io/byte_reader.h"
#include "runtime/io/exif.h"
#include "runtime/io/raster.h"

namespace mlc::io {
namespace {

// The chunks of the file: tag, length, bytes, and one more where the length is odd.
int stored_orientation(Bytes file) {
  ByteReader in{file};
  for (uint64_t at = 12; range_within(at, 8, file.size());) {
    const uint64_t length = in.little(at + 4, 4);
    if (!range_within(at + 8, length, file.size())) return 1;
    if (std::memcmp(file.data() + at, "EXIF", 4) == 0) return exif_orientation(file.subspan(at + 8, length));
    at += 8 + length + length % 2;
  }
  return 1;
}

}  // namespace

Result<Raster> decode_webp(Bytes file, const DecodeLimits& limits, bool header_only) {
  const auto* data = reinterpret_cast<const uint8_t*>(file.data());
  WebPBitstreamFeatures found;
  if (WebPGetFeatures(data, file.size(), &found) != VP8_STATUS_OK)
    return Status(Code::Malformed, "webp: the header is damaged");
  if (found.has_animation) return Status(Code::Unsupported, "webp: an animation, one picture is expected");
  Raster r;
  r.width = found.width;
  r.height = found.height;
  r.channels = found.has_alpha ? 4 : 3;
  MLC_RETURN_IF_ERROR(check_dims(static_cast<uint64_t>(r.width), static_cast<uint64_t>(r.height), limits).note("webp"));
  r.orientation = stored_orientation(file);
  if (header_only) return r;
  const int stride = found.width * r.channels;  // the format has at most 16383 pixels in a row
  MLC_ASSIGN(r.pixels, HostBuffer::allocate(static_cast<uint64_t>(stride) * static_cast<uint64_t>(r.height)));
  auto* const to = reinterpret_cast<uint8_t*>(r.pixels.data());
  const auto* const decoded = r.channels == 4 ? WebPDecodeRGBAInto(data, file.size(), to, r.pixels.size(), stride)
                                              : WebPDecodeRGBInto(data, file.size(), to, r.pixels.size(), stride);
  if (!decoded) return Status(Code::Malformed, "webp: the picture is damaged or truncated");
  return r;
}

}  // namespace mlc::io
