#include "packager/cli/attest/statements.h"

#include "packager/cli/inspect_json.h"
#include "signing/envelope.h"

namespace mlc::cli {

namespace {

constexpr std::string_view kBuildType = "urn:mlc:build/v1";

Json sha256_set(const Digest& digest) { return {{"sha256", to_hex(digest)}}; }

Json statement(Json subjects, std::string_view predicate_type, Json predicate) {
  return {{"_type", signing::kStatementType}, {"subject", std::move(subjects)}, {"predicateType", predicate_type}, {"predicate", std::move(predicate)}};
}

Json targets_of(const format::Manifest& manifest) {
  Json targets = Json::array();
  for (const format::Variant& variant : manifest.variants) targets.push_back(variant.target);
  return targets;
}

Json dims_of(const format::Manifest& manifest) {
  Json programs = Json::object();
  for (const format::Method& method : manifest.methods) {
    Json dims = Json::object();
    for (const format::Dim& dim : method.dims) dims[dim.name] = {{"min", dim.min}, {"max", dim.max}, {"multiple", dim.multiple}};
    programs[method.name] = dims;
  }
  return programs;
}

// What the build read, each by its digest.
Json dependencies_of(const format::Manifest& manifest) {
  Json list = Json::array();
  list.push_back({{"name", manifest.provenance.source_name}, {"digest", sha256_set(manifest.provenance.source)}});
  for (const format::Operator& op : manifest.operators)
    list.push_back({{"name", "operator " + op.domain + "::" + op.name}, {"digest", sha256_set(op.digest)}});
  for (const format::Asset& asset : manifest.assets) list.push_back({{"name", asset.media + " " + asset.name}, {"digest", sha256_set(asset.digest)}});
  if (manifest.provenance.ops) list.push_back({{"name", "definitions of operators"}, {"digest", sha256_set(*manifest.provenance.ops)}});
  return list;
}

Json hashes(const Digest& digest) {
  Json list = Json::array();
  list.push_back({{"alg", "SHA-256"}, {"content", to_hex(digest)}});
  return list;
}

Json formats_of(const format::Manifest& manifest, const format::Method& method, std::string_view key) {
  Json formats = Json::array();
  const Json program = program_json(manifest, method);
  for (const Json& port : program[key].items()) {
    std::string text = port["name"].text() + ": " + port["type"].text() + "[";
    for (const Json& extent : port["shape"].items()) text += (text.ends_with('[') ? "" : ",") + (extent.is(Json::Kind::String) ? extent.text() : std::to_string(extent.as_i64()));
    formats.push_back({{"format", text + "]"}});
  }
  return formats;
}

// Derived from the root, so that equal content has one number. Version 8 of RFC 9562: bits of the application's own.
std::string serial_number(const Digest& root) {
  std::string hex = to_hex(Bytes(root).first(16));
  hex[12] = '8';
  hex[16] = "89ab"[static_cast<unsigned>(root[8]) & 3];
  return "urn:uuid:" + hex.substr(0, 8) + "-" + hex.substr(8, 4) + "-" + hex.substr(12, 4) + "-" + hex.substr(16, 4) + "-" + hex.substr(20);
}

Json model_component(const Subject& subject) {
  const format::Model& model = subject.manifest.model;
  const size_t slash = model.id.find('/');
  Json json = {{"type", "machine-learning-model"}, {"bom-ref", "model"}};
  json["group"] = model.id.substr(0, slash);
  json["name"] = model.id.substr(slash + 1);
  json["version"] = std::to_string(model.version);
  if (!model.title.empty()) json["description"] = model.title;
  json["hashes"] = hashes(subject.file);
  if (!model.licence.empty()) json["licenses"] = Json::array({{{"expression", model.licence}}});
  const format::Method& method = subject.manifest.methods[model.default_method];
  json["modelCard"] = {{"modelParameters", {{"inputs", formats_of(subject.manifest, method, "inputs")}, {"outputs", formats_of(subject.manifest, method, "outputs")}}}};
  json["properties"] = Json::array({{{"name", "mlc:root"}, {"value", "sha256:" + to_hex(subject.root)}}});
  return json;
}

}  // namespace

std::string oms_statement(std::string_view name, const Digest& file) {
  // The digest of the subject is over those of all files; of one file its resource is called ".".
  const Json subject = {{"name", name}, {"digest", sha256_set(sha256(file))}};
  const Json serialization = {{"method", "files"}, {"hash_type", "sha256"}, {"allow_symlinks", false}, {"ignore_paths", Json::array()}};
  const Json resource = {{"name", "."}, {"algorithm", "sha256"}, {"digest", to_hex(file)}};
  return statement(Json::array({subject}), kOmsPredicate, {{"serialization", serialization}, {"resources", Json::array({resource})}}).print();
}

std::string statement_about(const Subject& subject, std::string_view predicate_type, Json predicate) {
  Json digests = sha256_set(subject.file);
  digests[signing::kTreeId] = to_hex(subject.root);
  return statement(Json::array({{{"name", subject.name}, {"digest", digests}}}), predicate_type, std::move(predicate)).print();
}

Json provenance_of(const Subject& subject, std::string_view builder_id) {
  const format::Manifest& manifest = subject.manifest;
  const format::Provenance& made = manifest.provenance;
  const Json asked = {{"source", made.source_name}, {"id", manifest.model.id}, {"version", std::to_string(manifest.model.version)},
                      {"targets", targets_of(manifest)}, {"dims", dims_of(manifest)}, {"flags", made.flags}};
  const Json definition = {{"buildType", kBuildType}, {"externalParameters", asked}, {"resolvedDependencies", dependencies_of(manifest)}};
  const Json builder = {{"id", builder_id}, {"version", {{made.tool, made.tool_version}}}};
  return {{"buildDefinition", definition}, {"runDetails", {{"builder", builder}}}};
}

Json bill_of_materials(const Subject& subject, const std::vector<ModuleDigest>& modules) {
  const format::Provenance& made = subject.manifest.provenance;
  Json components = Json::array(), names = Json::array();
  const auto add = [&](const std::string& reference, Json component) {
    Json whole = {{"type", component["type"]}, {"bom-ref", reference}};
    whole.update(std::move(component));
    components.push_back(std::move(whole));
    names.push_back(reference);
  };
  add("source", {{"type", "machine-learning-model"}, {"name", made.source_name}, {"hashes", hashes(made.source)}});
  for (const ModuleDigest& module : modules)
    add("module/" + module.name, {{"type", "file"}, {"name", module.name}, {"description", "code for " + module.target}, {"hashes", hashes(module.digest)}});
  for (const format::Asset& asset : subject.manifest.assets)
    add("asset/" + asset.name, {{"type", "data"}, {"name", asset.name}, {"description", asset.media}, {"hashes", hashes(asset.digest)}});
  for (const format::Operator& op : subject.manifest.operators)
    add("operator/" + op.domain + "/" + op.name, {{"type", "file"}, {"name", op.domain + "::" + op.name}, {"hashes", hashes(op.digest)}});
  const Json tool = {{"type", "application"}, {"name", made.tool}, {"version", made.tool_version}};
  const Json metadata = {{"tools", {{"components", Json::array({tool})}}}, {"component", model_component(subject)}};
  const Json depends = {{"ref", "model"}, {"dependsOn", names}};
  return {{"bomFormat", "CycloneDX"}, {"specVersion", "1.6"}, {"serialNumber", serial_number(subject.root)}, {"version", 1},
          {"metadata", metadata}, {"components", components}, {"dependencies", Json::array({depends})}};
}

}  // namespace mlc::cli
