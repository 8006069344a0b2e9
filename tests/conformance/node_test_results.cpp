// What makes a run of the node tests fail: the committed lists of results, the bounds of known differences, the comparison
// of arrays; and that the lists, known_differences.h and README.md say the same.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>

#include "tests/conformance/case.h"
#include "tests/conformance/expected.h"
#include "tests/conformance/results.h"
#include "tests/conformance/verdict.h"
#include "tests/support/source_path.h"

using namespace mlc;
using namespace mlc::conformance;

namespace {

const std::string kFolder = mlc::testing::source_path("tests/conformance/");
constexpr const char* kCommitted[] = {"1.12", "1.20", "1.23"};

Outcome outcome(const std::string& test, const std::string& path, Kind kind, Given given = Given::Nothing, const std::string& reason = "") {
  return {"set", test, "Op", path, kind, given, 0, reason};
}

ExpectedSet parsed(const std::string& text) {
  auto expected = parse_expected(text);
  REQUIRE_MESSAGE(expected.ok(), (expected.ok() ? std::string() : expected.status().text()));
  return std::move(expected).value();
}

std::string refusal(const std::string& text) {
  const auto expected = parse_expected(text);
  return expected.ok() ? "" : expected.status().message;
}

const std::string kList = "paths a b\nt_known known\nt_mixed pass b:unsupported\nt_pass\nt_shapes shapes\n";

std::string read(const std::string& path) {
  std::ifstream in(path);
  REQUIRE_MESSAGE(in, path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

nest::Tensor floats(const std::vector<float>& values) {
  nest::Tensor t = nest::Tensor::zeros(DType::F32, {static_cast<int64_t>(values.size())});
  std::memcpy(t.bytes.data(), values.data(), values.size() * sizeof(float));
  return t;
}

nest::Tensor ints(const std::vector<int32_t>& values) {
  nest::Tensor t = nest::Tensor::zeros(DType::I32, {static_cast<int64_t>(values.size())});
  std::memcpy(t.bytes.data(), values.data(), values.size() * sizeof(int32_t));
  return t;
}

}  // namespace

TEST_CASE("a list is read as it is written, and says what it means") {
  const ExpectedSet expected = parsed("# comment\n\n" + kList);
  CHECK(expected.paths == std::vector<std::string>{"a", "b"});
  REQUIRE(expected.cases.size() == 4);
  CHECK(kStandings[expected.cases.at("t_mixed").on("a")] == "pass");
  CHECK(kStandings[expected.cases.at("t_mixed").on("b")] == "unsupported");
  CHECK(kStandings[expected.cases.at("t_mixed").on("never seen")] == "pass");
  CHECK(kStandings[expected.cases.at("t_known").on("b")] == "known");
  const std::string text = text_of(expected);
  CHECK(text.substr(text.find('\n') + 1) == kList);
  CHECK(text_of(parsed(text)) == text);
  CHECK(refusal("t works\n") == "t: 'works' is none of the results that a list has");
  CHECK(refusal("t fails\n") == "t: 'fails' is none of the results that a list has");
  CHECK(refusal("t pass a\n") == "t: 'a' is not PATH:RESULT");
  CHECK(refusal("t pass a:good\n") == "t: 'good' is none of the results that a list has");
  CHECK(refusal("t\nt known\n") == "t has two lines");
}

TEST_CASE("what a case does is one of the words of a list, from best to worst") {
  const Outcome outcomes[] = {outcome("t", "a", Kind::Pass), outcome("t", "a", Kind::Pass, Given::Shapes), outcome("t", "a", Kind::Pass, Given::Integers),
                              outcome("t", "a", Kind::Pass, Given::Vectors), outcome("t", "a", Kind::Pass, Given::Constants),
                              outcome("t", "a", Kind::Host), outcome("t", "a", Kind::Known), outcome("t", "a", Kind::Unsupported), outcome("t", "a", Kind::Fail)};
  static_assert(std::size(outcomes) == std::size(kStandings));
  for (size_t k = 0; k < std::size(outcomes); ++k) CHECK(standing_of(outcomes[k]) == k);
}

TEST_CASE("any case that does worse is named with its path, before and now") {
  const ExpectedSet expected = parsed(kList);
  using Lines = std::vector<std::string>;
  CHECK(changes(expected, {outcome("t_pass", "a", Kind::Pass), outcome("t_mixed", "b", Kind::Unsupported)}, false) == Lines{});
  CHECK(changes(expected, {outcome("t_pass", "a", Kind::Pass, Given::Shapes)}, false) == Lines{"worse: set t_pass, a: was 'pass', is 'shapes'"});
  CHECK(changes(expected, {outcome("t_shapes", "b", Kind::Pass, Given::Vectors)}, false) == Lines{"worse: set t_shapes, b: was 'shapes', is 'vectors'"});
  CHECK(changes(expected, {outcome("t_pass", "a", Kind::Unsupported, Given::Nothing, "no Abs")}, false) ==
        Lines{"worse: set t_pass, a: was 'pass', is 'unsupported': no Abs"});
  CHECK(changes(expected, {outcome("t_known", "a", Kind::Fail, Given::Nothing, "too far")}, false) == Lines{"worse: set t_known, a: was 'known', is 'fails': too far"});
  CHECK(changes(expected, {outcome("t_mixed", "a", Kind::Known)}, false) == Lines{"worse: set t_mixed, a: was 'pass', is 'known'"});
  CHECK(changes(expected, {outcome("t_mixed", "new path", Kind::Unsupported)}, false) == Lines{"worse: set t_mixed, new path: was 'pass', is 'unsupported'"});
}

TEST_CASE("a case that does better, is new or vanishes is named too: the list stays true") {
  const ExpectedSet expected = parsed(kList);
  using Lines = std::vector<std::string>;
  CHECK(changes(expected, {outcome("t_mixed", "b", Kind::Pass)}, false) == Lines{"better: set t_mixed, b: was 'unsupported', is 'pass'"});
  CHECK(changes(expected, {outcome("t_new", "a", Kind::Pass), outcome("t_new", "b", Kind::Pass)}, false) == Lines{"new: set t_new: is not in the list"});
  const std::vector<Outcome> three = {outcome("t_known", "a", Kind::Known), outcome("t_mixed", "a", Kind::Pass), outcome("t_pass", "a", Kind::Pass)};
  CHECK(changes(expected, three, false) == Lines{});
  CHECK(changes(expected, three, true) == Lines{"vanished: set t_shapes: is in the list, and was not run"});
}

TEST_CASE("an update takes over what was run and keeps the rest") {
  const ExpectedSet expected = parsed(kList);
  const auto lines = [](const ExpectedSet& set) {
    const std::string text = text_of(set);
    return text.substr(text.find('\n') + 1);
  };
  CHECK(lines(updated(expected, {outcome("t_pass", "a", Kind::Pass, Given::Shapes)}, false)) ==
        "paths a b\nt_known known\nt_mixed pass b:unsupported\nt_pass pass a:shapes\nt_shapes shapes\n");
  CHECK(lines(updated(expected, {outcome("t_mixed", "b", Kind::Pass)}, false)) == "paths a b\nt_known known\nt_mixed\nt_pass\nt_shapes shapes\n");
  CHECK(lines(updated(expected, {outcome("t_mixed", "c", Kind::Unsupported)}, false)) ==
        "paths a b c\nt_known known\nt_mixed unsupported a:pass\nt_pass\nt_shapes shapes\n");
  CHECK(lines(updated(expected, {outcome("t_pass", "a", Kind::Fail)}, false)) == kList);  // it goes on failing
  CHECK(lines(updated(expected, {outcome("t_new", "a", Kind::Fail)}, false)) == kList);
  CHECK(lines(updated(expected, {outcome("t_new", "a", Kind::Known), outcome("t_pass", "b", Kind::Pass)}, true)) == "paths a b\nt_new known\nt_pass\n");
}

TEST_CASE("a known difference may be as large as its entry says, and no entry is kept that is not needed") {
  const KnownDifference near{"", "t", "noise", {3, 0.5, 1}}, drawn{"", "t", "drawn", {3, 1e9, 0, true}};
  const Difference none{}, within{"element 0", true, 3, 3, 1, 0.5}, many{"element 0", true, 4, 4, 0, 0.5}, large{"element 0", true, 3, 3, 0, 0.51},
      infinite{"element 0", true, 3, 3, 2, 0.5}, form{"is f32[2]", false, 0, 0, 0, 0}, zeros{"element 0", true, 3, 0, 0, 8}, one{"element 0", true, 3, 1, 0, 8};
  CHECK(judge_difference(none, nullptr).kind == Kind::Pass);
  CHECK(judge_difference(within, nullptr).kind == Kind::Fail);
  CHECK(judge_difference(within, &near).kind == Kind::Known);
  CHECK(judge_difference(within, &near).reason == "noise");
  for (const Difference* beyond : {&many, &large, &infinite}) {
    CHECK(judge_difference(*beyond, &near).kind == Kind::Fail);
    CHECK(judge_difference(*beyond, &near).reason.find("its entry in known_differences.h allows 3, 0.5, 1") != std::string::npos);
  }
  CHECK(judge_difference(form, &near).kind == Kind::Fail);
  CHECK(judge_difference(zeros, &drawn).kind == Kind::Known);
  CHECK(judge_difference(one, &drawn).kind == Kind::Fail);
  CHECK(judge_difference(none, &near).kind == Kind::Fail);
  CHECK(judge_difference(none, &near).reason == "does not differ: its entry in known_differences.h is not needed");
}

TEST_CASE("arrays are compared as ONNX's harness does, and differences are measured") {
  const Tolerance tolerance{0.1, 0.01};
  const float inf = INFINITY, nan = NAN;
  CHECK(compare(floats({1, 0, inf, nan}), floats({1.05f, 0.005f, inf, nan}), tolerance).text == "");
  Difference d = compare(floats({1, 0, 4}), floats({2, 0.5f, 4}), tolerance);
  CHECK(d.text == "element 0 is 1, expected 2");
  CHECK(d.same_form);
  CHECK(d.elements == 2);
  CHECK(d.unlike_zero == 1);
  CHECK(d.not_finite == 0);
  CHECK(d.largest == 1);
  for (const auto& [got, want] : {std::pair(1.0f, inf), {inf, 1.0f}, {-inf, inf}, {nan, 1.0f}, {1.0f, nan}, {nan, inf}}) {
    d = compare(floats({got}), floats({want}), tolerance);
    CHECK(d.elements == 1);
    CHECK(d.not_finite == 1);
  }
  d = compare(ints({7, -8}), ints({7, 120}), {10, 1000});  // integers have no tolerance
  CHECK(d.text == "element 1 is -8, expected 120");
  CHECK(d.largest == 128);
  d = compare(floats({1}), ints({1}), tolerance);
  CHECK(d.text == "is f32[1], expected i32[1]");
  CHECK(!d.same_form);
  CHECK(!compare(floats({1}), floats({1, 1}), tolerance).same_form);
  nest::Tensor list = nest::Tensor::list(DType::F32, {}, 1), longer = list;
  list.items = {floats({1})};
  longer.items = {floats({1}), floats({9})};
  CHECK(compare(list, longer, tolerance).text == "has 1 items, expected 2");
  list.items.push_back(floats({2}));
  CHECK(compare(list, longer, tolerance).text == "item 1 element 0 is 2, expected 9");
  CHECK(compare(list, longer, tolerance).largest == 7);
  CHECK(!compare(list, floats({1}), tolerance).same_form);
}

TEST_CASE("the committed lists and known_differences.h name the same cases") {
  for (const std::string set : kCommitted) {
    const ExpectedSet expected = parsed(read(kFolder + "results/" + set + ".txt"));
    CHECK(expected.cases.size() > 1000);
    for (const auto& [test, one] : expected.cases)
      for (const std::string& path : expected.paths) CHECK_MESSAGE((kStandings[one.on(path)] == "known") == (known_difference(set, test) != nullptr), set, " ", test);
    for (const KnownDifference& known : kKnownDifferences)
      if (known.set.empty() || known.set == set) CHECK_MESSAGE(expected.cases.count(std::string(known.test)) == 1, known.test);
  }
}

// | set | path | cases | pass | fail | known differences | unsupported | on the host | pass knowing shapes | pass knowing values |
TEST_CASE("the totals in README.md are those of the committed lists") {
  const std::string page = read(kFolder + "README.md");
  for (const std::string set : kCommitted) {
    const ExpectedSet expected = parsed(read(kFolder + "results/" + set + ".txt"));
    REQUIRE(!expected.paths.empty());
    for (const std::string& path : expected.paths) {
      size_t at[std::size(kStandings)] = {};
      for (const auto& [test, one] : expected.cases) ++at[one.on(path)];
      std::string row = "| " + set + " | " + path + " |";
      for (const size_t n : {expected.cases.size(), at[0] + at[1] + at[2] + at[3] + at[4], at[8], at[6], at[7], at[5], at[1], at[2] + at[3] + at[4]}) row += " " + std::to_string(n) + " |";
      CHECK_MESSAGE(page.find("\n" + row + "\n") != std::string::npos, row);
    }
  }
}
