// pull: a container from a registry, checked while it arrives. The steps stand in spec/registry.md, section 4.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "registry/store/artifact.h"
#include "registry/net/client.h"
#include "registry/texts/reference.h"

namespace mlc::registry {

struct PullOptions {
  Reference reference;
  std::string output;
  std::vector<std::string> from;  // containers whose leaves are not fetched again
  std::string policy;             // empty: the user's
  bool keep_host = false;         // leave out what this machine cannot run
  bool force = false;             // replace an output that is no container
  ClientOptions client;
};

struct PulledPolicy {
  uint64_t version = 0;  // of the last of the chain, and so is the rest
  std::string expires;   // UTC
  size_t bundles = 0, signatures = 0;
};

struct PullResult {
  Artifact artifact;
  std::optional<PulledPolicy> policy;  // instead of a container; of what follows then the bytes only
  Digest root{};
  std::string id, reason;     // why the file may be here: "signed by prod-2026"
  std::string trust;          // "trusted", "unsigned", ...
  uint64_t version = 0, bytes = 0;
  uint64_t bytes_fetched = 0;  // from the registry, with manifests
  uint64_t bytes_reused = 0;   // from files that were there
  uint64_t requests = 0;       // for parts of the blob
  bool is_whole = false;       // the registry gives no ranges
  std::vector<std::string> absent;  // variants that were left out for this machine
  uint64_t bytes_written = 0;
  std::vector<std::string> warnings;
};

// The file is there complete and checked, or not at all. Code 30: registry and network; 10 to 13: the policy, a signature, a digest; 4: no container.
[[nodiscard]] Result<PullResult> pull(const PullOptions& options);

}  // namespace mlc::registry
