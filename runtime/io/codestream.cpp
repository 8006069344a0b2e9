#include "runtime/io/codestream.h"

#include <algorithm>
#include <vector>

#include "runtime/io/byte_reader.h"
#include "runtime/io/raster.h"

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

Status bad(std::string what) { return Status(Code::Malformed, "jpeg2000: " + std::move(what)); }
uint64_t parts(uint64_t of, uint64_t part) { return (of + part - 1) / part; }

class Headers {
 public:
  Headers(Bytes bytes, Codestream& out) : in_{bytes}, out_(out) {}

  Status read(const DecodeLimits& limits) {
    MLC_RETURN_IF_ERROR(size(limits));
    const uint64_t end = in_.bytes.size();
    uint64_t at = 2;
    bool has_coding = false;
    for (; word(at) != kSot; at += 2 + word(at + 2)) {
      MLC_RETURN_IF_ERROR(segment(at, end));
      has_coding |= word(at) == kCod;
    }
    if (!has_coding) return bad("no coding style");
    seen_.resize(out_.tiles);
    uint64_t missing = out_.tiles;
    while (at < end && word(at) != kEoc) {
      const uint64_t length = in_.big(at + 6, 4);
      if (in_.failed || word(at) != kSot || word(at + 2) != 10) return bad("what follows a tile-part is none");
      const uint64_t next = length == 0 ? end : at + length;
      if (next > end) return bad("a tile-part is truncated");
      ++out_.tile_parts;
      const uint32_t tile = word(at + 4);
      if (tile >= out_.tiles) return bad("a tile that the picture does not have");
      if (!seen_[tile]) --missing;
      seen_[tile] = true;
      for (at += 12; at + 2 <= next && word(at) != kSod; at += 2 + word(at + 2)) MLC_RETURN_IF_ERROR(segment(at, next));
      if (at + 2 > next) return bad("a tile-part without data");
      at = next;
    }
    out_.bit_planes = planes_ + shift_;
    if (missing > 0) return bad(std::to_string(missing) + " of " + std::to_string(out_.tiles) + " tiles are missing");
    return ok();
  }

 private:
  uint32_t word(uint64_t at) { return in_.big(at, 2); }
  uint8_t byte(uint64_t at) { return static_cast<uint8_t>(in_.big(at, 1)); }

  // SIZ, A.5.1, is the first segment.
  Status size(const DecodeLimits& limits) {
    const auto number = [&](uint64_t at) { return uint64_t{in_.big(at, 4)}; };
    const bool good = word(0) == kSoc && word(2) == kSiz;
    const uint64_t x1 = number(8), y1 = number(12), x0 = number(16), y0 = number(20), across = number(24),
                   down = number(28), from_x = number(32), from_y = number(36);
    out_.components = word(40);
    if (in_.failed || !good || x0 >= x1 || y0 >= y1 || across == 0 || down == 0 || from_x > x0 || from_y > y0)
      return bad("no codestream with a valid size");
    MLC_RETURN_IF_ERROR(check_dims(x1 - x0, y1 - y0, limits).note("jpeg2000"));
    out_.tiles = checked_mul(parts(x1 - from_x, across), parts(y1 - from_y, down)).value_or(UINT64_MAX);
    if (out_.tiles > kMaxTiles) return bad("more than " + std::to_string(kMaxTiles) + " tiles");
    if (out_.components == 0 || out_.components > 4)
      return Status(Code::Unsupported, "jpeg2000: " + std::to_string(out_.components) + " components");
    out_.width = x1 - x0;
    out_.height = y1 - y0;
    out_.tile_width = std::min(across, out_.width);
    out_.tile_height = std::min(down, out_.height);
    return ok();
  }

  // One marker segment of the main header or of a tile-part, which ends at `end`.
  Status segment(uint64_t at, uint64_t end) {
    const uint32_t marker = word(at), length = word(at + 2);
    if (in_.failed || length < 2 || !range_within(at + 2, length, end)) return bad("a header is truncated");
    ++out_.markers;
    const uint64_t body = at + 4;
    const Bytes whole = in_.bytes;
    in_.bytes = whole.first(at + 2 + length);  // fields lie within the segment
    Status status = ok();
    switch (marker) {
      case kCod:
        out_.layers = std::max<uint64_t>(out_.layers, word(body + 2));
        status = coding(body + 5, byte(body));
        break;
      case kCoc: status = coding(body + 2, byte(body + 1)); break;
      case kQcd: status = quantization(body, at + 2 + length); break;
      case kQcc: status = quantization(body + 1, at + 2 + length); break;
      case kRgn: shift_ = std::max<uint64_t>(shift_, byte(body + 2)); break;
      case kSiz: case kCap: case kTlm: case kPlm: case kPlt: case kCpf: case kPoc: case kPpm: case kPpt: case kCrg: case kCom: break;
      default:
        status = Status(Code::Unsupported, "jpeg2000: marker " + std::to_string(marker) + ", which is not of part 1");
    }
    if (status.ok() && in_.failed) status = bad("a header is truncated");
    in_.bytes = whole;
    return status;
  }

  // SPcod and SPcoc, A.6.1; precincts, bands and code blocks as in annex B. Tiles may lie anywhere on their grids: one
  // more in each direction.
  Status coding(uint64_t at, uint8_t style) {
    const uint32_t levels = byte(at), block_x = byte(at + 1) + 2u, block_y = byte(at + 2) + 2u;
    if (levels > kMaxLevels || block_x > 10 || block_y > 10) return bad("coding style");
    out_.short_segments |= (byte(at + 3) & (kLazy | kTerminateEach)) != 0;
    Codestream c;
    for (uint32_t r = 0; r <= levels; ++r) {
      const uint8_t precinct = style & kOwnPrecincts ? byte(at + 5 + r) : 0xFF;
      const uint32_t x = precinct & 15, y = precinct >> 4;
      if (r > 0 && (x == 0 || y == 0)) return bad("a precinct of one pixel");
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
  Status quantization(uint64_t at, uint64_t end) {
    const uint32_t style = byte(at) & 31u, guard = byte(at) >> 5;
    if (style > 2) return bad("quantization");
    for (uint64_t k = at + 1; k < end; k += style == 0 ? 1 : 2)
      planes_ = std::max<uint64_t>(planes_, std::max(1u, (byte(k) >> 3) + guard) - 1);
    return ok();
  }

  ByteReader in_;
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
