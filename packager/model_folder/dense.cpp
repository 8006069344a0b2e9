#include "packager/model_folder/dense.h"

#include <cstring>
#include <map>

#include "base/checked.h"
#include "base/small_float.h"
#include "packager/model_folder/folder_file.h"

namespace mlc::model_folder {
namespace {

constexpr int64_t kMostFeatures = 1 << 16;
constexpr uint64_t kMostFile = uint64_t{1} << 30;
constexpr JsonLimits kHeaderLimits{.bytes = 1 << 20, .depth = 8, .values = 10'000};

// A file of safetensors: the length of a header (u64), the header, in which JSON says type, shape and place of each array, and the
// bytes of all of them.
class Safetensors {
 public:
  static Result<Safetensors> read(const std::string& folder, const std::string& name) {
    Safetensors file;
    file.name_ = name;
    MLC_ASSIGN(file.bytes_, read_regular_file(folder + "/" + name, kMostFile, Code::Usage));
    uint64_t length = 0;
    if (file.bytes_.size() < sizeof length) return file.wrong("is no file of safetensors: it has {} bytes", uint64_t{file.bytes_.size()});
    std::memcpy(&length, file.bytes_.data(), sizeof length);
    if (length > file.bytes_.size() - sizeof length || length > kHeaderLimits.bytes)
      return file.wrong("is no file of safetensors: its header would have {} bytes", length);
    MLC_ASSIGN(file.header_, parse_json(std::string_view(file.bytes_).substr(sizeof length, length), name, kHeaderLimits));
    file.data_ = sizeof length + static_cast<size_t>(length);
    return file;
  }

  bool has(std::string_view key) const { return header_->root().find(key) != nullptr; }

  // As f32, of exactly this shape.
  Result<model::Tensor> tensor(const std::string& key, const std::vector<int64_t>& shape) const {
    const JsonValue* entry = header_->root().find(key);
    if (!entry || !entry->is(JsonValue::Kind::Object)) return wrong("has no array '{}'", key);
    const std::string_view type = entry->find("dtype") ? entry->find("dtype")->text() : "";
    const DType dtype = type == "F32" ? DType::F32 : type == "F16" ? DType::F16 : type == "BF16" ? DType::BF16 : DType::None;
    if (dtype == DType::None) return wrong("has '{}' as '{}', expected F32, F16 or BF16", key, type.substr(0, 16));
    uint64_t elements = 1;
    for (const int64_t extent : shape) elements *= static_cast<uint64_t>(extent);  // kMostFeatures twice at most
    MLC_ASSIGN(const std::vector<int64_t> found, numbers(*entry, key, "shape"));
    if (found != shape) return wrong("has '{}' in another shape than config.json says", key);
    MLC_ASSIGN(const std::vector<int64_t> place, numbers(*entry, key, "data_offsets"));
    const auto there = static_cast<int64_t>(bytes_.size() - data_);
    const auto needed = static_cast<int64_t>(elements * bytes_of(dtype));
    if (place.size() != 2 || place[0] < 0 || place[0] > there || place[1] > there || place[1] - place[0] != needed)
      return wrong("has '{}' at a place outside of the file, or of another size than its shape", key);
    auto values = std::make_shared<std::vector<float>>(elements);
    const char* from = bytes_.data() + data_ + place[0];
    if (dtype == DType::F32) {
      if (elements > 0) std::memcpy(values->data(), from, elements * sizeof(float));
    } else {
      for (uint64_t k = 0; k < elements; ++k) {
        uint16_t bits = 0;
        std::memcpy(&bits, from + k * sizeof bits, sizeof bits);
        (*values)[k] = decode_small(dtype, bits);
      }
    }
    return model::Tensor{DType::F32, shape, std::as_bytes(std::span(*values)), values, {}};
  }

 private:
  template <class... Args>
  Status wrong(const char* what, const Args&... args) const {
    return Status(Code::Usage, (std::string("{} ") + what).c_str(), name_, args...).hint("--pipeline FILE says all of it by hand");
  }
  Result<std::vector<int64_t>> numbers(const JsonValue& entry, const std::string& key, const char* what) const {
    const JsonValue* list = entry.find(what);
    if (!list || !list->is(JsonValue::Kind::Array)) return wrong("has no list '{}' of '{}'", what, key);
    std::vector<int64_t> all;
    for (const JsonValue& one : list->items()) {
      const auto number = one.is(JsonValue::Kind::Integer) ? one.as_i64() : std::nullopt;
      if (!number) return wrong("has something in '{}' of '{}' that is no whole number", what, key);
      all.push_back(*number);
    }
    return all;
  }

  std::string name_, bytes_;
  std::optional<JsonDocument> header_;
  size_t data_ = 0;
};

// The operator of ONNX that an activation of torch is; empty: none is there.
Result<std::string> activation_of(const FolderFile& config) {
  constexpr const char* kKey = "activation_function";
  const JsonValue* value = config.find(kKey);
  if (!value) return config.wrong(kKey, "is missing");
  const std::string_view path = value->text(), name = path.substr(path.rfind('.') + 1);
  for (const auto& [torch, op] : {std::pair{"Identity", ""}, {"Tanh", "Tanh"}, {"ReLU", "Relu"}, {"GELU", "Gelu"}, {"Sigmoid", "Sigmoid"}, {"SiLU", "Swish"}})
    if (name == torch && path.starts_with("torch.nn.modules.")) return std::string(op);
  return config.wrong(kKey, "is '" + std::string(path.substr(0, 80)) + "', expected Identity, Tanh, ReLU, GELU, Sigmoid or SiLU of torch.nn.modules");
}

}  // namespace

Result<Program> dense_program(const std::string& folder, const std::string& path, size_t number) {
  if (path.empty() || path.find('/') != path.npos || path.find("..") != path.npos)
    return Status(Code::Usage, "modules.json: the path of Dense is '{}', expected a folder beside it", path);
  MLC_ASSIGN(const FolderFile config, FolderFile::read(folder, path + "/config.json"));
  MLC_RETURN_IF_ERROR(config.knows({"in_features", "out_features", "bias", "activation_function", "module_input_name", "module_output_name"}));
  for (const char* key : {"module_input_name", "module_output_name"})
    if (const JsonValue* name = config.find(key); name && name->text() != "sentence_embedding") return config.wrong(key, "is not 'sentence_embedding'");
  int64_t features[2] = {};
  for (const auto& [key, to] : {std::pair{"in_features", &features[0]}, {"out_features", &features[1]}}) {
    MLC_ASSIGN(*to, config.whole(key));
    if (*to < 1 || *to > kMostFeatures) return config.wrong(key, "is missing, or not between 1 and " + std::to_string(kMostFeatures));
  }
  MLC_ASSIGN(const bool has_bias, config.flag("bias", true));
  MLC_ASSIGN(const std::string activation, activation_of(config));
  Program program{number == 0 ? "dense" : "dense" + std::to_string(number + 1), folder + "/" + path + "/model.safetensors", {}};
  if (!is_there(program.file) && is_there(folder + "/" + path + "/pytorch_model.bin"))
    return Status(Code::Usage, "{} has its numbers as pytorch_model.bin, which is a program that runs when it is read", path)
        .hint("save the layer as model.safetensors: safetensors.torch.save_file(torch.load(...), ...)");
  MLC_ASSIGN(const Safetensors file, Safetensors::read(folder, path + "/model.safetensors"));
  model::Graph& graph = program.model.graph;
  program.model.opsets = {{"ai.onnx", 24}};
  graph.name = program.name;
  graph.inputs.push_back({"x", DType::F32, {program.name + ".texts", features[0]}});
  graph.outputs.push_back({"y", DType::F32, {program.name + ".texts", features[1]}});
  MLC_ASSIGN(graph.initializers["weight"], file.tensor("linear.weight", {features[1], features[0]}));
  if (has_bias) {
    MLC_ASSIGN(graph.initializers["bias"], file.tensor("linear.bias", {features[1]}));
  } else if (file.has("linear.bias")) {
    return config.wrong("bias", "is false, and model.safetensors has a 'linear.bias'");
  }
  std::vector<std::string> inputs{"x", "weight"};
  if (has_bias) inputs.emplace_back("bias");
  const std::string linear = activation.empty() ? "y" : "linear";
  graph.nodes.push_back({"linear", "ai.onnx", "Gemm", std::move(inputs), {linear}, {{"transB", int64_t{1}}}});
  if (!activation.empty()) graph.nodes.push_back({"activation", "ai.onnx", activation, {linear}, {"y"}, {}});
  graph.order = {"x"};
  return program;
}

}  // namespace mlc::model_folder
