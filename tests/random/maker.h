// An ONNX graph under construction: every value's element type and extents are known, since idioms choose by them.
#pragma once

#include <onnx/onnx_pb.h>

#include <map>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "packager/nest/evaluate/tensor.h"
#include "tests/random/rng.h"

namespace mlc::random_graphs {

using Type = onnx::TensorProto_DataType;
inline constexpr Type kInt64 = onnx::TensorProto::INT64;
using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

struct Value {
  std::string name;  // empty: an input that is left out
  Type type = onnx::TensorProto::FLOAT;
  Ints shape;

  size_t rank() const { return shape.size(); }
  int64_t elements() const;
  bool is_float() const {
    return type == onnx::TensorProto::FLOAT || type == onnx::TensorProto::FLOAT16 || type == onnx::TensorProto::DOUBLE;
  }
};

struct Attr {
  const char* name;
  std::variant<int64_t, float, std::string, Ints, Floats> value;

  Attr(const char* n, int v) : name(n), value(static_cast<int64_t>(v)) {}
  Attr(const char* n, int64_t v) : name(n), value(v) {}
  Attr(const char* n, double v) : name(n), value(static_cast<float>(v)) {}
  Attr(const char* n, const char* v) : name(n), value(std::string(v)) {}
  Attr(const char* n, Ints v) : name(n), value(std::move(v)) {}
  Attr(const char* n, Floats v) : name(n), value(std::move(v)) {}
};

// A node that is to be. Always written with braces, m.node({"Add", {...}, {...}}): what is in them is evaluated from
// left to right by every compiler, so that a seed is the same graph everywhere. Arguments of functions are not.
struct Call {
  std::string op;
  std::vector<Value> inputs;
  std::vector<Attr> attrs = {};
};

// An idiom does not fit the value that it was given: the graph goes on without it.
struct Unfit : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Maker {
 public:
  // `free`: axes of inputs whose role is a letter are left open.
  Maker(uint64_t seed, bool free) : r(seed), free_(free) {}

  Random r;
  Type real = onnx::TensorProto::FLOAT;  // of what is made from now on
  int opset = 17;                        // of the model, or the oldest above it that has its operators

  // `roles`: a letter for each axis: N, H, W, L, ... may be free, '-' never is.
  Value input(Type type, Ints shape, const std::string& roles, std::vector<double> values);
  Value input(Ints shape, const std::string& roles);  // floats around 0, magnitudes by channel

  Value constant(Type type, Ints shape, const std::vector<double>& values);
  Value ints(const Ints& values) {
    return constant(onnx::TensorProto::INT64, {static_cast<int64_t>(values.size())}, {values.begin(), values.end()});
  }
  Value scalar(double value) { return constant(real, {}, {value}); }
  // Floats around 0 with magnitudes that differ along axis 0; a fold over `fan` of them keeps the magnitude of what it
  // multiplies.
  Value weights(Ints shape, int64_t fan, size_t channel_axis = 0);
  Value around(Ints shape, double low, double high);  // floats in between
  std::vector<double> reals(int64_t count, double low, double high);
  std::vector<double> whole(int64_t count, int64_t low, int64_t high);

  // Adds a node. Types and extents of its outputs are what ONNX's own inference says; Unfit if it refuses the node or
  // does not know.
  std::vector<Value> nodes(const Call& call, int64_t outputs);
  Value node(const Call& call) { return nodes(call, 1)[0]; }
  // The same where extents depend on values: the idiom says them.
  Value node_as(Type type, Ints shape, const Call& call);

  // Compound helpers.
  Value reshape(const Value& x, const Ints& shape);  // shape may have 0 and -1
  Value transpose(const Value& x, const Ints& perm) { return node({"Transpose", {x}, {{"perm", perm}}}); }
  Value cast(const Value& x, Type type) {
    return x.type == type ? x : node({"Cast", {x}, {{"to", static_cast<int64_t>(type)}}});
  }
  Value slice(const Value& x, int64_t axis, int64_t begin, int64_t end, int64_t step = 1);
  Value fold(const std::string& op, const Value& x, const Ints& axes, bool keep);
  Value any_fold(const Value& x, const Ints& axes, bool keep);  // some ReduceX
  Value activation(const Value& x);

  void output(const Value& v);
  void forget_from(const Maker& before);  // back to an earlier state

  const onnx::GraphProto& graph() const { return graph_; }
  // Every value that no node reads is an output.
  onnx::ModelProto model() const;
  const std::vector<nest::Tensor>& inputs() const { return inputs_; }
  bool is_constant(const std::string& name) const { return constants_.count(name) != 0; }

 private:
  onnx::NodeProto& add(const Call& call, int64_t outputs);
  void set(onnx::ValueInfoProto& port, const Value& v, const std::string& roles) const;
  Value remember(Value v) { return known_[v.name] = v; }

  bool free_;
  int next_ = 0;
  onnx::GraphProto graph_;
  std::vector<nest::Tensor> inputs_;
  std::map<std::string, Value> known_;
  std::map<std::string, int> constants_;  // positions in graph_.initializer
  std::vector<std::string> wanted_;       // outputs, beside what is not read
};

}  // namespace mlc::random_graphs
