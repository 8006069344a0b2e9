// Models for the tests of this folder, and what it means for two to be equal.
#pragma once

#include <bit>
#include <functional>
#include <limits>
#include <cstring>
#include <map>

#include "packager/model/model.h"
#include "packager/model/print.h"
#include "tests/text/model_text.h"

namespace mlc::test {

using namespace model;

// Weights by hash, as a packager would keep them.
struct Store {
  std::map<std::string, std::shared_ptr<std::vector<std::byte>>> known;
  Tensor tensor(DType dtype, std::vector<int64_t> shape, unsigned seed = 0) {
    uint64_t bytes = bytes_of(dtype);
    for (int64_t extent : shape) bytes *= static_cast<uint64_t>(extent);
    auto data = std::make_shared<std::vector<std::byte>>(bytes);
    for (uint64_t i = 0; i < bytes; ++i) (*data)[i] = static_cast<std::byte>(i * 7 + seed);
    known[content_hash(*data)] = data;
    return {dtype, std::move(shape), Bytes(*data), data, {}};
  }
  WeightsByHash find() const {
    return [this](std::string_view hash) -> Weights {
      const auto found = known.find(std::string(hash));
      return found == known.end() ? Weights() : Weights{Bytes(*found->second), found->second};
    };
  }
};

// Every kind of attribute, port and name.
inline Model sample(Store& store) {
  Model m;
  m.producer = "a \"producer\"\n\xff";
  m.opsets = {{"ai.onnx", 17}, {"com.microsoft", 1}};
  m.metadata = {{"author", "J\xc3\xb6rg"}, {"", "\x01"}};
  Graph& g = m.graph;
  g.name = "main graph";
  g.inputs = {{"x", DType::F32, {Axis("N"), Axis(int64_t{3}), Axis("1st"), Axis("p2o.Dim 0"), Axis("")}, true},
              {"any rank", DType::I64, {}, false},
              {"scalar", DType::Bool, {}, true},
              {"list", DType::F32, {Axis("N"), Axis(int64_t{3})}, true, 1},
              {"maybe", DType::F32, {}, false, 2, true}};
  g.initializers["w"] = store.tensor(DType::F32, {2, 3, 4});
  g.initializers["empty"] = store.tensor(DType::I64, {0, 5});
  g.initializers["int4"] = store.tensor(DType::U4, {3}, 9);
  g.initializers["names"] = {DType::Str, {2}, {}, {}, {"cat", "d\"og\\"}};
  Node a;
  a.name = "/conv1/Conv";
  a.domain = "ai.onnx";
  a.op = "Conv";
  a.inputs = {"x", "w", ""};
  a.outputs = {"/conv1/Conv_output_0"};
  a.attributes = {{"strides", std::vector<int64_t>{2, -2}},
                  {"alpha", 0.1},
                  {"beta", 1.0},
                  {"tiny", 1e-300},
                  {"huge", -1e300},
                  {"endless", std::numeric_limits<double>::infinity()},
                  {"least", INT64_MIN},
                  {"mode", std::string("SAME_UPPER")},
                  {"scales", std::vector<double>{1, 0.5, -0.0}},
                  {"words", std::vector<std::string>{"a", ""}},
                  {"no_ints", std::vector<int64_t>{}},
                  {"no_floats", std::vector<double>{}},
                  {"no_strings", std::vector<std::string>{}},
                  {"odd key", int64_t{1}},
                  {"kind", Port{"", DType::I64, {Axis(int64_t{2})}, true, 1, true}},
                  {"value", store.tensor(DType::F64, {2}, 3)}};
  Node split;
  split.domain = "com.microsoft";
  split.op = "Split";
  split.opset = 2;
  split.inputs = {"/conv1/Conv_output_0"};
  split.outputs = {"_", "", "a b"};
  Node odd;
  odd.domain = "my domain";
  odd.op = "An.Op";
  odd.name = "no results";
  // A body that reads values and weights of the graph around it, in two levels.
  Graph inner;
  inner.name = "inner";
  inner.outputs = {{"x", DType::None, {}, false}};
  Node use;
  use.domain = "ai.onnx";
  use.op = "If";
  use.inputs = {"w", "a b", "local"};
  use.outputs = {"deep"};
  use.attributes["then_branch"] = std::make_shared<const Graph>(inner);
  use.attributes["else_branch"] = std::make_shared<const Graph>(inner);
  Graph body;
  body.name = "body";
  body.inputs = {{"local", DType::F32, {Axis(int64_t{1})}, true}};
  body.initializers["own"] = store.tensor(DType::I8, {1});
  body.nodes = {use};
  body.types["deep"] = {"deep", DType::F16, {Axis("M")}, true};
  body.outputs = {{"deep", DType::F16, {}, true}, {"own", DType::I8, {Axis(int64_t{1})}, true}};
  Node loop;
  loop.domain = "ai.onnx";
  loop.op = "Loop";
  loop.outputs = {"result"};
  loop.attributes = {{"body", std::make_shared<const Graph>(body)}, {"n", int64_t{4}}};
  g.nodes = {a, split, odd, loop};
  g.types["/conv1/Conv_output_0"] = {"/conv1/Conv_output_0", DType::F32, {Axis("N"), Axis("")}, true};
  g.types["a b"] = {"a b", DType::F32, {}, false};
  g.outputs = {{"result", DType::F32, {Axis("N")}, true}, {"w", DType::F32, {}, false}};
  return m;
}

inline bool same(const Port& a, const Port& b) {
  return a.name == b.name && a.dtype == b.dtype && a.shape == b.shape && a.has_shape == b.has_shape &&
         a.list_depth == b.list_depth && a.optional == b.optional;
}
inline bool same(const Tensor& a, const Tensor& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.strings == b.strings && a.bytes.size() == b.bytes.size() &&
         (a.bytes.empty() || std::memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0);
}
inline bool same(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }
inline bool same(const Graph& a, const Graph& b);
inline bool same(const Attribute& a, const Attribute& b) {
  if (a.index() != b.index()) return false;
  if (const auto* t = std::get_if<Tensor>(&a)) return same(*t, std::get<Tensor>(b));
  if (const auto* g = std::get_if<std::shared_ptr<const Graph>>(&a))
    return same(**g, *std::get<std::shared_ptr<const Graph>>(b));
  if (const auto* p = std::get_if<Port>(&a)) return same(*p, std::get<Port>(b));
  if (const auto* d = std::get_if<double>(&a)) return same(*d, std::get<double>(b));
  if (const auto* i = std::get_if<int64_t>(&a)) return *i == std::get<int64_t>(b);
  if (const auto* s = std::get_if<std::string>(&a)) return *s == std::get<std::string>(b);
  if (const auto* s = std::get_if<std::vector<std::string>>(&a)) return *s == std::get<std::vector<std::string>>(b);
  if (const auto* s = std::get_if<std::vector<int64_t>>(&a)) return *s == std::get<std::vector<int64_t>>(b);
  const auto &x = std::get<std::vector<double>>(a), &y = std::get<std::vector<double>>(b);
  return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](double p, double q) { return same(p, q); });
}
template <class Map>
bool same_map(const Map& a, const Map& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& p, const auto& q) { return p.first == q.first && same(p.second, q.second); });
}
inline bool same(const Node& a, const Node& b) {
  return a.name == b.name && a.domain == b.domain && a.op == b.op && a.inputs == b.inputs && a.outputs == b.outputs &&
         a.opset == b.opset && same_map(a.attributes, b.attributes);
}
template <class List>
bool same_list(const List& a, const List& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& p, const auto& q) { return same(p, q); });
}
inline bool same(const Graph& a, const Graph& b) {
  return a.name == b.name && same_list(a.inputs, b.inputs) && same_list(a.outputs, b.outputs) &&
         same_map(a.initializers, b.initializers) && same_list(a.nodes, b.nodes) && same_map(a.types, b.types);
}
inline bool same(const Model& a, const Model& b) {
  return a.producer == b.producer && a.opsets == b.opsets && a.metadata == b.metadata && same(a.graph, b.graph);
}

}  // namespace mlc::test
