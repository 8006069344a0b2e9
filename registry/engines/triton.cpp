#include "registry/engines/triton.h"

#include <algorithm>
#include <vector>

#include "base/cli/report.h"
#include "registry/engines/yaml.h"

namespace mlc::registry::engines {
namespace {

using format::Method;
using format::Port;

constexpr const char* kPipelineAsset = "pipeline.json";

// Triton's model_config.proto; none for types that it lacks.
std::string_view triton_type(DType type) {
  switch (type) {
    case DType::F64: return "TYPE_FP64";
    case DType::F32: return "TYPE_FP32";
    case DType::F16: return "TYPE_FP16";
    case DType::BF16: return "TYPE_BF16";
    case DType::I64: return "TYPE_INT64";
    case DType::I32: return "TYPE_INT32";
    case DType::I16: return "TYPE_INT16";
    case DType::I8: return "TYPE_INT8";
    case DType::U64: return "TYPE_UINT64";
    case DType::U32: return "TYPE_UINT32";
    case DType::U16: return "TYPE_UINT16";
    case DType::U8: return "TYPE_UINT8";
    case DType::Bool: return "TYPE_BOOL";
    case DType::Str: return "TYPE_STRING";
    case DType::None: case DType::F8E4M3: case DType::F8E5M2: case DType::F8E4M3FNUZ: case DType::F8E5M2FNUZ: case DType::F4E2M1: case DType::F8E8M0:
    case DType::F6E2M3: case DType::F6E3M2: case DType::I4: case DType::U4: case DType::I2: case DType::U2: return {};
  }
  return {};
}

const std::vector<Port>& ports_of(const Method& method, bool is_output) {
  if (is_output) return method.core_outputs.empty() ? method.outputs : method.core_outputs;
  return method.core_inputs.empty() ? method.inputs : method.core_inputs;
}

// What is wrong with a port, empty if nothing is.
std::string fault_of(const Port& port, const char* what) {
  const std::string label = std::string(what) + " '" + cli::printable(port.name) + "' is ";
  if (port.list_depth > 0) return label + "a list of arrays";
  if (triton_type(port.dtype).empty()) return label + std::string(name_of(port.dtype)) + ", a type that Triton lacks";
  if (port.media == format::Media::Image || port.media == format::Media::Audio || port.media == format::Media::Video)
    return label + (port.media == format::Media::Image ? "a decoded picture" : "a decoded sound or film") + " of a pipeline";
  return {};
}

Result<const Method*> method_of(const format::Manifest& manifest, const std::string& wanted) {
  const auto named = [&](std::string_view name) {
    const auto found = std::find_if(manifest.methods.begin(), manifest.methods.end(), [&](const Method& method) { return method.name == name; });
    return found == manifest.methods.end() ? nullptr : &*found;
  };
  if (const Method* found = named(wanted.empty() ? "main" : wanted)) return found;
  if (wanted.empty() && manifest.model.default_method < manifest.methods.size()) return &manifest.methods[manifest.model.default_method];
  std::string names;
  for (const Method& method : manifest.methods) names += (names.empty() ? "" : ", ") + cli::printable(method.name);
  return Status(Code::Usage, "--program: there is no program '{}', one of {} expected", cli::printable(wanted), names);
}

// Each port has its rows along the first axis, any number of them, and the program computes each by itself.
bool has_rows(const Method& method) {
  if (!method.batch || *method.batch >= method.dims.size() || !method.state.empty()) return false;
  const format::Dim& rows = method.dims[*method.batch];
  if (rows.min > 1 || rows.max < 2 || rows.multiple != 1) return false;
  for (const bool is_output : {false, true})
    for (const Port& port : ports_of(method, is_output))
      if (port.dims.empty() || port.dims[0].dim != method.batch) return false;
  return !ports_of(method, false).empty();
}

std::string port_text(const Port& port, bool has_rows) {
  std::string dims;
  size_t count = 0;
  for (size_t axis = has_rows ? 1 : 0; axis < port.dims.size(); ++axis, ++count) {
    const auto& extent = port.dims[axis].extent;  // Triton knows no axis of 0: it is one that varies
    dims += (count == 0 ? "" : ", ") + std::to_string(extent && *extent > 0 ? *extent : -1);
  }
  std::string out = "  {\n    name: " + pbtxt_string(port.name) + "\n    data_type: " + std::string(triton_type(port.dtype)) + "\n";
  // Triton wants an axis to be named. Behind rows the server takes it away and puts it back; without rows it cannot, and the backend does.
  out += count == 0 ? std::string("    dims: [ 1 ]\n") + (has_rows ? "    reshape { shape: [ ] }\n" : "") : "    dims: [ " + dims + " ]\n";
  return out + "  }";
}

std::string head_text(const TritonOptions& options) { return "name: " + pbtxt_string(options.name) + "\nbackend: \"mlc\"\ndefault_model_filename: \"model.mlc\"\n"; }

std::string tail_text(const char* key, const std::string& value) {
  return std::string("instance_group [ { kind: KIND_CPU count: 1 } ]\nparameters { key: \"") + key + "\" value { string_value: " + pbtxt_string(value) + " } }\n";
}

Result<TritonConfig> pipeline_config(const format::Manifest& manifest, const TritonOptions& options) {
  if (!options.program.empty()) return Status(Code::Usage, "--program and --pipeline found, one of the two expected: a pipeline says which program it runs");
  if (!has_pipeline(manifest)) return std::move(Status(Code::Usage, "--pipeline: the file has none")).hint("mlpack build MODEL --pipeline FILE adds one");
  return TritonConfig{head_text(options) + "max_batch_size: 0\n" + tail_text("pipeline", options.pipeline), {}, 0};
}

}  // namespace

bool has_pipeline(const format::Manifest& manifest) {
  return std::any_of(manifest.assets.begin(), manifest.assets.end(), [](const format::Asset& asset) { return asset.name == kPipelineAsset; });
}

Result<TritonConfig> triton_config(const format::Manifest& manifest, const TritonOptions& options) {
  if (!options.pipeline.empty()) return pipeline_config(manifest, options);
  MLC_ASSIGN(const Method* const method, method_of(manifest, options.program));
  std::vector<std::string> faults;
  for (const bool is_output : {false, true})
    for (const Port& port : ports_of(*method, is_output))
      if (std::string fault = fault_of(port, is_output ? "output" : "input"); !fault.empty()) faults.push_back(std::move(fault));
  if (!faults.empty()) {
    Status status(Code::Unsupported, "program '{}': {}; arrays of Triton's types expected", cli::printable(method->name), faults.front());
    for (size_t i = 1; i < faults.size(); ++i) status = std::move(status).note("{}", faults[i]);
    const auto main = std::find_if(manifest.methods.begin(), manifest.methods.end(), [](const Method& one) { return one.name == "main"; });
    if (main != manifest.methods.end() && &*main != method) return std::move(status).hint("{}--program main takes the bare arrays", has_pipeline(manifest) ? "--pipeline default takes files as BYTES, " : "");
    return std::move(status).hint(has_pipeline(manifest) ? "--pipeline default takes files as BYTES" : "serve it with the wheel mlrt (docs/serving.md), or change these ports in the model");
  }
  TritonConfig out{head_text(options), method->name, 0};
  const bool rows = options.max_batch > 0 && has_rows(*method);
  if (rows) out.max_batch_size = std::min<int64_t>(options.max_batch, method->dims[*method->batch].max);
  out.text += "max_batch_size: " + std::to_string(out.max_batch_size) + "\n";
  for (const bool is_output : {false, true}) {
    std::string list;
    for (const Port& port : ports_of(*method, is_output)) list += (list.empty() ? "" : ",\n") + port_text(port, rows);
    if (!list.empty()) out.text += std::string(is_output ? "output" : "input") + " [\n" + list + "\n]\n";
  }
  out.text += tail_text("program", out.program);
  return out;
}

}  // namespace mlc::registry::engines
