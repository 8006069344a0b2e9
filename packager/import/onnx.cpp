#include "packager/import/onnx.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <unordered_set>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "packager/import/foreign.h"
#include "packager/import/functions.h"
#include "packager/import/graph_order.h"
#include "packager/import/mapping.h"
#include "packager/import/shown.h"
#include "packager/import/tensor.h"
#include "packager/model/verify.h"

namespace mlc::import {
namespace {

using model::kMaxGraphDepth;
// Messages in messages that protobuf follows; its parser takes stack for each. A body takes three of them.
constexpr int kMaxMessageDepth = 4096;
constexpr int64_t kNewestOpset = 28;  // of ai.onnx: what later ones change is not known
constexpr uint64_t kMaxModelBytes = INT32_MAX;  // protobuf's own limit

// What is read along the way.
struct Reader {
  TensorSource source;
  Functions functions;
  const std::map<std::string, int64_t>* opsets = nullptr;  // of the model
  size_t inlined = 0, calls = 0;
};

// The element type and shape of a value, as far as they are said, into `port`.
Status read_type(const onnx::TypeProto& given, const std::string& who, model::Port& port) {
  const onnx::TypeProto* type = &given;
  port.has_shape = false;
  while (type->value_case() == onnx::TypeProto::kSequenceType || type->value_case() == onnx::TypeProto::kOptionalType) {
    const bool optional = type->value_case() == onnx::TypeProto::kOptionalType;
    if (optional && port.list_depth > 0) return Status(Code::Unsupported, 2006, who + " holds optionals, which is not supported");
    if (port.list_depth == model::kMaxListDepth)
      return Status(Code::Unsupported, 2006, who + " is a sequence nested deeper than " + std::to_string(model::kMaxListDepth));
    ++port.list_depth;
    port.optional = port.optional || optional;
    type = optional ? &type->optional_type().elem_type() : &type->sequence_type().elem_type();
  }
  if (type->value_case() == onnx::TypeProto::VALUE_NOT_SET && port.list_depth == 0) return ok();
  if (type->value_case() == onnx::TypeProto::kMapType && port.list_depth <= 1 && !port.optional) {
    const auto& map = type->map_type();
    MLC_ASSIGN(port.map_key, dtype_of(map.key_type(), who));
    MLC_ASSIGN(port.dtype, dtype_of(map.value_type().tensor_type().elem_type(), who));
    const bool known = (port.map_key == DType::Str || port.map_key == DType::I64) && port.dtype != DType::None;
    return known ? ok() : Status(Code::Unsupported, 2006, who + " is a map, but not from strings or 64-bit integers to elements");
  }
  if (!type->has_tensor_type())
    return Status(Code::Unsupported, 2006, who + " is neither a tensor, a map, nor a sequence or optional of them (a sparse tensor)");
  const auto& tensor = type->tensor_type();
  MLC_ASSIGN(port.dtype, dtype_of(tensor.elem_type(), who));
  port.has_shape = tensor.has_shape();
  uint64_t bytes = std::max(1u, bytes_of(port.dtype));
  for (const auto& dim : tensor.shape().dim()) {
    if (!dim.has_dim_value() || dim.dim_value() == -1) {  // some exporters write -1 for a free extent
      port.shape.emplace_back(dim.has_dim_param() ? dim.dim_param() : std::string());
      continue;
    }
    if (dim.dim_value() < 0) return Status(Code::Malformed, 1015, who + " has the negative extent " + std::to_string(dim.dim_value()));
    port.shape.emplace_back(dim.dim_value());
    const auto more = checked_mul(bytes, std::max<uint64_t>(1, static_cast<uint64_t>(dim.dim_value())));
    if (!more || *more > INT64_MAX) return Status(Code::Malformed, 1015, "the bytes of " + who + " overflow 64 bits");
    bytes = *more;
  }
  return ok();
}

Result<model::Port> port_of(const onnx::ValueInfoProto& info, const Scope& scope) {
  model::Port port;
  port.name = scope.name_of(info.name());
  port.has_shape = false;
  if (info.has_type()) MLC_RETURN_IF_ERROR(read_type(info.type(), shown(info.name()), port));
  return port;
}

Result<model::Graph> graph_of(const onnx::GraphProto& proto, const Scope& scope, Reader& reader, int depth);

Result<model::Attribute> attribute_of(const onnx::AttributeProto& proto, const Scope& scope, Reader& reader, int depth) {
  using Proto = onnx::AttributeProto;
  auto type = proto.type();
  if (type == Proto::UNDEFINED) {  // files before IR version 2 leave it out
    type = proto.has_f() ? Proto::FLOAT : proto.has_i() ? Proto::INT : proto.has_s() ? Proto::STRING : proto.has_t() ? Proto::TENSOR
         : proto.has_g() ? Proto::GRAPH : proto.ints_size() ? Proto::INTS : proto.floats_size() ? Proto::FLOATS
         : proto.strings_size() ? Proto::STRINGS : Proto::UNDEFINED;
  }
  switch (type) {
    case Proto::FLOAT: return model::Attribute(static_cast<double>(proto.f()));
    case Proto::INT: return model::Attribute(static_cast<int64_t>(proto.i()));
    case Proto::STRING: return model::Attribute(proto.s());
    case Proto::INTS: return model::Attribute(std::vector<int64_t>(proto.ints().begin(), proto.ints().end()));
    case Proto::FLOATS: return model::Attribute(std::vector<double>(proto.floats().begin(), proto.floats().end()));
    case Proto::STRINGS: return model::Attribute(std::vector<std::string>(proto.strings().begin(), proto.strings().end()));
    case Proto::TENSOR: {
      MLC_ASSIGN(model::Tensor tensor, tensor_of(proto.t(), reader.source));
      return model::Attribute(std::move(tensor));
    }
    case Proto::GRAPH: {
      if (depth + 1 >= kMaxGraphDepth)
        return Status(Code::Malformed, 1011, "graphs are nested deeper than " + std::to_string(kMaxGraphDepth));
      MLC_ASSIGN(model::Graph graph, graph_of(proto.g(), scope, reader, depth + 1));
      return model::Attribute(std::shared_ptr<const model::Graph>(std::make_shared<model::Graph>(std::move(graph))));
    }
    case Proto::SPARSE_TENSOR: {
      MLC_ASSIGN(model::Tensor tensor, dense_of(proto.sparse_tensor(), reader.source));
      return model::Attribute(std::move(tensor));
    }
    case Proto::TYPE_PROTO: {
      model::Port port;
      MLC_RETURN_IF_ERROR(read_type(proto.tp(), "the type", port));
      return model::Attribute(std::move(port));
    }
    default:
      return Status(Code::Unsupported, 2007, "attribute " + shown(proto.name()) + " has the kind " + std::to_string(type) + ", which no operator here takes");
  }
}

Result<model::Node> node_of(const onnx::NodeProto& proto, const Scope& scope, Reader& reader, int depth) {
  model::Node node;
  node.name = scope.name_of(proto.name());
  node.domain = proto.domain().empty() ? "ai.onnx" : proto.domain();
  node.op = proto.op_type();
  for (const std::string& name : proto.input()) node.inputs.push_back(scope.name_of(name));
  for (const std::string& name : proto.output()) node.outputs.push_back(scope.name_of(name));
  if (const int64_t opset = scope.opset_of(node.domain)) {
    const auto known = reader.opsets->find(node.domain);
    if (opset < 1) return Status(Code::Malformed, 1012, described(node) + " has the opset " + std::to_string(opset));
    if (known == reader.opsets->end() || known->second != opset) node.opset = opset;
  }
  for (const auto& given : proto.attribute()) {
    const Scope* where = &scope;
    const onnx::AttributeProto* attribute = scope.resolve(given, where);
    if (!attribute) continue;
    auto value = attribute_of(*attribute, *where, reader, depth);
    if (!value.ok()) return std::move(value).status().note(described(node) + ", attribute " + shown(given.name()));
    // Constant: a sparse value is one like others here.
    const std::string name = given.name() == "sparse_value" ? "value" : given.name();
    if (!node.attributes.emplace(name, std::move(value).value()).second)
      return Status(Code::Malformed, 1012, described(node) + " has the attribute " + shown(given.name()) + " twice");
  }
  return node;
}

// Nodes in the order of the file; a call of a function becomes the nodes of its body. Calls nest kMaxCallDepth deep.
template <class Nodes>
Status append_nodes(const Nodes& nodes, const Scope& scope, Reader& reader, int depth, model::Graph& graph) {
  for (const onnx::NodeProto& proto : nodes) {
    const onnx::FunctionProto* function = reader.functions.called_by(proto);
    if (!function) {
      MLC_ASSIGN(model::Node node, node_of(proto, scope, reader, depth));
      graph.nodes.push_back(std::move(node));
      continue;
    }
    reader.inlined += 1 + static_cast<size_t>(function->node_size());
    if (reader.inlined > kMaxInlinedNodes)
      return Status(Code::Malformed, 1017, "the functions of the model come to more than " + std::to_string(kMaxInlinedNodes) + " nodes");
    MLC_ASSIGN(const Scope inner, Scope::of_call(reader.functions, *function, proto, scope, ++reader.calls));
    for (const auto& [from, to] : inner.passed_through()) {
      model::Node same;
      same.domain = "ai.onnx";
      same.op = "Identity";
      same.inputs = {from};
      same.outputs = {to};
      graph.nodes.push_back(std::move(same));
    }
    Status status = append_nodes(function->node(), inner, reader, depth, graph);
    if (!status.ok()) return std::move(status).note("in function " + shown(function->name()));
  }
  return ok();
}

// What is said of values inside: hints, so what cannot be read is left out.
void read_types(const onnx::GraphProto& proto, const Scope& scope, model::Graph& graph) {
  if (proto.value_info_size() == 0) return;
  std::unordered_set<std::string_view> results;
  for (const model::Node& node : graph.nodes) results.insert(node.outputs.begin(), node.outputs.end());
  for (const auto& info : proto.value_info()) {
    if (info.name().empty()) continue;
    auto port = port_of(info, scope);
    if (port.ok() && port->dtype != DType::None && results.contains(port->name)) graph.types.emplace(port->name, std::move(*port));
  }
}

// A body may give one value as several of its results: each gets a name of its own.
void part_equal_outputs(model::Graph& graph) {
  std::unordered_set<std::string> known, listed;
  size_t number = 0;  // counted over all of them: a name is not looked for from the start again
  for (const auto& [name, tensor] : graph.initializers) known.insert(name);
  for (const model::Port& input : graph.inputs) known.insert(input.name);
  for (const model::Node& node : graph.nodes) known.insert(node.outputs.begin(), node.outputs.end());
  for (model::Port& output : graph.outputs) {
    if (listed.insert(output.name).second) continue;
    model::Node same;
    same.domain = "ai.onnx";
    same.op = "Identity";
    same.inputs = {output.name};
    do output.name = same.inputs[0] + "'" + std::to_string(++number);
    while (!known.insert(output.name).second);
    same.outputs = {output.name};
    graph.nodes.push_back(std::move(same));
  }
}

Result<model::Graph> graph_of(const onnx::GraphProto& proto, const Scope& scope, Reader& reader, int depth) {
  model::Graph graph;
  graph.name = proto.name();
  for (const auto& tensor : proto.initializer()) {
    auto value = tensor_of(tensor, reader.source);
    if (!value.ok()) return std::move(value).status().note("initializer " + shown(tensor.name()));
    if (!graph.initializers.emplace(scope.name_of(tensor.name()), std::move(value).value()).second)
      return Status(Code::Malformed, 1012, "initializer " + shown(tensor.name()) + " is given twice");
  }
  for (const auto& tensor : proto.sparse_initializer()) {
    auto value = dense_of(tensor, reader.source);
    if (!value.ok()) return std::move(value).status().note("initializer " + shown(tensor.values().name()));
    if (!graph.initializers.emplace(scope.name_of(tensor.values().name()), std::move(value).value()).second)
      return Status(Code::Malformed, 1012, "initializer " + shown(tensor.values().name()) + " is given twice");
  }
  for (const auto& info : proto.input()) {
    MLC_ASSIGN(model::Port port, port_of(info, scope));
    graph.order.push_back(port.name);
    if (graph.initializers.count(port.name)) {
      graph.defaults.push_back(std::move(port));
      continue;
    }
    if (depth == 0 && port.dtype == DType::None)  // those of bodies follow from the node that has them
      return Status(Code::Malformed, 1010, "input " + shown(info.name()) + " has no element type");
    graph.inputs.push_back(std::move(port));
  }
  for (const auto& info : proto.output()) {
    MLC_ASSIGN(model::Port port, port_of(info, scope));
    graph.outputs.push_back(std::move(port));
  }
  MLC_RETURN_IF_ERROR(append_nodes(proto.node(), scope, reader, depth, graph));
  if (depth > 0) part_equal_outputs(graph);
  read_types(proto, scope, graph);
  MLC_RETURN_IF_ERROR(order_nodes(graph, /*outer_values_allowed=*/depth > 0));
  return graph;
}

}  // namespace

Result<model::Model> import_onnx(Bytes bytes, const std::string& name, const std::string& folder) {
  MLC_RETURN_IF_ERROR(refuse_foreign(name, bytes));
  if (bytes.size() > kMaxModelBytes)
    return Status(Code::Malformed, 1013, name + " has " + std::to_string(bytes.size()) + " bytes; a protobuf file ends at 2 GiB")
        .hint("save the weights as external data");
  auto proto = std::make_shared<onnx::ModelProto>();
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  google::protobuf::io::CodedInputStream coded(&stream);
  coded.SetTotalBytesLimit(INT32_MAX);
  coded.SetRecursionLimit(kMaxMessageDepth);
  if (!proto->ParseFromCodedStream(&coded) || !coded.ConsumedEntireMessage())
    return Status(Code::Malformed, 1014, name + " is not an ONNX model: its protobuf encoding is broken, truncated or nested too deeply");
  if (!proto->has_graph())
    return Status(Code::Malformed, 1014, name + " is not an ONNX model: it has no graph");

  model::Model model;
  model.producer = proto->producer_name();
  model.ir_version = proto->ir_version();
  for (const auto& opset : proto->opset_import()) {
    const std::string domain = opset.domain().empty() ? "ai.onnx" : opset.domain();
    if (auto [at, is_new] = model.opsets.emplace(domain, opset.version()); !is_new && at->second != opset.version())
      return Status(Code::Malformed, 1012, name + ": the opset of " + shown(domain) + " is given twice: " +
                                               std::to_string(at->second) + " and " + std::to_string(opset.version()));
  }
  model.opsets.emplace("ai.onnx", 1);
  if (model.opsets["ai.onnx"] > kNewestOpset)
    return Status(Code::Unsupported, 2004, name + " is of opset " + std::to_string(model.opsets["ai.onnx"]) + ", operators are known up to opset " + std::to_string(kNewestOpset))
        .hint("export it with an opset up to " + std::to_string(kNewestOpset) + ", or run onnx.version_converter on it");
  for (const auto& entry : proto->metadata_props()) model.metadata[entry.key()] = entry.value();
  auto functions = Functions::of(*proto);
  if (!functions.ok()) return std::move(functions).status().note(name);
  Reader reader{{folder, proto, {}}, std::move(functions).value(), &model.opsets};
  auto graph = graph_of(proto->graph(), Scope(), reader, 0);
  if (!graph.ok()) return std::move(graph).status().note(name);
  model.graph = std::move(graph).value();
  if (Status status = model::verify(model); !status.ok()) return std::move(status).note(name);
  drop_unused(model.graph);
  return model;
}

Result<model::Model> import_onnx(const std::string& path) {
  MLC_ASSIGN(const std::shared_ptr<Mapping> file, map_file(path));
  return import_onnx(file->bytes, path, std::filesystem::path(path).parent_path().string());
}

}  // namespace mlc::import
