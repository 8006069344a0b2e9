// BMP: 1, 4 and 8 bits with a palette, 16, 24 and 32 bits with or without masks, stored from either end. Run-length
// coding and pictures of other formats inside are refused. Fields that change no pixel are not looked at.
// https://learn.microsoft.com/windows/win32/gdi/bitmap-storage
#include <bit>

#include "base/byte_cursor.h"
#include "runtime/io/picture/raster.h"

namespace mlc::io {
namespace {

constexpr uint64_t kFileHeader = 14;
constexpr uint32_t kRgb = 0, kBitFields = 3, kAlphaBitFields = 6;

Status bad_bmp(const char* what) { return Status(Code::Malformed, std::string("bmp: ") + what); }

// The bits of a pixel that one channel has.
struct Mask {
  uint32_t bits = 0;
  uint8_t of(uint32_t pixel) const {
    if (bits == 0) return 0;
    const int shift = std::countr_zero(bits);
    return static_cast<uint8_t>(uint64_t{(pixel & bits) >> shift} * 255 / (bits >> shift));
  }
  bool good() const { return bits == 0 || std::has_single_bit(uint64_t{bits >> std::countr_zero(bits)} + 1); }
};

struct BmpHeader {
  uint32_t bits = 0;  // of a pixel
  bool from_top = false;
  uint64_t palette = 0;      // where it begins
  uint32_t entry_bytes = 4;  // of the palette
  uint32_t entries = 0;
  uint64_t pixels = 0;  // where they begin
  Mask masks[4];        // red, green, blue, alpha
};

Status read_header(ByteCursor in, const DecodeLimits& limits, BmpHeader& h, Raster& r) {
  in.skip(10);
  h.pixels = in.take<uint32_t>();
  const auto size = in.take<uint32_t>();
  const bool is_core = size == 12;
  if (!is_core && size != 40 && size != 52 && size != 56 && size != 64 && size != 108 && size != 124)
    return bad_bmp("unknown header");
  const int64_t width = is_core ? in.take<uint16_t>() : in.take<int32_t>();
  const int64_t height = is_core ? in.take<uint16_t>() : in.take<int32_t>();
  in.skip(2);
  h.bits = in.take<uint16_t>();
  uint32_t compression = kRgb, used = 0;
  if (!is_core) {
    compression = in.take<uint32_t>();
    in.skip(12);
    used = in.take<uint32_t>();
    in.skip(4);
  }
  if (in.failed()) return bad_bmp("the header is truncated");
  h.from_top = height < 0;
  if (width <= 0) return bad_bmp("no width");
  r.width = width;
  r.height = h.from_top ? -height : height;
  MLC_RETURN_IF_ERROR(check_dims(static_cast<uint64_t>(r.width), static_cast<uint64_t>(r.height), limits).note("bmp"));
  const bool has_masks = compression == kBitFields || compression == kAlphaBitFields;
  if (compression != kRgb && !(has_masks && (h.bits == 16 || h.bits == 32)))
    return Status(Code::Unsupported,
                  "bmp: compression " + std::to_string(compression) + " of " + std::to_string(h.bits) + " bits");
  h.palette = kFileHeader + size;
  switch (h.bits) {
    case 1:
    case 4:
    case 8: {
      h.entry_bytes = is_core ? 3 : 4;
      h.entries = used == 0 || used > 1u << h.bits ? 1u << h.bits : used;
      if (in.at(h.palette).left() < uint64_t{h.entries} * h.entry_bytes)
        return bad_bmp("the palette is truncated");
      break;
    }
    case 16: h.masks[0].bits = 0x7C00, h.masks[1].bits = 0x3E0, h.masks[2].bits = 0x1F; break;
    case 24:
    case 32: h.masks[0].bits = 0xFF0000, h.masks[1].bits = 0xFF00, h.masks[2].bits = 0xFF; break;
    default: return Status(Code::Unsupported, "bmp: " + std::to_string(h.bits) + " bits per pixel");
  }
  // Masks are part of the larger headers and lie behind the small one: at the same place.
  const bool has_alpha = compression == kAlphaBitFields || (has_masks && size >= 56 && size != 64);
  for (unsigned k = 0; has_masks && k < (has_alpha ? 4u : 3u); ++k) {
    h.masks[k].bits = in.take<uint32_t>();
    if (h.bits == 16) h.masks[k].bits &= 0xFFFF;
    if (in.failed() || !h.masks[k].good()) return bad_bmp("colour masks");
  }
  r.channels = h.masks[3].bits ? 4 : 3;
  return ok();
}

}  // namespace

Result<Raster> decode_bmp(Bytes file, const DecodeLimits& limits, bool header_only) {
  BmpHeader h;
  Raster r;
  MLC_RETURN_IF_ERROR(read_header(ByteCursor(file), limits, h, r));
  if (header_only) return r;
  const uint64_t width = static_cast<uint64_t>(r.width), height = static_cast<uint64_t>(r.height);
  const uint64_t stride = (width * h.bits + 31) / 32 * 4;  // at most 2^28 pixels of 32 bits
  if (!range_within(h.pixels, stride * height, file.size())) return bad_bmp("the pixels are truncated");
  MLC_RETURN_IF_ERROR(MemoryNeed().add(r.num_bytes()).check(limits, r.describe("bmp")));
  MLC_ASSIGN(r.pixels, HostBuffer::allocate(r.num_bytes()));
  auto* to = reinterpret_cast<uint8_t*>(r.pixels.data());
  const auto* const all = reinterpret_cast<const uint8_t*>(file.data());
  for (uint64_t y = 0; y < height; ++y) {
    const uint8_t* const row = all + h.pixels + stride * (h.from_top ? y : height - 1 - y);
    for (uint64_t x = 0; x < width; ++x, to += r.channels) {
      if (h.bits <= 8) {
        const unsigned per_byte = 8 / h.bits, shift = h.bits * (per_byte - 1 - x % per_byte);
        const uint32_t index = row[x / per_byte] >> shift & ((1u << h.bits) - 1);
        if (index >= h.entries) return bad_bmp("a colour that the palette does not have");
        const uint8_t* const entry = all + h.palette + uint64_t{index} * h.entry_bytes;
        to[0] = entry[2], to[1] = entry[1], to[2] = entry[0];
        continue;
      }
      const unsigned bytes = h.bits / 8;
      const auto pixel = static_cast<uint32_t>(load_uint(std::as_bytes(std::span(row + x * bytes, bytes))));
      for (int c = 0; c < r.channels; ++c) to[c] = h.masks[c].of(pixel);
    }
  }
  return r;
}

}  // namespace mlc::io
