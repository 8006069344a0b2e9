#include <doctest/doctest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

#include "packager/import/onnx.h"
#include "packager/model/print.h"
#include "packager/model/verify.h"
#include "tests/support/onnx_bytes.h"
#include "tests/support/source_path.h"

using namespace mlc;
using namespace mlc::test::onnx_bytes;
namespace fs = std::filesystem;

namespace {

Result<model::Model> read_model(const std::string& bytes, const std::string& folder = "/nonexistent") {
  return import::import_onnx(std::as_bytes(std::span(bytes)), "m.onnx", folder);
}

const std::string kTwoFloats = std::string("\0\0\x80\x3f\0\0\0\x40", 8);

// x -> Add w -> y -> Relu -> z
GraphParts small() {
  GraphParts g;
  g.inputs = {value_info("x", kFloat, {"N", 2})};
  g.initializers = {tensor("w", kFloat, {2}, raw(kTwoFloats))};
  g.nodes = {node("Add", {"x", "w"}, {"y"}, "add_0"), node("Relu", {"y"}, {"z"}, "relu_1")};
  g.outputs = {value_info("z", kFloat, {"N", 2})};
  return g;
}
void says(const char* words, const std::function<void(GraphParts&)>& change, std::string more = opset("", 17)) {
  GraphParts g = small();
  change(g);
  auto m = read_model(model_file(graph(g), more));
  const std::string text = m ? "accepted:\n" + model::print(*m) : m.status().text();
  CHECK_MESSAGE(text.find(words) != std::string::npos, text, " should say ", std::string(words));
}

// A folder of its own, gone at the end.
struct Folder {
  fs::path path = fs::temp_directory_path() / ("import_test_" + std::to_string(getpid()));
  Folder() { fs::create_directories(path / "model" / "data"); }
  ~Folder() { fs::remove_all(path); }
  void write(const std::string& name, std::string_view bytes) const {
    std::ofstream(path / name, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
};

}  // namespace

TEST_CASE("a model is imported with names, types, weights and hints") {
  GraphParts g = small();
  g.value_infos = {value_info("y", kFloat, {"N", 2}), value_info("unknown", kFloat, {}), value_info("z", 99, {})};
  const auto m = read_model(model_file(graph(g), opset("", 17) + opset("com.microsoft", 1) + data(2, "tests") +
                                            data(14, data(1, "author") + data(2, "me"))));
  REQUIRE_MESSAGE(m.ok(), (m.ok() ? std::string() : m.status().text()));
  CHECK(model::print(*m) ==
        "model \"tests\"\nopset ai.onnx 17\nopset com.microsoft 1\nmeta \"author\" \"me\"\ngraph \"g\" {\n"
        "  input %x : f32[N, 2]\n  init @w : f32[2] sha256:" + model::content_hash(std::as_bytes(std::span(kTwoFloats))) + "\n"
        "  %y = ai.onnx.Add(%x, @w) : f32[N, 2] \"add_0\"\n  %z = ai.onnx.Relu(%y) \"relu_1\"\n"
        "  output %z : f32[N, 2]\n}\n");
}

TEST_CASE("every spelling of a tensor's data gives the same bytes") {
  const std::string typed = varint(4 << 3 | 2) + varint(8) + kTwoFloats;  // packed float_data
  for (const std::string& fields : {raw(kTwoFloats), typed}) {
    GraphParts g = small();
    g.initializers = {tensor("w", kFloat, {2}, fields)};
    const auto m = read_model(model_file(graph(g))).value();
    const model::Tensor& w = m.graph.initializers.at("w");
    REQUIRE(w.bytes.size() == 8);
    CHECK(std::memcmp(w.bytes.data(), kTwoFloats.data(), 8) == 0);
  }
  GraphParts g = small();
  g.initializers.push_back(tensor("nibbles", kUint4, {3}, raw("\x21\x0f")));
  g.initializers.push_back(tensor("float4", 23, {3}, raw("\xa1\x0f")));
  g.initializers.push_back(tensor("uint2", 25, {5}, raw("\xe4\x02")));
  g.initializers.push_back(tensor("int2", 26, {5}, data(5, varint(0xe4) + varint(2))));  // int32_data: a byte each
  g.initializers.push_back(tensor("float6", 27, {5}, raw("\x01\x32\xfc\x15")));  // 24 bits hold four
  g.initializers.push_back(tensor("entries", 28, {3}, data(5, varint(1) + varint(63) + varint(32))));  // int32_data: one each
  const auto m = read_model(model_file(graph(g))).value();
  const model::Tensor& nibbles = m.graph.initializers.at("nibbles");
  REQUIRE(nibbles.bytes.size() == 3);
  CHECK(nibbles.bytes[0] == std::byte{1});
  CHECK(nibbles.bytes[1] == std::byte{2});
  CHECK(nibbles.bytes[2] == std::byte{15});
  const auto holds = [&](const char* name, DType dtype, std::vector<int> values) {
    const model::Tensor& t = m.graph.initializers.at(name);
    CAPTURE(name);
    CHECK(t.dtype == dtype);
    REQUIRE(t.bytes.size() == values.size());
    for (size_t k = 0; k < values.size(); ++k) CHECK(t.bytes[k] == static_cast<std::byte>(values[k]));
  };
  holds("float4", DType::F4E2M1, {1, 10, 15});
  holds("uint2", DType::U2, {0, 1, 2, 3, 2});
  holds("int2", DType::I2, {0, 1, -2, -1, -2});
  holds("float6", DType::F6E2M3, {1, 8, 3, 63, 21});
  holds("entries", DType::F6E3M2, {1, 63, 32});
}

TEST_CASE("nodes in any order are sorted, cycles and missing values are named") {
  GraphParts g = small();
  std::swap(g.nodes[0], g.nodes[1]);
  const auto m = read_model(model_file(graph(g))).value();
  CHECK(m.graph.nodes[0].op == "Add");
  says("node 'relu_1' (Relu) is part of a cycle", [](GraphParts& g) { g.nodes[0] = node("Add", {"z", "w"}, {"y"}, "add_0"); });
  says("node 'add_0' (Add) is part of a cycle", [](GraphParts& g) { g.nodes[0] = node("Add", {"y", "w"}, {"y"}, "add_0"); });
  says("node 'add_0' (Add) reads 'q', which nothing writes", [](GraphParts& g) { g.nodes[0] = node("Add", {"q", "w"}, {"y"}, "add_0"); });
  says("node 'relu_1' (Relu) writes 'y', which is written already", [](GraphParts& g) { g.nodes[1] = node("Relu", {"y"}, {"y"}, "relu_1"); });
  says("writes 'w', which is written already", [](GraphParts& g) { g.nodes[1] = node("Relu", {"y"}, {"w"}); });
  says("node 'a' (Split) writes 'z', which is written already", [](GraphParts& g) { g.nodes[1] = node("Split", {"y"}, {"z", "z"}, "a"); });
  says("output 'q' is written by nothing", [](GraphParts& g) { g.outputs[0] = value_info("q", kFloat, {}); });
  says("output \"z\" is listed twice", [](GraphParts& g) { g.outputs.push_back(g.outputs[0]); });
  says("input 'x' is given twice", [](GraphParts& g) { g.inputs.push_back(g.inputs[0]); });
  says("initializer 'w' is given twice", [](GraphParts& g) { g.initializers.push_back(g.initializers[0]); });
  says("initializer \"\" has an empty name", [](GraphParts& g) { g.initializers.push_back(tensor("", kFloat, {0}, "")); });
  says("has the attribute 'a' twice", [](GraphParts& g) {
    g.nodes[0] = node("Add", {"x", "w"}, {"y"}, "", {int_attribute("a", 1), int_attribute("a", 2)});
  });
  says("has no operator", [](GraphParts& g) { g.nodes[1] = node("", {"y"}, {"z"}); });
}

TEST_CASE("types and extents that make no sense are named") {
  says("'x' has the unknown element type 99", [](GraphParts& g) { g.inputs[0] = value_info("x", 99, {}); });
  says("input 'x' has no element type", [](GraphParts& g) { g.inputs[0] = value_info("x", 0, {}); });
  says("input 'x' has no element type", [](GraphParts& g) { g.inputs[0] = data(1, "x"); });
  says("input 'x' has no element type", [](GraphParts& g) { g.inputs[0] = data(1, "x") + data(2, ""); });
  says("output %z : none[*]", [](GraphParts& g) { g.outputs[0] = data(1, "z") + data(2, ""); });  // outputs follow
  says("'x' has complex elements", [](GraphParts& g) { g.inputs[0] = value_info("x", kComplex64, {}); });
  says("'x' has the negative extent -7", [](GraphParts& g) { g.inputs[0] = value_info("x", kFloat, {-7}); });
  says("bytes of 'x' overflow", [](GraphParts& g) { g.inputs[0] = value_info("x", kFloat, {INT64_MAX}); });
  says("bytes of 'x' overflow", [](GraphParts& g) { g.inputs[0] = value_info("x", kFloat, {int64_t{1} << 40, "N", int64_t{1} << 40}); });
  says("f32[?, 2]", [](GraphParts& g) { g.inputs[0] = value_info("x", kFloat, {-1, 2}); });  // as some exporters write it
  says("'x' is neither a tensor, a map, nor a sequence", [](GraphParts& g) { g.inputs[0] = data(1, "x") + data(2, data(4, data(1, ""))); });
  says("the opset of 'ai.onnx' is given twice: 17 and 11", [](GraphParts&) {}, opset("", 17) + opset("ai.onnx", 11));
  says("opset \"ai.onnx\" has the version -3", [](GraphParts&) {}, opset("", -3));
  says("attribute 'o' has the kind 12", [](GraphParts& g) {
    g.nodes[0] = node("Add", {"x", "w"}, {"y"}, "", {attribute("o", 12, "")});
  });
}

TEST_CASE("tensors whose data does not fit their shape are named") {
  const auto w = [](const std::string& t) { return [t](GraphParts& g) { g.initializers[0] = t; }; };
  says("tensor 'w' has 8 bytes of data, its shape wants 12", w(tensor("w", kFloat, {3}, raw(kTwoFloats))));
  says("tensor 'w' has 0 bytes of data, its shape wants 8", w(tensor("w", kFloat, {2}, "")));
  says("tensor 'w' has the negative extent -2", w(tensor("w", kFloat, {-2}, raw(kTwoFloats))));
  says("extents of tensor 'w' overflow", w(tensor("w", kFloat, {INT64_MAX, INT64_MAX}, raw(kTwoFloats))));
  says("bytes of tensor 'w' overflow", w(tensor("w", kFloat, {INT64_MAX}, raw(kTwoFloats))));
  says("tensor 'w' has 8 bytes", w(tensor("w", kUint4, {INT64_MAX}, raw(kTwoFloats))));
  says("extents of tensor 'w' overflow", w(tensor("w", kUint4, {-1 & INT64_MAX, 3}, raw(""))));
  says("tensor 'w' has the unknown element type 77", w(tensor("w", 77, {2}, raw(kTwoFloats))));
  says("tensor 'w' has no element type", w(tensor("w", 0, {2}, raw(kTwoFloats))));
  says("tensor 'w' has 1 strings, its shape wants 2", w(tensor("w", kString, {2}, data(6, "a"))));
  says("tensor 'w' is one of several segments", w(tensor("w", kFloat, {2}, raw(kTwoFloats) + data(3, number(1, 0)))));
  says("node 'add_0' (Add), attribute 'value': tensor 't'", [](GraphParts& g) {
    g.nodes[0] = node("Add", {"x", "w"}, {"y"}, "add_0", {attribute("value", 4, data(5, tensor("t", kFloat, {5}, "")))});
  });
}

TEST_CASE("external data is read inside the folder of the model, through links too, and nowhere else") {
  const Folder folder;
  folder.write("model/weights.bin", "12345678" + kTwoFloats);
  folder.write("model/data/more.bin", kTwoFloats);
  folder.write("secret.bin", kTwoFloats);
  fs::create_symlink("../secret.bin", folder.path / "model" / "link_out.bin");
  fs::create_symlink("..", folder.path / "model" / "up");
  fs::create_symlink("weights.bin", folder.path / "model" / "link_in.bin");
  fs::create_symlink("loop.bin", folder.path / "model" / "loop.bin");
  mkfifo((folder.path / "model" / "pipe.bin").c_str(), 0600);
  const auto read = [&](const std::string& fields, std::vector<int64_t> dims = {2}) {
    GraphParts g = small();
    g.initializers = {tensor("w", kFloat, dims, fields)};
    auto m = read_model(model_file(graph(g)), (folder.path / "model").string());
    return m ? std::string(reinterpret_cast<const char*>(m->graph.initializers.at("w").bytes.data()), 8) : m.status().text();
  };
  CHECK(read(external("weights.bin", "8", "8")) == kTwoFloats);
  CHECK(read(external("weights.bin", "8")) == kTwoFloats);
  CHECK(read(external("./data/../data/more.bin")) == kTwoFloats);
  CHECK(read(external("link_in.bin", "8", "8")) == kTwoFloats);
  const auto refused = [&](const std::string& fields, const char* words) {
    const std::string text = read(fields);
    CHECK_MESSAGE(text.find(words) != std::string::npos, text, " should say ", std::string(words));
    CHECK(text.find("tensor 'w'") != std::string::npos);
  };
  refused(external((folder.path / "secret.bin").string()), "outside the folder");
  refused(external("/etc/passwd"), "outside the folder");
  refused(external("../secret.bin"), "outside the folder");
  refused(external("data/../../secret.bin"), "outside the folder");
  refused(external("link_out.bin"), "outside the folder");
  refused(external("up/secret.bin"), "outside the folder");
  refused(external(""), "outside the folder");
  refused(external(std::string("weights.bin\0x", 13)), "outside the folder");
  refused(external("loop.bin"), "loop.bin");
  refused(external("missing.bin"), "missing.bin");
  refused(external("pipe.bin"), "not a regular file");
  refused(external("."), "not a regular file");
  refused(external("weights.bin", "9", "8"), "16 bytes, fewer than offset 9 plus 8");
  refused(external("weights.bin", "18446744073709551615", "8"), "fewer than offset");
  refused(external("weights.bin", "0", "7"), "has 7 bytes, expected 8");
  refused(external("weights.bin", "-1", "8"), "is not a number");
  refused(external("weights.bin", "0x8", "8"), "is not a number");
}

TEST_CASE("bodies are imported with what they capture, and deep ones are refused with a sentence") {
  const auto nested = [](int depth) {
    std::string body = graph({.name = "inner", .nodes = {node("Relu", {"x"}, {"r"})}, .outputs = {data(1, "r")}});
    for (int i = 1; i < depth; ++i)
      body = graph({.name = "b", .nodes = {node("If", {"x"}, {"r"}, "", {graph_attribute("then_branch", body)})}, .outputs = {data(1, "r")}});
    GraphParts g = small();
    g.nodes.push_back(node("If", {"x"}, {"result"}, "the_if", {graph_attribute("then_branch", body)}));
    g.outputs.push_back(value_info("result", kFloat, {}));
    return read_model(model_file(graph(g)));
  };
  const auto two = nested(2);
  REQUIRE_MESSAGE(two.ok(), (two.ok() ? std::string() : two.status().text()));
  CHECK(two->graph.nodes.size() == 3);
  CHECK(nested(63).ok());
  CHECK(nested(64).status().message.find("nested deeper than 64") != std::string::npos);
  CHECK(nested(64).status().message.find("node 'the_if' (If)") != std::string::npos);
  CHECK(nested(1000).status().message.find("nested deeper than 64") != std::string::npos);
  CHECK(nested(5000).status().message.find("nested too deeply") != std::string::npos);
  // What a body reads is written before the node that has it, or it is said who misses it.
  const auto captures = [](const char* what) {
    const std::string body = graph({.name = "body", .nodes = {node("Relu", {what}, {"r"}, "inner_relu")}, .outputs = {data(1, "r")}});
    GraphParts g = small();
    g.nodes.insert(g.nodes.begin(), node("If", {"x"}, {"result"}, "the_if", {graph_attribute("then_branch", body)}));
    g.outputs.push_back(value_info("result", kFloat, {}));
    return read_model(model_file(graph(g)));
  };
  CHECK(captures("z").value().graph.nodes.back().op == "If");  // sorted behind the writer of z
  CHECK(captures("nowhere").status().text().find("node \"inner_relu\" (Relu) reads \"nowhere\"") != std::string::npos);
}

TEST_CASE("names that a terminal would obey are shown escaped") {
  says("reads \"q\\x1b[2J\"", [](GraphParts& g) { g.nodes[0] = node("Add", {"q\x1b[2J", "w"}, {"y"}); });
  says("node \"a\\x0ab\" (Add)", [](GraphParts& g) { g.nodes[0] = node("Add", {"q", "w"}, {"y"}, "a\nb"); });
}

TEST_CASE("bytes that are no model, truncated models, and models with any byte changed") {
  const std::string good = model_file(graph(small()));
  REQUIRE(read_model(good).ok());
  int refused = 0;
  for (size_t n = 0; n < good.size(); ++n) {
    auto m = read_model(good.substr(0, n));
    if (m) continue;
    ++refused;
    CHECK(!m.status().message.empty());
  }
  CHECK(refused > 100);
  std::mt19937_64 random(17);
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = good;
    for (uint64_t k = 1 + random() % 3; k > 0; --k) bytes[random() % bytes.size()] = static_cast<char>(random());
    auto m = read_model(bytes);
    if (!m) continue;
    ++accepted;
    CHECK(model::verify(*m).ok());
  }
  CHECK(accepted > 100);
  CHECK(read_model("\x08\x07").status().message.find("no graph") != std::string::npos);
  CHECK(read_model("").status().message.find("empty") != std::string::npos);
  CHECK(read_model("dear reader").status().message.find("not an ONNX model") != std::string::npos);
}

TEST_CASE("a chain of a hundred thousand nodes, last one first, takes memory and time in proportion") {
  // Sorting must not be quadratic: this would then take minutes. No clock is asked.
  constexpr int kNodes = 100'000;
  GraphParts g = small();
  g.nodes.clear();
  for (int i = kNodes; i > 0; --i)
    g.nodes.push_back(node("Relu", {i == 1 ? "x" : "v" + std::to_string(i - 1)}, {"v" + std::to_string(i)}));
  g.outputs = {value_info("v" + std::to_string(kNodes), kFloat, {})};
  const auto m = read_model(model_file(graph(g)));
  REQUIRE(m.ok());
  CHECK(m->graph.nodes.size() == kNodes);
  CHECK(m->graph.nodes.front().inputs[0] == "x");
  // One value with a hundred thousand readers, one node with a hundred thousand inputs.
  g = small();
  std::vector<std::string> all;
  for (int i = 0; i < kNodes; ++i) {
    all.push_back("r" + std::to_string(i));
    g.nodes.push_back(node("Relu", {"x"}, {all.back()}));
  }
  g.nodes.push_back(node("Sum", all, {"total"}));
  CHECK(read_model(model_file(graph(g))).ok());
}

TEST_CASE("the committed example imports") {
  const auto m = import::import_onnx(mlc::testing::source_path("examples/digits/digits.onnx"));
  REQUIRE(m.ok());
  CHECK(!m->graph.nodes.empty());
  CHECK(import::import_onnx("/nonexistent.onnx").status().code == Code::NotFound);
  CHECK(import::import_onnx("/").status().message.find("not a regular file") != std::string::npos);
}

namespace {

// A function of the model: name, inputs, outputs, attributes by name, nodes.
std::string function(std::string_view domain, std::string_view name, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                     const std::vector<std::string>& attributes, const std::vector<std::string>& nodes, const std::string& more = opset("", 17)) {
  std::string s = data(1, name);
  for (const std::string& i : inputs) s += data(4, i);
  for (const std::string& o : outputs) s += data(5, o);
  for (const std::string& a : attributes) s += data(6, a);
  for (const std::string& n : nodes) s += data(7, n);
  // opset imports are field 9 here, field 8 in a model
  std::string imports = more;
  if (!imports.empty()) imports[0] = static_cast<char>(9 << 3 | 2);
  return data(25, s + imports + data(10, domain));
}
std::string call(std::string_view domain, const std::string& node_bytes) { return node_bytes + data(7, domain); }
std::string reference(std::string_view name, std::string_view to, int type) { return attribute(name, type, data(21, to)); }

std::string text_of(const std::string& functions, const std::vector<std::string>& nodes) {
  GraphParts g = small();
  g.nodes = nodes;
  const auto m = read_model(model_file(graph(g), opset("", 17) + opset("f", 1) + functions));
  return m.ok() ? model::print(*m) : m.status().text();
}
bool has(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

}  // namespace

TEST_CASE("a call of a function becomes its nodes, under names of their own, with the call's attributes") {
  const std::string leaky = function("f", "Leaky", {"a", "b"}, {"c"}, {"slope"},
                                     {node("Add", {"a", "b"}, {"t"}, "sum"), node("LeakyRelu", {"t"}, {"c"}, "act", {reference("alpha", "slope", 1)})});
  const std::string text = text_of(leaky, {call("f", node("Leaky", {"x", "w"}, {"y"}, "first", {attribute("slope", 1, varint(2 << 3 | 5) + std::string("\0\0\0\x3f", 4))})),
                                           call("f", node("Leaky", {"y", "w"}, {"z"}, "second"))});
  CHECK(has(text, "%first.1/t = ai.onnx.Add(%x, @w) \"first.1/sum\""));
  CHECK(has(text, "%y = ai.onnx.LeakyRelu(%first.1/t) {alpha = 0.5}"));
  CHECK(has(text, "%second.2/t = ai.onnx.Add(%y, @w)"));
  CHECK(has(text, "%z = ai.onnx.LeakyRelu(%second.2/t) \"second.2/act\""));  // the attribute is absent: the operator's default
}

TEST_CASE("functions call functions, have bodies that capture, opsets of their own, and inputs that are absent or passed on") {
  const std::string inner = function("f", "Inner", {"a", "unused"}, {"b", "a2"}, {}, {node("Neg", {"a"}, {"b"}), node("Identity", {"a"}, {"a2"})});
  const std::string outer = function("f", "Outer", {"p", "q"}, {"r"}, {}, {call("f", node("Inner", {"p"}, {"n"}, "deep")), node("Clip", {"n", "q"}, {"r"})},
                                     opset("", 11));
  std::string text = text_of(inner + outer, {call("f", node("Outer", {"x"}, {"z"}, "top"))});
  CHECK(has(text, "%top.1/n = ai.onnx.Neg(%x)"));
  CHECK(has(text, "%z = ai.onnx.Clip@11(%top.1/n, _)"));
  const std::string same = function("f", "Same", {"a"}, {"a"}, {}, {});
  CHECK(has(text_of(same, {call("f", node("Same", {"x"}, {"z"}))}), "%z = ai.onnx.Identity(%x)"));
  GraphParts body;
  body.nodes = {node("Add", {"a", "local"}, {"s"})};
  body.initializers = {tensor("local", kFloat, {2}, raw(kTwoFloats))};
  body.outputs = {value_info("s", kFloat, {})};
  const std::string branch = function("f", "Branch", {"c", "a"}, {"y"}, {}, {node("If", {"c"}, {"y"}, "if", {graph_attribute("then_branch", graph(body)), graph_attribute("else_branch", graph(body))})});
  text = text_of(branch, {call("f", node("Branch", {"x", "w"}, {"z"}, "b"))});
  CHECK(has(text, "%b.1/s = ai.onnx.Add(@w, @b.1/local)"));
}

TEST_CASE("functions that call themselves, or grow without end, are refused") {
  const auto one = [](const std::string& name, const std::string& calls) { return function("f", name, {"a"}, {"b"}, {}, {call("f", node(calls, {"a"}, {"b"}))}); };
  const std::vector<std::string> start = {call("f", node("A", {"x"}, {"z"}))};
  CHECK(has(text_of(one("A", "A"), start), "function 'f.A' calls itself"));
  CHECK(has(text_of(one("A", "B") + one("B", "A"), start), "calls itself"));
  CHECK(has(text_of(one("A", "B") + one("A", "B"), start), "function 'f.A' is given twice"));
  std::string chain, bomb;
  for (int k = 0; k < 70; ++k) chain += one(k ? "A" + std::to_string(k) : "A", "A" + std::to_string(k + 1));
  CHECK(has(text_of(chain, start), "more than 64 deep"));
  for (int k = 0; k < 30; ++k) {
    const std::string next = "A" + std::to_string(k + 1);
    bomb += function("f", k ? "A" + std::to_string(k) : "A", {"a"}, {"b"}, {}, {call("f", node(next, {"a"}, {"t"})), call("f", node(next, {"t"}, {"b"}))});
  }
  CHECK(has(text_of(bomb, start), "come to more than"));
  CHECK(has(text_of(one("A", "Relu"), {call("f", node("A", {"x", "w"}, {"z"}))}), "has 2 inputs and 1 outputs, the function has 1 and 1"));
  CHECK(has(text_of(function("f", "A", {"a", "a"}, {"b"}, {}, {}), start), "has the input 'a' twice"));
  CHECK(has(text_of(function("f", "A", {"a"}, {"b"}, {}, {}), start), "written by nothing"));
}

TEST_CASE("sequences, optionals and maps are types of ports, deep nests and maps of anything else are not") {
  const auto typed = [](const std::string& type) { return data(1, "x") + data(2, type); };
  const std::string floats = data(1, number(1, kFloat) + data(2, ""));
  const auto sequence = [](const std::string& of) { return data(4, data(1, of)); };
  const auto optional = [](const std::string& of) { return data(9, data(1, of)); };
  const auto text = [&](const std::string& type) {
    GraphParts g = small();
    g.inputs = {typed(type)};
    const auto m = read_model(model_file(graph(g)));
    return m.ok() ? model::print(*m) : m.status().text();
  };
  CHECK(has(text(sequence(floats)), "input %x : list(f32[])"));
  CHECK(has(text(optional(sequence(floats))), "input %x : optional(list(f32[]))"));
  CHECK(has(text(optional(floats)), "input %x : optional(f32[])"));
  CHECK(has(text(sequence(optional(floats))), "holds optionals"));
  const auto map = [&](uint64_t key, const std::string& value) { return data(5, number(1, key) + data(2, value)); };
  CHECK(has(text(map(8, floats)), "input %x : map(str, f32)"));
  CHECK(has(text(sequence(map(kInt64, floats))), "input %x : list(map(i64, f32))"));
  CHECK(has(text(map(kFloat, floats)), "is a map, but not from strings or 64-bit integers"));
  CHECK(has(text(sequence(sequence(map(kInt64, floats)))), "neither a tensor"));
  CHECK(has(text(optional(map(kInt64, floats))), "neither a tensor"));
  CHECK_FALSE(has(text(map(kInt64, sequence(floats))), "input %x"));
  CHECK_FALSE(has(text(map(kInt64, "")), "input %x"));
  CHECK(has(text(sequence(sequence(sequence(sequence(sequence(floats)))))), "nested deeper than 4"));
  CHECK(has(text(sequence("")), "neither a tensor"));
}

TEST_CASE("what no output needs is dropped, whatever its operator, if it is well formed") {
  GraphParts g = small();
  g.nodes.push_back(node("Strange", {"x"}, {"nobody"}, "s"));
  g.nodes.push_back(node("Relu", {"nobody"}, {"nor_this"}));
  CHECK(read_model(model_file(graph(g))).value().graph.nodes.size() == small().nodes.size());
  g.nodes.push_back(node("Relu", {"nowhere"}, {"lost"}, "reader"));
  CHECK(has(read_model(model_file(graph(g))).status().text(), "nowhere"));
}

TEST_CASE("a body may give one value several times") {
  const std::string body = graph({.name = "body", .nodes = {node("Relu", {"x"}, {"r"})}, .outputs = {data(1, "r"), data(1, "r")}});
  GraphParts g = small();
  g.nodes.push_back(node("If", {"x"}, {"one", "two"}, "the_if", {graph_attribute("then_branch", body), graph_attribute("else_branch", body)}));
  g.outputs.push_back(value_info("one", kFloat, {}));
  g.outputs.push_back(value_info("two", kFloat, {}));
  const auto m = read_model(model_file(graph(g)));
  REQUIRE_MESSAGE(m.ok(), (m.ok() ? std::string() : m.status().text()));
  CHECK(has(model::print(*m), "ai.onnx.Identity(%r)"));
  // As often as it likes, names that are taken included.
  std::vector<std::string> results(20000, data(1, "r")), outputs;
  for (size_t k = 0; k < results.size(); ++k) outputs.push_back("o" + std::to_string(k));
  const std::string many = graph({.name = "body", .nodes = {node("Relu", {"x"}, {"r"}), node("Relu", {"x"}, {"r'1"})}, .outputs = results});
  GraphParts h = small();
  h.nodes.push_back(node("If", {"x"}, outputs, "the_if", {graph_attribute("then_branch", many), graph_attribute("else_branch", many)}));
  h.outputs.push_back(value_info("o0", kFloat, {}));
  CHECK(read_model(model_file(graph(h))).ok());
}

TEST_CASE("sparse initializers are written out, and what they say of places is checked") {
  // s[2, 3] = {{0, 0, 5}, {7, 0, 0}}, with a number for each value or one for each axis.
  const auto model = [](const std::vector<int64_t>& places, const std::vector<int64_t>& places_shape, const std::vector<int64_t>& shape) {
    const float values[] = {5, 7};
    const std::string bytes(reinterpret_cast<const char*>(values), sizeof values), at(reinterpret_cast<const char*>(places.data()), places.size() * sizeof(int64_t));
    std::string sparse = data(1, tensor("s", kFloat, {2}, raw(bytes))) + data(2, tensor("", kInt64, places_shape, raw(at)));
    for (int64_t d : shape) sparse += number(3, static_cast<uint64_t>(d));
    GraphParts g = small();
    g.more = data(15, sparse);
    return read_model(model_file(graph(g)));
  };
  for (const auto& m : {model({2, 3}, {2}, {2, 3}), model({0, 2, 1, 0}, {2, 2}, {2, 3})}) {
    REQUIRE_MESSAGE(m.ok(), (m.ok() ? std::string() : m.status().text()));
    const auto& s = m->graph.initializers.at("s");
    CHECK(s.shape == std::vector<int64_t>{2, 3});
    const float* v = reinterpret_cast<const float*>(s.bytes.data());
    CHECK(std::vector<float>(v, v + 6) == std::vector<float>{0, 0, 5, 7, 0, 0});
  }
  CHECK(has(model({2, 6}, {2}, {2, 3}).status().text(), "index 1 lies outside"));
  CHECK(has(model({2, -1}, {2}, {2, 3}).status().text(), "index 1 lies outside"));
  CHECK(has(model({0, 2, 2, 0}, {2, 2}, {2, 3}).status().text(), "index 1 lies outside"));
  CHECK(has(model({2}, {1}, {2, 3}).status().text(), "indices that are not one for each value"));
  CHECK(has(model({2, 3}, {2}, {1 << 20, 1 << 20}).status().text(), "at most so many are written out"));
  CHECK(has(model({2, 3}, {2}, {-1}).status().text(), "negative extent"));
  // All of a file together: six of 200 MiB each are too many, however few values they have.
  const float value = 1;
  const int64_t place = 0;
  GraphParts g = small();
  for (int k = 0; k < 6; ++k)
    g.more += data(15, data(1, tensor("s" + std::to_string(k), kFloat, {1}, raw(std::string(reinterpret_cast<const char*>(&value), 4)))) +
                           data(2, tensor("", kInt64, {1}, raw(std::string(reinterpret_cast<const char*>(&place), 8)))) + number(3, 50 << 20));
  CHECK(has(read_model(model_file(graph(g))).status().text(), "at most so many are written out"));
}
