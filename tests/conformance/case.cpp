#include "tests/conformance/case.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <google/protobuf/unknown_field_set.h>
#include <nlohmann/json.hpp>
#include <sstream>

#include "packager/import/onnx.h"
#include "packager/import/tensor.h"
#include "packager/ir/numeric.h"

namespace mlc::conformance {
namespace {
namespace fs = std::filesystem;

std::string shape_text(const nest::Tensor& t) {
  std::string s = std::string(name_of(t.dtype)) + "[";
  for (size_t k = 0; k < t.shape.size(); ++k) s += (k ? ", " : "") + std::to_string(t.shape[k]);
  return s + "]";
}

Result<nest::Tensor> value_of(const onnx::TensorProto& proto) {
  MLC_ASSIGN(const model::Tensor t, import::tensor_of(proto, {}));
  nest::Tensor tensor;
  tensor.dtype = t.dtype;
  tensor.shape = t.shape;
  tensor.bytes.assign(t.bytes.begin(), t.bytes.end());
  tensor.strings = t.strings;
  return tensor;
}

// A value of the type that the port says: the file does not say whether it is a sequence. The classes of SequenceProto
// and OptionalProto are not installed everywhere; both have their items in field 3 (tensors) and 5 (sequences).
Result<nest::Tensor> value_of(const std::string& bytes, const model::Port& port, unsigned depth) {
  const Status broken(Code::Malformed, "the data of '" + port.name + "' is broken");
  if (depth == 0) {
    onnx::TensorProto proto;
    if (!proto.ParseFromString(bytes)) return broken;
    return value_of(proto);
  }
  nest::Tensor list = nest::Tensor::list(port.dtype, {}, static_cast<uint8_t>(depth));
  google::protobuf::UnknownFieldSet fields;
  if (!fields.ParseFromString(bytes)) return broken;
  for (int k = 0; k < fields.field_count(); ++k) {
    const auto& field = fields.field(k);
    if (field.type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED || (field.number() != 3 && field.number() != 5)) continue;
    MLC_ASSIGN(nest::Tensor item, value_of(field.length_delimited(), port, depth - 1));
    list.items.push_back(std::move(item));
  }
  return list;
}

// A map is two ports of a container: its keys, its values.
std::vector<model::Port> parts_of(const std::vector<model::Port>& ports) {
  std::vector<model::Port> parts;
  for (const model::Port& port : ports) {
    if (port.map_key == DType::None) {
      parts.push_back(port);
      continue;
    }
    for (const char* part : {".keys", ".values"}) {
      model::Port one;
      one.name = port.name + part;
      one.dtype = part[1] == 'k' ? port.map_key : port.dtype;
      parts.push_back(one);
    }
  }
  return parts;
}

// The values input_0.pb, input_1.pb, ... (or output_) of one data set, as many as there are ports or files.
Result<std::vector<nest::Tensor>> read_values(const std::string& folder, const std::string& prefix, const std::vector<model::Port>& ports) {
  std::vector<nest::Tensor> values;
  for (size_t k = 0; k < ports.size(); ++k) {
    const std::string file = prefix + std::to_string(k);
    std::ifstream in(folder + "/" + file + ".pb", std::ios::binary);
    if (!in) return values;
    std::ostringstream text;
    text << in.rdbuf();
    auto value = value_of(text.str(), ports[k], ports[k].list_depth);
    if (!value.ok()) return Status(Code::Unsupported, file + ": " + value.status().message);
    values.push_back(std::move(value).value());
  }
  return values;
}

// The 1.12 data stores bfloat16 as uint16.
void retype(const std::vector<model::Port>& ports, std::vector<nest::Tensor>& tensors) {
  for (size_t k = 0; k < ports.size() && k < tensors.size(); ++k)
    if (ports[k].dtype == DType::BF16 && tensors[k].dtype == DType::U16 && !tensors[k].list_depth) tensors[k].dtype = DType::BF16;
}

Tolerance tolerance_of(const Case& c) {
  Tolerance tolerance;
  std::ifstream in(c.folder + "/data.json");
  if (!in) return tolerance;
  const nlohmann::json json = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return tolerance;
  const auto number = [&](const char* key, double otherwise) {
    const auto found = json.find(key);
    return found != json.end() && found->is_number() ? found->get<double>() : otherwise;
  };
  return {number("rtol", tolerance.relative), number("atol", tolerance.absolute)};
}

}  // namespace

std::vector<Case> find_cases(const std::string& data) {
  std::vector<Case> cases;
  std::error_code ec;
  for (auto it = fs::recursive_directory_iterator(data, ec); !ec && it != fs::recursive_directory_iterator(); it.increment(ec))
    if (it->path().filename() == "model.onnx") {
      const fs::path folder = it->path().parent_path();
      cases.push_back({folder.filename().string(), folder.string()});
    }
  std::sort(cases.begin(), cases.end(), [](const Case& a, const Case& b) { return a.folder < b.folder; });
  return cases;
}

std::string operator_of(const Case& c) {
  std::ifstream in(c.folder + "/model.onnx", std::ios::binary);
  onnx::ModelProto model;
  if (!model.ParseFromIstream(&in) || model.graph().node_size() == 0) return "?";
  const onnx::NodeProto* node = &model.graph().node(0);
  for (const onnx::NodeProto& other : model.graph().node())
    if (other.op_type() != "Constant" && other.op_type() != "Identity") {
      node = &other;
      break;
    }
  return node->domain().empty() || node->domain() == "ai.onnx" ? node->op_type() : node->domain() + "." + node->op_type();
}

Result<LoadedCase> load(const Case& c) {
  LoadedCase loaded;
  loaded.tolerance = tolerance_of(c);
  MLC_ASSIGN(loaded.model, import::import_onnx(c.folder + "/model.onnx"));
  const auto inputs = parts_of(loaded.model.graph.inputs), outputs = parts_of(loaded.model.graph.outputs);
  loaded.has_maps = inputs.size() > loaded.model.graph.inputs.size();
  MLC_ASSIGN(loaded.inputs, read_values(c.folder + "/test_data_set_0", "input_", inputs));
  MLC_ASSIGN(loaded.outputs, read_values(c.folder + "/test_data_set_0", "output_", outputs));
  retype(inputs, loaded.inputs);
  retype(outputs, loaded.outputs);
  if (loaded.inputs.size() < inputs.size())
    return Status(Code::Malformed, "the case has no value for input '" + inputs[loaded.inputs.size()].name + "'");
  if (loaded.outputs.empty()) return Status(Code::Malformed, "the case expects no output");
  return loaded;
}

namespace {

Difference unlike(std::string text) { return {.text = std::move(text), .same_form = false}; }

Difference compare_strings(const std::vector<std::string>& got, const std::vector<std::string>& want) {
  const auto text = [](const std::vector<std::string>& list, size_t k, const char* none) { return k < list.size() ? "'" + list[k] + "'" : none; };
  for (size_t k = 0; k < std::max(got.size(), want.size()); ++k)
    if (k >= got.size() || k >= want.size() || got[k] != want[k])
      return unlike("string " + std::to_string(k) + " is " + text(got, k, "missing") + ", expected " + text(want, k, "none"));
  return {};
}

Difference compare_lists(const nest::Tensor& got, const nest::Tensor& want, const Tolerance& tolerance) {
  if (got.items.size() != want.items.size()) return unlike("has " + std::to_string(got.items.size()) + " items, expected " + std::to_string(want.items.size()));
  Difference all;
  for (size_t k = 0; k < want.items.size(); ++k) {  // as deep as the type of a port says
    const Difference one = compare(got.items[k], want.items[k], tolerance);
    if (all.text.empty() && !one.text.empty()) all.text = "item " + std::to_string(k) + " " + one.text;
    all.add(one);
  }
  return all;
}

}  // namespace

void Difference::add(const Difference& other) {
  same_form = same_form && other.same_form;
  elements += other.elements;
  unlike_zero += other.unlike_zero;
  not_finite += other.not_finite;
  largest = std::max(largest, other.largest);
}

Difference compare(const nest::Tensor& got, const nest::Tensor& want, const Tolerance& tolerance) {
  if (got.list_depth != want.list_depth) return unlike(got.list_depth ? "is a list" : "is no list");
  if (want.list_depth) return compare_lists(got, want, tolerance);
  if (got.dtype != want.dtype || got.shape != want.shape) return unlike("is " + shape_text(got) + ", expected " + shape_text(want));
  if (want.dtype == DType::Str) return compare_strings(got.strings, want.strings);
  if (got.bytes.size() != want.bytes.size()) return unlike("has another number of bytes than expected");
  const double relative = want.dtype == DType::BF16 ? std::max(tolerance.relative, 0x1p-6) : tolerance.relative;
  const int64_t n = want.elements();
  Difference all;
  for (int64_t k = 0; k < n; ++k) {
    const ir::Scalar a = ir::load_element(got.dtype, got.bytes.data(), static_cast<uint64_t>(k));
    const ir::Scalar b = ir::load_element(want.dtype, want.bytes.data(), static_cast<uint64_t>(k));
    char line[128];
    double distance = 0;
    if (is_float(want.dtype)) {
      if ((std::isnan(a.f) && std::isnan(b.f)) || a.f == b.f) continue;
      distance = std::isfinite(a.f) && std::isfinite(b.f) ? std::abs(a.f - b.f) : INFINITY;
      if (std::isfinite(distance) && distance <= tolerance.absolute + relative * std::abs(b.f)) continue;
      std::snprintf(line, sizeof line, "element %lld is %.9g, expected %.9g", static_cast<long long>(k), a.f, b.f);
    } else {
      if (a.i == b.i) continue;
      distance = std::abs(static_cast<double>(a.i) - static_cast<double>(b.i));
      std::snprintf(line, sizeof line, "element %lld is %lld, expected %lld", static_cast<long long>(k), static_cast<long long>(a.i), static_cast<long long>(b.i));
    }
    if (all.text.empty()) all.text = line;
    ++all.elements;
    if (is_float(want.dtype) ? a.f != 0 && b.f != 0 : a.i != 0 && b.i != 0) ++all.unlike_zero;
    if (std::isfinite(distance)) all.largest = std::max(all.largest, distance);
    else ++all.not_finite;
  }
  return all;
}

}  // namespace mlc::conformance
