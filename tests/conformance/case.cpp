#include "tests/conformance/case.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
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

// The tensors input_0.pb, input_1.pb, ... (or output_) of one data set.
Result<std::vector<nest::Tensor>> read_tensors(const std::string& folder, const std::string& prefix) {
  std::vector<nest::Tensor> tensors;
  for (size_t k = 0;; ++k) {
    const std::string file = prefix + std::to_string(k);
    std::ifstream in(folder + "/" + file + ".pb", std::ios::binary);
    if (!in) return tensors;
    std::ostringstream text;
    text << in.rdbuf();
    const std::string bytes = text.str();
    onnx::TensorProto proto;
    if (!proto.ParseFromString(bytes) || (proto.data_type() == 0 && !bytes.empty()))
      return Status(Code::Unsupported, "the runner does not read sequences and optionals yet");
    auto t = import::tensor_of(proto, {});
    if (!t.ok()) return Status(Code::Unsupported, file + ": " + t.status().message);
    if (t->dtype == DType::Str) return Status(Code::Unsupported, "the runner does not read string tensors yet");
    nest::Tensor tensor;
    tensor.dtype = t->dtype;
    tensor.shape = t->shape;
    tensor.bytes.assign(t->bytes.begin(), t->bytes.end());
    tensors.push_back(std::move(tensor));
  }
}

// The 1.12 data stores bfloat16 as uint16.
void retype(const std::vector<model::Port>& ports, std::vector<nest::Tensor>& tensors) {
  for (size_t k = 0; k < ports.size() && k < tensors.size(); ++k)
    if (ports[k].dtype == DType::BF16 && tensors[k].dtype == DType::U16) tensors[k].dtype = DType::BF16;
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
  MLC_ASSIGN(loaded.inputs, read_tensors(c.folder + "/test_data_set_0", "input_"));
  MLC_ASSIGN(loaded.outputs, read_tensors(c.folder + "/test_data_set_0", "output_"));
  retype(loaded.model.graph.inputs, loaded.inputs);
  retype(loaded.model.graph.outputs, loaded.outputs);
  if (loaded.inputs.size() < loaded.model.graph.inputs.size())
    return Status(Code::Malformed, "the case has no value for input '" + loaded.model.graph.inputs[loaded.inputs.size()].name + "'");
  if (loaded.outputs.empty()) return Status(Code::Malformed, "the case expects no output");
  return loaded;
}

std::string compare(const nest::Tensor& got, const nest::Tensor& want, const Tolerance& tolerance) {
  if (got.dtype != want.dtype || got.shape != want.shape) return "is " + shape_text(got) + ", expected " + shape_text(want);
  if (got.bytes.size() != want.bytes.size()) return "has another number of bytes than expected";
  const double relative = want.dtype == DType::BF16 ? std::max(tolerance.relative, 0x1p-6) : tolerance.relative;
  const int64_t n = want.elements();
  for (int64_t k = 0; k < n; ++k) {
    const ir::Scalar a = ir::load_element(got.dtype, got.bytes.data(), static_cast<uint64_t>(k));
    const ir::Scalar b = ir::load_element(want.dtype, want.bytes.data(), static_cast<uint64_t>(k));
    char line[128];
    if (is_float(want.dtype)) {
      const bool equal = (std::isnan(a.f) && std::isnan(b.f)) || a.f == b.f || std::abs(a.f - b.f) <= tolerance.absolute + relative * std::abs(b.f);
      if (equal) continue;
      std::snprintf(line, sizeof line, "element %lld is %.9g, expected %.9g", static_cast<long long>(k), a.f, b.f);
    } else {
      if (a.i == b.i) continue;
      std::snprintf(line, sizeof line, "element %lld is %lld, expected %lld", static_cast<long long>(k), static_cast<long long>(a.i), static_cast<long long>(b.i));
    }
    return line;
  }
  return "";
}

}  // namespace mlc::conformance
