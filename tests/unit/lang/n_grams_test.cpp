// TfIdfVectorizer against its definition: each n-gram of the pool is looked for at each place and distance.
#include <random>

#include "tests/unit/lang/support.h"

using namespace mlc;
using namespace mlc::lang_test;

namespace {

struct Pool {
  std::vector<std::vector<int64_t>> grams;
  std::vector<int64_t> counts, items, columns;
  std::vector<double> weights;
  int64_t least = 1, most = 1, skips = 0;
  std::string mode;
};

int64_t below(std::mt19937& random, int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); }

// Few different items, so that n-grams begin alike, come twice, and are found; now and then the largest integers.
Pool pool_of(std::mt19937& random) {
  Pool p;
  const int64_t levels = 1 + below(random, 4), kinds = 1 + below(random, 5);
  for (int64_t n = 1; n <= levels; ++n) {
    p.counts.push_back(static_cast<int64_t>(p.items.size()));
    for (int64_t k = below(random, 7) + (n == 1); k > 0; --k) {
      p.grams.emplace_back();
      for (int64_t j = 0; j < n; ++j) {
        const int64_t item = below(random, kinds);
        p.grams.back().push_back(item == 4 ? INT64_MIN : item == 3 ? INT64_MAX : item - 1);
      }
      p.items.insert(p.items.end(), p.grams.back().begin(), p.grams.back().end());
    }
  }
  const auto size = static_cast<int64_t>(p.grams.size());
  for (int64_t k = 0; k < size; ++k) p.columns.push_back(k);
  std::shuffle(p.columns.begin(), p.columns.end(), random);
  if (below(random, 3) == 0)
    for (int64_t& c : p.columns) c = below(random, size + 2);
  for (int64_t k = 0; k < size; ++k) p.weights.push_back(static_cast<double>(below(random, 16)) / 4 - 2);
  p.least = 1 + below(random, levels);
  p.most = p.least + below(random, levels - p.least + 1);
  p.skips = below(random, 4);
  p.mode = std::vector<std::string>{"TF", "IDF", "TFIDF"}[static_cast<size_t>(below(random, 3))];
  return p;
}

std::vector<float> by_definition(const Pool& p, const std::vector<int64_t>& x, size_t rows, bool weighted) {
  const auto width = static_cast<size_t>(*std::max_element(p.columns.begin(), p.columns.end()) + 1);
  const auto length = static_cast<int64_t>(x.size() / rows);
  std::vector<float> y(rows * width), weight(width, weighted ? 0.0f : 1.0f);
  for (size_t g = 0; weighted && g < p.grams.size(); ++g) weight[static_cast<size_t>(p.columns[g])] += static_cast<float>(p.weights[g]);
  for (size_t row = 0; row < rows; ++row) {
    for (size_t g = 0; g < p.grams.size(); ++g) {
      const auto size = static_cast<int64_t>(p.grams[g].size());
      if (size < p.least || size > p.most) continue;
      for (int64_t step = 1; step <= (size > 1 ? p.skips + 1 : 1); ++step)
        for (int64_t at = 0; at + (size - 1) * step < length; ++at) {
          bool all = true;
          for (int64_t n = 0; n < size; ++n) all = all && x[row * static_cast<size_t>(length) + static_cast<size_t>(at + n * step)] == p.grams[g][static_cast<size_t>(n)];
          y[row * width + static_cast<size_t>(p.columns[g])] += all;
        }
    }
    for (size_t o = 0; o < width; ++o) {
      float& e = y[row * width + o];
      e = p.mode == "TF" ? e : p.mode == "IDF" ? (e > 0 ? weight[o] : 0) : e * weight[o];
    }
  }
  return y;
}

}  // namespace

TEST_CASE("TfIdfVectorizer counts what its definition counts") {
  auto library = lang::Library::parse(lang::Library::builtin_files());
  REQUIRE(library.ok());
  for (unsigned seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const Pool p = pool_of(random);
    const size_t rows = 1 + static_cast<size_t>(below(random, 3)), length = static_cast<size_t>(below(random, 14));
    const bool weighted = below(random, 2) == 1;
    std::vector<int64_t> x;
    for (size_t k = 0; k < rows * length; ++k)
      x.push_back(below(random, 8) == 0 ? 77 : p.items[static_cast<size_t>(below(random, static_cast<int64_t>(p.items.size())))]);
    lang::Call call;
    call.name = "TfIdfVectorizer";
    call.opset = 9;
    call.attributes = {{"mode", p.mode}, {"min_gram_length", p.least}, {"max_gram_length", p.most}, {"max_skip_count", p.skips},
                       {"ngram_counts", p.counts}, {"ngram_indexes", p.columns}, {"pool_int64s", p.items}};
    if (weighted) call.attributes["weights"] = p.weights;
    call.outputs = {true};
    Expanded e;
    expand(e, *library, call, {i64({static_cast<int64_t>(rows), static_cast<int64_t>(length)}, x, false)});
    CHECK(run(e)[0].values<float>() == by_definition(p, x, rows, weighted));
  }
}

TEST_CASE("prefixes have numbers in the order of their first appearance, and sizes add up to the items") {
  const auto expanded = [](Expanded& e, const std::string& lists) {
    auto library = parse("op A@1(x: f32[d]) -> y: f32[d]\n  let p = prefixes(" + lists + ")\n  check len(p) == |d|\n  y[d] = x[d] + f32(p[d])\n");
    REQUIRE_MESSAGE(library.ok(), (library.ok() ? "" : library.status().text()));
    lang::Call call;
    call.name = "A";
    call.opset = 1;
    call.outputs = {true};
    expand(e, *library, call, {f32({6}, std::vector<float>(6))});
    return e.status.ok();
  };
  Expanded e;
  REQUIRE_MESSAGE(expanded(e, "[7, 8, 9, 7, 8, 8], [3, 0, 2, 1]"), e.status.text());
  CHECK(run(e)[0].values<float>() == std::vector<float>{0, 1, 2, 0, 1, 3});
  for (const char* sizes : {"[3, 2]", "[3, 2, 2]", "[7, -1]", "[]"}) {
    Expanded wrong;
    CHECK(!expanded(wrong, std::string("[7, 8, 9, 7, 8, 8], ") + sizes));
    CHECK(wrong.status.text().find("do not add up") != std::string::npos);
  }
}
