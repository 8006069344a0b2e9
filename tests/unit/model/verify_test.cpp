#include "packager/model/verify.h"

#include <doctest/doctest.h>

#include "tests/unit/model/models.h"

using namespace mlc;
using namespace mlc::test;

namespace {

Node node(std::vector<std::string> inputs, std::vector<std::string> outputs, std::string name = "") {
  Node n;
  n.name = std::move(name);
  n.domain = "ai.onnx";
  n.op = "Relu";
  n.inputs = std::move(inputs);
  n.outputs = std::move(outputs);
  return n;
}
Model small() {
  Model m;
  m.opsets["ai.onnx"] = 17;
  m.graph.inputs = {{"x", DType::F32, {Axis("N")}, true}};
  m.graph.nodes = {node({"x"}, {"y"}, "first"), node({"y", ""}, {"z"}, "second")};
  m.graph.outputs = {{"z", DType::F32, {}, false}};
  return m;
}
std::string refusal(const std::function<void(Model&)>& change) {
  Model m = small();
  change(m);
  return verify(m).text();
}
void says(const char* words, const std::function<void(Model&)>& change) {
  const std::string text = refusal(change);
  CHECK_MESSAGE(text.find(words) != std::string::npos, text, " should say ", std::string(words));
}

}  // namespace

TEST_CASE("good models pass") {
  CHECK(verify(small()).ok());
  Store store;
  Model m = sample(store);
  const Status status = verify(m);
  CHECK_MESSAGE(status.ok(), status.text());
}

TEST_CASE("each rule is enforced and names the node or value") {
  says("node \"second\" (Relu) reads \"nowhere\"", [](Model& m) { m.graph.nodes[1].inputs = {"nowhere"}; });
  says("node \"first\" (Relu) reads \"z\"", [](Model& m) { m.graph.nodes[0].inputs = {"z"}; });  // a cycle
  says("node \"first\" (Relu) reads \"y\"", [](Model& m) { m.graph.nodes[0].inputs = {"y"}; });
  says("result \"y\" of node \"second\" (Relu) is written already", [](Model& m) { m.graph.nodes[1].outputs = {"y"}; });
  says("result \"x\" of node \"first\"", [](Model& m) { m.graph.nodes[0].outputs = {"x"}; });
  says("input \"x\" is written already", [](Model& m) { m.graph.inputs.push_back(m.graph.inputs[0]); });
  says("initializer \"x\" is written already", [](Model& m) { m.graph.initializers["x"] = {DType::F32, {0}, {}, {}, {}}; });
  const auto renamed = [](const char* name) {
    return [name](Model& m) {
      m.graph.inputs[0].name = name;
      m.graph.nodes[0].inputs = {name};
    };
  };
  says("input \"a\\x0ab\" has a name that is not UTF-8, or has characters in it", renamed("a\nb"));
  says("input \"x\\xff\" has a name that is not UTF-8", renamed("x\xff"));
  says("input \"x\\xe2\\x80\\xae\" has a name that is not UTF-8", renamed("x\u202e"));
  says("give it a plain name in the model", renamed("x\x1b[31m"));
  says("extent \"N\\x1b\" of input \"x\" has a name", [](Model& m) { m.graph.inputs[0].shape[0] = "N\x1b"; });
  says("has a name of 1024 bytes, at most 1023 are possible", [](Model& m) { m.graph.inputs[0].shape[0] = std::string(1024, 'N'); });
  says("output \"z\\xff\" has a name", [](Model& m) {
    m.graph.outputs[0].name = "z\xff";
    m.graph.nodes[1].outputs = {"z\xff"};
  });
  says("input \"\" has an empty name", [](Model& m) { m.graph.inputs[0].name = ""; });
  says("negative extent -3", [](Model& m) { m.graph.inputs[0].shape[0] = int64_t{-3}; });
  says("output \"q\" is written by nothing", [](Model& m) { m.graph.outputs[0].name = "q"; });
  says("output \"z\" is listed twice", [](Model& m) { m.graph.outputs.push_back(m.graph.outputs[0]); });
  says("has no operator", [](Model& m) { m.graph.nodes[0].op = ""; });
  says("opset \"ai.onnx\" has the version 0", [](Model& m) { m.opsets["ai.onnx"] = 0; });
  says("initializer \"w\" has 0 bytes, its shape wants 12", [](Model& m) { m.graph.initializers["w"] = {DType::F32, {3}, {}, {}, {}}; });
  says("initializer \"w\" has no element type", [](Model& m) { m.graph.initializers["w"] = {DType::None, {3}, {}, {}, {}}; });
  says("negative extent -1", [](Model& m) { m.graph.initializers["w"] = {DType::F32, {-1}, {}, {}, {}}; });
  says("more than 64 bits", [](Model& m) { m.graph.initializers["w"] = {DType::F32, {INT64_MAX, 4}, {}, {}, {}}; });
  says("has 1 strings", [](Model& m) { m.graph.initializers["w"] = {DType::Str, {2}, {}, {}, {"a"}}; });
  says("attribute \"t\" of node \"first\" (Relu) has 0 bytes", [](Model& m) { m.graph.nodes[0].attributes["t"] = Tensor{DType::F32, {3}, {}, {}, {}}; });
  says("attribute \"body\" of node \"first\" (Relu) is a graph that is missing",
       [](Model& m) { m.graph.nodes[0].attributes["body"] = std::shared_ptr<const Graph>(); });
  says("reads \"hidden\"", [](Model& m) {  // what a body writes is not seen outside
    Graph body;
    body.nodes = {node({"x"}, {"hidden"})};
    m.graph.nodes[0].attributes["body"] = std::make_shared<const Graph>(body);
    m.graph.nodes[1].inputs = {"hidden"};
  });
  says("reads \"z\"", [](Model& m) {  // nor does a body see what comes later
    Graph body;
    body.nodes = {node({"z"}, {"inner"})};
    m.graph.nodes[0].attributes["body"] = std::make_shared<const Graph>(body);
  });
}

TEST_CASE("all that is wrong is reported together, up to a limit") {
  const Status status = verify([] {
    Model m = small();
    for (int i = 0; i < 100; ++i) m.graph.nodes.push_back(node({"missing" + std::to_string(i)}, {}, "n" + std::to_string(i)));
    return m;
  }());
  CHECK(status.code == Code::Malformed);
  CHECK(status.facts.size() == 8);
}

TEST_CASE("bodies deeper than the limit are refused") {
  auto body = std::make_shared<const Graph>();
  for (int depth = 0; depth < kMaxGraphDepth; ++depth) {
    auto around = std::make_shared<Graph>();
    around->nodes = {node({}, {})};
    around->nodes[0].attributes["body"] = body;
    body = around;
  }
  says("nested deeper than 64", [&](Model& m) { m.graph.nodes[0].attributes["body"] = body; });
}
