// Inputs that fit what the model does with them.
#include <algorithm>
#include <cmath>
#include <set>

#include "packager/compile/golden/golden.h"
#include "packager/ir/numeric.h"
#include "packager/nest/interpret/interpret.h"
#include "tests/unit/expand/support.h"

using namespace mlc;
using namespace mlc::expand_test;

namespace {

compile::GoldenSet golden_of(const Expanded& x, const compile::GoldenOptions& options = {}) {
  REQUIRE_MESSAGE(x.status.ok(), x.status.text());
  auto golden = compile::make_golden(x.function, options);
  REQUIRE_MESSAGE(golden.ok(), (golden.ok() ? std::string() : golden.status().text()));
  return std::move(golden).value();
}

compile::GoldenVector only_one(const Expanded& x) {
  compile::GoldenSet set = golden_of(x);
  REQUIRE_MESSAGE(set.vectors.size() == 1, set.missing);
  return std::move(set.vectors[0]);
}

std::set<int64_t> different(const Tensor& t) {
  const auto values = t.values<int64_t>();
  return {values.begin(), values.end()};
}

// A table of this many rows, as a sum: initializers need a file.
std::string rows(int n) {
  const std::string extent = std::to_string(n);
  return "%n = ai.onnx.Constant() { value_int = " + extent + " }\n%z = ai.onnx.Constant() { value_int = 0 }\n%o = ai.onnx.Constant() { value_int = 1 }\n"
         "%range = ai.onnx.Range(%z, %n, %o)\n%table = ai.onnx.Cast(%range) { to = 1 }\n";
}

}  // namespace

TEST_CASE("indices of a table are drawn from all of its rows") {
  Expanded x("graph \"g\" { input %ids : i64[N, S]\n" + rows(50) + "%y = ai.onnx.Gather(%table, %ids)\noutput %y : f32[*] }");
  const auto golden = only_one(x);
  const auto ids = different(golden.inputs[0]);
  CHECK(ids.size() > 10);
  CHECK(*ids.begin() >= 0);
  CHECK(*ids.rbegin() < 50);
  const auto set = golden_of(x);
  CHECK(set.ranges[0] == compile::Range{0, 49});
}

TEST_CASE("what lies between an input and an index is followed backwards") {
  const auto range = [](const std::string& steps) {
    Expanded x("graph \"g\" { input %ids : i64[3]\n" + rows(10) + steps + "%y = ai.onnx.Gather(%table, %i)\noutput %y : f32[*] }");
    const auto set = golden_of(x);
    REQUIRE_MESSAGE(set.vectors.size() == 1, set.missing);
    return set.ranges[0];
  };
  CHECK(range("%c = ai.onnx.Constant() { value_int = 105 }\n%i = ai.onnx.Sub(%ids, %c)\n") == compile::Range{105, 114});
  CHECK(range("%c = ai.onnx.Constant() { value_int = 3 }\n%i = ai.onnx.Mul(%ids, %c)\n") == compile::Range{0, 3});
  CHECK(range("%a = ai.onnx.Cast(%ids) { to = 6 }\n%i = ai.onnx.Neg(%a)\n") == compile::Range{-9, 0});
  CHECK(range("%c = ai.onnx.Constant() { value_int = 4 }\n%a = ai.onnx.Div(%ids, %c)\n%i = ai.onnx.Identity(%a)\n") == compile::Range{0, 39});
}

TEST_CASE("a sequence and what came before it are no longer than the table of positions") {
  Expanded x("graph \"g\" { input %x : f32[B, S] input %past : f32[B, P]\n" + rows(20) + R"(
    %xs = ai.onnx.Shape(%x) { start = 1, end = 2 }
    %ps = ai.onnx.Shape(%past) { start = 1, end = 2 }
    %all = ai.onnx.Add(%xs, %ps)
    %end = ai.onnx.Squeeze(%all)
    %positions = ai.onnx.Range(%z, %end, %o)
    %y = ai.onnx.Gather(%table, %positions)
    output %y : f32[*]
  })");
  const auto golden = only_one(x);
  CHECK(golden.extents.at("S") + golden.extents.at("P") <= 20);
  CHECK(golden.extents.at("S") + golden.extents.at("P") > 2);
}

