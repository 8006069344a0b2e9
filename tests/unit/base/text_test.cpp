#include "base/text/text.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

using namespace mlc;

namespace {

std::string shown(double v, bool single) {
  char text[kNumberChars];
  return std::string(text, write_real(v, single, text));
}
std::string cased(const std::string& s, bool upper) {
  std::string out;
  char letter[4];
  for (size_t at = 0; at < s.size();) out.append(letter, next_in_case(s, at, upper, letter));
  return out;
}

}  // namespace

TEST_CASE("numbers are written as short as they can be read back, as NumPy does") {
  CHECK(shown(1, false) == "1.0");
  CHECK(shown(-0.0, false) == "-0.0");
  CHECK(shown(0.1f, true) == "0.1");
  CHECK(shown(0.1f, false) == "0.10000000149011612");
  CHECK(shown(0.47892547f, true) == "0.47892547");
  CHECK(shown(1e-5, false) == "1e-05");
  CHECK(shown(0.00015, false) == "0.00015");
  CHECK(shown(1e15, false) == "1000000000000000.0");
  CHECK(shown(1e16, false) == "1e+16");
  CHECK(shown(1.7976931348623157e308, false) == "1.7976931348623157e+308");
  CHECK(shown(NAN, true) == "nan");
  CHECK(shown(-INFINITY, true) == "-inf");
}

TEST_CASE("numbers are read with blanks, signs, exponents and names of what is no number; anything more is refused") {
  double v = 0;
  CHECK((read_real(" +3.5e2\n", v) && v == 350));
  CHECK((read_real("INF", v) && std::isinf(v)));
  CHECK((read_real("+inf", v) && v > 0));
  CHECK((read_real("-Infinity", v) && v < 0));
  CHECK((read_real("NaN", v) && std::isnan(v)));
  CHECK((read_real("1e999", v) && std::isinf(v)));
  CHECK((read_real("-1e-999", v) && v == 0 && std::signbit(v)));
  for (const char* wrong : {"", " ", "+", "1 2", "1e", "x", "+-1", "0x10", "1_0"}) CHECK_FALSE(read_real(wrong, v));
  int64_t i = 0;
  CHECK((read_integer(" -12 ", i) && i == -12));
  CHECK_FALSE(read_integer("9223372036854775808", i));
  CHECK_FALSE(read_integer("1.0", i));
}

TEST_CASE("case changes letters of the scripts that are named, and nothing else") {
  CHECK(cased("MONDAY \xC3\x84\xC3\x96\xC3\x97\xC3\x9F", false) == "monday \xC3\xA4\xC3\xB6\xC3\x97\xC3\x9F");  // ÄÖ×ß
  CHECK(cased("stra\xC3\x9F" "e", true) == "STRA\xC3\x9F" "E");
  CHECK(cased("\xD0\xBF\xD1\x80\xD1\x91", true) == "\xD0\x9F\xD0\xA0\xD0\x81");                          // прё
  CHECK(cased("\xCE\x86\xCE\xA3", false) == "\xCE\xAC\xCF\x83");                                      // ΆΣ
  CHECK(cased("\xC4\x8D\xC5\xBE", true) == "\xC4\x8C\xC5\xBD");                                        // čž
  CHECK(cased("\xE6\x97\xA5 a\xFF\xC3", true) == "\xE6\x97\xA5 A\xFF\xC3");                            // 日, and what is no UTF-8
  for (uint32_t c = 0; c < 0x600; ++c) {
    CHECK(in_case(in_case(c, false), false) == in_case(c, false));
    CHECK(in_case(c, true) < 0x800);
    CHECK((in_case(c, true) < 0x80) == (c < 0x80));
  }
}

TEST_CASE("a table that is not as it should be accepts nothing") {
  std::vector<int32_t> table(2 + 256 + 2 + 2, 0);  // states 0 and 1, one class: every text
  table[0] = 2, table[1] = 1;
  table[258 + 1] = 1;
  table[260 + 1] = 1;
  CHECK(accepts(table.data(), table.size(), "anything"));
  CHECK_FALSE(accepts(table.data(), table.size() - 1, "anything"));
  CHECK_FALSE(accepts(table.data(), 0, ""));
  auto damaged = [&](size_t at, int32_t value) {
    auto copy = table;
    copy[at] = value;
    return accepts(copy.data(), copy.size(), "anything");
  };
  CHECK_FALSE(damaged(0, INT32_MAX));
  CHECK_FALSE(damaged(1, -1));
  CHECK_FALSE(damaged(2 + 'a', 1));
  CHECK_FALSE(damaged(2 + 'a', -1));
  CHECK_FALSE(damaged(261, 2));
  CHECK_FALSE(damaged(261, INT32_MIN));
}

TEST_CASE("code points are written and read back as strict UTF-8") {
  for (const uint32_t c : {0u, 0x24u, 0x7Fu, 0x80u, 0xE9u, 0x7FFu, 0x800u, 0x20ACu, 0xFFFDu, 0x10000u, 0x1F600u, 0x10FFFFu}) {
    CAPTURE(c);
    std::string text = "x";
    append_utf8(text, c);
    uint32_t read = 0;
    CHECK(decode_utf8(text, 1, read) == text.size() - 1);
    CHECK(read == c);
  }
  uint32_t c = 0;
  for (const char* bad : {"\x80", "\xC0\x80", "\xC3", "\xE2\x82", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xFF"}) {
    CAPTURE(bad);
    CHECK(decode_utf8(bad, 0, c) == 0);
  }
}

TEST_CASE("a word stands in a list only as a whole") {
  for (const char* word : {"min", "max", "floordiv"}) CHECK(is_word_of("min max floordiv", word));
  for (const char* word : {"", " ", "mi", "ax", "floor", "div", "min max", "MIN"}) {
    CAPTURE(word);
    CHECK_FALSE(is_word_of("min max floordiv", word));
  }
  CHECK(is_word_of("aab ab b", "b"));
  CHECK_FALSE(is_word_of("", "a"));
}

TEST_CASE("what is there twice is found, the empty text too") {
  std::string_view which = "-";
  std::vector<std::string_view> texts = {"b", "a", "c"};
  CHECK_FALSE(find_twice(texts, which));
  CHECK(which == "-");
  texts = {"b", "a", "b"};
  CHECK(find_twice(texts, which));
  CHECK(which == "b");
  texts = {"", "a", ""};
  CHECK(find_twice(texts, which));
  CHECK(which.empty());
}
