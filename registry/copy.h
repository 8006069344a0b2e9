// copy: an artifact from one place to another, with all that refers to it: signatures, attestations (spec/registry.md, section 6).
#pragma once

#include <string>

#include "base/status.h"
#include "registry/net/client.h"
#include "registry/texts/reference.h"

namespace mlc::registry {

inline constexpr size_t kMaxCopiedManifests = 4096;
inline constexpr int kMaxCopyDepth = 8;

// Either a reference, or "oci:FOLDER[:TAG]".
struct CopyOptions {
  std::string from, to;
  ClientOptions client;
};

struct CopyResult {
  Digest digest{};          // of what the new tag leads to, the same as before
  size_t manifests = 0;     // that were copied, with indexes and referrers
  size_t referrers = 0;     // of these
  uint64_t bytes = 0;       // of blobs that were not there
  std::string to;           // with its tag
};

// What is copied has the digests that name it, down to the last blob; the tag is written last.
[[nodiscard]] Result<CopyResult> copy(const CopyOptions& options);

}  // namespace mlc::registry
