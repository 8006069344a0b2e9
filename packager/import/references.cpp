#include "packager/import/references.h"

#include <charconv>
#include <filesystem>
#include <optional>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "base/byte_cursor.h"
#include "base/checked.h"
#include "packager/import/mapping.h"
#include "packager/import/tensor.h"

namespace mlc::import {
namespace {

constexpr uint64_t kLeastReferred = 64;  // fewer bytes are shorter than what refers to them
constexpr std::string_view kDigestPrefix = "sha256:";

Result<std::shared_ptr<onnx::ModelProto>> parse_proto(Bytes bytes) {
  constexpr int kDeepest = 4096;
  auto proto = std::make_shared<onnx::ModelProto>();
  if (bytes.size() > INT32_MAX) return Status(Code::Malformed, "a model of {} bytes, at most 2 GiB are read", bytes.size());
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  google::protobuf::io::CodedInputStream coded(&stream);
  coded.SetTotalBytesLimit(INT32_MAX);
  coded.SetRecursionLimit(kDeepest);
  if (!proto->ParseFromCodedStream(&coded) || !coded.ConsumedEntireMessage()) return Status(Code::Malformed, "no ONNX model: its protobuf encoding is broken");
  return proto;
}

// A model without its initializers, which are most of its bytes, and these one by one: parsed as a whole they would be in memory twice.
struct SplitModel {
  std::string rest;
  std::vector<Bytes> initializers;
};

// The next field of a message: its number, all of its bytes, and those of its value where it has a length. Number 0: these are no fields.
struct WireField {
  uint64_t number = 0;
  Bytes all, value;
};
WireField next_field(ByteCursor& in) {
  const Bytes before = in.rest();
  const auto varint = [&] {
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = in.take<uint8_t>();
      v |= uint64_t{byte & 127u} << shift;
      if (byte < 128) break;
    }
    return v;
  };
  const uint64_t tag = varint();
  WireField field{tag >> 3, {}, {}};
  switch (tag & 7) {
    case 0: (void)varint(); break;
    case 1: in.skip(8); break;
    case 2: field.value = in.bytes(varint()); break;
    case 5: in.skip(4); break;
    default: return {};
  }
  if (in.failed()) return {};
  field.all = before.first(before.size() - in.rest().size());
  return field;
}

void append(std::string& to, Bytes bytes) { to.append(reinterpret_cast<const char*>(bytes.data()), bytes.size()); }

void append_field(std::string& to, uint64_t number, const std::string& value) {
  const auto varint = [&](uint64_t v) {
    for (; v >= 128; v >>= 7) to += static_cast<char>(v | 128);
    to += static_cast<char>(v);
  };
  varint(number << 3 | 2);
  varint(value.size());
  to += value;
}

Result<SplitModel> split_model(Bytes file) {
  constexpr uint64_t kGraphField = 7, kInitializerField = 5;  // of onnx.proto: ModelProto.graph, GraphProto.initializer
  const Status wrong(Code::Malformed, "no ONNX model: its protobuf encoding is broken");
  SplitModel out;
  for (ByteCursor model(file); model.left() > 0;) {
    const WireField field = next_field(model);
    if (field.number == 0) return wrong;
    if (field.number != kGraphField || field.value.empty()) {
      append(out.rest, field.all);
      continue;
    }
    std::string graph;
    for (ByteCursor in(field.value); in.left() > 0;) {
      const WireField part = next_field(in);
      if (part.number == 0) return wrong;
      if (part.number == kInitializerField) out.initializers.push_back(part.value);
      else append(graph, part.all);
    }
    append_field(out.rest, kGraphField, graph);
  }
  return out;
}

std::vector<std::byte> serialized(const onnx::ModelProto& proto) {
  std::vector<std::byte> out(proto.ByteSizeLong());
  proto.SerializeToArray(out.data(), static_cast<int>(out.size()));
  return out;
}

// Every tensor of a model, those of bodies and functions included, without recursion. `each` may change what it is given.
class TensorVisit {
 public:
  explicit TensorVisit(std::function<Status(onnx::TensorProto&)> each, bool drops_words) : each_(std::move(each)), drops_words_(drops_words) {}
  Status run(onnx::ModelProto& model) {
    if (drops_words_) model.clear_doc_string(), model.clear_metadata_props();
    graphs_.push_back(model.mutable_graph());
    for (onnx::FunctionProto& function : *model.mutable_functions()) {
      if (drops_words_) function.clear_doc_string();
      for (onnx::NodeProto& node : *function.mutable_node()) MLC_RETURN_IF_ERROR(visit(node));
    }
    while (!graphs_.empty()) {
      onnx::GraphProto& graph = *graphs_.back();
      graphs_.pop_back();
      if (drops_words_) drop_words(graph);
      for (onnx::TensorProto& tensor : *graph.mutable_initializer()) MLC_RETURN_IF_ERROR(visit(tensor));
      for (onnx::NodeProto& node : *graph.mutable_node()) MLC_RETURN_IF_ERROR(visit(node));
    }
    return ok();
  }

