#include "packager/cli/inspect/inspect_ops.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "base/counted.h"
#include "packager/cli/inspect/size_ops.h"
#include "packager/cli/inspect_json.h"
#include "packager/cli/keys/signing_ops.h"
#include "packager/compile/interface_text.h"
#include "schema/features.h"
#include "schema/pipeline/pipeline.h"
#include "signing/policy.h"

namespace mlc::cli {

namespace {

using namespace format;
using compile::line;
constexpr std::string_view kPipelineAsset = "pipeline.json";

// Who signed it, in the eyes of this user. Being refused is an answer here, not a failure.
struct SignedBy {
  std::string trust, reason;
  Json signatures = Json::array();
};

Result<SignedBy> signed_by(const OpenContainer& file, SealedContainer& sealed, const Result<signing::TrustSet>& trust) {
  SignedBy answer;
  if (!trust.ok()) return trust.status();
  container::OpenOptions options = options_to_look(sealed);
  options.trust = &*trust;
  auto opened = sealed.again.ok() ? container::Container::open(std::move(*sealed.again), options) : Result<std::unique_ptr<container::Container>>(sealed.again.status());
  if (!opened.ok()) {
    answer.trust = "refused";
    answer.reason = opened.status().message;
    for (const signing::CheckedSignature& signature : file.authentication.signatures()) {
      const std::string id = signature.key ? signature.key->id_hex() : "";
      answer.signatures.push_back({{"key", id}, {"key_id", id}, {"status", signature.valid ? "valid" : "invalid"}});
    }
    return answer;
  }
  const signing::Verdict& verdict = (*opened)->verdict();
  answer.trust = signing::name_of(verdict.trust);
  answer.reason = verdict.reason;
  for (const signing::SignatureReport& signature : verdict.signatures)
    answer.signatures.push_back({{"key", signature.name.empty() ? signature.key_id : signature.name},
                                 {"key_id", signature.key_id},
                                 {"status", signing::name_of(signature.status)}});
  return answer;
}

// What a stream cuts, into what, and what goes from one chunk to the next.
std::string stream_text(const pipeline::Pipeline& p) {
  const pipeline::Stream& s = *p.stream;
  std::string text = "stream  " + p.value(s.input).name + " at " + std::to_string(s.rate) + " Hz, hop " + std::to_string(s.hop);
  if (s.context > 0) text += ", context " + std::to_string(s.context);
  text += std::string(", last ") + (s.pads ? "pad" : "drop");
  std::string carried;
  for (const pipeline::Stream::Carried& each : s.carry) carried += (carried.empty() ? ", carry " : " ") + p.value(each.value).name;
  return text + carried;
}
Json stream_json(const pipeline::Pipeline& p) {
  const pipeline::Stream& s = *p.stream;
  Json json = {{"input", p.value(s.input).name}, {"rate", s.rate}, {"hop", s.hop}, {"context", s.context}, {"last", s.pads ? "pad" : "drop"}};
  json["carry"] = Json::object();
  for (const pipeline::Stream::Carried& each : s.carry) json["carry"][p.value(each.value).name] = p.value(each.from).name;
  return json;
}

// {"default": {"inputs": {"photo": ["image/jpeg"]}, "outputs": ["classes"], "steps": ["decode_image", ...]}}
Status add_pipelines(const OpenContainer& file, Report& report) {
  Json& all = report.json["pipelines"] = Json::object();
  const auto asset = file.opened->find_asset(kPipelineAsset);
  if (!asset) return ok();
  if (const uint64_t length = file.opened->manifest().assets[*asset].ref.length; length > pipeline::kTextLimits.bytes)  // before it is decoded
    return Status(Code::Malformed, "{} has {} bytes, at most {} are read", kPipelineAsset, length, pipeline::kTextLimits.bytes);
  MLC_ASSIGN(const VerifiedBytes bytes, file.opened->asset(*asset));
  const std::string_view text(reinterpret_cast<const char*>(bytes.bytes().data()), bytes.bytes().size());
  auto found = pipeline::parse(text, kPipelineAsset);
  if (!found.ok()) {
    Status status = std::move(found).status();
    status.code = Code::Malformed;  // it is the file's fault here, not the caller's
    return status;
  }
  const pipeline::PipelineFile parsed = std::move(found).value();
  for (const pipeline::Pipeline& one : parsed.pipelines) {
    Json json = {{"inputs", Json::object()}, {"outputs", Json::array()},
                         {"steps", Json::array()}};
    std::string in, out, steps;
    for (const pipeline::ValueId id : one.inputs) {
      json["inputs"][one.value(id).name] = one.value(id).accept;
      in += (in.empty() ? "" : ", ") + one.value(id).name;
      std::string types;
      for (const std::string& type : one.value(id).accept) types += (types.empty() ? "" : " ") + type;
      if (!types.empty()) in += " (" + types + ")";
    }
    for (const pipeline::ValueId id : one.outputs) {
      json["outputs"].push_back(one.value(id).name);
      out += (out.empty() ? "" : ", ") + one.value(id).name;
    }
    for (const pipeline::Step& step : one.steps) {
      json["steps"].push_back(step.op);
      steps += (steps.empty() ? "" : " ") + step.op;
    }
    report.text += line("pipeline", one.name + ": " + in + " -> " + out) + line("", "  " + steps);
    if (one.stream) {
      report.text += line("", "  " + stream_text(one));
      json["stream"] = stream_json(one);
    }
    all[one.name] = std::move(json);
  }
  return ok();
}

std::string range_text(const Dim& dim) {
  return dim.name + " " + std::to_string(dim.min) + ".." + (dim.max == std::numeric_limits<int64_t>::max() ? "" : std::to_string(dim.max)) +
         (dim.multiple > 1 ? " by " + std::to_string(dim.multiple) : "");
}

// Those that inputs have: the others are what the run makes of them.
std::string extent_lines(const Method& method) {
  std::vector<bool> given(method.dims.size());
  for (const auto* ports : {&method.inputs, &method.core_inputs, &method.state})
    for (const Port& port : *ports)
      for (const DimRef& dim : port.dims)
        if (dim.dim) given[*dim.dim] = true;
  std::string text;
  for (size_t k = 0; k < method.dims.size(); ++k)
    if (given[k]) text += (text.empty() ? "" : "   ") + range_text(method.dims[k]) + (method.batch == k ? ", rows by themselves" : "");
  return text.empty() ? "" : line("extents", text);
}

compile::ShownPort shown(const Method& method, const Port& port, const std::string& title) {
  compile::ShownPort out{title, port.name, std::string(name_of(port.dtype)), port.list_depth == 0, {}, {}, title.ends_with("out")};
  for (uint8_t k = 0; k < port.list_depth; ++k) out.type = "list of " + out.type;
  for (const DimRef& dim : port.dims)
    out.extents.push_back(dim.dim ? method.dims[*dim.dim].name : dim.extent ? std::to_string(*dim.extent) : dim.expr);
  const auto add = [&](std::string_view note) { out.notes += (out.notes.empty() ? "" : "  ") + std::string(note); };
  if (port.media != Media::Tensor && port.media != Media::None) add(name_of(port.media));
  if (!port.unit.empty()) add(port.unit);
  if (port.optional) add("optional");
  return out;
}

std::string program_lines(const Method& method) {
  std::vector<compile::ShownPort> ports;
  const auto add = [&](const std::vector<Port>& list, const char* title) {
    for (const Port& port : list) ports.push_back(shown(method, port, title));
  };
  add(method.inputs, "in");
  add(method.outputs, "out");
  add(method.state, "state");
  add(method.core_inputs, "core in");
  add(method.core_outputs, "core out");
  return line("program", method.name) + extent_lines(method) + compile::interface_lines(ports);
}

void add_programs(const Manifest& manifest, const std::string& only, Report& report) {
  Json& programs = report.json["programs"] = Json::array();
  for (const Method& method : manifest.methods) {
    if (!only.empty() && method.name != only) continue;
    programs.push_back(program_json(manifest, method));
    report.text += program_lines(method);
  }
}

std::string features_text(const Variant& variant) {
  std::string text;
  for (const uint32_t feature : variant.features) text += (text.empty() ? "" : " ") + feature_text(feature);
  return text;
}

// "detect, read"
std::string programs_text(const Manifest& manifest, const Variant& variant) {
  std::string text;
  for (const uint32_t method : variant.methods) text += (text.empty() ? "" : ", ") + manifest.methods[method].name;
  return text;
}

void add_variants(const OpenContainer& file, const std::string& only, Report& report) {
  const Manifest& manifest = file.opened->manifest();
  size_t width = 0;
  for (const Variant& variant : manifest.variants) width = std::max(width, variant.name.size());
  Json& variants = report.json["variants"] = Json::array();
  for (const Variant& variant : manifest.variants) {
    if (!only.empty() && variant.name != only) continue;
    Json json = variant_json(manifest, variant);
    uint64_t bytes = 0;
    bool present = true;
    for (const auto& segment : {variant.plan, variant.module}) {
      if (!segment) continue;
      bytes += manifest.segments[*segment].stored_len;
      present = present && file.opened->present(*segment);
    }
    json["bytes"] = bytes;
    json["present"] = present;
    variants.push_back(std::move(json));
    std::string text = variant.name + std::string(width - variant.name.size() + 2, ' ') +
                       std::string(name_of(variant.module_format)) + "  " + human_bytes(bytes);
    if (!present) text += "  absent (thinned)";
    else if (!variant.unusable.empty()) text += "  not usable: " + variant.unusable;
    if (!variant.methods.empty() && variant.methods.size() < manifest.methods.size()) text += "  has code for " + programs_text(manifest, variant);
    if (!variant.features.empty()) text += "  asks for " + counted(variant.features.size(), "feature");
    report.text += line("variant", text);
    if (only.empty()) continue;
    if (!variant.features.empty()) report.text += line("", "  wants " + features_text(variant));
    for (const Clause& clause : variant.clauses) report.text += line("", "  wants " + clause_text(clause));
  }
}

void add_data(const OpenContainer& file, const InspectOptions& options, Report& report) {
  const Manifest& manifest = file.opened->manifest();
  std::string assets, golden;
  for (const Asset& asset : manifest.assets)
    assets += (assets.empty() ? "" : " · ") + asset.name + " " + human_bytes(asset.ref.length);
  report.text += line("assets", assets.empty() ? "none" : assets);
  report.json["assets"] = assets_json(manifest);
  for (const Golden& vector : manifest.golden)
    golden += (golden.empty() ? "" : " · ") + vector.name + " (" + manifest.methods[vector.method].name + ")";
  report.text += line("golden", manifest.golden.empty() ? "none, so nothing here tells whether answers are right" : counted(manifest.golden.size(), "vector") + ": " + golden);
  report.json["golden"] = golden_json(manifest);
  if (!manifest.operators.empty()) {
    std::string names;
    for (const Operator& op : manifest.operators) names += " " + op.domain + (op.domain.empty() ? "" : ".") + op.name;
    report.text += line("operators", "own:" + names);
  }
  report.json["tuning"] = Json::array();
  for (const Tuning& tuning : manifest.tuning) {
    report.text += line("tuning", tuning.target + ", " + counted(tuning.count, "record"));
    report.json["tuning"].push_back({{"target", tuning.target}, {"records", tuning.count}, {"segment", manifest.segments[tuning.segment].name}});
  }
  uint64_t elements = 0;
  for (const Tensor& tensor : manifest.tensors) elements += num_elements(tensor);
  std::string short_floats;
  for (const DType type : {DType::F16, DType::BF16})
    if (const auto n = std::count_if(manifest.tensors.begin(), manifest.tensors.end(), [&](const Tensor& t) { return t.dtype == type; }))
      short_floats += ", " + std::to_string(n) + " in " + std::string(name_of(type));
  report.text += line("weights", counted(manifest.tensors.size(), "tensor") + ", " + counted(elements, "element") + short_floats);
  report.json["tensors"] = {{"count", manifest.tensors.size()}, {"elements", exact(elements)}};
  if (options.tensors) {
    report.json["tensors"]["entries"] = tensors_json(manifest);
    for (const Tensor& tensor : manifest.tensors) report.text += line("", tensor.name + "  " + tensor_text(tensor));
  }
  report.text += line("segments", std::to_string(manifest.segments.size()));
  Json& segments = report.json["segments"] = Json::array();
  for (uint32_t i = 0; i < manifest.segments.size(); ++i) {
    const Segment& segment = manifest.segments[i];
    const bool present = file.opened->present(i);
    segments.push_back(segment_json(segment, file.opened->segment_offset(i), present));
    if (!options.segments) continue;
    report.text += line("", segment.name + "  " + std::string(name_of(segment.kind)) + "  " +
                                human_bytes(segment.stored_len) + (segment.codec == Codec::Zstd ? "  zstd" : "") +
                                (segment.droppable ? "  droppable" : "") + (present ? "" : "  absent"));
  }
}

template <class Items>
Status check_name(const Items& items, const std::string& wanted, const std::string& what) {
  if (wanted.empty()) return ok();
  std::string known = "known:";
  for (const auto& item : items) {
    if (item.name == wanted) return ok();
    known += " " + item.name;
  }
  return Status(Code::Usage, "no " + what + " '" + wanted + "' in this file").fact(std::move(known));
}

// The plans of the variants that are asked for.
Result<Report> show_plans(const OpenContainer& file, const InspectOptions& options) {
  const Manifest& manifest = file.opened->manifest();
  Report report;
  Json& plans = report.json["plans"] = Json::object();
  for (const Variant& variant : manifest.variants) {
    if (!options.variant.empty() && variant.name != options.variant) continue;
    MLC_ASSIGN(std::optional<exec::Plan> plan, plan_of(file, variant));
    if (!plan) {
      report.text += "; " + variant.name + " has no plan here\n";
      continue;
    }
    if (!options.program.empty())
      std::erase_if(plan->functions, [&](const exec::Function& f) { return f.name != options.program; });
    const std::string text = plan::print(*plan);
    report.text += "; " + variant.name + "\n" + text;
    plans[variant.name] = text;
  }
  return report;
}

}  // namespace

// How many kernels a module has is the loader's to know: any number goes.
Result<std::optional<exec::Plan>> plan_of(const OpenContainer& file, const Variant& variant) {
  if (!variant.plan || !file.opened->present(*variant.plan)) return std::optional<exec::Plan>();
  const Manifest& manifest = file.opened->manifest();
  exec::PlanContext context;
  context.num_kernels = UINT32_MAX;
  context.constant_bytes = [&manifest](uint32_t tensor, uint32_t copy) { return copy_bytes(manifest.tensors, tensor, copy); };
  MLC_ASSIGN(const VerifiedBytes bytes, file.opened->segment(*variant.plan));
  auto plan = exec::decode_plan(bytes.bytes(), context);
  if (!plan) return std::move(plan).status().note(bytes.name());
  return std::optional<exec::Plan>(std::move(*plan));
}

Result<Report> inspect_container(SealedContainer& sealed, const Result<signing::TrustSet>& trust, const InspectOptions& options) {
  MLC_ASSIGN(const OpenContainer file, look_into(sealed));
  return inspect_opened(file, sealed, trust, options);
}

Result<Report> inspect_opened(const OpenContainer& file, SealedContainer& sealed, const Result<signing::TrustSet>& trust, const InspectOptions& options) {
  const Manifest& manifest = file.opened->manifest();
  MLC_RETURN_IF_ERROR(check_name(manifest.variants, options.variant, "variant"));
  MLC_RETURN_IF_ERROR(check_name(manifest.methods, options.program, "program"));
  if (options.plan) return show_plans(file, options);
  MLC_ASSIGN(const SignedBy signer, signed_by(file, sealed, trust));

  Report report;
  const std::string root = "sha256:" + to_hex(file.opened->root());
  report.text = file.path + "   " + manifest.model.id + " version " + std::to_string(manifest.model.version) + "   " +
                human_bytes(file.opened->file_size()) + "\n";
  if (!manifest.model.title.empty()) report.text += line("title", manifest.model.title);
  if (!manifest.model.licence.empty()) report.text += line("licence", manifest.model.licence);
  report.text += line("root", root) + line("signature", signer.reason);
  const uint64_t not_after = end_of_validity(file.authentication, manifest);
  if (not_after != 0) report.text += line("valid", validity_text(not_after));
  const std::string& source = manifest.provenance.source_name;
  report.text += line("source", (source.empty() ? "" : source + ", ") + "built by " + manifest.provenance.tool + " " +
                                    manifest.provenance.tool_version);
  report.json = {{"format", kVersionMajor}, {"root", root}, {"id", manifest.model.id},
                 {"version", std::to_string(manifest.model.version)}, {"file_bytes", file.opened->file_size()}};
  report.json["model"] = model_json(manifest);
  add_programs(manifest, options.program, report);
  MLC_RETURN_IF_ERROR(add_pipelines(file, report));
  add_variants(file, options.variant, report);
  add_data(file, options, report);
  if (not_after != 0) report.json["not_after"] = exact(not_after);
  report.json["trust"] = signer.trust;
  report.json["reason"] = signer.reason;
  report.json["signatures"] = signer.signatures;
  report.json["notes"] = file.opened->notes();
  for (const std::string& note : file.opened->notes()) report.text += line("note", note);
  return report;
}

}  // namespace mlc::cli
