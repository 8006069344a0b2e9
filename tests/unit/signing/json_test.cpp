#include "signing/json.h"

#include "support.h"

using namespace mlc;
using namespace mlc::signing;
using namespace mlc::signing::test;

namespace {

bool accepts(std::string_view text) { return parse_json(bytes_of(text)).ok(); }
std::string message(std::string_view text) { return parse_json(bytes_of(text)).status().message; }

}  // namespace

TEST_CASE("a document is read into a tree with exact integers") {
  const auto json =
      parse_json(bytes_of(R"({"a":[1,-2,18446744073709551615,2.5,true,null],"b":{"c":"\u00e9\n"},"d":"42"})"));
  REQUIRE(json.ok());
  const Json* a = json->find("a");
  REQUIRE(a);
  REQUIRE(a->items.size() == 6);
  CHECK(a->items[0].as_u64() == 1);
  CHECK_FALSE(a->items[1].as_u64());
  CHECK(a->items[1].negative);
  CHECK(a->items[2].as_u64() == UINT64_MAX);
  CHECK(a->items[3].is(Json::Kind::Float));
  CHECK(a->items[4].boolean);
  CHECK(a->items[5].is(Json::Kind::Null));
  CHECK(*json->find("b")->text("c") == "\xc3\xa9\n");
  CHECK(json->find("d")->as_u64() == 42);
  CHECK(json->find("e") == nullptr);
  CHECK(json->text("a") == nullptr);
}

TEST_CASE("what RFC 8259 forbids, and what it leaves open, is refused") {
  for (const char* text :
       {"", " ", "{", "}", "[1,]", "{\"a\":1,}", "{\"a\"}", "{a:1}", "'a'", "01", "+1", "1.", ".5", "NaN", "Infinity",
        "nul", "1 2", "{} x", "[1]]", "// c\n1", "/* c */ 1", "\"\t\"", "\"\\x\"", "\"\\ud800\"", "\"\xff\"",
        "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\xEF\xBB\xBF{}", "18446744073709551616", "-9223372036854775809"}) {
    CAPTURE(text);
    CHECK_FALSE(accepts(text));
  }
  CHECK_FALSE(accepts(std::string_view("1\0", 2)));
  CHECK_FALSE(accepts(std::string_view("{}\0{\"a\":1}", 9)));
  CHECK(accepts("\"\\u0000\""));
  CHECK_FALSE(accepts("1e999"));
}

TEST_CASE("a key that stands twice in one object is refused, in two objects it is fine") {
  CHECK_FALSE(accepts(R"({"a":1,"a":1})"));
  CHECK_FALSE(accepts(R"({"a":1,"\u0061":2})"));
  CHECK_FALSE(accepts(R"([{"x":{"k":1,"l":2,"k":3}}])"));
  CHECK(accepts(R"([{"a":1},{"a":1}])"));
  CHECK(message(R"({"a":1,"a":1})").find("\"a\" twice") != std::string::npos);
}

TEST_CASE("depth, size and number of values are bounded and a million levels do no harm") {
  CHECK(accepts(std::string(16, '[') + std::string(16, ']')));
  CHECK_FALSE(accepts(std::string(17, '[') + std::string(17, ']')));
  CHECK_FALSE(accepts(std::string(1'000'000, '[')));
  std::string objects;
  for (int i = 0; i < 500'000; ++i) objects += "{\"a\":";
  CHECK_FALSE(accepts(objects));
  CHECK_FALSE(accepts("\"" + std::string(4u << 20, 'a') + "\""));
  std::string many = "[0";
  for (int i = 0; i < 100'000; ++i) many += ",0";
  CHECK(message(many + "]").find("too many values") != std::string::npos);
  std::string keys = "{\"x\":0";
  for (int i = 0; i < 60'000; ++i) keys += ",\"k" + std::to_string(i) + "\":0";
  CHECK_FALSE(accepts(keys + "}"));
}

TEST_CASE("errors name line and column") { CHECK(message("{\n  \"a\": ?\n}").find("2:8") != std::string::npos); }

TEST_CASE("decimal strings have one spelling") {
  CHECK(parse_decimal("0") == 0);
  CHECK(parse_decimal("18446744073709551615") == UINT64_MAX);
  for (const char* text : {"", "00", "01", "+1", "-1", " 1", "1 ", "1.0", "1e3", "0x1", "18446744073709551616"})
    CHECK_FALSE(parse_decimal(text));
}

TEST_CASE("quoted text reads back as itself") {
  const std::string text("a\"\\\n\x01\x7f\xc3\xa9", 8);
  const auto json = parse_json(bytes_of(json_quote(text)));
  REQUIRE(json.ok());
  CHECK(json->string == text);
}
