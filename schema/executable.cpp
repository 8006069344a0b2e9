#include "schema/executable.h"

#include <algorithm>
#include <cstring>

#include "base/byte_cursor.h"
#include "schema/format.h"

namespace mlc::format {

std::optional<uint64_t> offset_behind(uint64_t runner_bytes) {
  const auto padded = checked_add(runner_bytes, kPageAlign - 1);
  return padded ? std::optional(*padded / kPageAlign * kPageAlign) : std::nullopt;
}

std::array<std::byte, kTrailerLen> trailer_of(const ContainerPart& part) {
  std::array<std::byte, kTrailerLen> out;
  std::transform(kTrailerMagic.begin(), kTrailerMagic.end(), out.begin(), [](char c) { return static_cast<std::byte>(c); });
  for (size_t i = 0; i < 8; ++i) {
    out[8 + i] = static_cast<std::byte>(part.offset >> 8 * i);
    out[16 + i] = static_cast<std::byte>(part.length >> 8 * i);
  }
  return out;
}

Status find_part(std::span<const std::byte, kTrailerLen> last, uint64_t file_bytes, const std::string& name, ContainerPart& part) {
  if (std::memcmp(last.data(), kTrailerMagic.data(), kTrailerMagic.size()) != 0) return ok();
  part = {load_uint(last.subspan<8, 8>()), load_uint(last.subspan<16, 8>())};
  const uint64_t end = file_bytes - kTrailerLen;
  if (part.offset != 0 && part.offset % kPageAlign == 0 && part.offset <= end && part.length == end - part.offset && part.length >= kHeaderLen) return ok();
  return Status(Code::Malformed, 1102, "{} has {} bytes, and its trailer names {} from {} on", name, file_bytes, part.length, part.offset)
      .hint("copy or download it again");
}

std::optional<uint64_t> elf_end(Bytes front) {
  constexpr std::string_view kMagic64 = "\x7f" "ELF\x02\x01";
  ByteCursor cursor(front);
  if (front.size() < 64 || cursor.text(kMagic64.size()) != kMagic64) return std::nullopt;
  const uint64_t table = load_uint(front.subspan(0x28, 8));
  const uint64_t entry_len = load_uint(front.subspan(0x3A, 2)), entries = load_uint(front.subspan(0x3C, 2));
  return table == 0 || entries == 0 ? std::nullopt : checked_add(table, entry_len * entries);
}

}  // namespace mlc::format
