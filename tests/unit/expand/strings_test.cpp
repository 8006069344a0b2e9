#include "tests/unit/expand/support.h"

using namespace mlc;
using namespace mlc::expand_test;

namespace {

using Texts = std::vector<std::string>;

Tensor str(std::vector<int64_t> shape, Texts texts) {
  Tensor t{DType::Str, std::move(shape), {}};
  t.strings = std::move(texts);
  return t;
}
Tensor strs(std::vector<Tensor> items) { return Tensor::list(DType::Str, std::move(items), 1); }

// The graph with ai.onnx.ml beside ai.onnx.
struct WithMl : Expanded {
  explicit WithMl(const std::string& graph) : Expanded("opset ai.onnx.ml 3\nopset com.microsoft 1\n" + graph, "18") {}
};

}  // namespace

TEST_CASE("operators that only move elements take strings, and give strings") {
  Expanded x(R"(graph "g" {
    input %x : str[N, 2]
    input %i : i64[K]
    input %c : bool[2]
    %t = ai.onnx.Transpose(%x)
    %g = ai.onnx.Gather(%t, %i) {axis = 0}
    %s = ai.onnx.Compress(%x, %c) {axis = 1}
    %e = ai.onnx.Equal(%x, %x)
    output %g : str[?, ?]
    output %s : str[?, ?]
    output %e : bool[?, ?]
  })", "19");
  const auto r = x.good({str({2, 2}, {"a", "b", "", "a"}), i64({1}, {1}), Tensor::of<uint8_t>(DType::Bool, {2}, {1, 0})});
  CHECK(r[0].strings == Texts{"b", "a"});
  CHECK(r[1].strings == Texts{"a", ""});
  CHECK(r[1].shape == std::vector<int64_t>{2, 1});
  CHECK(r[2].values<uint8_t>() == std::vector<uint8_t>{1, 1, 1, 1});
}

TEST_CASE("operators that compute with elements refuse strings") {
  const auto refused = [](const std::string& node, const std::string& words, const std::string& opset = "18") {
    Expanded x("graph \"g\" {\n input %x : str[4]\n input %i : i64[4]\n " + node + "\n output %y : str[4]\n}", opset);
    CHECK_MESSAGE(!x.status.ok(), node);
    const std::string text = x.status.text();
    CHECK_MESSAGE(text.find(words) != std::string::npos, node, ": ", text);
  };
  refused("%y = ai.onnx.Add(%x, %x)", "str");
  refused("%y = ai.onnx.ReduceMax(%x)", "computes with them");
  refused("%y = ai.onnx.ScatterElements(%x, %i, %x) {reduction = \"add\"}", "computes with them");
  refused("%y = ai.onnx.Less(%x, %x)", "orders them", "6");
  refused("%y = ai.onnx.Gather(%i, %x)", "str");
  refused("%y = ai.onnx.Concat(%x, %i) {axis = 0}", "element type");
}

TEST_CASE("lists of strings at the interface, carried by a loop, chosen by a branch") {
  Expanded x(R"(graph "g" {
    input %s : list(str[?])
    input %n : i64[]
    input %w : str[1]
    %grown = ai.onnx.Loop(%n, _, %s) {body = graph "b" {
      input %i : i64[]
      input %c : bool[]
      input %l : list(str[?])
      %on = ai.onnx.Identity(%c)
      %m = ai.onnx.SequenceInsert(%l, %w)
      output %on : bool[]
      output %m : list(str[?])
    }}
    %zero = ai.onnx.Constant() {value_int = 0}
    %some = ai.onnx.Greater(%n, %zero)
    %one = ai.onnx.If(%some) {then_branch = graph "t" {
      %a = ai.onnx.SequenceAt(%grown, %zero)
      output %a : str[?]
    }, else_branch = graph "e" {
      %b = ai.onnx.Identity(%w)
      output %b : str[?]
    }}
    output %grown : list(str[?])
    output %one : str[?]
  })");
  auto r = x.good({strs({str({2}, {"a", "b"})}), i64({}, {2}), str({1}, {"w"})});
  REQUIRE(r[0].items.size() == 3);
  CHECK(r[0].items[0].strings == Texts{"a", "b"});
  CHECK(r[0].items[2].strings == Texts{"w"});
  CHECK(r[1].strings == Texts{"a", "b"});
  r = x.good({strs({}), i64({}, {0}), str({1}, {"w"})});
  CHECK(r[0].items.empty());
  CHECK(r[1].strings == Texts{"w"});
}

TEST_CASE("the different strings, in the order of their texts and as they come") {
  const auto with = [](const char* sorted) {
    return std::string("graph \"g\" {\n input %x : str[N]\n %y, %first, %inverse, %counts = ai.onnx.Unique(%x) {sorted = ") + sorted +
           "}\n output %y : str[?]\n output %first : i64[?]\n output %inverse : i64[?]\n output %counts : i64[?]\n}";
  };
  Expanded sorted(with("1")), found(with("0"));
  const Tensor x = str({6}, {"b", "a", "b", "", "\xC3\xBC", "a"});
  auto r = sorted.good({x});
  CHECK(r[0].strings == Texts{"", "a", "b", "\xC3\xBC"});
  CHECK(r[1].values<int64_t>() == std::vector<int64_t>{3, 1, 0, 4});
  CHECK(r[2].values<int64_t>() == std::vector<int64_t>{2, 1, 2, 0, 3, 1});
  CHECK(r[3].values<int64_t>() == std::vector<int64_t>{1, 2, 2, 1});
  r = found.good({x});
  CHECK(r[0].strings == Texts{"b", "a", "", "\xC3\xBC"});
  CHECK(found.controls(StepOp::StringRank) == 0);
}

