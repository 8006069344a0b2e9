#include <doctest/doctest.h>

#include "schema/layout_text.h"
#include "schema/placement.h"
#include "schema/validate/validate.h"

using namespace mlc;
using namespace mlc::format;

namespace {

uint64_t bytes_needed(std::string_view text, DType dtype, std::vector<uint64_t> shape) {
  auto layout = parse_layout(text);
  REQUIRE(layout.ok());
  auto bytes = stored_bytes(*layout, dtype, shape);
  return bytes.ok() ? *bytes : UINT64_MAX;
}

}  // namespace

TEST_CASE("A layout says how many bytes a copy has") {
  CHECK(bytes_needed("dense", DType::F32, {3, 4}) == 48);
  CHECK(bytes_needed("dense", DType::F32, {}) == 4);
  CHECK(bytes_needed("dense", DType::I4, {3}) == 2);
  CHECK(bytes_needed("dense", DType::I2, {4}) == 1);
  CHECK(bytes_needed("dense", DType::U2, {5}) == 2);
  CHECK(bytes_needed("dense", DType::F4E2M1, {5}) == 3);
  CHECK(bytes_needed("dense", DType::F8E8M0, {5}) == 5);
  CHECK(bytes_needed("dense", DType::F6E2M3, {5}) == 4);
  CHECK(bytes_needed("dense", DType::F6E3M2, {8}) == 6);
  CHECK(bytes_needed("dense", DType::F32, {0, 7}) == 0);
  CHECK(bytes_needed("K,N->[N/16][K/1][16][1]", DType::F32, {3, 20}) == 2 * 3 * 16 * 4);
  CHECK(bytes_needed("K,N->[N/16][K/4][16][4]", DType::I8, {5, 16}) == 1 * 2 * 16 * 4);
  CHECK(bytes_needed("M,C,U,V->[U][V][M/16][C/1][16][1]", DType::F32, {24, 3, 3, 3}) == 9 * 2 * 3 * 16 * 4);
  CHECK(bytes_needed("N,K->[K][N]", DType::BF16, {5, 7}) == 70);
}

TEST_CASE("Sizes that do not fit 64 bits, a wrong rank and types without a size are errors") {
  CHECK(bytes_needed("dense", DType::F32, {UINT64_MAX, 2}) == UINT64_MAX);
  CHECK(bytes_needed("dense", DType::F64, {uint64_t{1} << 61}) == UINT64_MAX);
  CHECK(bytes_needed("A->[A/3][3]", DType::U8, {UINT64_MAX}) == UINT64_MAX);  // exact: (2^64 - 1) / 3 * 3
  CHECK(bytes_needed("A->[A/16][16]", DType::U8, {UINT64_MAX}) == UINT64_MAX);
  CHECK(bytes_needed("A,B->[A][B]", DType::F32, {4}) == UINT64_MAX);
  CHECK(bytes_needed("dense", DType::Str, {4}) == UINT64_MAX);
  CHECK(bytes_needed("dense", static_cast<DType>(99), {4}) == UINT64_MAX);
}

TEST_CASE("Texts outside the grammar are refused") {
  for (const char* text : {"",
                           "Dense",
                           "K,N",
                           "K,N->",
                           "K,N->[K]",
                           "K,N->[K][N][K]",
                           "K,K->[K]",
                           "K->[J]",
                           "K->[K/0][0]",
                           "K->[K/4]",
                           "K->[K][4]",
                           "K->[K/4][8]",
                           "K,N->[N/16][K/4][4][16]",
                           "K->[K/16][16",
                           "K->K",
                           "K->[K/016][016]",
                           "K->[K/4294967296][4294967296]",
                           "K ->[K]",
                           "1->[1]",
                           "K->[-1]",
                           "K,->[K]"})
    CHECK_MESSAGE(!parse_layout(text).ok(), text);
  CHECK_FALSE(parse_layout(std::string(5000, 'K') + "->[K]").ok());
}

TEST_CASE("Placement leaves no byte between items except alignment, and fails instead of wrapping") {
  std::vector<SegmentShape> shapes = {{Codec::Raw, 100, 100, true},
                                      {Codec::Zstd, 70'000, 3u << 20, true},
                                      {Codec::Raw, 65'535, 65'535, true},
                                      {Codec::Raw, 5, 5, false},
                                      {Codec::Raw, 65'536, 65'536, true}};
  auto p = place(1000, shapes);
  REQUIRE(p);
  CHECK(p->manifest_off == 8192);
  CHECK(p->segments[0].offset == 9216);
  CHECK(p->segments[2].offset == 9472);
  CHECK(p->segments[1].offset == 131'072);
  CHECK(p->segments[3].offset == 0);
  CHECK(p->segments[4].offset == 262'144);
  CHECK(p->leaves_off % 4096 == 0);
  CHECK(p->segments[1].leaves == 3);
  CHECK(p->segments[1].table_len == 3 * 32 + 32);
  CHECK(p->leaves_len == 32 + 128 + 32 + 32);
  CHECK(p->body_size == p->leaves_off + p->leaves_len);

  CHECK_FALSE(place(UINT64_MAX - 5000, shapes));
  CHECK_FALSE(place(1000, std::vector<SegmentShape>{{Codec::Raw, UINT64_MAX, 1, true}}));
  CHECK_FALSE(place(1000, std::vector<SegmentShape>{{Codec::Raw, 1, UINT64_MAX, true}}));
}

TEST_CASE("Text from a file is shown without control characters") {
  CHECK(quoted("a\nb\x1b[2J\"\\") == "\"a\\x0ab\\x1b[2J\\x22\\x5c\"");
  CHECK(quoted("gr\xC3\xBC\xC3\x9F") == "\"gr\xC3\xBC\xC3\x9F\"");
  CHECK(quoted("\xFF") == "\"\\xff\"");
  CHECK(format::quoted(std::string(1000, 'a')).size() < 100);
  CHECK(is_clean_text("gr\xC3\xBC\xC3\x9F", 255));
  for (const char* bad : {"a\tb", "\x7f", "\xC2\x85", "\xE2\x80\xA8", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xC3",
                          "\xC0\xAF", "\xE2\x80\xAE"})
    CHECK_FALSE(is_clean_text(bad, 255));
}
