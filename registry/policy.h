// Policy bundles (spec/signing.md, section 12) in registries: artifacts of one small layer. Whether an administrator is to be believed is decided
// where a bundle is installed; here it is looked at for its form only.
#pragma once

#include <string>

#include "base/status.h"
#include "registry/pull.h"
#include "registry/push.h"
#include "registry/store/artifact.h"

namespace mlc::registry {

// By its first byte: a container, or a program with one, begins otherwise.
[[nodiscard]] bool is_policy_file(const std::string& path);

// Usage where something is asked for that containers only have; Malformed where the file is no chain of bundles.
[[nodiscard]] Result<PushResult> push_policy(const PushOptions& options);

// What find_artifact found with `client`. The file is there complete, with the digest that the manifest names and the form of a chain of bundles, or not at all. It takes
// the place of another file only where the options say so.
[[nodiscard]] Result<PulledPolicy> pull_policy(const PullOptions& options, Client& client, const Artifact& artifact);

}  // namespace mlc::registry
