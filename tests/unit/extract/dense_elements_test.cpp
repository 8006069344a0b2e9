// A layout is undone element by element: compared with a slow reading of what spec/container.md says of layouts.
#include <doctest/doctest.h>

#include <numeric>

#include "packager/cli/extract/dense_elements.h"

using namespace mlc;

namespace {

// Places elements 0, 1, 2, ... as the layout says, by blocks: names in the order of `names->`, the k-th constant being the remainder of the k-th divided name.
std::vector<std::byte> placed(const format::ParsedLayout& layout, std::span<const uint64_t> shape) {
  std::vector<std::byte> out(format::stored_bytes(layout, DType::U16, shape).value());
  const uint64_t count = checked_product(shape).value();
  for (uint64_t k = 0; k < count; ++k) {
    std::vector<uint64_t> index(shape.size());
    uint64_t rest = k;
    for (size_t axis = shape.size(); axis-- > 0; rest /= shape[axis]) index[axis] = rest % shape[axis];
    std::vector<uint64_t> remainders;
    for (const auto& factor : layout.factors)
      if (factor.dim >= 0 && factor.number > 1) remainders.push_back(index[static_cast<size_t>(factor.dim)] % factor.number);
    uint64_t at = 0;
    size_t next = 0;
    for (const auto& factor : layout.factors) {
      const uint64_t extent = factor.dim < 0 ? factor.number : (shape[static_cast<size_t>(factor.dim)] + factor.number - 1) / factor.number;
      const uint64_t here = factor.dim >= 0 ? index[static_cast<size_t>(factor.dim)] / factor.number : factor.number == 1 ? 0 : remainders[next++];
      at = at * extent + here;
    }
    out[2 * at] = static_cast<std::byte>(k & 255);
    out[2 * at + 1] = static_cast<std::byte>(k >> 8);
  }
  return out;
}

}  // namespace

TEST_CASE("elements of every layout come out in row-major order") {
  for (const auto& [text, shape] : std::vector<std::pair<std::string, std::vector<uint64_t>>>{
           {"A,B->[B][A]", {5, 7}}, {"A,B->[A/16][B][16]", {33, 5}}, {"A,B->[A/16][B][16]", {16, 1}}, {"K,N->[N/16][K/1][16][1]", {3, 40}}, {"A,B,C,D->[C][D][A/16][B][16]", {20, 3, 2, 2}},
           {"A,B->[A/4][B/2][4][2]", {7, 5}}, {"A->[A/8][8]", {13}}, {"A,B,C->[C/4][A][B/2][4][2]", {2, 3, 9}}}) {
    CAPTURE(text);
    const auto layout = format::parse_layout(text);
    REQUIRE_MESSAGE(layout.ok(), layout.status().text());
    const auto dense = cli::dense_elements(*layout, DType::U16, shape, placed(*layout, shape));
    REQUIRE_MESSAGE(dense.ok(), dense.status().text());
    REQUIRE(dense->size() == 2 * checked_product(shape).value());
    for (uint64_t k = 0; k < dense->size() / 2; ++k) REQUIRE((std::to_integer<unsigned>((*dense)[2 * k]) | std::to_integer<unsigned>((*dense)[2 * k + 1]) << 8) == k);
  }
}

TEST_CASE("elements of less than a byte take one each, with their sign") {
  const format::ParsedLayout dense = format::parse_layout("dense").value();
  const auto read = [&](DType dtype, uint64_t count, std::initializer_list<unsigned> stored) {
    std::vector<std::byte> bytes;
    for (unsigned b : stored) bytes.push_back(static_cast<std::byte>(b));
    const std::vector<uint64_t> shape = {count};
    const auto found = cli::dense_elements(dense, dtype, shape, bytes);
    REQUIRE_MESSAGE(found.ok(), found.status().text());
    std::vector<int> out;
    for (std::byte b : *found) out.push_back(is_signed_int(dtype) ? static_cast<int8_t>(b) : std::to_integer<int>(b));
    return out;
  };
  CHECK(read(DType::U4, 3, {0x21, 0x0f}) == std::vector<int>{1, 2, 15});
  CHECK(read(DType::I4, 3, {0x8f, 0x07}) == std::vector<int>{-1, -8, 7});
  CHECK(read(DType::I2, 5, {0xe4, 0x03}) == std::vector<int>{0, 1, -2, -1, -1});
  CHECK(read(DType::F6E2M3, 4, {0x41, 0x20, 0x0c}) == std::vector<int>{1, 1, 2, 3});
}

TEST_CASE("bytes that are too few or too many are refused") {
  const std::vector<uint64_t> shape = {4, 4};
  CHECK_FALSE(cli::dense_elements(format::parse_layout("dense").value(), DType::F32, shape, std::vector<std::byte>(63)).ok());
  CHECK_FALSE(cli::dense_elements(format::parse_layout("dense").value(), DType::F32, shape, std::vector<std::byte>(65)).ok());
  CHECK_FALSE(cli::dense_elements(format::parse_layout("A,B->[A/16][B][16]").value(), DType::F32, shape, std::vector<std::byte>(64)).ok());
}
