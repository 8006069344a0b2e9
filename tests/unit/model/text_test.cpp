#include <doctest/doctest.h>

#include <random>

#include "tests/unit/model/models.h"

using namespace mlc;
using namespace mlc::test;

namespace {

std::string refusal(const std::string& text) {
  Store store;
  auto model = parse(text, store.find());
  return model ? std::string() : model.status().message;
}
void says(const std::string& text, const char* words) {
  const std::string message = refusal(text);
  CHECK_MESSAGE(message.find(words) != std::string::npos, message, " should say ", std::string(words));
}
std::string in_graph(const std::string& lines) { return "model\nopset ai.onnx 17\ngraph \"g\" {\n" + lines + "\n}\n"; }

}  // namespace

TEST_CASE("what print writes, parse reads back, and every field is the same") {
  Store store;
  const Model model = sample(store);
  const std::string text = print(model);
  auto back = parse(text, store.find());
  REQUIRE_MESSAGE(back.ok(), (back.ok() ? std::string() : back.status().message), "\n", text);
  CHECK_MESSAGE(same(model, *back), text, "\n---\n", print(*back));
  CHECK(print(*back) == text);
}

TEST_CASE("the comparison of these tests sees a difference in any field") {
  Store store;
  const Model model = sample(store);
  const std::vector<std::function<void(Model&)>> changes = {
      [](Model& m) { m.producer += "x"; },
      [](Model& m) { m.opsets["ai.onnx"] = 16; },
      [](Model& m) { m.metadata.clear(); },
      [](Model& m) { m.graph.name = ""; },
      [](Model& m) { m.graph.inputs[0].shape[0] = Axis("M"); },
      [](Model& m) { m.graph.inputs[1].has_shape = true; },
      [](Model& m) { m.graph.nodes[0].attributes["alpha"] = 0.2; },
      [](Model& m) { m.graph.nodes[0].attributes["scales"] = std::vector<double>{1, 0.5, 0.0}; },
      [](Model& m) { m.graph.nodes[1].outputs.pop_back(), m.graph.types.erase("a b"); },
      [](Model& m) { m.graph.types.erase("a b"); },
      [&](Model& m) { m.graph.initializers["w"] = store.tensor(DType::F32, {2, 3, 4}, 77); },
      [](Model& m) { m.graph.outputs[0].dtype = DType::F16; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    Model other = model;
    changes[i](other);
    CHECK_MESSAGE(!same(model, other), "change ", i);
    auto back = parse(print(other), store.find());
    REQUIRE(back.ok());
    CHECK(same(other, *back));  // and the text holds it
    CHECK(!same(model, *back));
  }
}

TEST_CASE("a model reads as the design shows it, whole") {
  Store store;
  Model m;
  m.opsets["ai.onnx"] = 17;
  m.graph.name = "net";
  m.graph.inputs = {{"x", DType::F32, {Axis("N"), Axis(int64_t{3})}, true}};
  m.graph.initializers["w"] = store.tensor(DType::F32, {1});
  Node n;
  n.name = "Conv_0";
  n.domain = "ai.onnx";
  n.op = "Conv";
  n.inputs = {"x", "w", ""};
  n.outputs = {"y"};
  n.attributes["strides"] = std::vector<int64_t>{2, 2};
  m.graph.nodes = {n};
  m.graph.types["y"] = {"y", DType::F32, {Axis("N"), Axis(int64_t{64})}, true};
  m.graph.outputs = {{"y", DType::F32, {Axis("N"), Axis("")}, true}};
  CHECK(print(m) == "model\nopset ai.onnx 17\ngraph \"net\" {\n"
                    "  input %x : f32[N, 3]\n"
                    "  init @w : f32[1] sha256:" + content_hash(m.graph.initializers["w"].bytes) + "\n"
                    "  %y = ai.onnx.Conv(%x, @w, _) {strides = [2, 2]} : f32[N, 64] \"Conv_0\"\n"
                    "  output %y : f32[N, ?]\n}\n");
}

TEST_CASE("what is no model is refused with the line") {
  says("", "line 1: expected 'model'");
  says("model graph \"g\" {", "does not end");
  says("model graph \"g\" {} x", "nothing is expected");
  says("model opset ai.onnx x", "expected a number");
  says("model opset ai.onnx 1.5 graph \"g\" {}", "expected an integer");
  says("model opset ai.onnx 99999999999999999999", "64-bit");
  says("model opset a 1 opset a 2 graph \"\" {}", "given twice");
  says("model \"never ends", "does not end");
  says("model \"bad \\q\"", "escape");
  says("model \"bad \\x1\"", "hexadecimal");
  says(in_graph("  input %x : f33[1]"), "line 4: no element type \"f33[1]\"");
  says(in_graph("  input %x : f32[1, *]"), "unknown rank");
  says(in_graph("  input %x : f32[1 2]"), "expected ','");
  says(in_graph("  input _ : f32[]"), "names nothing");
  says(in_graph("  init @w : f32[2] sha256:12"), "64 hexadecimal digits");
  says(in_graph("  init @w : f32[2] sha256:" + std::string(64, 'a')), "no weights with the hash");
  says(in_graph("  init @w : f32[-1] sha256:" + std::string(64, 'a')), "negative extent");
  says(in_graph("  init @w : f32[4294967296, 4294967296] sha256:" + std::string(64, 'a')), "no size");
  says(in_graph("  init @w : str[2] = [\"a\"]"), "as many strings");
  says(in_graph("  %y = Relu(%x)"), "expected an operator");
  says(in_graph("  %y = ai.onnx.Relu(%x"), "expected ','");
  says(in_graph("  %y = ai.onnx.Relu(@x)"), "no initializer");
  says(in_graph("  init @w : i8[0] sha256:" + content_hash({}) + "\n  %y = ai.onnx.Relu(%w)"), "written with @");
  says(in_graph("  %y = ai.onnx.Relu() {a = []}"), "ints[]");
  says(in_graph("  %y = ai.onnx.Relu() {a = [1, 2.0]}"), "one kind");
  says(in_graph("  %y = ai.onnx.Relu() {a = 1, a = 2}"), "given twice");
  says(in_graph("  %y = ai.onnx.Relu() {a = 1e999}"), "is no number");
  says(in_graph("  %y = ai.onnx.Relu() : f32[], f32[]"), "more types than results");
  Store store;
  store.tensor(DType::F32, {2});
  const std::string other = in_graph("  init @w : f32[3] sha256:" + store.known.begin()->first);
  CHECK(parse(other, store.find()).status().message.find("have 8 bytes, the shape wants 12") != std::string::npos);
}

TEST_CASE("graphs nested beyond the limit are an error, not a stack overflow") {
  std::string text = "model graph \"\" {";
  for (int i = 0; i < 100000; ++i) text += "() = a.B() {g = graph \"\" {";
  says(text, "nested deeper than 64");
}

TEST_CASE("damaged text is refused or read, never worse") {
  Store store;
  const std::string good = print(sample(store));
  for (size_t n = 0; n < good.size(); ++n) (void)parse(good.substr(0, n), store.find());
  std::mt19937_64 random(3);
  const std::string pieces[] = {"{", "}", "[", "]", "\"", "%", "@", "_", "graph \"\" {", "-", "\\x", "9999999999999999999", "inf", ";", "\n"};
  int read = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = good;
    for (uint64_t k = 1 + random() % 3; k > 0; --k) {
      const size_t at = random() % text.size();
      if (random() % 2) text[at] = static_cast<char>(random());
      else text.replace(at, random() % 4, pieces[random() % std::size(pieces)]);
    }
    auto model = parse(text, store.find());
    if (!model) continue;
    ++read;
    const std::string once = print(*model);
    auto back = parse(once, store.find());
    REQUIRE_MESSAGE(back.ok(), (back.ok() ? std::string() : back.status().message), "\n", once);
    CHECK(print(*back) == once);
  }
  CHECK(read > 100);
}
