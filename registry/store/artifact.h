// A container in a registry: the manifest that a reference leads to, and where the file is in its layers.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "registry/net/client.h"
#include "registry/texts/manifest.h"
#include "registry/texts/reference.h"

namespace mlc::registry {

struct Artifact {
  Reference reference;      // as asked for
  FetchedManifest fetched;  // of the manifest, not of an index that led to it
  Digest named{};           // what the reference leads to: that manifest, or the index that names it
  Manifest manifest;
  Descriptor blob;          // the layer with the file
  bool is_tar = false;      // in which it is models/model.mlc; else it is the file
  // What the annotations say of the file; nothing vouches for them unless the reference names a digest.
  std::optional<Digest> root;
  std::string id, version, variants;

  // The user wrote down the digest: who put the artifact there need not be believed.
  [[nodiscard]] bool is_pinned() const { return reference.digest.has_value(); }
};

// Of an index the manifest of a ModelPack artifact is taken, or the only one. An error of code 30 where nothing of it is a container.
[[nodiscard]] Result<Artifact> find_artifact(Client& client, const Reference& reference);

}  // namespace mlc::registry
