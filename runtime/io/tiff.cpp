// libtiff, on bytes in memory: the first picture of a file. Grey and RGB of 8 and 16 bits in strips are taken as
// stored, of 16 bits the high byte; everything else goes through libtiff's own conversion to RGBA, which multiplies
// colours by an alpha that is not part of them yet, so such files are refused there.
#include <tiffio.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>

#include "runtime/io/image.h"
#include "runtime/io/raster.h"

namespace mlc::io {
namespace {

constexpr tmsize_t kMaxAllocation = tmsize_t{1} << 30;  // one of libtiff's own
// What pictures use. The others are code that nobody has looked at for long.
constexpr uint16_t kCompressions[] = {COMPRESSION_NONE,          COMPRESSION_CCITTRLE, COMPRESSION_CCITTFAX3,
                                      COMPRESSION_CCITTFAX4,     COMPRESSION_LZW,      COMPRESSION_JPEG,
                                      COMPRESSION_ADOBE_DEFLATE, COMPRESSION_DEFLATE,  COMPRESSION_PACKBITS};

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
  void operator()(TIFF* t) const { TIFFClose(t); }
};
using Handle = std::unique_ptr<TIFF, Closed>;

Handle open(State& s) {
  TIFFOpenOptions* const options = TIFFOpenOptionsAlloc();
  if (!options) return nullptr;
  TIFFOpenOptionsSetMaxSingleMemAlloc(options, kMaxAllocation);
  TIFFOpenOptionsSetErrorHandlerExtR(options, on_error, &s);
  TIFFOpenOptionsSetWarningHandlerExtR(options, on_warning, &s);
  Handle tiff(
      TIFFClientOpenExt("picture", "rm", &s, on_read, on_write, on_seek, on_close, on_size, nullptr, nullptr, options));
  TIFFOpenOptionsFree(options);
  return tiff;
}

Status damaged(const State& s) {
  return Status(Code::Malformed, std::string("tiff: ") + (s.message[0] ? s.message : "the file is damaged"));
}

template <class T>
T field(TIFF* tiff, uint32_t tag, T otherwise) {
  T value = otherwise;
  return TIFFGetFieldDefaulted(tiff, tag, &value) ? value : otherwise;
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
  if (TIFFGetFieldDefaulted(tiff, TIFFTAG_EXTRASAMPLES, &extra, &kinds) && extra > 0 && kinds) {
    f.alpha = kinds[0] == EXTRASAMPLE_ASSOCALPHA || kinds[0] == EXTRASAMPLE_UNASSALPHA;
    f.alpha_is_separate = kinds[0] == EXTRASAMPLE_UNASSALPHA;
  }
  const int colours = f.photometric == PHOTOMETRIC_RGB ? 3 : f.photometric == PHOTOMETRIC_MINISBLACK ? 1 : 0;
  f.as_stored = colours > 0 && (f.bits == 8 || f.bits == 16) && f.samples == colours + (f.alpha ? 1 : 0) &&
                !TIFFIsTiled(tiff) &&
                field<uint16_t>(tiff, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG) == PLANARCONFIG_CONTIG &&
                field<uint16_t>(tiff, TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_UINT) == SAMPLEFORMAT_UINT;
  return f;
}

Status read_rows(TIFF* tiff, const State& s, unsigned bits, Raster& r) {
  const auto samples = static_cast<uint64_t>(r.width) * static_cast<uint64_t>(r.channels);
  const uint64_t stride = samples * bits / 8;
  if (static_cast<uint64_t>(TIFFScanlineSize64(tiff)) != stride) return damaged(s);
  MLC_ASSIGN(HostBuffer row, HostBuffer::allocate(stride));
  for (int64_t y = 0; y < r.height; ++y) {
    if (TIFFReadScanline(tiff, row.data(), static_cast<uint32_t>(y), 0) < 0) return damaged(s);
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
  if (!TIFFRGBAImageOK(tiff, why) || !TIFFRGBAImageBegin(&image, tiff, 1, why))
    return Status(Code::Unsupported, std::string("tiff: ") + std::string(why, strnlen(why, sizeof why)));
  image.req_orientation = image.orientation;  // rows as stored
  const uint64_t pixels = static_cast<uint64_t>(r.width) * static_cast<uint64_t>(r.height);
  auto packed = HostBuffer::allocate(pixels * 4);
  const bool good = packed.ok() && TIFFRGBAImageGet(&image, reinterpret_cast<uint32_t*>(packed->data()),
                                                    static_cast<uint32_t>(r.width), static_cast<uint32_t>(r.height));
  TIFFRGBAImageEnd(&image);
  if (!packed.ok()) return std::move(packed).status();
  if (!good) return damaged(s);
  auto* to = reinterpret_cast<uint8_t*>(r.pixels.data());
  for (uint64_t i = 0; i < pixels; ++i, to += r.channels) {
    uint32_t pixel = 0;
    std::memcpy(&pixel, packed->data() + 4 * i, 4);
    for (int c = 0; c < r.channels; ++c) to[c] = static_cast<uint8_t>(pixel >> 8 * c);
  }
  return ok();
}

}  // namespace

Result<Raster> decode_tiff(Bytes file, const DecodeLimits& limits, bool header_only) {
  State s{file};
  const Handle tiff = open(s);
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
  const uint64_t pixels = static_cast<uint64_t>(r.width) * static_cast<uint64_t>(r.height);
  MLC_ASSIGN(r.pixels, HostBuffer::allocate(pixels * static_cast<uint64_t>(r.channels)));
  MLC_RETURN_IF_ERROR(form.as_stored ? read_rows(tiff.get(), s, form.bits, r) : read_converted(tiff.get(), s, r));
  return r;
}

}  // namespace mlc::io
