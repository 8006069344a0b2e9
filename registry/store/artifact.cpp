#include "registry/store/artifact.h"

#include <algorithm>

#include "base/cli/report.h"
#include "base/counted.h"

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

// The file itself, or an image with one uncompressed layer around it.
Status find_layer(const Manifest& manifest, const Reference& reference, Artifact& out) {
  std::vector<Descriptor> files, tars;
  for (const Descriptor& layer : manifest.layers) {
    if (layer.media_type == kModelWeightType) files.push_back(layer);
    if (layer.media_type == kImageLayerType) tars.push_back(layer);
  }
  out.is_tar = files.empty() && tars.size() == 1;
  if (out.is_tar || files.size() == 1) {
    out.blob = out.is_tar ? tars.front() : files.front();
    return ok();
  }
  std::string types;
  for (size_t k = 0; k < std::min<size_t>(manifest.layers.size(), 4); ++k) types += (k == 0 ? "" : " ") + cli::printable(manifest.layers[k].media_type);
  return no_container(reference, counted(files.size(), "layer") + " of " + std::string(kModelWeightType) + ", 1 expected, or 1 of " +
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
  out.version = annotation(out.manifest, kVersionAnnotation);
  out.variants = annotation(out.manifest, kVariantsAnnotation);
  return out;
}

}  // namespace mlc::registry
