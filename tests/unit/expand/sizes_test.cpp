// Sizes that the network computes or the user gives.
#include "tests/unit/expand/support.h"

using namespace mlc;
using namespace mlc::expand_test;

TEST_CASE("Reshape takes its shape from the run: -1, 0, and more axes than before") {
  Expanded x(R"(graph "g" { input %x : f32[N, 2] input %s : i64[3] %y = ai.onnx.Reshape(%x, %s) output %y : f32[*] })");
  const Tensor v = f32({3, 2}, {1, 2, 3, 4, 5, 6});
  CHECK(x.good({v, i64({3}, {1, -1, 3})})[0].shape == std::vector<int64_t>{1, 2, 3});
  CHECK(x.good({v, i64({3}, {0, 0, 1})})[0].shape == std::vector<int64_t>{3, 2, 1});
  CHECK(x.good({v, i64({3}, {0, -1, 2})})[0].shape == std::vector<int64_t>{3, 1, 2});
  CHECK(floats(x.good({v, i64({3}, {6, 1, 1})})[0]) == floats(v));
  x.bad({v, i64({3}, {4, 1, 1})}, "expected N * 2");
  x.bad({v, i64({3}, {-6, -1, 1})}, "");
}

TEST_CASE("Slice takes its places from the run, the largest numbers included") {
  Expanded x(R"(graph "g" { input %x : f32[N] input %a : i64[1] input %b : i64[1] %y = ai.onnx.Slice(%x, %a, %b) output %y : f32[*] })");
  const Tensor v = f32({4}, {1, 2, 3, 4});
  CHECK(floats(x.good({v, i64({1}, {1}), i64({1}, {INT64_MAX})})[0]) == std::vector<float>{2, 3, 4});
  CHECK(floats(x.good({v, i64({1}, {-2}), i64({1}, {-1})})[0]) == std::vector<float>{3});
  CHECK(floats(x.good({v, i64({1}, {INT64_MIN}), i64({1}, {2})})[0]) == std::vector<float>{1, 2});
  CHECK(x.good({v, i64({1}, {3}), i64({1}, {1})})[0].shape == std::vector<int64_t>{0});
}

TEST_CASE("Slice takes axes and steps from the run, forward and backward") {
  Expanded x(R"(graph "g" {
    input %x : f32[2, N]
    input %a : i64[1]
    input %b : i64[1]
    input %axes : i64[1]
    input %steps : i64[1]
    %y = ai.onnx.Slice(%x, %a, %b, %axes, %steps)
    output %y : f32[*]
  })");
  const Tensor v = f32({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  const auto cut = [&](int64_t from, int64_t to, int64_t axis, int64_t step) {
    return x.good({v, i64({1}, {from}), i64({1}, {to}), i64({1}, {axis}), i64({1}, {step})})[0];
  };
  CHECK(same(cut(1, 3, 1, 1), f32({2, 2}, {2, 3, 6, 7})));
  CHECK(same(cut(-1, INT64_MIN, -1, -2), f32({2, 2}, {4, 2, 8, 6})));
  CHECK(same(cut(1, INT64_MAX, 0, 1), f32({1, 4}, {5, 6, 7, 8})));
  CHECK(same(cut(5, -5, 1, -3), f32({2, 2}, {4, 1, 8, 5})));
  x.bad({v, i64({1}, {0}), i64({1}, {1}), i64({1}, {2}), i64({1}, {1})}, "Slice");
  x.bad({v, i64({1}, {0}), i64({1}, {1}), i64({1}, {1}), i64({1}, {0})}, "Slice");
}

TEST_CASE("a range whose step only the run knows may go down") {
  Expanded x(R"(graph "g" { input %a : i64[] input %b : i64[] input %d : i64[] %y = ai.onnx.Range(%a, %b, %d) output %y : i64[*] })");
  const auto range = [&](int64_t a, int64_t b, int64_t d) { return x.good({i64({}, {a}), i64({}, {b}), i64({}, {d})})[0].values<int64_t>(); };
  CHECK(range(5, 0, -1) == std::vector<int64_t>{5, 4, 3, 2, 1});
  CHECK(range(0, 5, 2) == std::vector<int64_t>{0, 2, 4});
  CHECK(range(5, 0, 2).empty());
}

TEST_CASE("ranges, repeats, fills and places of the largest take their sizes from the run") {
  Expanded x(R"(graph "g" {
    input %n : i64[]
    input %d : f32[]
    input %x : f32[K]
    %one = ai.onnx.Constant() {value_int = 1}
    %zero = ai.onnx.Constant() {value_int = 0}
    %r = ai.onnx.Range(%zero, %n, %one)
    %from = ai.onnx.Constant() {value_float = 0.0}
    %to = ai.onnx.Constant() {value_float = 1.0}
    %q = ai.onnx.Range(%from, %to, %d)
    %ax = ai.onnx.Constant() {value_ints = [-1]}
    %n1 = ai.onnx.Reshape(%n, %ax)
    %tile = ai.onnx.Tile(%x, %n1)
    %fill = ai.onnx.ConstantOfShape(%n1)
    %top, %at = ai.onnx.TopK(%x, %n1)
    output %r : i64[*]
    output %q : f32[*]
    output %tile : f32[*]
    output %fill : f32[*]
    output %top : f32[*]
  })");
  const auto r = x.good({i64({}, {2}), f32({}, {0.25}), f32({3}, {5, 7, 6})});
  CHECK(r[0].values<int64_t>() == std::vector<int64_t>{0, 1});
  CHECK(floats(r[1]) == std::vector<float>{0, 0.25, 0.5, 0.75});
  CHECK(floats(r[2]) == std::vector<float>{5, 7, 6, 5, 7, 6});
  CHECK(r[3].shape == std::vector<int64_t>{2});
  CHECK(floats(r[4]) == std::vector<float>{7, 6});
  x.bad({i64({}, {9}), f32({}, {0.25}), f32({3}, {5, 7, 6})}, "TopK");
  x.bad({i64({}, {-1}), f32({}, {0.25}), f32({3}, {5, 7, 6})}, "negative");
}

