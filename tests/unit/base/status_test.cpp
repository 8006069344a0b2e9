#include "base/status.h"

#include <doctest/doctest.h>

#include <memory>

using namespace mlc;

TEST_CASE("a status takes message, notes, facts and hint in pieces or as they are") {
  const std::string name = "cat.mlc";
  Status s(Code::Malformed, 1101, "{} has {} bytes", name, 7);
  s = std::move(s).note("part {}", 2u).note("file").fact("found {}", -1).fact(std::string("{}")).hint("ask {}", name);
  CHECK(s.code == Code::Malformed);
  CHECK(s.number == 1101);
  CHECK(s.message == "file: part 2: cat.mlc has 7 bytes");
  REQUIRE(s.facts.size() == 2);
  CHECK(s.facts[0] == "found -1");
  CHECK(s.facts[1] == "{}");
  CHECK(s.help == "ask cat.mlc");
  CHECK(Status(Code::Usage, "no {} here").message == "no {} here");
  CHECK(Status(Code::Usage, "'{}'", std::string_view("{}")).message == "'{}'");
}

TEST_CASE("a result holds its value or its status through copies, moves and assignments") {
  Result<std::string> text = std::string(100, 'x');
  Result<std::string> copy = text;
  REQUIRE(copy.ok());
  CHECK(*copy == *text);
  copy = Status(Code::NotFound, "gone");
  REQUIRE_FALSE(copy.ok());
  CHECK(copy.status().message == "gone");
  text = copy;
  CHECK(text.status().code == Code::NotFound);
  text = std::string("back");
  CHECK(*text == "back");
  copy = std::move(text);
  CHECK(std::move(copy).value() == "back");

  Result<std::unique_ptr<int>> owned = std::make_unique<int>(3);
  Result<std::unique_ptr<int>> moved = std::move(owned);
  REQUIRE(moved.ok());
  CHECK(**moved == 3);
  const Status refused(Code::Resource, "full");
  moved = refused;
  CHECK(moved.status().message == refused.message);
}