TEST_CASE("what looks like a conflict and is none does not drive extents to where the model has no answer") {
  // Both differences are 0, which intervals do not see; the second seems to be mended by a width of 1, of which no row is left.
  Expanded x("graph \"g\" { input %x : f32[H, W]\n" + rows(1) + R"(
    %ws = ai.onnx.Shape(%x) { start = 1, end = 2 }
    %w = ai.onnx.Squeeze(%ws)
    %four = ai.onnx.Constant() { value_int = 4 }
    %a = ai.onnx.Range(%z, %four, %o)
    %b = ai.onnx.Range(%z, %four, %o)
    %never = ai.onnx.Sub(%a, %b)
    %first = ai.onnx.Gather(%table, %never)
    %p = ai.onnx.Range(%z, %w, %o)
    %q = ai.onnx.Range(%z, %w, %o)
    %nothing = ai.onnx.Sub(%p, %q)
    %second = ai.onnx.Gather(%table, %nothing)
    %part = ai.onnx.Constant() { value_ints = [16] }
    %rest = ai.onnx.Constant() { value_ints = [-1] }
    %columns = ai.onnx.Div(%ws, %part)
    %shape = ai.onnx.Concat(%rest, %columns) { axis = 0 }
    %y = ai.onnx.Reshape(%x, %shape)
    output %y : f32[*]
    output %first : f32[*]
    output %second : f32[*]
  })");
  const auto golden = only_one(x);
  CHECK(golden.extents.at("W") == 32);
  CHECK(golden.outputs[0].shape[1] == 2);
}

TEST_CASE("places to scatter to lie in the array, and there are several") {
  Expanded x(R"(graph "g" { input %x : f32[N] input %i : i64[M] input %u : f32[M]
    %y = ai.onnx.ScatterElements(%x, %i, %u) output %y : f32[*] })");
  const auto golden = only_one(x);
  CHECK(golden.extents.at("N") > 1);
  CHECK(different(golden.inputs[1]).size() > 1);
}

TEST_CASE("a shape that is an input is one that the array can take") {
  Expanded x(R"(graph "g" { input %x : f32[N, 6] input %s : i64[2] %y = ai.onnx.Reshape(%x, %s) output %y : f32[*] })");
  only_one(x);
  Expanded cast(R"(graph "g" { input %x : f32[N, 3, 2] input %s : i32[2] %c = ai.onnx.Cast(%s) { to = 7 } %y = ai.onnx.Reshape(%x, %c) output %y : f32[*] })");
  only_one(cast);
}

TEST_CASE("a slice between two inputs is not empty") {
  Expanded x(R"(graph "g" { input %x : f32[N, 8] input %a : i64[2] input %b : i64[2] %y = ai.onnx.Slice(%x, %a, %b) output %y : f32[*] })");
  CHECK(only_one(x).outputs[0].elements() > 0);
}

TEST_CASE("pairs of a row and a column are looked at one by one") {
  Expanded x(R"(graph "g" { input %x : f32[1, S]
    %z = ai.onnx.Constant() { value_int = 0 }
    %o = ai.onnx.Constant() { value_int = 1 }
    %shape = ai.onnx.Shape(%x)
    %zeros = ai.onnx.ConstantOfShape(%shape)
    %row = ai.onnx.Cast(%zeros) { to = 7 }
    %xs = ai.onnx.Shape(%x) { start = 1, end = 2 }
    %end = ai.onnx.Squeeze(%xs)
    %range = ai.onnx.Range(%z, %end, %o)
    %column = ai.onnx.Expand(%range, %shape)
    %axis = ai.onnx.Constant() { value_ints = [2] }
    %rows = ai.onnx.Unsqueeze(%row, %axis)
    %columns = ai.onnx.Unsqueeze(%column, %axis)
    %pairs = ai.onnx.Concat(%rows, %columns) { axis = 2 }
    %y = ai.onnx.GatherND(%x, %pairs)
    output %y : f32[*]
  })");
  CHECK(only_one(x).extents.at("S") == 32);
}

