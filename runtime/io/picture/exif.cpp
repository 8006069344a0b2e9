#include "runtime/io/picture/exif.h"

#include "base/byte_cursor.h"

namespace mlc::io {

using namespace std::string_view_literals;

int exif_orientation(Bytes data) {
  constexpr uint16_t kOrientationTag = 0x0112, kTypeShort = 3;
  ByteCursor start(data);
  if (start.text(6) == "Exif\0\0"sv) data = start.rest();
  const std::string_view mark = ByteCursor(data).text(4);
  const bool is_little = mark == "II*\0"sv, is_big = mark == "MM\0*"sv;
  if (!is_little && !is_big) return 1;
  const ByteCursor file(data, is_big ? std::endian::big : std::endian::little);
  ByteCursor in = file.at(file.at(4).take<uint32_t>());
  for (auto entries = in.take<uint16_t>(); entries > 0; --entries) {
    const auto tag = in.take<uint16_t>(), type = in.take<uint16_t>();
    const auto count = in.take<uint32_t>();
    const auto value = in.take<uint16_t>();
    if (in.failed()) return 1;
    if (tag == kOrientationTag)
      return type == kTypeShort && count == 1 && value >= 1 && value <= 8 ? value : 1;
    in.skip(2);
  }
  return 1;
}

}  // namespace mlc::io
