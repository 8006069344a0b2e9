#include "registry/texts/shapes.h"

#include "base/cli/json_tree.h"

namespace mlc::registry {
namespace {

constexpr const char* kImageOs = "linux";
constexpr const char* kArchitectures[] = {"amd64", "arm64", "riscv64"};
// One name for every container: names of local files are not published, and no reader takes a path from here.
constexpr const char* kFileName = "model.mlc";

// modelpack/model-spec, docs/config.md: a closed schema, so what a container needs beyond it stands in annotations.
std::string modelpack_config(const Packed& file) {
  cli::Json descriptor = {{"name", file.model.model.id}, {"version", std::to_string(file.model.model.version)}};
  if (!file.model.model.title.empty()) descriptor["title"] = file.model.model.title;
  if (!file.model.model.licence.empty()) descriptor["licenses"] = cli::Json::array({file.model.model.licence});
  const cli::Json config = {{"descriptor", std::move(descriptor)},
                            {"config", cli::Json{{"format", "mlc"}}},
                            {"modelfs", cli::Json{{"type", "layers"}, {"diffIds", cli::Json::array({digest_text(file.digest)})}}}};
  return config.print();
}

// What mounts an image looks at os and architecture only. The layer is data: the one config is right for all.
std::string image_config(const Packed& file) {
  const cli::Json config = {{"architecture", kArchitectures[0]},
                            {"os", kImageOs},
                            {"config", cli::Json::object()},
                            {"rootfs", cli::Json{{"type", "layers"}, {"diff_ids", cli::Json::array({digest_text(file.tar_digest)})}}},
                            {"history", cli::Json::array({cli::Json{{"created", "1970-01-01T00:00:00Z"}, {"created_by", "mlpack"}}})}};
  return config.print();
}

Annotations annotations_of(const Packed& file) {
  std::string variants;
  for (const format::Variant& variant : file.model.variants) variants += (variants.empty() ? "" : ",") + variant.name;
  return {{std::string(kRootAnnotation), digest_text(file.root)},
          {std::string(kIdAnnotation), file.model.model.id},
          {std::string(kVersionAnnotation), std::to_string(file.model.model.version)},
          {std::string(kVariantsAnnotation), variants}};
}

}  // namespace

Shape modelpack_shape(const Packed& file) {
  Shape shape;
  shape.config = modelpack_config(file);
  Manifest& manifest = shape.manifest;
  manifest.media_type = kManifestType;
  manifest.artifact_type = kModelManifestType;
  manifest.config = Descriptor{std::string(kModelConfigType), sha256(shape.config), shape.config.size(), {}, {}, {}, {}};
  // Consumers are split over which of the two names a file (modelpack/model-spec#58).
  manifest.layers = {{std::string(kModelWeightType), file.digest, file.size, {},
                      {{"org.cncf.model.filepath", kFileName}, {"org.opencontainers.image.title", kFileName}}, {}, {}}};
  manifest.annotations = annotations_of(file);
  return shape;
}

Shape image_shape(const Packed& file) {
  Shape shape;
  shape.config = image_config(file);
  Manifest& manifest = shape.manifest;
  manifest.media_type = kManifestType;
  manifest.config = Descriptor{std::string(kImageConfigType), sha256(shape.config), shape.config.size(), {}, {}, {}, {}};
  manifest.layers = {{std::string(kImageLayerType), file.tar_digest, file.tar_size, {}, {}, {}, {}}};
  manifest.annotations = annotations_of(file);
  return shape;
}

Manifest index_of_both(const Packed& file, std::string_view artifact, std::string_view image) {
  Manifest index;
  index.is_index = true;
  index.media_type = kIndexType;
  index.manifests = {{std::string(kManifestType), sha256(artifact), artifact.size(), std::string(kModelManifestType), {}, {}, {}}};
  for (const char* architecture : kArchitectures)
    index.manifests.push_back({std::string(kManifestType), sha256(image), image.size(), {}, {}, kImageOs, architecture});
  index.annotations = annotations_of(file);
  return index;
}

}  // namespace mlc::registry