TEST_CASE("sizes of pieces add up to the extent that they divide") {
  Expanded x(R"(graph "g" {
    input %x : f32["N",3]
    input %sizes : i64["K"]
    %pieces = ai.onnx.SplitToSequence(%x, %sizes) { axis = 0 }
    %last = ai.onnx.Constant() { value_int = -1 }
    %piece = ai.onnx.SequenceAt(%pieces, %last)
    %y = ai.onnx.ReduceSum(%x)
    output %piece : f32["P",3]
    output %y : f32[1,1]
  })");
  const compile::GoldenVector golden = only_one(x);
  int64_t sum = 0;
  for (const int64_t size : golden.inputs[1].values<int64_t>()) sum += size;
  CHECK(sum == golden.inputs[0].shape[0]);
}

TEST_CASE("a loop without an end leaves the file without a vector, and is named") {
  Expanded x(R"(graph "g" {
    input %x : f32[2]
    %t = ai.onnx.Constant() { value_int = 1 }
    %go = ai.onnx.Cast(%t) { to = 9 }
    %spin = ai.onnx.Loop(_, %go, %x) {
      body = graph "b" {
        input %i : i64[]
        input %c : bool[]
        input %v : f32[2]
        %w = ai.onnx.Add(%v, %v)
        output %c : bool[]
        output %w : f32[2]
      }
    }
    output %spin : f32[2]
  })");
  const auto set = golden_of(x, {.work = 2e8});
  CHECK(set.vectors.empty());
  CHECK_MESSAGE(set.missing.find("spin") != std::string::npos, set.missing);
  CHECK(set.needs_work);
}

TEST_CASE("given inputs are taken as they are, and everything that does not fit is said") {
  Expanded x(R"(graph "g" { input %x : f32[N, 2] input %y : f32[N, 2] %s = ai.onnx.Add(%x, %y) output %s : f32[*] })");
  REQUIRE(x.status.ok());
  const Tensor one = f32({2, 2}, {1, 2, 3, 4});
  const auto set = golden_of(x, {.given = {{"in.npz", {{"x", one}, {"y", one}}}, {"in.npz", {{"x", one}, {"y", one}}}}});
  REQUIRE(set.vectors.size() == 2);
  CHECK(set.vectors[0].name == "in");
  CHECK(set.vectors[1].name == "in 2");
  CHECK(floats(set.vectors[0].outputs[0]) == std::vector<float>{2, 4, 6, 8});
  const auto refused = compile::make_golden(x.function, {.given = {{"in.npz", {{"x", i64({2, 2}, {1, 2, 3, 4})}, {"yy", one}}}}});
  REQUIRE(!refused.ok());
  const std::string text = refused.status().text();
  for (const char* words : {"in.npz", "unknown input 'yy', did you mean 'y'?", "'x' is i64[2, 2], the model takes f32[N, 2]", "input 'y' is missing: f32[N, 2] expected"})
    CHECK_MESSAGE(text.find(words) != std::string::npos, text);
  const auto apart = compile::make_golden(x.function, {.given = {{"in.npz", {{"x", one}, {"y", f32({1, 2}, {1, 2})}}}}});
  REQUIRE(!apart.ok());
  CHECK(apart.status().text().find("N is 2 elsewhere") != std::string::npos);
}

TEST_CASE("a vector says how far its answer may move where sums are rounded in another order") {
  const auto of = [](const std::string& between) {
    Expanded x("graph \"g\" { input %x : f32[64, 64]\n%c = ai.onnx.Constant() { value_float = 1000.0 }\n%s = ai.onnx.MatMul(%x, %x)\n%m = ai.onnx.Mul(%s, %c)\n" +
               between + "%y = ai.onnx.MatMul(%r, %x)\noutput %y : f32[*] }");
    return only_one(x);
  };
  CHECK(of("%r = ai.onnx.Relu(%m)\n").spread[0] < 1e-5);
  const auto rounded = of("%r = ai.onnx.Round(%m)\n");
  CHECK(rounded.spread[0] > 1e-7);
  CHECK(rounded.spread[0] < 1e-2);
}

