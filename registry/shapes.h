// What a container looks like in a registry: the manifest and the config around it (spec/registry.md, section 2). Equal files give equal
// bytes: there are no times and no names of files in them.
#pragma once

#include <string>

#include "registry/manifest.h"
#include "schema/manifest.h"

namespace mlc::registry {

// A file that goes into a registry: what its own manifest says, and its bytes by digest.
struct Packed {
  const format::Manifest& model;
  Digest root{};
  Digest digest{};  // SHA-256 of the file
  uint64_t size = 0;
};

struct Shape {
  std::string config;
  Manifest manifest;
};

// One layer, which is the file itself.
[[nodiscard]] Shape modelpack_shape(const Packed& file);

[[nodiscard]] Annotations annotations_of(const Packed& file);

}  // namespace mlc::registry
