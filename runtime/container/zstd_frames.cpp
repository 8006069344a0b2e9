#include "runtime/container/zstd_frames.h"

#include <zstd.h>

#include "base/compose.h"
#include "schema/format.h"

namespace mlc::container {
namespace {

// What the frame header says, read here because libzstd's own accessor is not part of its stable interface
// (RFC 8878, section 3.1.1.1).
struct FrameHeader {
  bool single_segment = false, checksum = false, dictionary = false;
  uint64_t window = 0;  // 0 if single_segment: the content size is the window
};

bool parse_frame_header(Bytes frame, FrameHeader& out) {
  constexpr uint8_t magic[] = {0x28, 0xB5, 0x2F, 0xFD};
  if (frame.size() < 6) return false;
  for (size_t i = 0; i < 4; ++i)
    if (frame[i] != std::byte{magic[i]}) return false;
  uint8_t descriptor = static_cast<uint8_t>(frame[4]);
  if ((descriptor & 0x18) != 0) return false;  // unused and reserved bits
  out.single_segment = (descriptor & 0x20) != 0;
  out.checksum = (descriptor & 0x04) != 0;
  out.dictionary = (descriptor & 0x03) != 0;
  if (!out.single_segment) {
    uint8_t window = static_cast<uint8_t>(frame[5]);
    uint64_t base = uint64_t{1} << (10 + (window >> 3));
    out.window = base + base / 8 * (window & 7);
  }
  return true;
}

Status broken(const char* pattern, Pieces pieces = {}) {
  return Status(Code::Malformed, "zstd frame {}", compose_pieces(pattern, pieces));
}

}  // namespace

FrameDecoder::FrameDecoder() : context_(ZSTD_createDCtx()) {}
FrameDecoder::~FrameDecoder() { ZSTD_freeDCtx(context_); }

Status FrameDecoder::decode(Bytes frame, std::span<std::byte> out) {
  if (context_ == nullptr) return Status(Code::Resource, "no memory for decompression");
  FrameHeader header;
  if (!parse_frame_header(frame, header)) return broken("has no valid header");
  if (!header.checksum) return broken("has no checksum");
  if (header.dictionary) return broken("names a dictionary");
  if (header.window > format::kLeafLen) return broken("has a window of more than 1 MiB");
  if (ZSTD_getFrameContentSize(frame.data(), frame.size()) != out.size())
    return broken("does not state a content size of {} bytes", {out.size()});
  if (ZSTD_findFrameCompressedSize(frame.data(), frame.size()) != frame.size())
    return broken("does not end where its leaf ends");
  size_t n = ZSTD_decompressDCtx(context_, out.data(), out.size(), frame.data(), frame.size());
  if (ZSTD_isError(n)) return broken("cannot be decoded: {}", {ZSTD_getErrorName(n)});
  if (n != out.size()) return broken("decodes to another length than it states");
  return ok();
}

}  // namespace mlc::container
