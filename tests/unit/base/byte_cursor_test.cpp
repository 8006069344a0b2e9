#include "base/byte_cursor.h"

#include <doctest/doctest.h>

#include <array>

using namespace mlc;

namespace {

template <class... B>
std::vector<std::byte> bytes_of(B... b) {
  return {static_cast<std::byte>(b)...};
}

}  // namespace

TEST_CASE("numbers of every width, in both orders") {
  const auto bytes = bytes_of(1, 2, 3, 4, 5, 6, 7, 0x88, 9);
  ByteCursor little(bytes);
  CHECK(little.take<uint8_t>() == 1);
  CHECK(little.take<uint16_t>() == 0x0302);
  CHECK(little.take_uint(3) == 0x060504);
  CHECK(little.take<uint16_t>() == 0x8807);
  CHECK(little.offset() == 8);
  CHECK(little.left() == 1);
  CHECK_FALSE(little.done());
  CHECK(ByteCursor(bytes).take<uint64_t>() == 0x8807060504030201u);
  CHECK(ByteCursor(bytes).take<int64_t>() == static_cast<int64_t>(0x8807060504030201u));

  ByteCursor big(bytes, std::endian::big);
  CHECK(big.take<uint32_t>() == 0x01020304);
  CHECK(big.take_uint(3) == 0x050607);
  CHECK(big.take<int8_t>() == -0x78);
  CHECK(big.take<uint8_t>() == 9);
  CHECK(big.done());
}

TEST_CASE("what lies behind the end is zero, and the cursor has failed for good") {
  const auto bytes = bytes_of(1, 2, 3);
  ByteCursor in(bytes);
  CHECK(in.take<uint8_t>() == 1);
  CHECK(in.take<uint32_t>() == 0);
  CHECK(in.failed());
  CHECK(in.offset() == 1);  // where it failed
  CHECK(in.left() == 0);
  CHECK_FALSE(in.done());
  CHECK(in.take<uint8_t>() == 0);  // though it was there before
  CHECK(in.bytes(1).empty());
  CHECK(in.rest().empty());
  CHECK(in.offset() == 1);
  CHECK(in.at(0).failed());

  ByteCursor none(Bytes{});
  CHECK(none.done());
  CHECK(none.bytes(0).empty());
  CHECK_FALSE(none.failed());
  CHECK(none.take<uint8_t>() == 0);
  CHECK(none.failed());
}

TEST_CASE("lengths and offsets that wrap are behind the end") {
  const auto bytes = bytes_of(1, 2, 3, 4);
  for (const uint64_t length : {uint64_t{4}, uint64_t{1} << 32, uint64_t{1} << 63, UINT64_MAX - 1, UINT64_MAX}) {
    CAPTURE(length);
    ByteCursor in(bytes);
    in.skip(1);
    CHECK(in.bytes(length).empty());
    CHECK(in.failed());
    CHECK(ByteCursor(bytes).at(length).take<uint8_t>() == 0);
    ByteCursor skipped(bytes);
    skipped.skip(1);
    skipped.skip(length);
    CHECK(skipped.failed());
    ByteCursor zeros(bytes);
    zeros.skip_zeros(length);
    CHECK(zeros.failed());
  }
  CHECK_FALSE(ByteCursor(bytes).at(4).failed());
  CHECK(ByteCursor(bytes).at(5).failed());
}

TEST_CASE("pieces, texts and other places") {
  const auto bytes = bytes_of('R', 'I', 'F', 'F', 1, 0);
  ByteCursor in(bytes);
  CHECK(in.text(4) == "RIFF");
  CHECK(in.rest().size() == 2);
  CHECK(in.at(1).text(3) == "IFF");
  CHECK(in.offset() == 4);  // the other one moved
  CHECK(in.bytes(2).size() == 2);
  CHECK(in.done());
}

TEST_CASE("padding is there and zero") {
  const auto good = bytes_of(7, 0, 0, 0, 5);
  ByteCursor in(good);
  in.skip_padding(4);
  CHECK(in.offset() == 0);
  in.skip(1);
  in.skip_padding(4);
  CHECK(in.offset() == 4);
  CHECK(in.take<uint8_t>() == 5);
  CHECK_FALSE(in.failed());
  in.skip_padding(4);
  CHECK(in.failed());

  const auto bad = bytes_of(7, 0, 1, 0);
  ByteCursor other(bad);
  other.skip(1);
  other.skip_padding(4);
  CHECK(other.failed());
  CHECK(other.offset() == 2);  // of the byte that is not zero
}

TEST_CASE("what the builder wrote the cursor reads") {
  ByteBuilder out;
  out.put("tag").put_uint(0xABCD, 2).put_uint(0x123456, 3);
  out.pad(8);
  out.put_uint(static_cast<uint64_t>(-2), 4).put(std::as_bytes(std::span("xy", 2)));
  const std::vector<std::byte> bytes = out.take();
  CHECK(bytes.size() == 14);
  ByteCursor in(bytes);
  CHECK(in.text(3) == "tag");
  CHECK(in.take<uint16_t>() == 0xABCD);
  CHECK(in.take_uint(3) == 0x123456);
  in.skip_padding(8);
  CHECK(in.take<int32_t>() == -2);
  CHECK(in.text(2) == "xy");
  CHECK(in.done());
}