 private:
  // What people and exporters write beside the program: stack traces with paths among it.
  static void drop_words(onnx::GraphProto& graph) {
    graph.clear_doc_string();
    for (auto* ports : {graph.mutable_input(), graph.mutable_output(), graph.mutable_value_info()})
      for (onnx::ValueInfoProto& port : *ports) port.clear_doc_string();
  }
  Status visit(onnx::TensorProto& tensor) {
    if (drops_words_) tensor.clear_doc_string();
    return each_(tensor);
  }
  Status visit(onnx::NodeProto& node) {
    if (drops_words_) {
      node.clear_doc_string();
      // metadata_props is unknown to older headers, which keep it as an unknown field.
      node.mutable_unknown_fields()->Clear();
    }
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (drops_words_) attribute.clear_doc_string();
      if (attribute.has_t()) MLC_RETURN_IF_ERROR(visit(*attribute.mutable_t()));
      for (onnx::TensorProto& tensor : *attribute.mutable_tensors()) MLC_RETURN_IF_ERROR(visit(tensor));
      if (attribute.has_g()) graphs_.push_back(attribute.mutable_g());
      for (onnx::GraphProto& graph : *attribute.mutable_graphs()) graphs_.push_back(&graph);
    }
    return ok();
  }
  const std::function<Status(onnx::TensorProto&)> each_;
  const bool drops_words_;
  std::vector<onnx::GraphProto*> graphs_;
};

// A cleared field would keep its memory, so the tensor becomes another one.
void clear_elements(onnx::TensorProto& tensor) {
  onnx::TensorProto bare;
  *bare.mutable_dims() = tensor.dims();
  bare.set_data_type(tensor.data_type());
  if (tensor.has_name()) bare.set_name(tensor.name());
  tensor.Swap(&bare);
}

void set_external(onnx::TensorProto& tensor, const std::string& key, const std::string& value) {
  onnx::StringStringEntryProto& entry = *tensor.add_external_data();
  entry.set_key(key);
  entry.set_value(value);
}

void set_reference(onnx::TensorProto& tensor, const Reference& reference) {
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  set_external(tensor, "location", std::string(kDigestPrefix) + to_hex(reference.tensor));
  if (!reference.part) return;
  set_external(tensor, "axis", std::to_string(reference.part->axis));
  set_external(tensor, "from", std::to_string(reference.part->from));
}

std::optional<uint64_t> whole_number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// None: the elements are in the file, or what is said of where they are is wrong.
std::optional<Reference> reference_of(const onnx::TensorProto& tensor) {
  if (tensor.data_location() != onnx::TensorProto::EXTERNAL) return std::nullopt;
  std::optional<Digest> digest;
  std::optional<uint64_t> axis, from;
  for (const auto& entry : tensor.external_data()) {
    const std::string_view value = entry.value();
    if (entry.key() == "location" && value.starts_with(kDigestPrefix)) digest = digest_from_hex(value.substr(kDigestPrefix.size()));
    if (entry.key() == "axis") axis = whole_number(value);
    if (entry.key() == "from") from = whole_number(value);
  }
  if (!digest || axis.has_value() != from.has_value()) return std::nullopt;
  return Reference{*digest, axis ? std::optional(PartOfTensor{*axis, *from}) : std::nullopt};
}

}  // namespace

