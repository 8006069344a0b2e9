// RFC 9639, section 8: "fLaC", then blocks of one byte of kind, three of length, and that.
#include "base/byte_cursor.h"
#include "runtime/io/sound/sound_headers.h"

namespace mlc::io {
namespace {

// The library's handle, and of a frame of 65,535 samples and 8 channels what is read, what is left of it after prediction, and what libsndfile keeps.
constexpr uint64_t kFlacMemory = 16 << 20;
constexpr uint64_t kPerMetadataByte = 12;  // a comment of four bytes becomes a structure and a copy

Status bad_flac(std::string what) { return Status(Code::Malformed, "flac: " + std::move(what)); }

}  // namespace

Result<SoundHeader> flac_header(Bytes file) {
  ByteCursor in(file, std::endian::big);
  if (in.text(4) != "fLaC") return bad_flac("the file does not begin as one");
  SoundHeader header;
  uint64_t metadata = 0;
  for (bool is_first = true, is_last = false; !is_last; is_first = false) {
    const auto head = in.take<uint32_t>();
    is_last = (head >> 31) != 0;
    const uint32_t kind = head >> 24 & 0x7F, length = head & 0xFFFFFF;
    const Bytes block = in.bytes(length);
    if (in.failed()) return bad_flac("truncated in the blocks before the first frame");
    metadata += length;
    if (is_first != (kind == 0)) return bad_flac("the information on the stream is not the first block, or is there twice");
    if (!is_first) continue;
    if (length != 34) return bad_flac("information on the stream of " + std::to_string(length) + " bytes, expected 34");
    header.channels = (static_cast<uint32_t>(block[12]) >> 1 & 7) + 1;
  }
  header.memory = kFlacMemory + metadata * kPerMetadataByte;
  return header;
}

}  // namespace mlc::io
