#include "registry/store/artifact.h"

#include <algorithm>

#include "base/cli/report.h"
#include "base/counted.h"
#include "registry/texts/parts.h"
#include "signing/envelope.h"

namespace mlc::registry {
namespace {

constexpr size_t kMaxAnnotationText = 65536;

Status no_container(const Reference& reference, const std::string& why) {
  return Status(Code::Registry, "{} holds no container: {}", reference.text(), why);
}

bool is_model(const Descriptor& descriptor) { return descriptor.artifact_type == kModelManifestType; }

// A manifest that an index names is asked for once and may be no index itself: no way leads in a circle.
Result<Descriptor> chosen_of_index(const Manifest& index, const Reference& reference) {
  const auto model = std::find_if(index.manifests.begin(), index.manifests.end(), is_model);
  if (model != index.manifests.end()) return *model;
  if (index.manifests.empty()) return no_container(reference, "an index without manifests");
  // One manifest that is listed for several platforms is one.
  const auto is_first = [&](const Descriptor& other) { return other.digest == index.manifests.front().digest; };
  if (std::all_of(index.manifests.begin(), index.manifests.end(), is_first)) return index.manifests.front();
  return no_container(reference, "an index of " + counted(index.manifests.size(), "manifest") + ", none of which is a model's");
}

// "17": how many parts the manifest says there are.
Result<uint64_t> stated_parts(const Manifest& manifest, const Reference& reference) {
  const auto found = manifest.annotations.find(std::string(kPartsAnnotation));
  if (found == manifest.annotations.end()) return uint64_t{1};
  const auto number = signing::parse_decimal(found->second);
  if (number && *number >= 1 && *number <= kMaxParts) return *number;
  return Status(Code::Registry, "the manifest of {} has {} '{}', 1 to {} expected", reference.text(), kPartsAnnotation, cli::printable(found->second.substr(0, 100)), kMaxParts);
}

// Their sum is a size that one blob could have. A part without bytes could not be asked for.
Status add_blobs(std::vector<Descriptor> blobs, const Reference& reference, Artifact& out) {
  for (const Descriptor& blob : blobs) {
    if (blob.size == 0 && blobs.size() > 1) return no_container(reference, "one of its parts has 0 bytes");
    if (blob.size > kMaxBlobBytes - out.bytes) return no_container(reference, "its parts have more than " + std::to_string(kMaxBlobBytes) + " bytes");
    out.bytes += blob.size;
  }
  out.blobs = std::move(blobs);
  return ok();
}

// The file itself, or its parts in their order, or an image with one uncompressed layer around it.
Status find_layer(const Manifest& manifest, const Reference& reference, Artifact& out) {
  std::vector<Descriptor> files, tars;
  if (manifest.artifact_type == kPolicyType && manifest.layers.size() == 1 && manifest.layers.front().media_type == kPolicyType) {
    out.is_policy = true;
    return add_blobs(manifest.layers, reference, out);
  }
  for (const Descriptor& layer : manifest.layers) {
    if (layer.media_type == kModelWeightType) files.push_back(layer);
    if (layer.media_type == kImageLayerType) tars.push_back(layer);
  }
  MLC_ASSIGN(const uint64_t expected, stated_parts(manifest, reference));
  out.is_tar = files.empty() && tars.size() == 1;
  if (out.is_tar || files.size() == expected) return add_blobs(out.is_tar ? std::move(tars) : std::move(files), reference, out);
  std::string types;
  for (size_t k = 0; k < std::min<size_t>(manifest.layers.size(), 4); ++k) types += (k == 0 ? "" : " ") + cli::printable(manifest.layers[k].media_type);
  return no_container(reference, counted(files.size(), "layer") + " of " + std::string(kModelWeightType) + ", " + std::to_string(expected) + " expected, or 1 of " +
                                     std::string(kImageLayerType) +
                                     (types.empty() ? "" : "; it has " + types));
}

std::string annotation(const Manifest& manifest, std::string_view key) {
  const auto found = manifest.annotations.find(std::string(key));
  return found == manifest.annotations.end() ? std::string() : found->second.substr(0, kMaxAnnotationText);
}

}  // namespace

Result<Artifact> find_artifact(Client& client, const Reference& reference) {
  Artifact out;
  out.reference = reference;
  MLC_ASSIGN(out.fetched, client.manifest(reference.repository, reference.object()));
  out.named = out.fetched.digest;
  MLC_ASSIGN(out.manifest, parse_manifest(out.fetched.text));
  if (out.manifest.is_index) {
    MLC_ASSIGN(const Descriptor chosen, chosen_of_index(out.manifest, reference));
    MLC_ASSIGN(out.fetched, client.manifest(reference.repository, digest_text(chosen.digest)));
    MLC_ASSIGN(out.manifest, parse_manifest(out.fetched.text));
    if (out.manifest.is_index) return no_container(reference, "an index in an index");
  }
  MLC_RETURN_IF_ERROR(find_layer(out.manifest, reference, out));
  const std::string root = annotation(out.manifest, kRootAnnotation);
  out.root = parse_digest(root);
  if (!root.empty() && !out.root)
    return Status(Code::Registry, "the manifest of {} has the root '{}', sha256: and 64 hex digits expected", reference.text(),
                  cli::printable(root.substr(0, 100)));
  out.id = annotation(out.manifest, kIdAnnotation);
  out.version = annotation(out.manifest, out.is_policy ? kPolicyVersionAnnotation : kVersionAnnotation);
  out.variants = annotation(out.manifest, kVariantsAnnotation);
  return out;
}

}  // namespace mlc::registry