TEST_CASE("an answer that drifts is told of as well: a variance as a difference of large means") {
  Expanded x("graph \"g\" { input %x : f32[8, 64]\n%c = ai.onnx.Constant() { value_float = 1000.0 }\n%k = ai.onnx.Add(%x, %c)\n%q = ai.onnx.Mul(%k, %k)\n"
             "%a = ai.onnx.ReduceMean(%q) { axes = [1] }\n%m = ai.onnx.ReduceMean(%k) { axes = [1] }\n%p = ai.onnx.Mul(%m, %m)\n%y = ai.onnx.Sub(%a, %p)\noutput %y : f32[*] }");
  CHECK(only_one(x).spread[0] > 1e-3);
}

TEST_CASE("an output that jumps tells nothing; without another one there is no vector") {
  // The place of the largest of sums that are all alike: which it is depends on how they are rounded.
  const std::string picked = "graph \"g\" { input %x : f32[64, 64]\n%z = ai.onnx.Sub(%x, %x)\n%c = ai.onnx.Constant() { value_float = 3.3 }\n%k = ai.onnx.Add(%z, %c)\n"
                             "%s = ai.onnx.MatMul(%k, %k)\n%i = ai.onnx.ArgMax(%s) { axis = 1 }\n";
  Expanded one(picked + "output %i : i64[*] }");
  REQUIRE(one.status.ok());
  const auto none = golden_of(one, {});
  CHECK(none.vectors.empty());
  CHECK(none.missing.find("order in which sums are rounded") != std::string::npos);
  Expanded both(picked + "output %i : i64[*] output %s : f32[*] }");
  const auto set = golden_of(both, {});
  REQUIRE(set.vectors.size() == 1);
  CHECK_FALSE(set.vectors[0].tells(0));
  CHECK(set.vectors[0].tells(1));
}

TEST_CASE("an answer of codes that jumps whatever is drawn is recorded if errors move it further") {
  // Of seven codes to either side some thousand lie near ties, so that one of them is always another one.
  const auto set_of = [](const std::string& size) {
    Expanded x("graph \"g\" { input %b : u8[64, 64]\n%x = ai.onnx.Cast(%b) { to = 1 }\n%p = ai.onnx.MatMul(%x, %x)\n%c = ai.onnx.Constant() { value_float = 0.01 }\n"
               "%m = ai.onnx.Mul(%p, %c)\n%s = ai.onnx.Sin(%m)\n%d = ai.onnx.Constant() { value_float = " + size + " }\n%n = ai.onnx.Mul(%s, %d)\n%y = ai.onnx.Round(%n)\noutput %y : f32[*] }");
    return golden_of(x, {});
  };
  const auto set = set_of("7.0");
  REQUIRE_MESSAGE(set.vectors.size() == 1, set.missing);
  const compile::GoldenVector& golden = set.vectors[0];
  CHECK(golden.is_settled);
  CHECK(golden.tells(0));
  CHECK(golden.tolerance_of(0, 1e-3) > 0.2);
  CHECK(golden.tolerance_of(0, 1e-3) < 0.4);
  CHECK(golden.shown.tried > 0);
  CHECK(golden.shown.share() >= 0.5);
  // Where one code is all that there is, no error is larger.
  CHECK(set_of("1.4").vectors.empty());
}

TEST_CASE("with floats of 16 bits an answer may be off by some of their steps") {
  Expanded x("graph \"g\" { input %x : f16[8, 8]\n%y = ai.onnx.MatMul(%x, %x)\noutput %y : f16[*] }");
  const double spread = only_one(x).spread[0];
  CHECK(spread > 0x1p-12);
  CHECK(spread < 0x1p-9);
}

TEST_CASE("an answer of which nobody saw how far it moves is not recorded") {
  // Codes, so that an answer may jump; the work is done when the first one is there.
  Expanded x("graph \"g\" { input %m : f32[8, 8]\n%s = ai.onnx.Constant() { value_float = 0.01 }\n%p = ai.onnx.MatMul(%m, %m)\n"
             "%q = ai.onnx.QuantizeLinear(%p, %s)\n%y = ai.onnx.DequantizeLinear(%q, %s)\noutput %y : f32[*] }");
  const auto whole = golden_of(x, {});
  REQUIRE(whole.vectors.size() == 1);
  CHECK(whole.work >= 3 * whole.vectors[0].work);
  const auto late = golden_of(x, {.work = 1.5 * whole.vectors[0].work});
  CHECK(late.vectors.empty());
  CHECK(late.needs_work);
  CHECK(late.missing.find("how far its answer moves") != std::string::npos);
}

