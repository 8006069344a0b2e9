#include "base/packed_texts.h"

#include <doctest/doctest.h>

using namespace mlc;

namespace {

constexpr auto rows() {
  using std::string_view_literals::operator""sv;
  return std::to_array<std::array<std::string_view, 2>>({{"one", ""}, {"", "a\0b"sv}, {"three", "3"}});
}
constexpr auto kTexts = pack_texts<rows>();

}  // namespace

TEST_CASE("packed texts are those that were packed") {
  const auto all = rows();
  for (size_t row = 0; row < all.size(); ++row)
    for (size_t column = 0; column < 2; ++column) CHECK(kTexts.at(row, column) == all[row][column]);
}

TEST_CASE("the words of a list are counted from 0 and end") {
  CHECK(nth_word("none|elf|operator text", 0) == "none");
  CHECK(nth_word("none|elf|operator text", 1) == "elf");
  CHECK(nth_word("none|elf|operator text", 2) == "operator text");
  CHECK(nth_word("none|elf|operator text", 3) == "unknown");
  CHECK(nth_word("none|elf|operator text", 255) == "unknown");
}
