#include "runtime/io/picture/codestream.h"

#include <algorithm>
#include <vector>

#include "base/byte_cursor.h"
#include "runtime/io/picture/raster.h"

namespace mlc::io {
namespace {

enum : uint32_t {
  kSoc = 0xFF4F, kCap = 0xFF50, kSiz = 0xFF51, kCod = 0xFF52, kCoc = 0xFF53, kTlm = 0xFF55, kPlm = 0xFF57,
  kPlt = 0xFF58, kCpf = 0xFF59, kQcd = 0xFF5C, kQcc = 0xFF5D, kRgn = 0xFF5E, kPoc = 0xFF5F, kPpm = 0xFF60,
  kPpt = 0xFF61, kCrg = 0xFF63, kCom = 0xFF64, kSot = 0xFF90, kSod = 0xFF93, kEoc = 0xFFD9
};
constexpr uint32_t kMaxLevels = 32;
constexpr uint8_t kOwnPrecincts = 1;                        // of Scod and Scoc
constexpr uint8_t kLazy = 1, kTerminateEach = 4;            // of the style of code blocks
constexpr uint64_t kMaxTiles = 1 << 14;

Status bad_codestream(std::string what) { return Status(Code::Malformed, "jpeg2000: " + std::move(what)); }
uint64_t parts(uint64_t of, uint64_t part) { return (of + part - 1) / part; }

class Headers {
 public:
  Headers(Bytes bytes, Codestream& out) : in_(bytes, std::endian::big), out_(out) {}

  Status read(const DecodeLimits& limits) {
    MLC_RETURN_IF_ERROR(size(limits));
    in_.skip(2);
    bool has_coding = false;
    uint32_t marker = in_.take<uint16_t>();
    for (; marker != kSot; marker = in_.take<uint16_t>()) {
      MLC_RETURN_IF_ERROR(segment(marker, in_));
      has_coding |= marker == kCod;
    }
    if (!has_coding) return bad_codestream("no coding style");
    seen_.resize(out_.tiles);
    uint64_t missing = out_.tiles;
    // The marker of each tile-part has been read; behind the last nothing has to follow.
    for (; marker != kEoc; marker = in_.take<uint16_t>()) {
      const uint64_t begin = in_.offset() - 2;
      const auto length_of_segment = in_.take<uint16_t>(), tile = in_.take<uint16_t>();
      const uint64_t length = in_.take<uint32_t>();
      if (in_.failed() || marker != kSot || length_of_segment != 10) return bad_codestream("what follows a tile-part is none");
      in_.skip(2);
      const uint64_t end = in_.offset() + in_.left();
      const uint64_t next = length == 0 ? end : begin + length;
      if (next > end) return bad_codestream("a tile-part is truncated");
      ++out_.tile_parts;
      if (tile >= out_.tiles) return bad_codestream("a tile that the picture does not have");
      if (!seen_[tile]) --missing;
      seen_[tile] = true;
      ByteCursor part(in_.bytes(next < in_.offset() ? 0 : next - in_.offset()), std::endian::big);
      uint32_t inside = part.take<uint16_t>();
      for (; !part.failed() && inside != kSod; inside = part.take<uint16_t>()) MLC_RETURN_IF_ERROR(segment(inside, part));
      if (inside != kSod) return bad_codestream("a tile-part without data");
      if (in_.left() == 0) break;
    }
    out_.bit_planes = planes_ + shift_;
    if (missing > 0) return bad_codestream(std::to_string(missing) + " of " + std::to_string(out_.tiles) + " tiles are missing");
    return ok();
  }

 private:
  // SIZ, A.5.1, is the first segment.
  Status size(const DecodeLimits& limits) {
    ByteCursor in = in_;
    const auto number = [&] { return uint64_t{in.take<uint32_t>()}; };
    const bool good = in.take<uint16_t>() == kSoc && in.take<uint16_t>() == kSiz;
    in.skip(4);
    const uint64_t x1 = number(), y1 = number(), x0 = number(), y0 = number(), across = number(), down = number(),
                   from_x = number(), from_y = number();
    out_.components = in.take<uint16_t>();
    if (in.failed() || !good || x0 >= x1 || y0 >= y1 || across == 0 || down == 0 || from_x > x0 || from_y > y0)
      return bad_codestream("no codestream with a valid size");
    MLC_RETURN_IF_ERROR(check_dims(x1 - x0, y1 - y0, limits).note("jpeg2000"));
    out_.tiles = checked_mul(parts(x1 - from_x, across), parts(y1 - from_y, down)).value_or(UINT64_MAX);
    if (out_.tiles > kMaxTiles) return bad_codestream("more than " + std::to_string(kMaxTiles) + " tiles");
    if (out_.components == 0 || out_.components > 4)
      return Status(Code::Unsupported, "jpeg2000: " + std::to_string(out_.components) + " components");
    out_.width = x1 - x0;
    out_.height = y1 - y0;
    out_.tile_width = std::min(across, out_.width);
    out_.tile_height = std::min(down, out_.height);
    return ok();
  }