TEST_CASE("Resize takes scales from the run") {
  Expanded x(R"(graph "g" { input %x : f32[1, 1, H, 2] input %s : f32[4] %y = ai.onnx.Resize(%x, _, %s) {mode = "nearest"} output %y : f32[*] })");
  const auto r = x.good({f32({1, 1, 1, 2}, {1, 2}), f32({4}, {1, 1, 2, 3})});
  CHECK(r[0].shape == std::vector<int64_t>{1, 1, 2, 6});
  CHECK(floats(r[0]) == std::vector<float>{1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2});
}

TEST_CASE("Resize of whole numbers leaves those that need no fraction what they are") {
  Expanded x(R"(graph "g" {
    input %x : f32[N, 1, 1, 2]
    %b = ai.onnx.Cast(%x) {to = 2}
    %s = ai.onnx.Constant() {value_floats = [1.0, 1.0, 1.0, 3.0]}
    %r = ai.onnx.Resize(%b, _, %s) {mode = "linear"}
    %y = ai.onnx.Cast(%r) {to = 1}
    output %y : f32[*]
  })");
  CHECK(floats(x.good({f32({1, 1, 1, 2}, {90, 93})})[0]) == std::vector<float>{90, 90, 91, 92, 93, 93});
  CHECK(floats(x.good({f32({1, 1, 1, 2}, {255, 201})})[0]) == std::vector<float>{255, 255, 237, 219, 201, 201});
}

TEST_CASE("Resize by passes weighs as by products of the weights: one axis shrinks, one grows") {
  Expanded x(R"(graph "g" {
    input %x : f32[1, 1, H, 2]
    %s = ai.onnx.Constant() {value_floats = [1.0, 1.0, 0.5, 2.0]}
    %y = ai.onnx.Resize(%x, _, %s) {mode = "linear"}
    output %y : f32[*]
  })");
  CHECK(floats(x.good({f32({1, 1, 4, 2}, {0, 8, 4, 12, 8, 16, 12, 20})})[0]) == std::vector<float>{2, 4, 8, 10, 10, 12, 16, 18});
}

