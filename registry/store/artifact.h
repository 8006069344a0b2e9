// A container in a registry, or a policy bundle: the manifest that a reference leads to, and which layers are the file.
#pragma once

#include <optional>
#include <string>
#include <vector>

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
  std::vector<Descriptor> blobs;  // the layer with the file, or those that joined in this order are it: at most kMaxParts
  uint64_t bytes = 0;             // of all of them
  bool is_policy = false;   // no container but a policy bundle
  bool is_tar = false;      // one in which it is models/model.mlc
  // What the annotations say of the file; nothing vouches for them unless the reference names a digest.
  std::optional<Digest> root;
  std::string id, version, variants;

  // The user wrote down the digest: who put the artifact there need not be believed.
  [[nodiscard]] bool is_pinned() const { return reference.digest.has_value(); }
};

// Of an index the manifest of a ModelPack artifact is taken, or the only one. An error of code 30 where nothing of it is a container or a policy bundle.
[[nodiscard]] Result<Artifact> find_artifact(Client& client, const Reference& reference);

}  // namespace mlc::registry
