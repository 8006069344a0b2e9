#include "registry/texts/shapes.h"

#include <cstdio>
#include <span>

#include "base/cli/json_tree.h"

namespace mlc::registry {
namespace {

constexpr const char* kImageOs = "linux";
constexpr const char* kArchitectures[] = {"amd64", "arm64", "riscv64", "loong64"};
// One name for every container: names of local files are not published, and no reader takes a path from here.
constexpr const char* kFileName = "model.mlc";

// modelpack/model-spec, docs/config.md: a closed schema, so what a container needs beyond it stands in annotations.
std::string modelpack_config(const Packed& file, std::span<const Descriptor> layers) {
  cli::Json descriptor = {{"name", file.model.model.id}, {"version", std::to_string(file.model.model.version)}};
  if (!file.model.model.title.empty()) descriptor["title"] = file.model.model.title;
  if (!file.model.model.licence.empty()) descriptor["licenses"] = cli::Json::array({file.model.model.licence});
  cli::Json diff_ids = cli::Json::array();
  for (const Descriptor& layer : layers) diff_ids.push_back(digest_text(layer.digest));
  const cli::Json config = {{"descriptor", std::move(descriptor)},
                            {"config", cli::Json{{"format", "mlc"}}},
                            {"modelfs", cli::Json{{"type", "layers"}, {"diffIds", std::move(diff_ids)}}}};
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

// Consumers are split over which of the two names a file (modelpack/model-spec#58).
Descriptor file_layer(const Digest& digest, uint64_t size, const std::string& name) {
  return {std::string(kModelWeightType), digest, size, {}, {{"org.cncf.model.filepath", name}, {"org.opencontainers.image.title", name}}, {}, {}};
}

Shape model_shape(const Packed& file, std::vector<Descriptor> layers) {
  Shape shape;
  shape.config = modelpack_config(file, layers);
  Manifest& manifest = shape.manifest;
  manifest.media_type = kManifestType;
  manifest.artifact_type = kModelManifestType;
  manifest.config = Descriptor{std::string(kModelConfigType), sha256(shape.config), shape.config.size(), {}, {}, {}, {}};
  manifest.layers = std::move(layers);
  manifest.annotations = annotations_of(file);
  return shape;
}

}  // namespace

Descriptor empty_config() { return {std::string(kEmptyConfigType), sha256(kEmptyConfig), kEmptyConfig.size(), {}, {}, {}, {}}; }

Shape modelpack_shape(const Packed& file) { return model_shape(file, {file_layer(file.digest, file.size, kFileName)}); }

Shape parts_shape(const Packed& file) {
  std::vector<Descriptor> layers;
  for (const PartOfFile& part : file.parts) {
    // `cat` of all of them in the order of a shell is the file, and a reader opens the folder with them.
    layers.push_back(file_layer(part.digest, part.size, kFileName + format::part_ending(layers.size())));
  }
  Shape shape = model_shape(file, std::move(layers));
  shape.manifest.annotations[std::string(kPartsAnnotation)] = std::to_string(file.parts.size());
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
