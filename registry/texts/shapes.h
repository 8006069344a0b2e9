// What a container looks like in a registry: manifests and configs around it (spec/registry.md, section 2). Equal files give equal
// bytes: there are no times and no names of files in them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "registry/texts/manifest.h"
#include "schema/manifest.h"

namespace mlc::registry {

struct PartOfFile {
  uint64_t offset = 0, size = 0;
  Digest digest{};
};

// What artifacts without a config have.
inline constexpr std::string_view kEmptyConfigType = "application/vnd.oci.empty.v1+json", kEmptyConfig = "{}";
[[nodiscard]] Descriptor empty_config();

// A file that goes into a registry: what its own manifest says, and its bytes by digest.
struct Packed {
  const format::Manifest& model;
  Digest root{};
  Digest digest{};      // SHA-256 of the file
  uint64_t size = 0;
  std::vector<PartOfFile> parts;  // where it is cut
  Digest tar_digest{};  // and of the tar around it (tar.h), where an image is made
  uint64_t tar_size = 0;
};

struct Shape {
  std::string config;
  Manifest manifest;
};

// The layer is the file itself.
[[nodiscard]] Shape modelpack_shape(const Packed& file);
// The layers are its parts (parts.h).
[[nodiscard]] Shape parts_shape(const Packed& file);
// The layer is a tar with the file in it: what mounts images.
[[nodiscard]] Shape image_shape(const Packed& file);
// Both: the artifact first, then the image for each of the platforms that have programs here. Texts of the two manifests.
[[nodiscard]] Manifest index_of_both(const Packed& file, std::string_view artifact, std::string_view image);

}  // namespace mlc::registry
