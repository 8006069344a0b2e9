// libtiff, on bytes in memory: the first picture of a file. Grey and RGB of 8 and 16 bits in strips are taken as
// stored, of 16 bits the high byte; everything else goes through libtiff's own conversion to RGBA, which multiplies
// colours by an alpha that is not part of them yet, so such files are refused there.
//
// libtiff 4.5 bounds single allocations only. Its sum is computed here: of the directory before libtiff reads it, of
// strips and codecs before the first pixel.
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>

#include "base/byte_cursor.h"
#include "runtime/io/picture/image.h"
#include "runtime/io/picture/raster.h"
#include "runtime/io/picture/tiff_library.h"

namespace mlc::io {
namespace {

constexpr uint64_t kTiffMemory = 512 << 10;  // handle, tables of colours, dictionaries of LZW and Deflate
// What all strips read, in times of the file: identical strips may share their bytes, and a million may share many.
constexpr uint64_t kMaxSharing = 16;
// What pictures use. The others are code that is hardly maintained.
constexpr uint16_t kCompressions[] = {COMPRESSION_NONE,          COMPRESSION_CCITTRLE, COMPRESSION_CCITTFAX3,
                                      COMPRESSION_CCITTFAX4,     COMPRESSION_LZW,      COMPRESSION_JPEG,
                                      COMPRESSION_ADOBE_DEFLATE, COMPRESSION_DEFLATE,  COMPRESSION_PACKBITS};

// Once decode_tiff has found it.
const TiffLibrary& lib() { return **tiff_library(); }

struct State {
  Bytes file;
  uint64_t at = 0;
  char message[256] = {};
};

State& state_of(thandle_t handle) { return *static_cast<State*>(handle); }
tmsize_t on_read(thandle_t handle, void* to, tmsize_t bytes) {
  State& s = state_of(handle);
  if (bytes <= 0 || s.at >= s.file.size()) return 0;
  const uint64_t count = std::min<uint64_t>(static_cast<uint64_t>(bytes), s.file.size() - s.at);
  std::memcpy(to, s.file.data() + s.at, count);
  s.at += count;
  return static_cast<tmsize_t>(count);
}
tmsize_t on_write(thandle_t, void*, tmsize_t) { return 0; }
toff_t on_seek(thandle_t handle, toff_t offset, int from) {
  State& s = state_of(handle);
  s.at = from == SEEK_SET ? offset : from == SEEK_CUR ? s.at + offset : s.file.size() + offset;  // reads check it
  return s.at;
}
int on_close(thandle_t) { return 0; }
toff_t on_size(thandle_t handle) { return state_of(handle).file.size(); }
int on_error(TIFF*, void* user, const char*, const char* format, va_list arguments) {
  auto& s = *static_cast<State*>(user);
  if (!s.message[0]) std::vsnprintf(s.message, sizeof s.message, format, arguments);  // the first is the cause
  return 1;
}
int on_warning(TIFF*, void*, const char*, const char*, va_list) { return 1; }

struct Closed {
  void operator()(TIFF* t) const { lib().TIFFClose(t); }
};
using Handle = std::unique_ptr<TIFF, Closed>;

// What libtiff keeps of a directory: every value of every tag, known to it or not, while one of them is converted, and
// two tables of 8 bytes for each strip or tile, which it makes even where the file has none. Pixels that are not packed it
// cuts into strips of its own, down to a row each, and then has four tables. (libtiff 4.5.0: tif_dirread.c,
// TIFFFetchNormalTag, TIFFFetchStripThing and allocChoppedUpStripArrays.)
MemoryNeed directory_memory(Bytes file) {
  const bool is_big = !file.empty() && file[0] == std::byte{'M'};
  const ByteCursor whole(file, is_big ? std::endian::big : std::endian::little);
  ByteCursor in = whole.at(whole.at(4).take<uint32_t>());
  const auto entries = in.take<uint16_t>();
  constexpr uint8_t kBytesOfType[] = {8, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 8, 8, 8, 8, 8};
  MemoryNeed need;
  need.add(kTiffMemory).add(entries, 128);
  // A tag that stands twice counts with what needs more.
  uint64_t width = 0, height = 0, samples = 1, rows = UINT32_MAX, tile_width = UINT32_MAX, tile_height = UINT32_MAX;
  bool is_packed = false, is_plain = false;
  for (uint64_t k = 0; k < entries && !in.failed(); ++k) {
    const auto tag = in.take<uint16_t>(), type = in.take<uint16_t>();
    const auto count = in.take<uint32_t>();
    const uint64_t each = type < std::size(kBytesOfType) ? kBytesOfType[type] : 8;
    need.add(count, each == 1 ? 3 : 2 * each + 8);
    const uint64_t value = ByteCursor(in).take_uint(each >= 4 ? 4 : static_cast<unsigned>(each));
    in.skip(4);
    const uint64_t extent = std::max<uint64_t>(value, 1);
    switch (tag) {
      case TIFFTAG_IMAGEWIDTH: width = std::max(width, value); break;
      case TIFFTAG_IMAGELENGTH: height = std::max(height, value); break;
      case TIFFTAG_COMPRESSION: (value == COMPRESSION_NONE ? is_plain : is_packed) = true; break;
      case TIFFTAG_SAMPLESPERPIXEL: samples = std::max(samples, value); break;  // as if in planes
      case TIFFTAG_ROWSPERSTRIP: rows = std::min(rows, extent); break;
      case TIFFTAG_TILEWIDTH: tile_width = std::min(tile_width, extent); break;
      case TIFFTAG_TILELENGTH: tile_height = std::min(tile_height, extent); break;
      default: break;
    }
  }
  const auto parts = [](uint64_t of, uint64_t part) { return (of + part - 1) / part; };
  const uint64_t strips = parts(height, rows), across = parts(width, tile_width), down = parts(height, tile_height);
  if (is_plain || !is_packed) need.add(height, 48 * samples);
  need.add(samples * strips, 32);
  if (tile_width < UINT32_MAX || tile_height < UINT32_MAX) need.add(across * down, 32 * samples);
  return need;
}

Handle open(State& s, const DecodeLimits& limits) {
  TIFFOpenOptions* const options = lib().TIFFOpenOptionsAlloc();
  if (!options) return nullptr;
  lib().TIFFOpenOptionsSetMaxSingleMemAlloc(options, static_cast<tmsize_t>(std::min<uint64_t>(limits.memory, INT64_MAX)));
  lib().TIFFOpenOptionsSetErrorHandlerExtR(options, on_error, &s);
  lib().TIFFOpenOptionsSetWarningHandlerExtR(options, on_warning, &s);
  Handle tiff(
      lib().TIFFClientOpenExt("picture", "rm", &s, on_read, on_write, on_seek, on_close, on_size, nullptr, nullptr, options));
  lib().TIFFOpenOptionsFree(options);
  return tiff;
}

Status damaged(const State& s) {
  return Status(Code::Malformed, std::string("tiff: ") + (s.message[0] ? s.message : "the file is damaged"));
}

template <class T>
T field(TIFF* tiff, uint32_t tag, T otherwise) {
  T value = otherwise;
  return lib().TIFFGetFieldDefaulted(tiff, tag, &value) ? value : otherwise;
}

struct Form {
  uint16_t bits = 1, samples = 1, photometric = UINT16_MAX;
  bool as_stored = false;
  bool alpha = false, alpha_is_separate = false;
};

Form form_of(TIFF* tiff) {
  Form f;
  f.bits = field<uint16_t>(tiff, TIFFTAG_BITSPERSAMPLE, 1);
  f.samples = field<uint16_t>(tiff, TIFFTAG_SAMPLESPERPIXEL, 1);
  f.photometric = field<uint16_t>(tiff, TIFFTAG_PHOTOMETRIC, UINT16_MAX);
  uint16_t extra = 0;
  uint16_t* kinds = nullptr;
  if (lib().TIFFGetFieldDefaulted(tiff, TIFFTAG_EXTRASAMPLES, &extra, &kinds) && extra > 0 && kinds) {
    f.alpha = kinds[0] == EXTRASAMPLE_ASSOCALPHA || kinds[0] == EXTRASAMPLE_UNASSALPHA;
    f.alpha_is_separate = kinds[0] == EXTRASAMPLE_UNASSALPHA;
  }
  const int colours = f.photometric == PHOTOMETRIC_RGB ? 3 : f.photometric == PHOTOMETRIC_MINISBLACK ? 1 : 0;
  f.as_stored = colours > 0 && (f.bits == 8 || f.bits == 16) && f.samples == colours + (f.alpha ? 1 : 0) &&
                !lib().TIFFIsTiled(tiff) &&
                field<uint16_t>(tiff, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG) == PLANARCONFIG_CONTIG &&
                field<uint16_t>(tiff, TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_UINT) == SAMPLEFORMAT_UINT;
  return f;
}

// JPEG inside of a strip: baseline, all components in one scan. Others make libjpeg keep all coefficients, and no encoder
// of TIFF writes them.
bool is_one_scan(Bytes strip) {
  ByteCursor in(strip, std::endian::big);
  in.skip(2);
  uint32_t components = 0;
  while (in.take<uint8_t>() == 0xFF) {
    auto marker = in.take<uint8_t>();
    while (marker == 0xFF) marker = in.take<uint8_t>();
    const auto length = in.take<uint16_t>();
    if (in.failed() || length < 2) return false;
    ByteCursor segment = in;
    in.skip(length - 2u);
    if (marker == 0xDA) return components > 0 && segment.take<uint8_t>() == components;
    if (marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC) {
      if (marker > 0xC1) return false;
      segment.skip(5);
      components = segment.take<uint8_t>();
    }
  }
  return false;
}

// The strips or tiles lie within the file and share no more of it than they may. `largest`: bytes of one of them.
Status check_strips(TIFF* tiff, Bytes file, uint16_t compression, uint64_t& largest) {
  const uint32_t count = lib().TIFFIsTiled(tiff) ? lib().TIFFNumberOfTiles(tiff) : lib().TIFFNumberOfStrips(tiff);
  MemoryNeed all;
  largest = 0;
  for (uint32_t k = 0; k < count; ++k) {
    const uint64_t at = lib().TIFFGetStrileOffset(tiff, k), bytes = lib().TIFFGetStrileByteCount(tiff, k);
    if (!range_within(at, bytes, file.size()))
      return Status(Code::Malformed, "tiff: strip " + std::to_string(k) + " of " + std::to_string(count) +
                                         " does not lie within the file");
    if (compression == COMPRESSION_JPEG && bytes > 0 && !is_one_scan(file.subspan(at, bytes)))
      return Status(Code::Unsupported, "tiff: JPEG that is not baseline, or in several scans");
    largest = std::max(largest, bytes);
    all.add(bytes);
  }
  if (all.bytes / kMaxSharing > file.size())
    return Status(Code::Malformed, "tiff: " + std::to_string(count) + " strips of " + std::to_string(all.bytes) +
                                       " bytes together, in a file of " + std::to_string(file.size()));
  return ok();
}

// What decoding takes beside the directory (libtiff 4.5.0): a raw strip and, to convert, a decoded one or one of each
// plane (tif_getimage.c); run lengths of two rows of CCITT (tif_fax3.c); some rows of each component of JPEG; and the
// pixels, which the conversion makes as four bytes whatever they become.
MemoryNeed pixel_memory(TIFF* tiff, const Form& form, const Raster& r, uint16_t compression, uint64_t largest_strip) {
  const auto width = static_cast<uint64_t>(r.width);
  const uint64_t decoded = lib().TIFFIsTiled(tiff) ? lib().TIFFTileSize64(tiff) : lib().TIFFStripSize64(tiff);
  MemoryNeed need;
  need.add(largest_strip, 2).add(width, compression == COMPRESSION_JPEG ? 1024 : 64);
  if (form.as_stored) need.add(r.num_bytes()).add(lib().TIFFScanlineSize64(tiff));
  else need.add(r.num_pixels(), 4).add(decoded, 4);
  return need;
}

Status read_rows(TIFF* tiff, const State& s, unsigned bits, Raster& r) {
  const auto samples = static_cast<uint64_t>(r.width) * static_cast<uint64_t>(r.channels);
  const uint64_t stride = samples * bits / 8;
  if (static_cast<uint64_t>(lib().TIFFScanlineSize64(tiff)) != stride) return damaged(s);
  MLC_ASSIGN(HostBuffer row, HostBuffer::allocate(stride));
  for (int64_t y = 0; y < r.height; ++y) {
    if (lib().TIFFReadScanline(tiff, row.data(), static_cast<uint32_t>(y), 0) < 0) return damaged(s);
    std::byte* const to = r.pixels.data() + static_cast<uint64_t>(y) * samples;
    if (bits == 8) std::memcpy(to, row.data(), samples);
    for (uint64_t i = 0; i < samples && bits == 16; ++i) {
      uint16_t sample = 0;  // of this machine's byte order: libtiff swaps
      std::memcpy(&sample, row.data() + 2 * i, 2);
      to[i] = static_cast<std::byte>(sample >> 8);
    }
  }
  return ok();
}

Status read_converted(TIFF* tiff, State& s, Raster& r) {
  TIFFRGBAImage image;
  char why[1024] = {};
  if (!lib().TIFFRGBAImageOK(tiff, why) || !lib().TIFFRGBAImageBegin(&image, tiff, 1, why))
    return Status(Code::Unsupported, std::string("tiff: ") + std::string(why, strnlen(why, sizeof why)));
  image.req_orientation = image.orientation;  // rows as stored
  // 32 bits for each pixel, which become its channels in place.
  const bool good = lib().TIFFRGBAImageGet(&image, reinterpret_cast<uint32_t*>(r.pixels.data()),
                                     static_cast<uint32_t>(r.width), static_cast<uint32_t>(r.height));
  lib().TIFFRGBAImageEnd(&image);
  if (!good) return damaged(s);
  auto* to = reinterpret_cast<uint8_t*>(r.pixels.data());
  for (uint64_t i = 0, n = r.num_pixels(); i < n; ++i, to += r.channels) {
    uint32_t pixel = 0;
    std::memcpy(&pixel, r.pixels.data() + 4 * i, 4);
    for (int c = 0; c < r.channels; ++c) to[c] = static_cast<uint8_t>(pixel >> 8 * c);
  }
  r.pixels.shrink(r.num_bytes());
  return ok();
}

}  // namespace

Result<Raster> decode_tiff(Bytes file, const DecodeLimits& limits, bool header_only) {
  State s{file};
  MemoryNeed need = directory_memory(file);
  MLC_RETURN_IF_ERROR(need.check(limits, "tiff: the directory"));
  if (auto library = tiff_library(); !library.ok()) return std::move(library).status();
  const Handle tiff = open(s, limits);
  if (!tiff) return damaged(s);
  Raster r;
  r.width = field<uint32_t>(tiff.get(), TIFFTAG_IMAGEWIDTH, 0);
  r.height = field<uint32_t>(tiff.get(), TIFFTAG_IMAGELENGTH, 0);
  MLC_RETURN_IF_ERROR(check_dims(static_cast<uint64_t>(r.width), static_cast<uint64_t>(r.height), limits).note("tiff"));
  const auto compression = field<uint16_t>(tiff.get(), TIFFTAG_COMPRESSION, COMPRESSION_NONE);
  if (std::find(std::begin(kCompressions), std::end(kCompressions), compression) == std::end(kCompressions))
    return Status(Code::Unsupported, "tiff: compression " + std::to_string(compression));
  const Form form = form_of(tiff.get());
  if (form.alpha_is_separate && !form.as_stored)
    return Status(Code::Unsupported,
                  "tiff: alpha beside " + std::to_string(form.bits) + " bits per sample, or in tiles or planes");
  const auto orientation = field<uint16_t>(tiff.get(), TIFFTAG_ORIENTATION, 1);
  r.orientation = orientation >= 1 && orientation <= 8 ? orientation : 1;
  r.channels = form.as_stored ? form.samples : form.alpha ? 4 : 3;
  if (header_only) return r;
  uint64_t largest_strip = 0;
  MLC_RETURN_IF_ERROR(check_strips(tiff.get(), file, compression, largest_strip));
  need.add(pixel_memory(tiff.get(), form, r, compression, largest_strip).bytes);
  MLC_RETURN_IF_ERROR(need.check(limits, r.describe("tiff")));
  MLC_ASSIGN(r.pixels, HostBuffer::allocate(form.as_stored ? r.num_bytes() : r.num_pixels() * 4));
  MLC_RETURN_IF_ERROR(form.as_stored ? read_rows(tiff.get(), s, form.bits, r) : read_converted(tiff.get(), s, r));
  return r;
}

}  // namespace mlc::io
