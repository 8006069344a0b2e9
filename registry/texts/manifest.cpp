#include "registry/texts/manifest.h"

#include "base/cli/json_tree.h"
#include "base/cli/report.h"
#include "base/text/json.h"

namespace mlc::registry {
namespace {

using Kind = JsonValue::Kind;
constexpr JsonLimits kManifestLimits{kMaxManifestBytes, 32, 1u << 17};
constexpr size_t kMaxField = 4096;

Status bad_manifest(const std::string& why) { return Status(Code::Registry, "the manifest cannot be used: " + why); }

Status read_text(const JsonValue& object, std::string_view name, size_t limit, std::string& out) {
  const JsonValue* found = object.find(name);
  if (found == nullptr) return ok();
  if (!found->is(Kind::String)) return bad_manifest(std::string(name) + " is " + std::string(name_of(found->kind())) + ", a string expected");
  if (found->text().size() > limit) return bad_manifest(std::string(name) + " is too long");
  out = found->text();
  return ok();
}

Status read_annotations(const JsonValue& object, Annotations& out) {
  const JsonValue* found = object.find("annotations");
  if (found == nullptr || found->is(Kind::Null)) return ok();
  if (!found->is(Kind::Object)) return bad_manifest("annotations are " + std::string(name_of(found->kind())) + ", an object expected");
  if (found->size() > kMaxAnnotations) return bad_manifest("it has more than " + std::to_string(kMaxAnnotations) + " annotations");
  for (const auto& [key, value] : found->members()) {
    if (!value.is(Kind::String)) return bad_manifest("an annotation is " + std::string(name_of(value.kind())) + ", a string expected");
    out.emplace(key.text(), value.text());
  }
  return ok();
}

Result<Descriptor> read_descriptor(const JsonValue& value, std::string_view what) {
  if (!value.is(Kind::Object)) return bad_manifest(std::string(what) + " is " + std::string(name_of(value.kind())) + ", an object expected");
  Descriptor out;
  MLC_RETURN_IF_ERROR(read_text(value, "mediaType", kMaxField, out.media_type));
  MLC_RETURN_IF_ERROR(read_text(value, "artifactType", kMaxField, out.artifact_type));
  const JsonValue* named = value.find("digest");
  const auto digest = named == nullptr ? std::nullopt : parse_digest(named->text());
  if (!digest)
    return bad_manifest(std::string(what) + " has the digest '" + cli::printable(named == nullptr ? "" : named->text().substr(0, 100)) +
                        "', sha256: and 64 hex digits in lower case expected");
  out.digest = *digest;
  const JsonValue* sized = value.find("size");
  const auto size = sized == nullptr ? std::nullopt : sized->as_u64();
  if (!size || *size > kMaxBlobBytes) return bad_manifest(std::string(what) + " has no size, or one beyond " + std::to_string(kMaxBlobBytes) + " bytes");
  out.size = *size;
  MLC_RETURN_IF_ERROR(read_annotations(value, out.annotations));
  if (const JsonValue* platform = value.find("platform"); platform != nullptr && platform->is(Kind::Object)) {
    MLC_RETURN_IF_ERROR(read_text(*platform, "os", kMaxField, out.os));
    MLC_RETURN_IF_ERROR(read_text(*platform, "architecture", kMaxField, out.architecture));
  }
  return out;
}

Status read_list(const JsonValue& object, std::string_view name, std::vector<Descriptor>& out) {
  const JsonValue* found = object.find(name);
  if (found == nullptr || found->is(Kind::Null)) return ok();
  if (!found->is(Kind::Array)) return bad_manifest(std::string(name) + " is " + std::string(name_of(found->kind())) + ", a list expected");
  if (found->size() > kMaxLayers) return bad_manifest("it has more than " + std::to_string(kMaxLayers) + " " + std::string(name));
  for (const JsonValue& item : found->items()) {
    MLC_ASSIGN(Descriptor descriptor, read_descriptor(item, "one of " + std::string(name)));
    out.push_back(std::move(descriptor));
  }
  return ok();
}

Status read_one(const JsonValue& object, std::string_view name, std::optional<Descriptor>& out) {
  const JsonValue* found = object.find(name);
  if (found == nullptr || found->is(Kind::Null)) return ok();
  MLC_ASSIGN(out, read_descriptor(*found, name));
  return ok();
}

cli::Json descriptor_json(const Descriptor& descriptor) {
  cli::Json json = {{"mediaType", descriptor.media_type}};
  if (!descriptor.artifact_type.empty()) json["artifactType"] = descriptor.artifact_type;
  json["digest"] = digest_text(descriptor.digest);
  json["size"] = descriptor.size;
  if (!descriptor.annotations.empty()) json["annotations"] = descriptor.annotations;
  if (!descriptor.os.empty() || !descriptor.architecture.empty()) json["platform"] = {{"architecture", descriptor.architecture}, {"os", descriptor.os}};
  return json;
}

cli::Json descriptors_json(const std::vector<Descriptor>& descriptors) {
  cli::Json list = cli::Json::array();
  for (const Descriptor& descriptor : descriptors) list.push_back(descriptor_json(descriptor));
  return list;
}

}  // namespace

Result<Manifest> parse_manifest(std::string_view text) {
  auto document = parse_json(text, "manifest", kManifestLimits);
  if (!document.ok()) return bad_manifest(document.status().message);
  const JsonValue& root = document->root();
  if (!root.is(Kind::Object)) return bad_manifest("it is " + std::string(name_of(root.kind())) + ", an object expected");
  const JsonValue* version = root.find("schemaVersion");
  if (version == nullptr || version->as_u64() != 2) return bad_manifest("schemaVersion 2 expected");
  Manifest out;
  MLC_RETURN_IF_ERROR(read_text(root, "mediaType", kMaxField, out.media_type));
  MLC_RETURN_IF_ERROR(read_text(root, "artifactType", kMaxField, out.artifact_type));
  out.is_index = root.find("manifests") != nullptr;
  // CVE-2021-41190: one text that is an index to one reader and a manifest to another.
  if (out.is_index && (root.find("layers") != nullptr || root.find("config") != nullptr)) return bad_manifest("it is an index and has layers");
  MLC_RETURN_IF_ERROR(read_one(root, "config", out.config));
  MLC_RETURN_IF_ERROR(read_one(root, "subject", out.subject));
  MLC_RETURN_IF_ERROR(read_list(root, "layers", out.layers));
  MLC_RETURN_IF_ERROR(read_list(root, "manifests", out.manifests));
  MLC_RETURN_IF_ERROR(read_annotations(root, out.annotations));
  if (!out.is_index && !out.config) return bad_manifest("it has neither a config nor manifests");
  return out;
}

std::string manifest_text(const Manifest& manifest) {
  cli::Json json = {{"schemaVersion", 2}};
  if (!manifest.media_type.empty()) json["mediaType"] = manifest.media_type;
  if (!manifest.artifact_type.empty()) json["artifactType"] = manifest.artifact_type;
  if (manifest.is_index) {
    json["manifests"] = descriptors_json(manifest.manifests);
  } else {
    if (manifest.config) json["config"] = descriptor_json(*manifest.config);
    json["layers"] = descriptors_json(manifest.layers);
  }
  if (manifest.subject) json["subject"] = descriptor_json(*manifest.subject);
  if (!manifest.annotations.empty()) json["annotations"] = manifest.annotations;
  return json.print();
}

}  // namespace mlc::registry