TEST_CASE("a map at the interface is its keys and its values") {
  WithMl zip(R"(graph "g" {
    input %x : f32[N, 2]
    %z = ai.onnx.ml.ZipMap(%x) {classlabels_strings = ["no", "yes"]}
    output %z : list(map(str, f32))
  })");
  CHECK(zip.function.arrays[zip.function.outputs[0]].name == "z.keys");
  CHECK(zip.function.arrays[zip.function.outputs[1]].name == "z.values");
  auto r = zip.good({f32({2, 2}, {1, 2, 3, 4})});
  CHECK(r[0].strings == Texts{"no", "yes"});
  CHECK(floats(r[1]) == std::vector<float>{1, 2, 3, 4});

  WithMl words(R"(graph "g" {
    input %m : map(str, i64)
    %y = ai.onnx.ml.DictVectorizer(%m) {string_vocabulary = ["a", "b", "c"]}
    output %y : i64[1, 3]
  })");
  CHECK(words.function.arrays[words.function.inputs[0]].name == "m.keys");
  r = words.good({str({2}, {"c", "a"}), i64({2}, {3, 1})});
  CHECK(r[0].values<int64_t>() == std::vector<int64_t>{1, 0, 3});
  words.bad({str({2}, {"c", "a"}), i64({1}, {3})}, "shape");

  // A vocabulary may say a key twice, a map has keys that it has not, and none at all.
  WithMl twice(R"(graph "g" {
    input %m : map(str, f32)
    %y = ai.onnx.ml.DictVectorizer(%m) {string_vocabulary = ["b", "a", "b"]}
    output %y : f32[1, 3]
  })");
  CHECK(twice.good({str({2}, {"z", "b"}), f32({2}, {3, 1})})[0].values<float>() == std::vector<float>{1, 0, 1});
  CHECK(twice.good({str({0}, {}), f32({0}, {})})[0].values<float>() == std::vector<float>{0, 0, 0});
  WithMl numbers(R"(graph "g" {
    input %m : map(i64, f32)
    %y = ai.onnx.ml.DictVectorizer(%m) {int64_vocabulary = [7, -2, 7]}
    output %y : f32[1, 3]
  })");
  CHECK(numbers.good({i64({3}, {9, 7, -3}), f32({3}, {5, 4, 3})})[0].values<float>() == std::vector<float>{4, 0, 4});
  CHECK(numbers.good({i64({2}, {-2, -2}), f32({2}, {5, 4})})[0].values<float>() == std::vector<float>{0, 4, 0});
}

TEST_CASE("maps go nowhere else") {
  const auto refused = [](const std::string& lines, const std::string& words) {
    WithMl x("graph \"g\" {\n" + lines + "\n}");
    const std::string text = x.status.ok() ? "accepted" : x.status.text();
    CHECK_MESSAGE(text.find(words) != std::string::npos, text, " should say ", words);
  };
  const std::string zip = "input %x : f32[N, 2]\n %z = ai.onnx.ml.ZipMap(%x) {classlabels_int64s = [4, 5]}\n";
  refused(zip + "%y = ai.onnx.Relu(%z)\n output %y : f32[?, ?]", "is a map");
  refused(zip + "output %z : f32[?, ?]", "is a map");
  refused("input %x : f32[N, 3]\n %z = ai.onnx.ml.ZipMap(%x) {classlabels_int64s = [4, 5]}\n output %z : list(map(i64, f32))", "3 values and 2 keys");
  refused("input %x : f32[N, 2]\n output %x : list(map(i64, f32))", "is no map");
  refused("input %m : map(i64, f32)\n %y = ai.onnx.Identity(%m)\n output %y : f32[?]", "is a map");
  refused("input %m : map(i64, f32)\n input %x : f32[N]\n %y = ai.onnx.ml.CastMap(%x)\n output %y : f32[?, ?]", "is no map");
  refused("input %m : list(map(i64, f32))\n input %x : f32[N]\n output %x : f32[N]", "list of maps");
  refused("input %m : map(i64, f32)\n input %m.keys : f32[N]\n output %m.keys : f32[N]", "there twice");
}

TEST_CASE("texts are cut into tokens, by what matches and by what separates") {
  WithMl x(R"(graph "g" {
    input %x : str[N]
    %w = com.microsoft.Tokenizer(%x) {mark = 0, mincharnum = 2, pad_value = "#", tokenexp = "[a-z]+"}
    %p = com.microsoft.Tokenizer(%x) {mark = 1, mincharnum = 1, pad_value = "", separators = [" ", "[,.]"]}
    output %w : str[?, ?]
    output %p : str[?, ?]
  })");
  REQUIRE_MESSAGE(x.status.ok(), x.status.text());
  const auto answers = nest::interpret(x.function, {str({2}, {"a bc, def", "x."})}, {.threads = 1});  // the tables are too large to be printed
  REQUIRE(answers.ok());
  const auto& r = *answers;
  CHECK(r[0].strings == Texts{"bc", "def", "#", "#"});
  CHECK(r[1].strings == Texts{"\x02", "a", "bc", "def", "\x03", "\x02", "x", "\x03", "", ""});
}
