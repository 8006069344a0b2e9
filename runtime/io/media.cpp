#include "runtime/io/media.h"

#include <algorithm>

namespace mlc::io {
namespace {

bool starts_with(Bytes bytes, std::string_view prefix, size_t at = 0) {
  return bytes.size() >= at + prefix.size() &&
         std::equal(prefix.begin(), prefix.end(), bytes.begin() + at,
                    [](char a, std::byte b) { return static_cast<std::byte>(a) == b; });
}

}  // namespace

Media media_of(Bytes b) {
  if (starts_with(b, "\x89PNG\r\n\x1a\n")) return Media::Png;
  if (starts_with(b, "\xff\xd8\xff")) return Media::Jpeg;
  // Two letters begin many a text: the length of the header that follows has three zeros.
  if (starts_with(b, "BM") && starts_with(b, std::string_view("\0\0\0", 3), 15)) return Media::Bmp;
  if (starts_with(b, std::string_view("\0\0\0\x0cjP  \r\n\x87\n", 12)) || starts_with(b, "\xff\x4f\xff\x51"))
    return Media::Jpeg2000;
  if (b.size() >= 3 && starts_with(b, "P") && b[1] >= std::byte{'1'} && b[1] <= std::byte{'6'} &&
      (b[2] == std::byte{' '} || (b[2] >= std::byte{'\t'} && b[2] <= std::byte{'\r'}) || b[2] == std::byte{'#'}))
    return Media::Pnm;
  if (starts_with(b, std::string_view("II*\0", 4)) || starts_with(b, std::string_view("MM\0*", 4))) return Media::Tiff;
  if (starts_with(b, "RIFF") && starts_with(b, "WEBP", 8)) return Media::WebP;
  if (starts_with(b, "RIFF") && starts_with(b, "WAVE", 8)) return Media::Wav;
  if (starts_with(b, "fLaC")) return Media::Flac;
  if (starts_with(b, "OggS")) return Media::Ogg;
  if (starts_with(b, "\x93NUMPY")) return Media::Npy;
  // An archive of no entries begins with its end record.
  if (starts_with(b, "PK\x03\x04") || starts_with(b, "PK\x05\x06")) return Media::Zip;
  return Media::Unknown;
}

std::string_view media_type(Media media) {
  switch (media) {
    case Media::Unknown: return "unknown";
    case Media::Png: return "image/png";
    case Media::Jpeg: return "image/jpeg";
    case Media::Bmp: return "image/bmp";
    case Media::Jpeg2000: return "image/jp2";
    case Media::Pnm: return "image/x-portable-anymap";
    case Media::Tiff: return "image/tiff";
    case Media::WebP: return "image/webp";
    case Media::Wav: return "audio/wav";
    case Media::Flac: return "audio/flac";
    case Media::Ogg: return "audio/ogg";
    case Media::Npy: return "application/x-npy";
    case Media::Zip: return "application/x-npz";
  }
  return "unknown";
}

std::string_view describe_bytes(Bytes b) {
  if (Media m = media_of(b); m != Media::Unknown) return media_type(m);
  if (b.empty()) return "an empty file";
  if (starts_with(b, "version https://git-lfs")) return "a git-lfs pointer";
  if (starts_with(b, "<!DOCTYPE") || starts_with(b, "<!doctype") || starts_with(b, "<html")) return "a web page";
  if (starts_with(b, "GIF8")) return "a GIF image";
  if (starts_with(b, "%PDF")) return "a PDF file";
  if (starts_with(b, "\x1f\x8b")) return "a gzip file";
  auto text = [](std::byte c) {
    return c >= std::byte{0x20} || c == std::byte{'\n'} || c == std::byte{'\r'} || c == std::byte{'\t'};
  };
  return std::all_of(b.begin(), b.begin() + std::min<size_t>(b.size(), 256), text) ? "text" : "a file of unknown kind";
}

}  // namespace mlc::io
