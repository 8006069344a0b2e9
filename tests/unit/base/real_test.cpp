#include "base/text/real.h"

#include <doctest/doctest.h>

#include <cstring>
#include <random>
#include <string>

using namespace mlc;

namespace {

// What both say: where the number ends, how it went, and its bits.
struct Read {
  long length;
  std::errc error;
  uint64_t bits;
};

Read read(const std::string& text, std::from_chars_result (*reader)(const char*, const char*, double&)) {
  double value = 42;
  const auto [end, error] = reader(text.data(), text.data() + text.size(), value);
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return {static_cast<long>(end - text.data()), error, bits};
}

void check_equal(const std::string& text) {
  CAPTURE(text);
  const Read expected = read(text, real_from_chars<double>);
  const Read found = read(text, real_by_strtod);
  CHECK(found.length == expected.length);
  CHECK(found.error == expected.error);
  CHECK(found.bits == expected.bits);
}

}  // namespace

TEST_CASE("the reader of numbers by strtod says what std::from_chars says") {
  for (const char* text :
       {"", "-", "+1", " 1", ".", "-.", ".e1", "e1", "1", "-0", "0.5", ".5", "5.", "5.e3", "1e", "1e+", "1e-", "1e5x", "1E5", "1e+05",
        "0x10", "1_0", "1,5", "inf", "-inf", "INF", "Infinity", "infinit", "-infinityx", "i", "nan", "-nan", "NaN", "nan(", "nan()",
        "nan(ab_1)", "nan(-)", "1e308", "1.7976931348623157e308", "1.7976931348623159e308", "1e309", "-1e309", "1e99999999999999999999",
        "1e-99999999999999999999", "0e99999999999999999999", "4.9e-324", "2.4e-324", "2.5e-324", "2.2250738585072011e-308",
        "0.1", "9007199254740993", "9007199254740992.99999999999999999999", "--1", "-+1", "1.2.3"})
    check_equal(text);
  check_equal(std::string(2000, '1'));
  check_equal("0." + std::string(400, '0') + "1");
  check_equal(std::string(300, '9') + "." + std::string(300, '9') + "e-300");
}

TEST_CASE("the reader of numbers by strtod says it of texts by chance too") {
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    const size_t length = random() % 24;
    for (size_t k = 0; k < length; ++k) text += "0123456789012345678901234567890123456789..eE+-"[random() % 46];
    check_equal(text);
  }
}
