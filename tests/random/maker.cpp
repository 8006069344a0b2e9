#include "tests/random/maker.h"

#include <onnx/shape_inference/implementation.h>

#include <algorithm>
#include <set>

#include "packager/import/tensor.h"
#include "packager/ir/numeric.h"

namespace mlc::random_graphs {
namespace {

constexpr int64_t kLargest = 20000;  // elements of a value: graphs are to cost milliseconds in the interpreter
constexpr int kOpset = 17;           // the newest that the inference of libonnx 1.12 knows

DType dtype_of(Type type) {
  switch (type) {
    case onnx::TensorProto::FLOAT: return DType::F32;
    case onnx::TensorProto::FLOAT16: return DType::F16;
    case onnx::TensorProto::DOUBLE: return DType::F64;
    case onnx::TensorProto::INT64: return DType::I64;
    case onnx::TensorProto::INT32: return DType::I32;
    case onnx::TensorProto::INT8: return DType::I8;
    case onnx::TensorProto::UINT8: return DType::U8;
    case onnx::TensorProto::BOOL: return DType::Bool;
    default: throw Unfit("element type");
  }
}

nest::Tensor tensor_of(Type type, const Ints& shape, const std::vector<double>& values) {
  nest::Tensor t = nest::Tensor::zeros(dtype_of(type), shape);
  for (size_t k = 0; k < values.size(); ++k) {
    ir::Scalar s;
    if (is_float(t.dtype)) s.f = values[k];
    else s.i = static_cast<int64_t>(values[k]);
    ir::store_element(t.dtype, t.bytes.data(), k, s);
  }
  return t;
}

void put(onnx::NodeProto& node, const Attr& attr) {
  onnx::AttributeProto& a = *node.add_attribute();
  a.set_name(attr.name);
  if (const auto* i = std::get_if<int64_t>(&attr.value)) a.set_type(onnx::AttributeProto::INT), a.set_i(*i);
  if (const auto* f = std::get_if<float>(&attr.value)) a.set_type(onnx::AttributeProto::FLOAT), a.set_f(*f);
  if (const auto* s = std::get_if<std::string>(&attr.value)) a.set_type(onnx::AttributeProto::STRING), a.set_s(*s);
  if (const auto* all = std::get_if<Ints>(&attr.value)) {
    a.set_type(onnx::AttributeProto::INTS);
    for (int64_t i : *all) a.add_ints(i);
  }
  if (const auto* all = std::get_if<Floats>(&attr.value)) {
    a.set_type(onnx::AttributeProto::FLOATS);
    for (float f : *all) a.add_floats(f);
  }
}

// The inference of libonnx divides towards zero, so that a window which is larger than its picture has an answer of
// extent 1.
void need_room(const Call& call) {
  if (!call.op.ends_with("Pool") && call.op != "Conv" && call.op != "QLinearConv" && call.op != "ConvInteger") return;
  Ints kernel, pads, dilations;
  for (const Attr& a : call.attrs) {
    const std::string_view name = a.name;
    if (name == "auto_pad") return;
    if (name == "kernel_shape") kernel = std::get<Ints>(a.value);
    if (name == "pads") pads = std::get<Ints>(a.value);
    if (name == "dilations") dilations = std::get<Ints>(a.value);
  }
  const size_t weights = call.op == "QLinearConv" ? 3 : 1;
  if (kernel.empty() && call.inputs.size() > weights)
    kernel.assign(call.inputs[weights].shape.begin() + 2, call.inputs[weights].shape.end());
  for (size_t k = 0; k < kernel.size(); ++k) {
    const int64_t room = call.inputs[0].shape[k + 2] + (pads.empty() ? 0 : pads[k] + pads[k + kernel.size()]);
    if (room < (kernel[k] - 1) * (dilations.empty() ? 1 : dilations[k]) + 1)
      throw Unfit(call.op + ": a window without room");
  }
}

void head(onnx::ModelProto& m, int opset) {
  m.set_ir_version(8);
  m.set_producer_name("random_graphs");
  onnx::OperatorSetIdProto& set = *m.add_opset_import();
  set.set_domain("");
  set.set_version(opset);
}

// In opset 18 folds take their axes as an input, and Split says into how many.
void modernise(onnx::GraphProto& graph) {
  for (onnx::NodeProto& node : *graph.mutable_node()) {
    if (node.op_type() == "Split" && node.input_size() == 1)
      put(node, {"num_outputs", static_cast<int64_t>(node.output_size())});
    if (!node.op_type().starts_with("Reduce") || node.op_type() == "ReduceSum") continue;
    for (int k = 0; k < node.attribute_size(); ++k) {
      if (node.attribute(k).name() != "axes") continue;
      onnx::TensorProto& axes = *graph.add_initializer();
      axes.set_name(node.output(0) + ".axes");
      axes.set_data_type(onnx::TensorProto::INT64);
      axes.add_dims(node.attribute(k).ints_size());
      for (int64_t axis : node.attribute(k).ints()) axes.add_int64_data(axis);
      node.add_input(axes.name());
      node.mutable_attribute()->DeleteSubrange(k, 1);
      break;
    }
  }
}

// The oldest opset that has what is in the graph, from 13 on.
int least_opset(const onnx::GraphProto& graph) {
  for (const onnx::NodeProto& node : graph.node())
    for (const char* late : {"LayerNormalization", "HardSwish", "Trilu", "GridSample"})
      if (node.op_type() == late) return kOpset;
  for (const onnx::NodeProto& node : graph.node())
    for (const onnx::AttributeProto& attr : node.attribute())
      if (attr.name() == "reduction" && node.op_type() == "ScatterND") return kOpset;
  return 13;
}

}  // namespace

int64_t Value::elements() const {
  int64_t n = 1;
  for (int64_t e : shape) n *= e;
  return n;
}

void Maker::set(onnx::ValueInfoProto& port, const Value& v, const std::string& roles) const {
  port.set_name(v.name);
  onnx::TypeProto_Tensor& type = *port.mutable_type()->mutable_tensor_type();
  type.set_elem_type(v.type);
  type.mutable_shape();
  for (size_t k = 0; k < v.rank(); ++k) {
    auto& dim = *type.mutable_shape()->add_dim();
    // Axes of one role and extent are one: people add what they declare alike.
    if (free_ && k < roles.size() && roles[k] != '-')
      dim.set_dim_param(std::string(1, roles[k]) + std::to_string(v.shape[k]));
    else dim.set_dim_value(v.shape[k]);
  }
}

Value Maker::input(Type type, Ints shape, const std::string& roles, std::vector<double> values) {
  Value v{"x" + std::to_string(next_++), type, std::move(shape)};
  set(*graph_.add_input(), v, roles);
  inputs_.push_back(tensor_of(type, v.shape, values));
  return remember(v);
}

Value Maker::input(Ints shape, const std::string& roles) {
  Value v{"", real, shape};
  std::vector<double> values(static_cast<size_t>(v.elements()));
  const int64_t channels = shape.size() > 1 ? shape[1] : 1;
  int64_t inner = 1;
  for (size_t k = 2; k < shape.size(); ++k) inner *= shape[k];
  std::vector<double> size(static_cast<size_t>(channels)), middle(size.size());
  for (double& s : size) s = r.of({0.25, 0.5, 1.0, 1.0, 2.0});
  for (double& s : middle) s = r.chance(30) ? r.real(-1, 1) : 0;
  for (size_t k = 0; k < values.size(); ++k) {
    const size_t c = static_cast<size_t>(static_cast<int64_t>(k) / inner % channels);
    values[k] = r.normal() * size[c] + middle[c];
  }
  return input(real, std::move(shape), roles, std::move(values));
}

Value Maker::constant(Type type, Ints shape, const std::vector<double>& values) {
  Value v{"c" + std::to_string(next_++), type, std::move(shape)};
  if (v.elements() > 4 * kLargest) throw Unfit("a constant that is too large");
  const nest::Tensor t = tensor_of(type, v.shape, values);
  constants_[v.name] = graph_.initializer_size();
  onnx::TensorProto& proto = *graph_.add_initializer();
  proto.set_name(v.name);
  proto.set_data_type(type);
  for (int64_t e : v.shape) proto.add_dims(e);
  proto.set_raw_data(t.bytes.data(), t.bytes.size());
  return remember(v);
}

std::vector<double> Maker::reals(int64_t count, double low, double high) {
  std::vector<double> values(static_cast<size_t>(count));
  for (double& v : values) v = r.real(low, high);
  return values;
}

std::vector<double> Maker::whole(int64_t count, int64_t low, int64_t high) {
  std::vector<double> values(static_cast<size_t>(count));
  for (double& v : values) v = static_cast<double>(r.within(low, high));
  return values;
}

Value Maker::around(Ints shape, double low, double high) {
  const Value v{"", real, shape};
  return constant(real, std::move(shape), reals(v.elements(), low, high));
}

Value Maker::weights(Ints shape, int64_t fan, size_t channel_axis) {
  const Value v{"", real, shape};
  double scale = 1;
  while (scale * scale * static_cast<double>(fan) > 1) scale *= 0.75;
  int64_t inner = 1;
  for (size_t k = channel_axis + 1; k < shape.size(); ++k) inner *= shape[k];
  const int64_t channels = shape.empty() ? 1 : shape[channel_axis];
  std::vector<double> size(static_cast<size_t>(channels)), values(static_cast<size_t>(v.elements()));
  for (double& s : size) s = scale * r.of({0.25, 0.7, 1.0, 1.5});
  for (size_t k = 0; k < values.size(); ++k)
    values[k] = r.normal() * size[static_cast<size_t>(static_cast<int64_t>(k) / inner % channels)];
  return constant(real, std::move(shape), values);
}

onnx::NodeProto& Maker::add(const Call& call, int64_t outputs) {
  onnx::NodeProto& node = *graph_.add_node();
  node.set_op_type(call.op);
  for (const Value& v : call.inputs) node.add_input(v.name);
  for (int64_t k = 0; k < outputs; ++k) node.add_output("v" + std::to_string(next_++));
  for (const Attr& a : call.attrs) put(node, a);
  return node;
}

std::vector<Value> Maker::nodes(const Call& call, int64_t outputs) {
  const std::string& op = call.op;
  need_room(call);
  const onnx::NodeProto& node = add(call, outputs);
  onnx::ModelProto one;
  head(one, kOpset);
  one.mutable_graph()->set_name("one");
  *one.mutable_graph()->add_node() = node;
  std::set<std::string> seen;
  for (const Value& v : call.inputs) {
    if (v.name.empty() || !seen.insert(v.name).second) continue;
    Maker fixed(0, false);
    const auto constant = constants_.find(v.name);
    if (constant != constants_.end()) *one.mutable_graph()->add_initializer() = graph_.initializer(constant->second);
    fixed.set(*one.mutable_graph()->add_input(), v, "");
  }
  for (const std::string& name : node.output()) one.mutable_graph()->add_output()->set_name(name);
  try {
    onnx::shape_inference::InferShapes(one, onnx::OpSchemaRegistry::Instance(),
                                       onnx::ShapeInferenceOptions(false, 1, false));
  } catch (const std::exception& e) { throw Unfit(op + ": " + e.what()); }
  std::vector<Value> values;
  for (const onnx::ValueInfoProto& port : one.graph().output()) {
    const auto& type = port.type().tensor_type();
    Value v{port.name(), static_cast<Type>(type.elem_type()), {}};
    if (!type.has_shape()) throw Unfit(op + ": the inference says no shape");
    for (const auto& dim : type.shape().dim()) {
      if (!dim.has_dim_value() || dim.dim_value() < 1)
        throw Unfit(op + ": the inference says no extent, or none that is positive");
      v.shape.push_back(dim.dim_value());
    }
    if (v.elements() > kLargest) throw Unfit(op + ": too large");
    values.push_back(remember(v));
  }
  return values;
}

Value Maker::node_as(Type type, Ints shape, const Call& call) {
  const onnx::NodeProto& node = add(call, 1);
  Value v{node.output(0), type, std::move(shape)};
  if (v.elements() > kLargest || v.elements() < 1) throw Unfit(call.op + ": too large, or nothing");
  return remember(v);
}

Value Maker::reshape(const Value& x, const Ints& shape) { return node({"Reshape", {x, ints(shape)}}); }

Value Maker::slice(const Value& x, int64_t axis, int64_t begin, int64_t end, int64_t step) {
  return node({"Slice", {x, ints({begin}), ints({end}), ints({axis}), ints({step})}});
}

Value Maker::fold(const std::string& op, const Value& x, const Ints& axes, bool keep) {
  if (op == "ReduceSum") return node({op, {x, ints(axes)}, {{"keepdims", keep ? 1 : 0}}});
  return node({op, {x}, {{"axes", axes}, {"keepdims", keep ? 1 : 0}}});
}

Value Maker::any_fold(const Value& x, const Ints& axes, bool keep) {
  return fold(r.of({"ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum", "ReduceL2", "ReduceL1", "ReduceMean",
                    "ReduceLogSumExp", "ReduceSumSquare"}),
              x, axes, keep);
}

Value Maker::activation(const Value& x) {
  switch (r.below(12)) {
    case 0: return node({"Relu", {x}});
    case 1: return node({"Clip", {x, scalar(0), scalar(6)}});
    case 2: return node({"HardSwish", {x}});
    case 3: return node({"LeakyRelu", {x}, {{"alpha", 0.125}}});
    case 4: return node({"Mul", {x, node({"Sigmoid", {x}})}});
    case 5: return node({"Tanh", {x}});
    case 6: return node({"HardSigmoid", {x}, {{"alpha", 0.2}, {"beta", 0.5}}});
    case 7: return node({"Elu", {x}});
    case 8: return node({"Mul", {x, node({"Tanh", {node({"Softplus", {x}})}})}});  // mish
    case 9: {  // gelu, as it was before there was one
      const Value half = node({"Mul", {x, scalar(0.5)}});
      return node({"Mul", {half, node({"Add", {node({"Erf", {node({"Div", {x, scalar(1.4142135)}})}}), scalar(1)}})}});
    }
    case 10: {
      Ints slopes(x.rank() > 1 ? x.rank() - 1 : 1, 1);
      if (x.rank() > 1) slopes[0] = x.shape[1];
      return node({"PRelu", {x, around(slopes, 0.05, 0.4)}});
    }
    default: return node({"Relu", {x}});
  }
}

void Maker::output(const Value& v) { wanted_.push_back(v.name); }

void Maker::forget_from(const Maker& before) {
  Random now = r;  // the numbers go on
  *this = before;
  r = now;
}

onnx::ModelProto Maker::model() const {
  onnx::ModelProto m;
  head(m, std::max(opset, least_opset(graph_)));
  *m.mutable_graph() = graph_;
  m.mutable_graph()->set_name("graph");
  if (opset > kOpset) modernise(*m.mutable_graph());
  std::set<std::string> read;
  for (const onnx::NodeProto& node : graph_.node()) read.insert(node.input().begin(), node.input().end());
  for (const std::string& name : wanted_) read.erase(name);
  for (const onnx::NodeProto& node : graph_.node())
    for (const std::string& name : node.output()) {
      if (read.count(name)) continue;
      onnx::ValueInfoProto& port = *m.mutable_graph()->add_output();
      port.set_name(name);
      port.mutable_type()->mutable_tensor_type()->set_elem_type(known_.at(name).type);
    }
  return m;
}

}  // namespace mlc::random_graphs