Result<std::vector<std::byte>> elements_of_part(DType dtype, const std::vector<uint64_t>& tensor, Bytes elements, const PartOfTensor& part,
                                                const std::vector<uint64_t>& shape) {
  const Status wrong(Code::Malformed, "the program refers to a part of a tensor that is none");
  if (shape.size() != tensor.size() || part.axis >= shape.size() || bits_of(dtype) < 8) return wrong;
  uint64_t rows = 1, element = bytes_of(dtype);
  std::optional<uint64_t> size = element;
  for (size_t k = 0; k < shape.size(); ++k) {
    if (size) size = checked_mul(*size, tensor[k]);
    if (k == part.axis) continue;
    if (shape[k] != tensor[k]) return wrong;
    (k < part.axis ? rows : element) *= shape[k];
  }
  const uint64_t whole = tensor[part.axis], length = shape[part.axis];
  if (size != elements.size() || elements.empty() || part.from > whole || length > whole - part.from) return wrong;
  std::vector<std::byte> out;
  out.reserve(rows * length * element);
  for (uint64_t row = 0; row < rows; ++row) {
    const Bytes from = elements.subspan((row * whole + part.from) * element, length * element);
    out.insert(out.end(), from.begin(), from.end());
  }
  return out;
}

Result<std::vector<std::byte>> model_with_references(const std::string& path, const std::map<Digest, Reference>& there, uint64_t most) {
  MLC_ASSIGN(const auto file, map_file(path));
  MLC_ASSIGN(const SplitModel split, split_model(file->bytes));
  MLC_ASSIGN(const auto proto, parse_proto(std::as_bytes(std::span(split.rest.data(), split.rest.size()))));
  TensorSource source;
  source.folder = std::filesystem::path(path).parent_path().string();
  uint64_t left = 0;
  const auto refer = [&](onnx::TensorProto& tensor) -> Status {
    MLC_ASSIGN(const model::Tensor read, tensor_of(tensor, source));
    if (read.dtype == DType::Str) return ok();
    const std::vector<uint64_t> shape(read.shape.begin(), read.shape.end());
    const Digest digest = tensor_digest(read.dtype, shape, read.bytes);
    if (const auto found = there.find(digest); read.bytes.size() >= kLeastReferred && found != there.end()) {
      clear_elements(tensor);
      set_reference(tensor, found->second);
      return ok();
    }
    left += read.bytes.size();
    if (left > most) return Status(Code::Unsupported, "more than {} bytes of its constants are not in the file as they are in the model", most);
    if (tensor.data_location() != onnx::TensorProto::EXTERNAL) return ok();
    if (bits_of(read.dtype) < 8) return Status(Code::Unsupported, "a constant of less than 8 bits lies beside the model");
    const std::string bytes(reinterpret_cast<const char*>(read.bytes.data()), read.bytes.size());
    clear_elements(tensor);
    tensor.set_raw_data(bytes);
    return ok();
  };
  MLC_RETURN_IF_ERROR(TensorVisit(refer, /*drops_words=*/true).run(*proto));
  for (const Bytes bytes : split.initializers) {
    onnx::TensorProto tensor;
    if (!tensor.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return Status(Code::Malformed, "no ONNX model: an initializer of it is broken");
    tensor.clear_doc_string();
    MLC_RETURN_IF_ERROR(refer(tensor));
    *proto->mutable_graph()->add_initializer() = std::move(tensor);
  }
  return serialized(*proto);
}

Result<std::vector<std::byte>> model_with_data(Bytes model, const std::string& data_file, const PlaceElements& place) {
  MLC_ASSIGN(const auto proto, parse_proto(model));
  const auto put = [&](onnx::TensorProto& tensor) -> Status {
    const auto reference = reference_of(tensor);
    if (!reference) {
      if (tensor.data_location() != onnx::TensorProto::EXTERNAL) return ok();
      return Status(Code::Malformed, "a constant of the program lies in a file");
    }
    MLC_ASSIGN(const DataPlace found, place(*reference, {tensor.dims().begin(), tensor.dims().end()}));
    tensor.clear_external_data();
    set_external(tensor, "location", data_file);
    set_external(tensor, "offset", std::to_string(found.offset));
    set_external(tensor, "length", std::to_string(found.length));
    return ok();
  };
  MLC_RETURN_IF_ERROR(TensorVisit(put, /*drops_words=*/false).run(*proto));
  return serialized(*proto);
}

}  // namespace mlc::import
