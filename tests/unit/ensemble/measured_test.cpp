// What is remembered of measurements: as it was written, or not at all.
#include "runtime/ensemble/measure/measured.h"

#include <doctest/doctest.h>

#include <random>

namespace mlc::ensemble {
namespace {

std::string key(char c) { return std::string(64, c); }

TEST_CASE("records are found as they were put, the newest first, and the oldest go") {
  MeasuredList list;
  list.put(key('a'), {1, MeasuredList::kNever, 0});
  list.put(key('b'), {});
  CHECK(*list.find(key('a')) == MeasuredList::Numbers{1, MeasuredList::kNever, 0});
  CHECK(list.encode() == "mlc-measured 1\n" + key('b') + "\n" + key('a') + " 1 - 0\n");
  CHECK(MeasuredList::parse(list.encode())->encode() == list.encode());
  list.put(key('a'), {2});
  CHECK(list.encode() == "mlc-measured 1\n" + key('a') + " 2\n" + key('b') + "\n");
  for (size_t k = 0; k < MeasuredList::kMostRecords; ++k) {
    std::string other = key('0');
    other[62] = "0123456789abcdef"[k / 16], other[63] = "0123456789abcdef"[k % 16];
    list.put(other, {k});
  }
  CHECK(!list.find(key('a')));
  CHECK(list.find(key('0')));
  // What no list may hold.
  list.put("short", {1});
  list.put(key('c'), {MeasuredList::kMostNs + 1});
  list.put(key('d'), MeasuredList::Numbers(MeasuredList::kMostNumbers + 1, 1));
  CHECK(MeasuredList::parse(list.encode()).ok());
  CHECK(!list.find(key('c')));
  CHECK(!list.find(key('d')));
}

TEST_CASE("what is no list is refused, and what is changed is one or is refused") {
  const std::string good = "mlc-measured 1\n" + key('a') + " 1 - 20\n" + key('b') + " 3\n";
  CHECK(MeasuredList::parse(good).ok());
  for (const std::string& bad : {std::string(), std::string("mlc-measured 2\n"), std::string("mlc-measured 1"), "mlc-measured 1\n" + key('g') + " 1\n",
                                "mlc-measured 1\n" + key('a') + " 01\n", "mlc-measured 1\n" + key('a') + "  1\n", "mlc-measured 1\n" + key('a') + " 1 \n",
                                "mlc-measured 1\n" + key('a') + " 1000000000000001\n", "mlc-measured 1\n" + key('a') + " -1\n",
                                "mlc-measured 1\n" + key('a') + " 1\n" + key('a') + " 1\n"}) {
    CAPTURE(bad);
    CHECK(MeasuredList::parse(bad).status().code == Code::Malformed);
  }
  std::mt19937 random(3);
  for (int round = 0; round < 20'000; ++round) {
    std::string text = good;
    for (int k = 0; k < 1 + round % 3; ++k) {
      const size_t at = random() % text.size();
      if (random() % 4 == 0) text.erase(at, 1 + random() % 3);
      else text[at] = static_cast<char>("0123456789abc- \n\0x"[random() % 18]);
      if (text.empty()) text = " ";
    }
    const auto parsed = MeasuredList::parse(text);
    if (parsed.ok()) CHECK(parsed->encode() == text);
  }
}

TEST_CASE("what was decided by is what is read back") {
  Problem p;
  p.parts = {{true}, {false, 1234.4, 0.2, 0.00052, 100}};
  p.segments = {{{10.2, kImpossible}, 1, 1}, {{1e20, -5}, 1, 1}};
  const auto numbers = segment_numbers(p);
  CHECK(numbers == MeasuredList::Numbers{10, MeasuredList::kNever, MeasuredList::kMostNs, 0});
  REQUIRE(set_segments(numbers, p));
  CHECK(segment_numbers(p) == numbers);
  CHECK(p.segments[0].ns[1] == kImpossible);
  CHECK(!set_segments({1, 2, 3}, p));
  REQUIRE(set_link(link_numbers(p.parts[1]), p.parts[1]));
  CHECK(p.parts[1].start_ns == 1234);
  CHECK(p.parts[1].ns_per_byte == doctest::Approx(0.00052));
  CHECK(p.parts[1].capacity == 100);
  CHECK(!set_link({1, 2}, p.parts[1]));
  CHECK(!set_link({1, 2, MeasuredList::kNever}, p.parts[1]));
}

}  // namespace
}  // namespace mlc::ensemble
