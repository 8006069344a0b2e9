// Ranks that follow from extents which the run tells: Squeeze without axes, and squeeze(d) as exporters write it, an If.
#include "tests/unit/expand/support.h"

using namespace mlc;
using namespace mlc::expand_test;

namespace {

std::string squeezed(const std::string& input, const std::string& rest, const std::string& output) {
  return "graph \"g\" {\n  input %x : f32" + input + "\n  %y = ai.onnx.Squeeze(%x)\n" + rest + "  output " + output + "\n}";
}

// squeeze(1), then `rest` of %y.
std::string torch_squeeze(const std::string& rest, const std::string& output) {
  return R"(graph "g" {
    input %x : f32[B, T]
    %s = ai.onnx.Shape(%x)
    %i = ai.onnx.Constant() {value_ints = [1]}
    %n = ai.onnx.Gather(%s, %i)
    %c = ai.onnx.Equal(%n, %i)
    %y = ai.onnx.If(%c) {
      then_branch = graph "then" {
        %a = ai.onnx.Squeeze(%x, %i)
        output %a : f32[*]
      }
      else_branch = graph "else" {
        %b = ai.onnx.Identity(%x)
        output %b : f32[*]
      }
    }
)" + rest + "  output " + output + "\n}";
}

const std::vector<float> kSix = {1, 2, 3, 4, 5, 6};

}  // namespace

TEST_CASE("Squeeze without axes removes what the declared result lacks, and the run checks it") {
  for (const char* opset : {"11", "13"}) {
    Expanded by_rank(squeezed("[A, 1, 3]", "", "%y : f32[A, 3]"), opset);
    CHECK(by_rank.good({f32({2, 1, 3}, kSix)})[0].shape == std::vector<int64_t>{2, 3});
    CHECK(by_rank.run({f32({1, 1, 3}, {1, 2, 3})}).status().message.find("axis 0 ('A') of 'x' has another extent than 1") != std::string::npos);
    Expanded all(squeezed("[A, 6, B]", "", "%y : f32[6]"), opset);
    CHECK(all.good({f32({1, 6, 1}, kSix)})[0].shape == std::vector<int64_t>{6});
    CHECK(!all.run({f32({1, 6, 2}, std::vector<float>(12))}).ok());
    Expanded by_name(squeezed("[A, B, C]", "", "%y : f32[A, C]"), opset);
    CHECK(by_name.good({f32({2, 1, 3}, kSix)})[0].shape == std::vector<int64_t>{2, 3});
    CHECK(!by_name.run({f32({2, 3, 1}, kSix)}).ok());
  }
}

TEST_CASE("of a free extent that nothing is said of, the way is taken that alone fits the rest of the graph") {
  const std::string axis = "  %one = ai.onnx.Constant() {value_ints = [1]}\n  %z = ai.onnx.Unsqueeze(%y, %one)\n";
  Expanded removed(squeezed("[5, A]", axis, "%z : f32[5, 1]"));
  CHECK(removed.good({f32({5, 1}, {1, 2, 3, 4, 5})})[0].shape == std::vector<int64_t>{5, 1});
  CHECK(!removed.run({f32({5, 2}, std::vector<float>(10))}).ok());
  Expanded kept(squeezed("[A, 1, 3]", "  %z = ai.onnx.Transpose(%y) {perm = [1, 0]}\n", "%z : f32[*]"));
  CHECK(kept.good({f32({2, 1, 3}, kSix)})[0].shape == std::vector<int64_t>{3, 2});
}

TEST_CASE("where both ways fit, or more extents are free, that is said with what to do") {
  Expanded one(squeezed("[A, 3]", "", "%y : f32[*]")), two(squeezed("[A, B]", "", "%y : f32[*]"));
  for (const Expanded* x : {&one, &two}) {
    CHECK(x->status.message.find("removes all axes of extent 1, and whether axis 0 ('A')") != std::string::npos);
    CHECK(x->status.help.find("--dim A=1") != std::string::npos);
  }
}

TEST_CASE("squeeze(d) of a free extent is built for extents that are not 1") {
  Expanded x(torch_squeeze("  %z = ai.onnx.ReduceMean(%y) {keepdims = 0}\n", "%y : f32[*]\n  output %z : f32[]"));
  CHECK(x.good({f32({2, 3}, kSix)})[0].shape == std::vector<int64_t>{2, 3});
  const auto refused = x.run({f32({2, 1}, {1, 2})});
  REQUIRE(!refused.ok());
  CHECK(refused.status().message.find("--dim T=VALUE") != std::string::npos);
}

TEST_CASE("the declared rank of the model's result decides about an If before it") {
  Expanded x(torch_squeeze("  %z = ai.onnx.Neg(%y)\n", "%z : f32[B]"));
  CHECK(x.good({f32({2, 1}, {1, 2})})[0].shape == std::vector<int64_t>{2});
  CHECK(!x.run({f32({2, 3}, kSix)}).ok());
  // Files are wrong about results: what can be built at all is built.
  Expanded stale(torch_squeeze("  %z = ai.onnx.Neg(%y)\n", "%z : f32[B, T, 1, 1]"));
  CHECK(stale.good({f32({2, 3}, kSix)})[0].shape == std::vector<int64_t>{2, 3});
}