  // The segment behind a marker of the main header or of a tile-part.
  Status segment(uint32_t marker, ByteCursor& from) {
    const auto length = from.take<uint16_t>();
    ByteCursor in(from.bytes(std::max<uint32_t>(length, 2) - 2), std::endian::big);
    if (from.failed() || length < 2) return bad_codestream("a header is truncated");
    ++out_.markers;
    Status status = ok();
    switch (marker) {
      case kCod: {
        const auto style = in.take<uint8_t>();
        in.skip(1);
        out_.layers = std::max<uint64_t>(out_.layers, in.take<uint16_t>());
        in.skip(1);
        status = coding(in, style);
        break;
      }
      case kCoc: {
        in.skip(1);
        const auto style = in.take<uint8_t>();
        status = coding(in, style);
        break;
      }
      case kQcd: status = quantization(in); break;
      case kQcc:
        in.skip(1);
        status = quantization(in);
        break;
      case kRgn:
        in.skip(2);
        shift_ = std::max<uint64_t>(shift_, in.take<uint8_t>());
        break;
      case kSiz: case kCap: case kTlm: case kPlm: case kPlt: case kCpf: case kPoc: case kPpm: case kPpt: case kCrg: case kCom: break;
      default:
        status = Status(Code::Unsupported, "jpeg2000: marker " + std::to_string(marker) + ", which is not of part 1");
    }
    return status.ok() && in.failed() ? bad_codestream("a header is truncated") : status;
  }

  // SPcod and SPcoc, A.6.1; precincts, bands and code blocks as in annex B. Tiles may lie anywhere on their grids: one
  // more in each direction.
  Status coding(ByteCursor& in, uint8_t style) {
    const uint32_t levels = in.take<uint8_t>(), block_x = in.take<uint8_t>() + 2u, block_y = in.take<uint8_t>() + 2u;
    if (levels > kMaxLevels || block_x > 10 || block_y > 10) return bad_codestream("coding style");
    out_.short_segments |= (in.take<uint8_t>() & (kLazy | kTerminateEach)) != 0;
    in.skip(1);
    Codestream c;
    for (uint32_t r = 0; r <= levels; ++r) {
      const uint8_t precinct = style & kOwnPrecincts ? in.take<uint8_t>() : 0xFF;
      const uint32_t x = precinct & 15, y = precinct >> 4;
      if (r > 0 && (x == 0 || y == 0)) return bad_codestream("a precinct of one pixel");
      const uint64_t scale = uint64_t{1} << (levels - r);
      const uint64_t width = parts(out_.tile_width, scale) + 1, height = parts(out_.tile_height, scale) + 1;
      const uint64_t here = ((width >> x) + 2) * ((height >> y) + 2);
      const uint64_t halved = r > 0, bands = r > 0 ? 3 : 1;
      const uint64_t across = (((width >> halved) + halved) >> std::min<uint64_t>(block_x, x - halved)) + 2,
                     down = (((height >> halved) + halved) >> std::min<uint64_t>(block_y, y - halved)) + 2;
      c.blocks += bands * (across * down + here);
      c.precincts += bands * here;
      c.packets += here;
      c.most_precincts = std::max(c.most_precincts, here);
    }
    out_.resolutions = std::max<uint64_t>(out_.resolutions, levels + 1);
    out_.blocks = std::max(out_.blocks, c.blocks);
    out_.precincts = std::max(out_.precincts, c.precincts);
    out_.packets = std::max(out_.packets, c.packets);
    out_.most_precincts = std::max(out_.most_precincts, c.most_precincts);
    return ok();
  }

  // Sqcd and SPqcd, A.6.4: bit planes are exponent + guard bits - 1 (E-2).
  Status quantization(ByteCursor& in) {
    const uint32_t first = in.take<uint8_t>(), style = first & 31, guard = first >> 5;
    if (style > 2) return bad_codestream("quantization");
    while (in.left() > 0) {
      planes_ = std::max<uint64_t>(planes_, std::max(1u, (in.take<uint8_t>() >> 3) + guard) - 1);
      if (style != 0 && in.left() > 0) in.skip(1);
    }
    return ok();
  }

  ByteCursor in_;
  Codestream& out_;
  uint64_t planes_ = 0, shift_ = 0;  // the shift of regions of interest adds planes
  std::vector<bool> seen_;           // tiles
};

}  // namespace

Result<Codestream> read_codestream(Bytes codestream, const DecodeLimits& limits) {
  Codestream c;
  MLC_RETURN_IF_ERROR(Headers(codestream, c).read(limits));
  return c;
}

}  // namespace mlc::io
