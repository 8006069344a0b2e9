// Trusting a key from now on, as a function: what `mlpack trust` and `mlrun trust` do.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace mlc::trust {

struct TrustOptions {
  std::string source;               // public key in PEM, or a container whose signer is meant
  std::string expect_id;            // key id or at least 16 digits of it; needed for a container
  std::vector<std::string> models;  // globs; empty: every model
  std::string tool;                 // whose command the help of an error names: "mlrun"
};
struct TrustResult {
  std::string key_id, path;
  std::optional<std::vector<std::string>> models_before;  // the scope that was replaced, if the key was trusted already
};
// Of a container only the signatures are looked at. Usage: a container and no id, for a file cannot say whom to trust.
// Unsigned, Untrusted: the container has no such signer.
[[nodiscard]] Result<TrustResult> trust_key(const TrustOptions& options);

}  // namespace mlc::trust
