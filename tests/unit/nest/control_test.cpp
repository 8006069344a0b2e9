#include <doctest/doctest.h>

#include "packager/nest/interpret/interpret.h"
#include "packager/nest/text/print.h"
#include "packager/nest/verify/verify.h"
#include "tests/text/nest_text.h"

using namespace mlc;
using namespace mlc::nest;

namespace {

// A loop that doubles what it carries and collects it; `changes` are pairs of texts, old and new.
std::string doubling(const std::vector<std::pair<std::string, std::string>>& changes = {}) {
  std::string s = R"(function "f"
sym $S 0 100 multiple 1
array %0 "n" input i64 []
array %1 "x" input f32 [2]
array %2 "y" temp f32 [2]
array %3 "all" temp f32 [$S, 2]
inputs %0 %1
outputs %2 %3
control loop "L" reads %0 none %1 writes %2 %3 carried 1 {
  function "body"
  array %0 "i" input i64 []
  array %1 "go" input bool []
  array %2 "v" input f32 [2]
  array %3 "w" temp f32 [2]
  dim d = 2
  inputs %0 %1 %2
  outputs %1 %3 %3
  nest "double" (d) {
    write %3[d] = %2[d] + %2[d]
  }
}
)";
  for (const auto& [from, to] : changes) {
    const size_t at = s.find(from);
    REQUIRE(at != std::string::npos);
    s.replace(at, from.size(), to);
  }
  return s;
}

std::string problems(const std::string& text) {
  ir::Context ctx;
  auto f = parse(ctx, text);
  if (!f.ok()) return f.status().text();
  std::string all;
  for (const std::string& line : verify(ctx, *f)) all += line + "\n";
  return all;
}
void says(const std::string& words, const std::vector<std::pair<std::string, std::string>>& changes) {
  const std::string text = problems(doubling(changes));
  CHECK_MESSAGE(text.find(words) != std::string::npos, text, " should say ", words);
}

}  // namespace

TEST_CASE("a loop in text runs; symbols of its results get their values from it") {
  ir::Context ctx;
  auto f = parse(ctx, doubling());
  REQUIRE_MESSAGE(f.ok(), (f.ok() ? std::string() : f.status().text()));
  CHECK(problems(doubling()) == "");
  auto again = parse(ctx, print(*f));
  REQUIRE(again.ok());
  CHECK(print(*again) == print(*f));
  const auto run = [&](int64_t n) { return interpret(*f, {Tensor::of<int64_t>(DType::I64, {}, {n}), Tensor::of<float>(DType::F32, {2}, {1, 3})}); };
  const auto r = run(3);
  REQUIRE(r.ok());
  CHECK((*r)[0].values<float>() == std::vector<float>{8, 24});
  CHECK((*r)[1].shape == std::vector<int64_t>{3, 2});
  CHECK(run(0).value()[1].shape == std::vector<int64_t>{0, 2});
  CHECK(run(101).status().text().find("outside of 0..100") != std::string::npos);  // the symbol's bounds
}

TEST_CASE("elements of inputs become symbols before anything runs") {
  ir::Context ctx;
  auto f = parse(ctx, R"(function "f"
sym $K 1 5 multiple 1
array %0 "s" input i64 [2]
array %1 "y" temp f32 [$K]
dim d = $K
inputs %0
outputs %1
element $K = %0 1
nest "fill" (d) {
  write %1[d] = 1.0
}
)");
  REQUIRE_MESSAGE(f.ok(), (f.ok() ? std::string() : f.status().text()));
  CHECK(verify(ctx, *f).empty());
  CHECK(interpret(*f, {Tensor::of<int64_t>(DType::I64, {2}, {9, 4})}).value()[0].shape == std::vector<int64_t>{4});
  CHECK(!interpret(*f, {Tensor::of<int64_t>(DType::I64, {2}, {9, 6})}).ok());
}

TEST_CASE("operands that do not fit a control are named") {
  says("another number of operands", {{"reads %0 none %1 writes", "reads %0 writes"}});
  says("another number of inputs or outputs", {{"outputs %1 %3 %3", "outputs %1 %3"}});
  says("input 1 of body", {{"array %1 \"go\" input bool []", "array %1 \"go\" input i64 []"}});
  says("condition of body", {{"outputs %1 %3 %3", "outputs %0 %3 %3"}});
  says("input 2 of body", {{"array %2 \"v\" input f32 [2]", "array %2 \"v\" input f32 [2, 1]"}});
  says("a loop carries what it is given", {{"carried 1", "carried 9"}});
  says("output 2 of body", {{"array %3 \"all\" temp f32 [$S, 2]", "array %3 \"all\" temp f32 [$S]"}});
  says("is read before it is written", {{"reads %0 none %1 writes", "reads %0 none %2 writes"}});
  says("what only arrays have", {{"temp f32 [$S, 2]", "temp f32 [$S, 2] list 1"}});
  says("no kind of control", {{"control loop", "control lop"}});
  says("a list of depth", {{"array %2 \"y\" temp f32 [2]", "array %2 \"y\" temp f32 [] list 65"}});
}

TEST_CASE("bodies are nested 64 deep and no deeper") {
  const auto nested = [](int depth) {
    std::string text;
    for (int k = 0; k < depth; ++k) text += "function \"f\" array %0 \"c\" input bool [] inputs %0 control branch \"B\" reads %0 writes {";
    text += "function \"f\"";
    for (int k = 0; k < depth; ++k) text += "}";
    return text;
  };
  ir::Context ctx;
  CHECK(parse(ctx, nested(63)).ok());
  CHECK(parse(ctx, nested(65)).status().text().find("nested deeper than 64") != std::string::npos);
  CHECK(!parse(ctx, nested(100000)).ok());
}
