#include "registry/texts/tar.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "registry/texts/reference.h"

namespace mlc::registry {
namespace {

constexpr uint64_t kBlock = 512;
constexpr uint64_t kEnd = 2 * kBlock;  // zeros behind the last entry
constexpr uint64_t kLargestOctal = (uint64_t{1} << 33) - 1;
using Block = std::array<char, kBlock>;

uint64_t rounded(uint64_t size) { return (size + kBlock - 1) / kBlock * kBlock; }

void put_octal(Block& block, size_t offset, size_t digits, uint64_t value) {
  for (size_t k = digits; k-- > 0; value /= 8) block[offset + k] = static_cast<char>('0' + value % 8);
}

// 12 bytes: eleven octal digits, or, beyond 8 GiB, the number itself, big end first, with the highest bit of the field set, as all
// of today's readers understand it.
void put_size(Block& block, uint64_t size) {
  constexpr size_t offset = 124, length = 12;
  if (size <= kLargestOctal) return put_octal(block, offset, length - 1, size);
  for (size_t k = length; k-- > 4; size >>= 8) block[offset + k] = static_cast<char>(size & 0xff);
  block[offset] = static_cast<char>(0x80);
}

uint64_t sum_of(const Block& block) {
  uint64_t sum = 0;
  for (size_t k = 0; k < block.size(); ++k) sum += k >= 148 && k < 156 ? ' ' : static_cast<unsigned char>(block[k]);
  return sum;
}

// Owner 0, no names of owners, time 0.
Block entry(std::string_view name, uint64_t mode, uint64_t size, char type) {
  Block block{};
  std::copy(name.begin(), name.end(), block.begin());
  put_octal(block, 100, 7, mode);
  put_octal(block, 108, 7, 0);
  put_octal(block, 116, 7, 0);
  put_size(block, size);
  put_octal(block, 136, 11, 0);
  block[156] = type;
  std::memcpy(block.data() + 257, "ustar\0" "00", 8);
  put_octal(block, 329, 7, 0);
  put_octal(block, 337, 7, 0);
  put_octal(block, 148, 6, sum_of(block));
  block[155] = ' ';
  return block;
}

std::optional<uint64_t> octal_in(std::string_view field) {
  uint64_t value = 0;
  size_t k = 0;
  while (k < field.size() && field[k] == ' ') ++k;
  for (; k < field.size() && field[k] >= '0' && field[k] <= '7'; ++k) value = value * 8 + static_cast<uint64_t>(field[k] - '0');
  for (; k < field.size(); ++k)
    if (field[k] != ' ' && field[k] != 0) return std::nullopt;
  return value;
}

std::optional<uint64_t> size_in(const Block& block) {
  const std::string_view field(block.data() + 124, 12);
  if (static_cast<unsigned char>(field[0]) != 0x80) return static_cast<unsigned char>(field[0]) < 0x80 ? octal_in(field) : std::nullopt;
  uint64_t value = 0;
  for (size_t k = 1; k < field.size(); ++k) {
    if (k < 4 && field[k] != 0) return std::nullopt;
    value = value << 8 | static_cast<unsigned char>(field[k]);
  }
  return value;
}

std::string_view text_in(const Block& block, size_t offset, size_t length) {
  const std::string_view field(block.data() + offset, length);
  return field.substr(0, std::min(field.find('\0'), length));
}

Status no_file(const std::string& why) { return Status(Code::Registry, "the layer holds no container: " + why); }

}  // namespace

uint64_t tar_size(uint64_t file_size) { return kTarHead + rounded(file_size) + kEnd; }

Upload tar_of(const Upload& file) {
  std::array<char, kTarHead> head{};
  const Block folder = entry("models/", 0755, 0, '5'), model = entry(kTarPath, 0444, file.size, '0');
  std::copy(folder.begin(), folder.end(), head.begin());
  std::copy(model.begin(), model.end(), head.begin() + kBlock);
  return Upload{tar_size(file.size), [head, file](uint64_t offset, std::span<std::byte> out) -> Status {
    while (!out.empty()) {
      size_t taken = out.size();
      if (offset < kTarHead) {
        taken = static_cast<size_t>(std::min<uint64_t>(taken, kTarHead - offset));
        std::memcpy(out.data(), head.data() + offset, taken);
      } else if (offset - kTarHead < file.size) {
        taken = static_cast<size_t>(std::min<uint64_t>(taken, file.size - (offset - kTarHead)));
        MLC_RETURN_IF_ERROR(file.read(offset - kTarHead, out.first(taken)));
      } else {
        std::memset(out.data(), 0, taken);
      }
      offset += taken;
      out = out.subspan(taken);
    }
    return ok();
  }};
}

Result<TarPlace> find_in_tar(Bytes head, uint64_t size) {
  const uint64_t reach = std::min<uint64_t>({head.size(), kMaxTarHead, size});
  for (uint64_t at = 0; at + kBlock <= reach;) {
    Block block;
    std::memcpy(block.data(), head.data() + at, kBlock);
    if (octal_in({block.data() + 148, 8}) != sum_of(block)) return no_file("it is no tar, or a compressed one");
    const auto length = size_in(block);
    const char type = block[156];
    if (!length || *length > size) return no_file("an entry has no size");
    std::string name(text_in(block, 345, 155));
    name += (name.empty() ? "" : "/") + std::string(text_in(block, 0, 100));
    at += kBlock;
    if (name == kTarPath && (type == '0' || type == 0)) {
      if (*length > size - at) return no_file(std::string(kTarPath) + " is said to have more bytes than the layer");
      if (size - at - *length > kMaxTarTail) return no_file("more than one file is in it");
      return TarPlace{at, *length};
    }
    at += rounded(*length);
  }
  return no_file(std::string(kTarPath) + " is not the first file in it");
}

}  // namespace mlc::registry
