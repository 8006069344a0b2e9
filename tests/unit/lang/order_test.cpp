// What orders and what looks up, against the definition: insertion of one element after the other, a search through all.
#include <cmath>
#include <limits>
#include <string_view>

#include "tests/unit/lang/support.h"

using namespace mlc;
using namespace mlc::lang_test;

namespace {

struct Best {
  std::vector<float> values;
  std::vector<int64_t> places;
};

// An element goes before those that it is better than. One that is no number is better than none, and none is better than it.
Best best_by_insertion(const std::vector<float>& row, size_t k, bool largest) {
  Best r;
  for (size_t n = 0; n < row.size(); ++n) {
    size_t p = r.values.size();
    while (p > 0 && (largest ? row[n] > r.values[p - 1] : row[n] < r.values[p - 1])) --p;
    if (p >= k) continue;
    r.values.insert(r.values.begin() + static_cast<int64_t>(p), row[n]);
    r.places.insert(r.places.begin() + static_cast<int64_t>(p), static_cast<int64_t>(n));
    if (r.values.size() > k) r.values.pop_back(), r.places.pop_back();
  }
  return r;
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  for (size_t k = 0; k < a.size(); ++k)
    if (!(a[k] == b[k] || (std::isnan(a[k]) && std::isnan(b[k])))) return false;
  return true;
}

std::vector<float> row_of(size_t n, const char* kind) {
  const float inf = std::numeric_limits<float>::infinity();
  uint32_t state = static_cast<uint32_t>(n) + 7;
  std::vector<float> row;
  for (size_t k = 0; k < n; ++k) {
    state = state * 1664525u + 1013904223u;
    const float e = static_cast<float>(static_cast<int32_t>(state)) / 1e7f;
    const std::string_view what = kind;
    const uint32_t dice = (state >> 20) % 16;
    row.push_back(what == "ties" ? std::round(e / 100) * (dice % 2 ? 1 : -1) : what == "ends" && dice < 4 ? (dice < 2 ? inf : -inf)
                  : what == "no numbers" && dice == 0 ? std::numeric_limits<float>::quiet_NaN() : what == "rising" ? static_cast<float>(k) : e);
  }
  return row;
}

void check_best(const lang::Library& library, size_t n, size_t k, const char* kind, bool largest, bool columns) {
  CAPTURE(n);
  CAPTURE(k);
  CAPTURE(kind);
  CAPTURE(columns);
  const std::vector<float> row = row_of(n, kind);
  const size_t copies = columns ? 19 : 1;  // columns of one array, all alike
  std::vector<float> given;
  for (float e : row) given.insert(given.end(), copies, e);
  Expanded x;
  lang::Call call;
  call.name = "TopK";
  call.opset = 11;
  call.attributes = {{"axis", int64_t{0}}, {"largest", int64_t{largest}}};
  call.outputs = {true, true};
  std::vector<int64_t> shape{static_cast<int64_t>(n)};
  if (columns) shape.push_back(static_cast<int64_t>(copies));
  expand(x, library, call, {f32(shape, given), i64({1}, {static_cast<int64_t>(k)})});
  const auto results = run(x);
  const Best want = best_by_insertion(row, k, largest);
  const auto values = results[0].values<float>();
  const auto places = results[1].values<int64_t>();
  REQUIRE(values.size() == k * copies);
  for (size_t c = 0; c < copies; ++c) {
    std::vector<float> v;
    std::vector<int64_t> p;
    for (size_t j = 0; j < k; ++j) v.push_back(values[j * copies + c]), p.push_back(places[j * copies + c]);
    CHECK(same(v, want.values));
    CHECK(p == want.places);
  }
}

}  // namespace

TEST_CASE("TopK gives what insertion gives, however many are asked for") {
  auto library = lang::Library::parse(lang::Library::builtin_files());
  REQUIRE(library.ok());
  constexpr std::pair<size_t, size_t> kSizes[] = {{1, 1}, {100, 3}, {70, 60}, {300, 24}, {300, 25}, {700, 40}, {700, 700}, {2300, 2200}};
  for (const auto& [n, k] : kSizes)
    for (const char* kind : {"plain", "ties", "ends", "no numbers", "rising"})
      for (bool largest : {true, false}) check_best(*library, n, k, kind, largest, n < 400 && k < 61);
}

TEST_CASE("a hash table of keys has the last of equal ones, and one place for all that are no numbers") {
  const std::string text =
      "op A@1(x: f32[d]) -> y: f32[d]\n"
      "  attr keys: float[q] = [1.0, 2.0, nan, -0.0, 2.0, -0.25, nan]\n"
      "  let table = hash_table(keys)\n"
      "  dim t = len(table)\n"
      "  place[t] = i32(table[t]); key[t] = f32(keys[clamp(table[t], 0, len(keys) - 1)])\n"
      "  proc for d {\n"
      "    var at = clamp(key_slot(true, x[d], |t|), 0, |t| - 1)\n"
      "    while place[at] >= 0 and not (key[at] == x[d] or x[d] != x[d] and key[at] != key[at]) within |t| { at = clamp(band(at + 1, |t| - 1), 0, |t| - 1) }\n"
      "    y[d] = f32(place[at]) }\n";
  auto files = lang::Library::builtin_files();
  files.insert(files.begin(), {"test.mlop", text});
  auto library = lang::Library::parse(files);
  REQUIRE_MESSAGE(library.ok(), (library.ok() ? "" : library.status().text()));
  lang::Call call;
  call.name = "A";
  call.opset = 1;
  call.outputs = {true};
  Expanded x;
  expand(x, *library, call, {f32({7}, {1, 2, 3, 0, -0.0f, -0.25f, std::numeric_limits<float>::quiet_NaN()})});
  CHECK(run(x)[0].values<float>() == std::vector<float>{0, 4, -1, 3, 3, 5, 6});
}