TEST_CASE("what only a constant can say is asked for in so many words") {
  Expanded x(R"(graph "g" { input %x : f32[2, 3] input %a : i64[K] %y = ai.onnx.ReduceSum(%x, %a) {keepdims = 0} output %y : f32[*] })");
  CHECK(x.status.text().find("must be known while building") != std::string::npos);
}

TEST_CASE("what a plan cannot compute of extents is computed by the run and read back") {
  Expanded x(R"(graph "g" {
    input %x : f32[N]
    %n = ai.onnx.Shape(%x)
    %r = ai.onnx.Cast(%n) {to = 1}
    %e = ai.onnx.Exp(%r)
    %i = ai.onnx.Cast(%e) {to = 7}
    %y = ai.onnx.ConstantOfShape(%i)
    output %y : f32[*]
  })");
  CHECK(x.controls(StepOp::Read) == 1);
  CHECK(x.good({f32({3}, {1, 2, 3})})[0].shape == std::vector<int64_t>{20});
  CHECK(x.good({f32({0}, {})})[0].shape == std::vector<int64_t>{1});
}

TEST_CASE("extents divided as C does it stay in the plan") {
  Expanded x(R"(graph "g" {
    input %x : f32[N]
    %n = ai.onnx.Shape(%x)
    %three = ai.onnx.Constant() {value_ints = [3]}
    %eight = ai.onnx.Constant() {value_ints = [8]}
    %d = ai.onnx.Sub(%n, %three)
    %q = ai.onnx.Div(%d, %eight)
    %m = ai.onnx.Mod(%d, %eight) {fmod = 1}
    %t = ai.onnx.Mul(%m, %m)
    %s = ai.onnx.Add(%t, %q)
    %y = ai.onnx.ConstantOfShape(%s)
    output %y : f32[*]
  })");
  CHECK(x.controls(StepOp::Read) == 0);
  for (int64_t n = 0; n < 30; ++n)
    CHECK(x.good({f32({n}, std::vector<float>(static_cast<size_t>(n)))})[0].shape[0] == (n - 3) / 8 + (n - 3) % 8 * ((n - 3) % 8));
}

TEST_CASE("a list of sizes of free length is as long as the rank that is declared, or that it goes with") {
  Expanded x(R"(graph "g" { input %x : f32[N, 2] input %s : i64[K] %y = ai.onnx.Reshape(%x, %s) output %y : f32[A, B, C] })");
  const Tensor v = f32({3, 2}, {1, 2, 3, 4, 5, 6});
  CHECK(x.good({v, i64({3}, {1, -1, 3})})[0].shape == std::vector<int64_t>{1, 2, 3});
  x.bad({v, i64({2}, {6, 1})}, "'s' must have 3 elements");
  Expanded tile(R"(graph "g" { input %x : f32[N, 2] input %s : i64[K] %y = ai.onnx.Tile(%x, %s) output %y : f32[*] })");
  CHECK(tile.good({v, i64({2}, {1, 2})})[0].shape == std::vector<int64_t>{3, 4});
  Expanded none(R"(graph "g" { input %x : f32[N, 2] input %s : i64[K] %y = ai.onnx.Reshape(%x, %s) output %y : f32[*] })");
  none.bad({}, "declare the rank of 'y'");
}

TEST_CASE("a list of sizes of free length without the array that it is for is refused") {
  Expanded x(R"(graph "g" { input %s : f32[N] %y = ai.onnx.Resize(_, _, %s) {mode = "nearest"} output %y : f32[*] })");
  REQUIRE_FALSE(x.status.ok());
  CHECK(x.status.text().find("Resize") != std::string::npos);
}

TEST_CASE("a value with more axes than any operator needs is refused at its node") {
  std::string axes;
  for (int k = 0; k < 70; ++k) axes += (k ? ", " : "") + std::to_string(k);
  Expanded x("graph \"g\" { input %x : f32[2]\n%a = ai.onnx.Constant() { value_ints = [" + axes + "] }\n%y = ai.onnx.Unsqueeze(%x, %a)\n"
             "%s = ai.onnx.ReduceSum(%y) { keepdims = 0 }\noutput %s : f32[*] }");
  CHECK(x.status.text().find("71 axes, at most 64") != std::string::npos);
}
