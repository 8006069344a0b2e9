// Where weights are cut is a question of the names around a cut, not of what stands in front.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "packager/container/weight_segments.h"

using namespace mlc;
using namespace mlc::container;

namespace {

constexpr uint64_t kMiB = 1 << 20;
using Tensors = std::map<std::string, uint64_t>;

// The names of the tensors of each segment.
std::vector<std::vector<std::string>> cut(const Tensors& tensors) {
  uint64_t total = 0, most = 0;
  for (const auto& [name, bytes] : tensors) total += bytes, most = std::max(most, bytes);
  const std::vector<std::byte> zeros(most);
  ContainerBuilder builder;
  WeightSegments segments(builder, total);
  std::vector<std::vector<std::string>> out;
  for (const auto& [name, bytes] : tensors) {
    const uint32_t segment = segments.segment_for(name);
    builder.append(segment, Borrowed{Bytes(zeros).first(bytes)}, 256);
    out.resize(std::max<size_t>(out.size(), segment + 1));
    out[segment].push_back(name);
  }
  std::set<std::string> names;
  for (const format::Segment& segment : builder.manifest.segments) names.insert(segment.name);
  CHECK(names.size() == out.size());
  CHECK(std::is_sorted(builder.manifest.segments.begin(), builder.manifest.segments.end(), [](const auto& a, const auto& b) { return a.name < b.name; }));
  return out;
}

Tensors many(size_t count, uint64_t bytes) {
  Tensors tensors;
  for (size_t k = 0; k < count; ++k) tensors["t" + std::to_string(10000 + k)] = bytes + 256 * (k % 7);
  return tensors;
}

size_t num_equal(const std::vector<std::vector<std::string>>& a, const std::vector<std::vector<std::string>>& b) {
  const std::set<std::vector<std::string>> known(a.begin(), a.end());
  return static_cast<size_t>(std::count_if(b.begin(), b.end(), [&](const auto& names) { return known.count(names) > 0; }));
}

}  // namespace

TEST_CASE("small weights are one segment of the name that it always had") {
  ContainerBuilder builder;
  WeightSegments segments(builder, kMiB);
  CHECK(segments.segment_for("a") == segments.segment_for("b"));
  CHECK(builder.manifest.segments.at(0).name == "weights");
  CHECK(cut(many(100, 10 << 10)).size() == 1);
}

TEST_CASE("a tensor that is new, gone or longer changes few segments") {
  const Tensors before = many(400, 200 << 10);
  const auto old = cut(before);
  CHECK(old.size() > 8);
  for (const auto& names : old) CHECK(names.size() * (200 << 10) < 40 * kMiB);
  const auto changed = [&](const std::function<void(Tensors&)>& change) {
    Tensors now = before;
    change(now);
    const auto found = cut(now);
    return found.size() - num_equal(old, found);
  };
  CHECK(changed([](Tensors& t) { t["a"] = 64; }) <= 2);
  CHECK(changed([](Tensors& t) { t["t10200x"] = 300 << 10; }) <= 2);
  CHECK(changed([](Tensors& t) { t.erase("t10007"); }) <= 2);
  CHECK(changed([](Tensors& t) { t["t10100"] = 4 * kMiB; }) <= 3);
}

TEST_CASE("tensors of any size: one that is larger than a segment is whole, and none is as small as a leaf but the last") {
  const auto large = cut({{"a", 40 * kMiB}, {"b", 40 * kMiB}, {"c", 1}});
  CHECK(large.size() == 3);
  const auto some = cut(many(60, 1 * kMiB));
  for (size_t k = 0; k + 1 < some.size(); ++k) CHECK(some[k].size() >= 2);
}