namespace {

// The largest difference of two answers to one input, relative to the largest element.
double apart(const std::string& right, const std::string& wrong, const std::string& shape) {
  const auto graph = [&](const std::string& op) { return "graph \"g\" { input %x : f32" + shape + "\n" + op + "\noutput %y : f32[*] }"; };
  Expanded x(graph(right)), other(graph(wrong));
  const auto golden = only_one(x);
  REQUIRE(other.status.ok());
  auto answer = nest::interpret(other.function, golden.inputs);
  REQUIRE(answer.ok());
  const auto a = floats(golden.outputs[0]), b = floats((*answer)[0]);
  REQUIRE(a.size() == b.size());
  double largest = 0, difference = 0;
  for (size_t k = 0; k < a.size(); ++k) {
    largest = std::max<double>(largest, std::fabs(a[k]));
    difference = std::max<double>(difference, std::fabs(a[k] - b[k]));
  }
  return difference / largest;
}

}  // namespace

TEST_CASE("a local response normalisation whose window is wrong differs by more than the tolerance") {
  const std::string right = "%y = ai.onnx.LRN(%x) { size = 5, alpha = 0.0001, beta = 0.75, bias = 1.0 }";
  CHECK(apart(right, "%y = ai.onnx.Identity(%x)", "[1, 16, 12, 12]") > 4e-3);
  // alpha / size stays what it is: the window alone is another.
  CHECK(apart(right, "%y = ai.onnx.LRN(%x) { size = 3, alpha = 0.00006, beta = 0.75, bias = 1.0 }", "[1, 16, 12, 12]") > 2e-3);
}

TEST_CASE("both branches of an activation are met, and a clip that saturates at one end is not all there is") {
  CHECK(apart("%y = ai.onnx.LeakyRelu(%x) { alpha = 0.01 }", "%y = ai.onnx.Relu(%x)", "[1, 3, 16, 16]") > 2e-3);
  CHECK(apart("%y = ai.onnx.HardSigmoid(%x)", "%y = ai.onnx.HardSigmoid(%x) { alpha = 0.21 }", "[4, 16]") > 4e-3);
}

TEST_CASE("channels have magnitudes of their own; what is a picture is one, and draws are equal") {
  Expanded x("graph \"g\" { input %x : f32[1, 9, 10, 10] %y = ai.onnx.Neg(%x) output %y : f32[*] }");
  const auto golden = only_one(x);
  const auto values = floats(golden.inputs[0]);
  std::set<int> magnitudes;
  for (size_t c = 0; c < 9; ++c) {
    float largest = 0;
    for (size_t k = 0; k < 100; ++k) largest = std::max(largest, std::fabs(values[c * 100 + k]));
    magnitudes.insert(std::ilogb(largest));
  }
  CHECK(magnitudes.size() >= 7);
  CHECK(floats(only_one(x).inputs[0]) == values);
  Expanded picture("graph \"g\" { input %x : f32[1, 3, 32, 32] %y = ai.onnx.Neg(%x) output %y : f32[*] }");
  const auto pixels = floats(only_one(picture).inputs[0]);
  double near = 0, far = 0;
  for (size_t k = 0; k + 16 < 1024; ++k) near += std::fabs(pixels[k] - pixels[k + 1]), far += std::fabs(pixels[k] - pixels[k + 16]);
  CHECK(near < far);
  CHECK(*std::max_element(pixels.begin(), pixels.end()) <= 1);
}

