#include "packager/cli/inspect_json.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "base/checked.h"
#include "schema/features.h"
#include "signing/hash_tree.h"

namespace mlc::cli {

using namespace format;
namespace {

constexpr uint64_t kExactInDouble = uint64_t{1} << 53;

std::string_view operator_text(ClauseOp op) {
  switch (op) {
    case ClauseOp::Equal: return "==";
    case ClauseOp::AtLeast: return ">=";
    case ClauseOp::AtMost: return "<=";
    case ClauseOp::Divides: return "divides";
    case ClauseOp::OneOf: return "one of";
    case ClauseOp::None: break;
  }
  return "?";
}

std::string_view metric_text(Metric metric) {
  switch (metric) {
    case Metric::Abs: return "abs";
    case Metric::Rel: return "rel";
    case Metric::Ulp: return "ulp";
    case Metric::Cosine: return "cosine";
    case Metric::TopK: return "top_k";
    case Metric::None: break;
  }
  return "?";
}

std::string_view colour_text(Colour colour) {
  switch (colour) {
    case Colour::Rgb: return "rgb";
    case Colour::Bgr: return "bgr";
    case Colour::Grey: return "grey";
    case Colour::Rgba: return "rgba";
    case Colour::Yuv420: return "yuv420";
    case Colour::None: break;
  }
  return "none";
}

std::string digest_text(const Digest& digest) { return "sha256:" + to_hex(digest); }

Json dim_json(const Method& method, const DimRef& dim) {
  if (dim.dim) return method.dims[*dim.dim].name;
  if (dim.extent) return *dim.extent;
  return dim.expr;
}

Json port_json(const Method& method, const Port& port) {
  Json shape = Json::array(), range = Json::object();
  for (const DimRef& dim : port.dims) {
    shape.push_back(dim_json(method, dim));
    if (!dim.dim) continue;
    const Dim& symbol = method.dims[*dim.dim];
    range[symbol.name] = Json::array({symbol.min, symbol.max});
  }
  Json json = {{"name", port.name}, {"type", name_of(port.dtype)}, {"shape", shape}};
  if (!range.empty()) json["range"] = range;
  if (port.media != Media::None) json["media"] = name_of(port.media);
  if (port.colour != Colour::None) json["colour"] = colour_text(port.colour);
  if (!port.range.empty()) json["values"] = port.range;
  if (!port.unit.empty()) json["unit"] = port.unit;
  if (port.optional) json["optional"] = true;
  if (!port.doc.empty()) json["doc"] = port.doc;
  if (port.list_depth > 0) json["list_depth"] = port.list_depth;
  return json;
}

Json ports_json(const Method& method, const std::vector<Port>& ports) {
  Json json = Json::array();
  for (const Port& port : ports) json.push_back(port_json(method, port));
  return json;
}

Json tolerance_json(const std::vector<Tolerance>& tolerances) {
  Json json = Json::array();
  for (const Tolerance& tolerance : tolerances)
    json.push_back(
        {{"output", tolerance.output}, {"metric", metric_text(tolerance.metric)}, {"value", tolerance.value}});
  return json;
}

}  // namespace

Json exact(uint64_t number) {
  if (number > kExactInDouble) return std::to_string(number);
  return number;
}

uint64_t num_elements(const Tensor& tensor) {
  return checked_product(tensor.shape).value_or(std::numeric_limits<uint64_t>::max());
}

std::string tensor_text(const Tensor& tensor) {
  std::string text = std::string(name_of(tensor.dtype)) + "[";
  for (size_t i = 0; i < tensor.shape.size(); ++i) text += (i == 0 ? "" : ",") + std::to_string(tensor.shape[i]);
  return text + "]";
}

std::string feature_text(uint32_t feature) {
  const size_t row = feature_index(feature);
  return row < kNumFeatures ? std::string(kFeatureNames[row]) : "feature " + std::to_string(feature);
}

std::string clause_text(const Clause& clause) {
  std::string text = feature_text(clause.id) + " " + std::string(operator_text(clause.op));
  for (const int64_t value : clause.values) text += " " + std::to_string(value);
  return text;
}

Json model_json(const Manifest& manifest) {
  const Provenance& provenance = manifest.provenance;
  Json json = {{"id", manifest.model.id}};
  if (!manifest.model.title.empty()) json["title"] = manifest.model.title;
  if (!manifest.model.licence.empty()) json["licence"] = manifest.model.licence;
  if (manifest.model.not_after != 0) json["not_after"] = exact(manifest.model.not_after);
  json["default_program"] = manifest.methods[manifest.model.default_method].name;
  json["source"] = {{"name", provenance.source_name}, {"digest", digest_text(provenance.source)}};
  json["tool"] = provenance.tool + " " + provenance.tool_version;
  json["flags"] = provenance.flags;
  Json stages = Json::array();
  for (const format::Stage& stage : manifest.stages) {
    Json attributes = Json::object();
    for (const Attribute& attribute : stage.attributes) attributes[attribute.name] = attribute.value;
    stages.push_back({{"name", stage.name}, {"operator", stage.operator_name}, {"attributes", attributes}});
  }
  json["stages"] = stages;
  Json operators = Json::array();
  for (const Operator& op : manifest.operators)
    operators.push_back({{"domain", op.domain}, {"name", op.name}, {"version", op.version}});
  json["operators"] = operators;
  return json;
}

Json program_json(const Manifest& manifest, const Method& method) {
  Json json = {{"name", method.name}};
  Json dims = Json::array();
  for (const Dim& dim : method.dims)
    dims.push_back({{"name", dim.name}, {"min", dim.min}, {"max", dim.max}, {"multiple", dim.multiple}});
  json["dims"] = dims;
  if (method.batch) json["batch"] = method.dims[*method.batch].name;
  if (!method.runs.empty()) {
    json["runs"] = Json::array();
    for (const uint32_t other : method.runs) json["runs"].push_back(manifest.methods[other].name);
  }
  json["inputs"] = ports_json(method, method.inputs);
  json["outputs"] = ports_json(method, method.outputs);
  if (!method.core_inputs.empty()) json["core_inputs"] = ports_json(method, method.core_inputs);
  if (!method.core_outputs.empty()) json["core_outputs"] = ports_json(method, method.core_outputs);
  if (!method.state.empty()) json["state"] = ports_json(method, method.state);
  return json;
}

Json variant_json(const Manifest& manifest, const Variant& variant) {
  Json features = Json::array(), clauses = Json::array(), programs = Json::array();
  for (const uint32_t feature : variant.features) features.push_back(feature_text(feature));
  for (const Clause& clause : variant.clauses) clauses.push_back(clause_text(clause));
  for (const uint32_t method : variant.methods) programs.push_back(manifest.methods[method].name);
  if (variant.methods.empty())
    for (const Method& method : manifest.methods) programs.push_back(method.name);
  Json json = {{"name", variant.name}, {"family", variant.family}, {"format", name_of(variant.module_format)},
                       {"target", variant.target}, {"features", features}, {"clauses", clauses},
                       {"programs", programs}, {"tolerance", tolerance_json(variant.tolerance)}};
  const auto segment_name = [&](const std::optional<uint32_t>& segment) -> Json {
    if (!segment) return nullptr;
    return manifest.segments[*segment].name;
  };
  json["plan"] = segment_name(variant.plan);
  json["module"] = segment_name(variant.module);
  if (variant.memory)
    json["memory"] = {{"workspace_bytes", exact(variant.memory->workspace)}, {"peak_bytes", exact(variant.memory->peak)},
                      {"code_bytes", exact(variant.memory->code)}};
  if (variant.audit) json["audit"] = {{"tool", variant.audit->tool}, {"version", variant.audit->tool_version}};
  if (!variant.unusable.empty()) json["unusable"] = variant.unusable;
  return json;
}

Json segment_json(const Segment& segment, uint64_t offset, bool present) {
  return {{"name", segment.name}, {"kind", name_of(segment.kind)}, {"codec", segment.codec == Codec::Zstd ? "zstd" : "raw"},
          {"present", present}, {"droppable", segment.droppable}, {"offset", exact(offset)},
          {"stored_bytes", exact(segment.stored_len)}, {"decoded_bytes", exact(segment.decoded_len)},
          {"digest", digest_text(segment.digest)}};
}

Json assets_json(const Manifest& manifest) {
  Json json = Json::array();
  for (const Asset& asset : manifest.assets)
    json.push_back({{"name", asset.name}, {"media", asset.media}, {"bytes", exact(asset.ref.length)},
                    {"digest", digest_text(asset.digest)}});
  return json;
}

Json golden_json(const Manifest& manifest) {
  Json json = Json::array();
  for (const Golden& golden : manifest.golden)
    json.push_back({{"name", golden.name}, {"program", manifest.methods[golden.method].name},
                    {"entry", golden.entry == GoldenEntry::Core ? "core" : "run"},
                    {"inputs", golden.inputs.size()}, {"outputs", golden.outputs.size()},
                    {"bindings", golden.bindings}, {"tolerance", tolerance_json(golden.tolerance)}});
  return json;
}

Json tensors_json(const Manifest& manifest) {
  Json json = Json::array();
  std::unordered_map<uint32_t, const Layout*> layouts;
  for (const Layout& layout : manifest.layouts) layouts.emplace(layout.id, &layout);
  for (const Tensor& tensor : manifest.tensors) {
    Json copies = Json::array();
    for (const Copy& copy : tensor.copies) {
      const auto layout = layouts.find(copy.layout);
      copies.push_back({{"layout", layout == layouts.end() ? "" : layout->second->text},
                        {"segment", manifest.segments[copy.ref.segment].name}, {"bytes", exact(copy.ref.length)}});
    }
    json.push_back({{"name", tensor.name}, {"type", name_of(tensor.dtype)}, {"shape", tensor.shape},
                    {"content", digest_text(tensor.content)}, {"copies", copies}});
  }
  return json;
}

}  // namespace mlc::cli
