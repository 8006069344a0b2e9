// Manifests and indexes of the OCI image specification: read from registries, which are strangers, and written. What the artifact of
// a container looks like: spec/registry.md, section 2.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "registry/texts/reference.h"

namespace mlc::registry {

inline constexpr uint64_t kMaxManifestBytes = 4u << 20;   // what a registry has to take; more is refused unread
inline constexpr uint64_t kMaxBlobBytes = uint64_t{1} << 40;
inline constexpr size_t kMaxLayers = 1024, kMaxAnnotations = 1024;

inline constexpr std::string_view kManifestType = "application/vnd.oci.image.manifest.v1+json";
inline constexpr std::string_view kIndexType = "application/vnd.oci.image.index.v1+json";
inline constexpr std::string_view kDockerManifestType = "application/vnd.docker.distribution.manifest.v2+json";
inline constexpr std::string_view kDockerIndexType = "application/vnd.docker.distribution.manifest.list.v2+json";
inline constexpr std::string_view kModelManifestType = "application/vnd.cncf.model.manifest.v1+json";
inline constexpr std::string_view kModelConfigType = "application/vnd.cncf.model.config.v1+json";
inline constexpr std::string_view kModelWeightType = "application/vnd.cncf.model.weight.v1.raw";
inline constexpr std::string_view kImageConfigType = "application/vnd.oci.image.config.v1+json";
inline constexpr std::string_view kImageLayerType = "application/vnd.oci.image.layer.v1.tar";
inline constexpr std::string_view kPolicyType = "application/vnd.mlc.policy.v1+json";  // artifact and layer of a policy bundle

// Annotations of a manifest that say what the container is; their values are those of its own manifest.
inline constexpr std::string_view kRootAnnotation = "mlc.root";          // "sha256:" and 64 hex digits
inline constexpr std::string_view kIdAnnotation = "mlc.id";              // "acme/cat"
inline constexpr std::string_view kVersionAnnotation = "mlc.version";    // decimal
inline constexpr std::string_view kPartsAnnotation = "mlc.parts";        // how many layers the file is cut into, decimal; one where it is missing
inline constexpr std::string_view kPolicyVersionAnnotation = "mlc.policy.version";  // of a policy bundle, decimal
inline constexpr std::string_view kVariantsAnnotation = "mlc.variants";  // names, separated by commas, in the order of the file

using Annotations = std::map<std::string, std::string>;

struct Descriptor {
  std::string media_type;
  Digest digest{};
  uint64_t size = 0;
  std::string artifact_type;
  Annotations annotations;
  std::string os, architecture;  // of `platform`

  friend bool operator==(const Descriptor&, const Descriptor&) = default;
};

// Of either kind: an index has `manifests`, any other one `config` and `layers`.
struct Manifest {
  bool is_index = false;
  std::string media_type, artifact_type;
  std::optional<Descriptor> config, subject;
  std::vector<Descriptor> layers, manifests;
  Annotations annotations;

  friend bool operator==(const Manifest&, const Manifest&) = default;
};

// What a registry or a layout says. An error of code 30 names what is wrong: a digest that is none, a size beyond kMaxBlobBytes, a
// list that is too long. Nothing in it is a path: names of files are annotations and are not looked at.
[[nodiscard]] Result<Manifest> parse_manifest(std::string_view text);
// One spelling for each value, so equal manifests have equal digests. parse_manifest of it is the same.
[[nodiscard]] std::string manifest_text(const Manifest& manifest);

}  // namespace mlc::registry