TEST_CASE("statements that move no output are told") {
  Expanded x("graph \"g\" { input %x : f32[4, 8]\n%c = ai.onnx.Constant() { value_float = 0.000000001 }\n%a = ai.onnx.Mul(%x, %c)\n%y = ai.onnx.Add(%x, %a)\noutput %y : f32[*] }");
  const auto golden = only_one(x);
  CHECK(golden.shown.tried == 2);
  REQUIRE(golden.shown.hidden.size() == 1);
  CHECK(golden.shown.hidden[0].find("Mul") != std::string::npos);
}

TEST_CASE("the work of a run is counted, and ends where no more may be done") {
  Expanded x("graph \"g\" { input %x : f32[64, 64]\n%y = ai.onnx.MatMul(%x, %x)\noutput %y : f32[*] }");
  REQUIRE(x.status.ok());
  const auto golden = only_one(x);
  CHECK(golden.work > 3e4);
  double little = golden.work / 2, much = 2 * golden.work;
  nest::InterpretOptions how;
  how.work = &little;
  CHECK(nest::interpret(x.function, golden.inputs, how).status().code == Code::Cancelled);
  how.work = &much;
  CHECK(nest::interpret(x.function, golden.inputs, how).ok());
  CHECK(much == golden.work);
}

namespace {

// A picture of any size, resized, as codes, and a number that any of them changes by more than every tolerance.
std::string jumping(const std::string& input) {
  return "graph \"g\" { input %photo : u8" + input + "\n%f = ai.onnx.Cast(%photo) { to = 1 }\n%sizes = ai.onnx.Constant() { value_ints = [61, 59, 3] }\n"
         "%r = ai.onnx.Resize(%f, _, _, %sizes) { mode = \"linear\" }\n%q = ai.onnx.Round(%r)\n%i = ai.onnx.Cast(%q) { to = 6 }\n%s = ai.onnx.ReduceSum(%i) { keepdims = 0 }\n%t = ai.onnx.Cast(%s) { to = 1 }\n%y = ai.onnx.Sin(%t)\noutput %y : f32[*] }";
}

}  // namespace

TEST_CASE("where the answer to a texture jumps, pictures of few numbers are drawn") {
  Expanded x(jumping("[H, W, 3]"));
  const auto set = golden_of(x, {.takes_pictures = true});
  CHECK_MESSAGE(set.missing.empty(), set.missing);
  REQUIRE(set.vectors.size() == 3);
  for (const compile::GoldenVector& golden : set.vectors) {
    CHECK(golden.tells(0));
    const std::set<std::byte> numbers(golden.inputs[0].bytes.begin(), golden.inputs[0].bytes.end());
    CHECK_MESSAGE(numbers.size() <= 6, golden.name);
  }
  CHECK(set.vectors[0].inputs[0].shape == std::vector<int64_t>{27, 40, 3});
  CHECK(set.vectors[2].inputs[0].shape == std::vector<int64_t>{40, 27, 3});
}

TEST_CASE("a picture without a vector is named, with the reason") {
  Expanded x(jumping("[H, W, 3]"));
  const auto whole = golden_of(x, {.takes_pictures = true});
  REQUIRE(whole.vectors.size() == 3);
  const auto set = golden_of(x, {.takes_pictures = true, .work = whole.work / 2});
  CHECK(set.vectors.size() < 3);
  CHECK_MESSAGE(set.missing.find("portrait: ") != std::string::npos, set.missing);
  CHECK(set.needs_work);
}

namespace {

// Arrays that are resized, as codes, of which any one changes four numbers by more than every tolerance.
std::string jumping_floats(const std::string& mode) {
  return "graph \"g\" { input %x : f32[1, 3, 27, 40]\n%k = ai.onnx.Constant() { value_float = 30000.0 }\n%f = ai.onnx.Mul(%x, %k)\n%sizes = ai.onnx.Constant() { value_ints = [1, 3, 61, 59] }\n"
         "%r = ai.onnx.Resize(%f, _, _, %sizes) { mode = \"linear\", coordinate_transformation_mode = \"" + mode + "\" }\n%q = ai.onnx.Round(%r)\n%i = ai.onnx.Cast(%q) { to = 6 }\n"
         "%s = ai.onnx.ReduceSum(%i) { keepdims = 0 }\n%t = ai.onnx.Cast(%s) { to = 1 }\n%steps = ai.onnx.Constant() { value_floats = [1.0, 2.0, 3.0, 4.0] }\n%u = ai.onnx.Mul(%t, %steps)\n"
         "%y = ai.onnx.Sin(%u)\noutput %y : f32[4] }";
}

}  // namespace

