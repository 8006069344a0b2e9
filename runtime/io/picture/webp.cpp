// libwebp, with its smooth chroma upsampling. Animations are refused.
#include <webp/decode.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/byte_cursor.h"
#include "runtime/io/picture/exif.h"
#include "runtime/io/picture/raster.h"
#include "runtime/io/picture/vp8l.h"

namespace mlc::io {
namespace {

constexpr uint64_t kWebpMemory = 256 << 10;

// Calls `take(tag, bytes)` for the chunks of the file: tag, length, bytes, and one more where the length is odd. The last
// may be cut off.
template <class Take>
void for_each_chunk(Bytes file, Take take) {
  ByteCursor in(file);
  in.skip(12);
  while (in.left() >= 8) {
    const std::string_view tag = in.text(4);
    const auto length = in.take<uint32_t>();
    take(tag, in.bytes(std::min<uint64_t>(length, in.left())));
    in.skip(length % 2);
  }
}

int stored_orientation(Bytes file) {
  int orientation = 1;
  bool found = false;
  for_each_chunk(file, [&](std::string_view tag, Bytes chunk) {
    if (tag == "EXIF" && !std::exchange(found, true)) orientation = exif_orientation(chunk);
  });
  return orientation;
}

// What libwebp takes (1.2.4: vp8l_dec.c, AllocateInternalBuffers32b; frame_dec.c, AllocateMemory; alpha_dec.c) beside our
// pixels. A lossless stream, which may be the alpha channel of a lossy picture, unpacks to 4 bytes a pixel, and the
// pictures of its transforms and codes have one pixel for 16, three of them; alpha is kept twice; rows of macroblocks.
Status working_memory(Bytes file, const Raster& r, bool is_lossless, MemoryNeed& need) {
  const uint64_t pixels = r.num_pixels();
  need.add(kWebpMemory).add(static_cast<uint64_t>(r.width), 256);
  if (!is_lossless && r.channels == 4) need.add(pixels, 2);
  // The first picture counts, and the last alpha in front of it.
  Bytes stream;
  bool has_picture = false;
  for_each_chunk(file, [&](std::string_view tag, Bytes chunk) {
    if (has_picture) return;
    has_picture = tag == "VP8 " || tag == "VP8L";
    if (tag == "VP8L") stream = chunk.subspan(std::min<size_t>(chunk.size(), 5));
    if (tag == "ALPH") {
      const bool is_packed = !chunk.empty() && (chunk[0] & std::byte{3}) == std::byte{1};
      stream = is_packed ? chunk.subspan(1) : Bytes();
    }
  });
  if (stream.empty()) return ok();
  MLC_ASSIGN(const uint64_t tables,
             vp8l_table_memory(stream, static_cast<uint32_t>(r.width), static_cast<uint32_t>(r.height)));
  need.add(tables).add(pixels, 5).add(static_cast<uint64_t>(r.width), 17 * 4);
  return ok();
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
  MemoryNeed need;
  need.add(r.num_bytes());
  MLC_RETURN_IF_ERROR(need.check(limits, r.describe("webp")));  // before the bits are read
  MLC_RETURN_IF_ERROR(working_memory(file, r, found.format == 2, need));
  MLC_RETURN_IF_ERROR(need.check(limits, r.describe("webp")));
  const int stride = found.width * r.channels;  // the format has at most 16383 pixels in a row
  MLC_ASSIGN(r.pixels, HostBuffer::allocate(r.num_bytes()));
  auto* const to = reinterpret_cast<uint8_t*>(r.pixels.data());
  const auto* const decoded = r.channels == 4 ? WebPDecodeRGBAInto(data, file.size(), to, r.pixels.size(), stride)
                                              : WebPDecodeRGBInto(data, file.size(), to, r.pixels.size(), stride);
  if (!decoded) return Status(Code::Malformed, "webp: the picture is damaged or truncated");
  return r;
}

}  // namespace mlc::io
