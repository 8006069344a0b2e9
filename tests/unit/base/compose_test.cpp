#include "base/compose.h"

#include <doctest/doctest.h>

#include "base/counted.h"
#include "base/status.h"

using mlc::compose;

TEST_CASE("every {} stands for the next piece, whatever its type") {
  const std::string name = "x";
  CHECK(compose("'{}' has {} of {}", name, 3u, std::string_view("abc", 2)) == "'x' has 3 of ab");
  CHECK(compose("{}{}", "a", "") == "a");
  CHECK(compose("{}", INT64_MIN) == "-9223372036854775808");
  CHECK(compose("{} {}", UINT64_MAX, int8_t{-1}) == "18446744073709551615 -1");
  CHECK(compose("{}", uint8_t{65}) == "65");
}

TEST_CASE("one of a thing is not several") {
  CHECK(mlc::counted(0, "vector") == "0 vectors");
  CHECK(mlc::counted(1, "vector") == "1 vector");
  CHECK(mlc::counted(3, "vector") == "3 vectors");
  CHECK(mlc::counted(1, "axis", "axes") == "1 axis");
  CHECK(mlc::counted(2, "axis", "axes") == "2 axes");
}

TEST_CASE("braces in a pattern and in pieces are text") {
  CHECK(compose("{\"a\":\"{}\"}", "{}") == "{\"a\":\"{}\"}");
  CHECK(compose("{{}}", 1) == "{1}");
  CHECK(compose("{}{", "{}") == "{}{");
}

TEST_CASE("a text with a zero byte is kept whole") {
  CHECK(compose("<{}>", std::string("a\0b", 3)) == std::string("<a\0b>", 5));
}

TEST_CASE("a status keeps what it was given and what was added") {
  mlc::Status s = mlc::Status(mlc::Code::Malformed, 1101, "is truncated").note("a.mlc").fact("cut off").hint("again");
  const mlc::Status copy = s;
  const mlc::Status moved = std::move(s);
  for (const mlc::Status& x : {copy, moved})
    CHECK(x.text() == "error[E1101]: a.mlc: is truncated\n  cut off\n  help: again");
}
