#include "base/cli/json_tree.h"

#include <doctest/doctest.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include <nlohmann/json.hpp>

using mlc::cli::Json;

namespace {

std::string printed_by_library(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

TEST_CASE("an object is printed in the order in which its members came") {
  Json json = {{"b", 1}, {"a", {{"x", true}, {"y", nullptr}}}, {"list", Json::array({1, -2, "three"})}};
  json["c"] = Json::object();
  json["b"] = std::vector<std::string>{"u", "v"};
  json["late"]["inner"].push_back(0.5);
  CHECK(json.print() == R"({"b":["u","v"],"a":{"x":true,"y":null},"list":[1,-2,"three"],"c":{},"late":{"inner":[0.5]}})");
  json.erase("a");
  json.erase("not there");
  json.update({{"c", 7u}, {"d", std::map<std::string, int>{{"z", 1}}}});
  CHECK(json.print() == R"({"b":["u","v"],"list":[1,-2,"three"],"c":7,"late":{"inner":[0.5]},"d":{"z":1}})");
}

TEST_CASE("numbers and texts are printed as nlohmann-json prints them") {
  std::mt19937_64 random(20261125);
  for (int k = 0; k < 100'000; ++k) {
    const auto bits = random();
    const auto real = std::bit_cast<double>(bits);
    REQUIRE(Json(real).print() == printed_by_library(real));
    const auto rounded = static_cast<double>(static_cast<int64_t>(bits) >> (bits % 60)) / 1000;
    REQUIRE(Json(rounded).print() == printed_by_library(rounded));
    REQUIRE(Json(static_cast<int64_t>(bits)).print() == printed_by_library(static_cast<int64_t>(bits)));
    REQUIRE(Json(bits).print() == printed_by_library(bits));
    std::string text;
    for (uint64_t n = bits % 12; n > 0; --n) text += static_cast<char>(random() % 4 ? random() % 128 : random());
    REQUIRE(Json(text).print() == printed_by_library(text));
  }
  for (const double real : {0.0, -0.0, 1.0, 1e15, 1e16, 5e-324, std::numeric_limits<double>::max(), std::numeric_limits<double>::infinity(), std::nan("")})
    CHECK(Json(real).print() == printed_by_library(real));
  for (const char* text : {"", "\"\\/\b\f\n\r\t\x01\x7f", "é€😀", "\xff", "\xe2\x82", "a\xc0\xaf", "\xed\xa0\x80"})
    CHECK(Json(text).print() == printed_by_library(text));
}

TEST_CASE("reading a value as what it is not answers nothing") {
  const Json json = {{"n", 3}, {"s", "text"}, {"list", std::vector<int>{1, 2}}};
  CHECK(json["n"].as_u64() == 3);
  CHECK(json["n"].number() == 3.0);
  CHECK(json["n"].text().empty());
  CHECK(json["s"].text() == "text");
  CHECK(json["s"].as_i64() == 0);
  CHECK(json["gone"].is(Json::Kind::Null));
  CHECK(json["gone"]["further"].items().empty());
  CHECK(json.find("gone") == nullptr);
  CHECK(json["list"].items().size() == 2);
  CHECK(json["list"].members().empty());
}

TEST_CASE("numbers are equal by what they are worth, objects by members and their order") {
  CHECK(Json(3) == Json(3u));
  CHECK(Json(3) == Json(3.0));
  CHECK_FALSE(Json(-1) == Json(UINT64_MAX));
  CHECK_FALSE(Json(1) == Json(true));
  CHECK(Json{{"a", 1}, {"b", "x"}} == Json{{"a", 1u}, {"b", "x"}});
  CHECK_FALSE(Json{{"a", 1}, {"b", 2}} == Json{{"b", 2}, {"a", 1}});
  CHECK(Json() == Json(nullptr));
}

TEST_CASE("copies are deep, and what was moved from is null") {
  Json a = {{"list", Json::array({1})}};
  Json b = a;
  b["list"].push_back(2);
  CHECK(a.print() == R"({"list":[1]})");
  const Json c = std::move(b);
  CHECK(c.print() == R"({"list":[1,2]})");
  a = a["list"];
  CHECK(a.print() == "[1]");
}

TEST_CASE("an object of many members finds each, whether one was removed or not") {
  Json json = Json::object();
  constexpr int kMany = 200'000;
  const auto start = std::chrono::steady_clock::now();
  for (int k = 0; k < kMany; ++k) json[std::to_string(k)] = k;
  for (int k = 0; k < kMany; k += 7) json[std::to_string(k)] = -k;
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));  // a look along all of them takes minutes
  CHECK(json.size() == kMany);
  CHECK(json["14"].as_i64() == -14);
  CHECK(json["15"].as_i64() == 15);
  json.erase("15");
  CHECK(json.find("15") == nullptr);
  CHECK(json["16"].as_i64() == 16);
  CHECK(json["199999"].as_i64() == 199999);
}