TEST_CASE("where all answers jump, inputs of few numbers are drawn until one stands still, and wrong code shows in it") {
  Expanded x(jumping_floats("half_pixel"));
  const auto golden = only_one(x);
  REQUIRE(golden.tells(0));
  CHECK_FALSE(golden.is_settled);
  const auto values = floats(golden.inputs[0]);
  CHECK(std::set<float>(values.begin(), values.end()).size() <= 3 * 64);
  Expanded wrong(jumping_floats("asymmetric"));
  REQUIRE(wrong.status.ok());
  const auto answer = nest::interpret(wrong.function, golden.inputs);
  REQUIRE(answer.ok());
  const auto right = floats(golden.outputs[0]), other = floats((*answer)[0]);
  double largest = 0, apart = 0;
  for (size_t k = 0; k < right.size(); ++k) {
    largest = std::max<double>(largest, std::fabs(right[k]));
    apart = std::max<double>(apart, std::fabs(right[k] - other[k]));
  }
  CHECK(apart > golden.tolerance_of(0, 1e-3) * largest);
}

TEST_CASE("a picture of one colour whose answer is an order of equal scores is left out, others are drawn until there is an order") {
  Expanded x("graph \"g\" { input %photo : u8[H, W, 3]\n%f = ai.onnx.Cast(%photo) { to = 1 }\n%sizes = ai.onnx.Constant() { value_ints = [16, 16, 3] }\n"
             "%r = ai.onnx.Resize(%f, _, _, %sizes) { mode = \"linear\" }\n%s = ai.onnx.ReduceMean(%r) { axes = [2], keepdims = 0 }\n%m = ai.onnx.MatMul(%s, %s)\n"
             "%flat = ai.onnx.Constant() { value_ints = [256] }\n%l = ai.onnx.Reshape(%m, %flat)\n%k = ai.onnx.Constant() { value_ints = [20] }\n"
             "%best, %places = ai.onnx.TopK(%l, %k)\n%y = ai.onnx.Cast(%places) { to = 1 }\noutput %y : f32[20] }");
  const auto set = golden_of(x, {.takes_pictures = true});
  CHECK_MESSAGE(set.missing.empty(), set.missing);
  CHECK_MESSAGE(set.left_out.find("one pixel") != std::string::npos, set.left_out);
  REQUIRE(set.vectors.size() == 2);
  CHECK(set.vectors[0].name == "landscape");
  CHECK(set.vectors[0].tells(0));
}

// tanh is 1 for 20, or a step below it: 127.5 is a tie, and the code is 128 or 127. Sums that are off by a few steps are 20 all the same there.
TEST_CASE("a tie behind a function that saturates is seen, with and without a sum before it") {
  for (const char* before : {"%s = ai.onnx.Identity(%x)\n", "%o = ai.onnx.Constant() { value_ints = [1] }\n%s = ai.onnx.ReduceSum(%x, %o) { keepdims = 1 }\n"}) {
    Expanded x(std::string("graph \"g\" { input %x : f32[N, 1]\n") + before + R"(
      %t = ai.onnx.Tanh(%s)
      %k = ai.onnx.Constant() { value_float = 127.5 }
      %scaled = ai.onnx.Mul(%t, %k)
      %y = ai.onnx.Round(%scaled)
      output %y : f32[*]
    })");
    Tensor input = Tensor::zeros(DType::F32, {3, 1});
    ir::store_element(DType::F32, input.bytes.data(), 0, {0, 20});
    ir::store_element(DType::F32, input.bytes.data(), 2, {0, 0.25});
    const auto set = golden_of(x, {.given = {{"in.npz", {{"x", input}}}}});
    REQUIRE_MESSAGE(set.vectors.size() == 1, set.missing);
    CHECK(set.vectors[0].spread_of(0) == doctest::Approx(1.0 / 128));
  }
}
