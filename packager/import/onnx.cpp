#include "packager/import/onnx.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "packager/import/foreign.h"
#include "packager/import/graph_order.h"
#include "packager/import/tensor.h"

namespace mlc::import {
namespace {

constexpr int kMaxGraphDepth = 64;             // of nested If/Loop bodies
constexpr uint64_t kMaxModelBytes = INT32_MAX;  // protobuf's own limit

struct Mapping {
  const std::byte* data = nullptr;
  uint64_t size = 0;
  ~Mapping() {
    if (data) munmap(const_cast<std::byte*>(data), size);
  }
};

Result<std::shared_ptr<Mapping>> map_file(const std::string& path) {
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Status(Code::NotFound, 1003, path + ": " + std::strerror(errno));
  struct stat st;
  auto mapping = std::make_shared<Mapping>();
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
    close(fd);
    return Status(Code::NotFound, 1003, path + " is not a regular file");
  }
  mapping->size = static_cast<uint64_t>(st.st_size);
  if (mapping->size > 0) {
    void* p = mmap(nullptr, mapping->size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p != MAP_FAILED) mapping->data = static_cast<const std::byte*>(p);
  }
  close(fd);
  if (mapping->size > 0 && !mapping->data) return Status(Code::Resource, path + " cannot be mapped");
  return mapping;
}

Result<model::Port> port_of(const onnx::ValueInfoProto& info) {
  model::Port port;
  port.name = info.name();
  if (!info.has_type() || !info.type().has_tensor_type())
    return Status(Code::Unsupported, 2006, "input or output '" + info.name() + "' is not a tensor (sequence, map or optional)");
  const auto& type = info.type().tensor_type();
  auto dtype = dtype_of(type.elem_type());
  if (!dtype)
    return Status(Code::Malformed, 1010, "'" + info.name() + "' has the unknown element type " + std::to_string(type.elem_type()));
  port.dtype = *dtype;
  port.has_shape = type.has_shape();
  for (const auto& dim : type.shape().dim()) {
    if (dim.has_dim_value() && dim.dim_value() >= 0)
      port.shape.emplace_back(dim.dim_value());
    else
      port.shape.emplace_back(dim.has_dim_param() ? dim.dim_param() : std::string());
  }
  return port;
}

Result<model::Graph> graph_of(const onnx::GraphProto& proto, const TensorSource& source, int depth);

Result<model::Attribute> attribute_of(const onnx::AttributeProto& proto, const TensorSource& source, int depth) {
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
      MLC_ASSIGN(model::Tensor tensor, tensor_of(proto.t(), source));
      return model::Attribute(std::move(tensor));
    }
    case Proto::GRAPH: {
      if (depth >= kMaxGraphDepth)
        return Status(Code::Malformed, 1011, "graphs are nested deeper than " + std::to_string(kMaxGraphDepth));
      MLC_ASSIGN(model::Graph graph, graph_of(proto.g(), source, depth + 1));
      return model::Attribute(std::shared_ptr<const model::Graph>(std::make_shared<model::Graph>(std::move(graph))));
    }
    default:
      return Status(Code::Unsupported, 2007, "attribute '" + proto.name() + "' has the kind " + std::to_string(type) + ", which no operator here takes");
  }
}

Result<model::Node> node_of(const onnx::NodeProto& proto, const TensorSource& source, int depth) {
  model::Node node;
  node.name = proto.name();
  node.domain = proto.domain().empty() ? "ai.onnx" : proto.domain();
  node.op = proto.op_type();
  node.inputs.assign(proto.input().begin(), proto.input().end());
  node.outputs.assign(proto.output().begin(), proto.output().end());
  for (const auto& attribute : proto.attribute()) {
    auto value = attribute_of(attribute, source, depth);
    if (!value.ok()) return std::move(value).status().note("node '" + node.label() + "' (" + node.op + ")");
    if (!node.attributes.emplace(attribute.name(), std::move(value).value()).second)
      return Status(Code::Malformed, 1012, "node '" + node.label() + "' (" + node.op + ") has the attribute '" + attribute.name() + "' twice");
  }
  return node;
}

Result<model::Graph> graph_of(const onnx::GraphProto& proto, const TensorSource& source, int depth) {
  model::Graph graph;
  graph.name = proto.name();
  for (const auto& tensor : proto.initializer()) {
    auto value = tensor_of(tensor, source);
    if (!value.ok()) return std::move(value).status().note("initializer '" + tensor.name() + "'");
    if (!graph.initializers.emplace(tensor.name(), std::move(value).value()).second)
      return Status(Code::Malformed, 1012, "initializer '" + tensor.name() + "' is given twice");
  }
  if (proto.sparse_initializer_size() > 0)
    return Status(Code::Unsupported, 2008, "the graph has sparse initializers, which are not supported");
  for (const auto& info : proto.input()) {
    if (graph.initializers.count(info.name())) continue;  // before IR version 4 initializers are listed as inputs too
    MLC_ASSIGN(model::Port port, port_of(info));
    graph.inputs.push_back(std::move(port));
  }
  for (const auto& info : proto.output()) {
    model::Port port;
    port.name = info.name();
    port.has_shape = false;
    if (info.has_type()) {
      MLC_ASSIGN(port, port_of(info));
    }
    graph.outputs.push_back(std::move(port));
  }
  for (const auto& proto_node : proto.node()) {
    MLC_ASSIGN(model::Node node, node_of(proto_node, source, depth));
    graph.nodes.push_back(std::move(node));
  }
  MLC_RETURN_IF_ERROR(order_nodes(graph, /*outer_values_allowed=*/depth > 0));
  return graph;
}

}  // namespace

Result<model::Model> import_onnx(const std::string& path) {
  MLC_ASSIGN(std::shared_ptr<Mapping> file, map_file(path));
  const Bytes bytes(file->data, file->size);
  MLC_RETURN_IF_ERROR(refuse_foreign(path, bytes));
  if (bytes.size() > kMaxModelBytes)
    return Status(Code::Malformed, 1013, path + " has " + std::to_string(bytes.size()) + " bytes; a protobuf file ends at 2 GiB")
        .hint("save the weights as external data");
  auto proto = std::make_shared<onnx::ModelProto>();
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  google::protobuf::io::CodedInputStream coded(&stream);
  coded.SetTotalBytesLimit(INT32_MAX);
  coded.SetRecursionLimit(4 * kMaxGraphDepth);
  if (!proto->ParseFromCodedStream(&coded) || !coded.ConsumedEntireMessage())
    return Status(Code::Malformed, 1014, path + " is not an ONNX model: its protobuf encoding is broken or truncated");
  if (!proto->has_graph())
    return Status(Code::Malformed, 1014, path + " is not an ONNX model: it has no graph");

  model::Model model;
  model.producer = proto->producer_name();
  for (const auto& opset : proto->opset_import())
    model.opsets[opset.domain().empty() ? "ai.onnx" : opset.domain()] = opset.version();
  if (!model.opsets.count("ai.onnx")) model.opsets["ai.onnx"] = 1;
  for (const auto& entry : proto->metadata_props()) model.metadata[entry.key()] = entry.value();
  TensorSource source{std::filesystem::path(path).parent_path().string(), proto};
  auto graph = graph_of(proto->graph(), source, 0);
  if (!graph.ok()) return std::move(graph).status().note(path);
  model.graph = std::move(graph).value();
  return model;
}

}  // namespace mlc::import
