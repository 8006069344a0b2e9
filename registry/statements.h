// Statements beside a container (signing/bundle.h) in a registry: each is an artifact that refers to the manifest of the container, as
// cosign and other readers look for them (spec/registry.md, section 7).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "registry/store/store.h"
#include "registry/texts/manifest.h"

namespace mlc::registry {

// What of a container statements may name.
struct Stated {
  Digest file{};  // SHA-256 of its bytes
  Digest root{};
};

struct StatementOptions {
  std::vector<std::string> files;  // bundles to be attached
  bool sign = false;               // and one that signs the manifest, by this key:
  std::string key_file;            // empty: the user's own
  std::string passphrase;          // where that of an encrypted key comes from

  bool any() const { return sign || !files.empty(); }
};

struct Statement {
  std::string text, predicate_type;
};
// The bundles, read before anything is sent. An error if one is none or is about another file.
[[nodiscard]] Result<std::vector<Statement>> read_statements(const StatementOptions& options, const Stated& stated);
// That the manifest is the key's owner's: a statement of cosign's type about its digest.
[[nodiscard]] Result<Statement> manifest_signature(const StatementOptions& options, const Digest& manifest);

// Puts each as a referrer of `subject`, whose type, digest and size are given, and lists them.
[[nodiscard]] Status put_statements(Store& store, const Descriptor& subject, std::span<const Statement> statements);

// A registry with the interface lists a manifest by its subject; for others, and for layouts, the listing is a manifest of ours under a
// tag. Which of the two a reader will ask is not known, so both are there: `added` joins what is listed.
[[nodiscard]] Status list_referrers(Store& store, const Digest& subject, std::vector<Descriptor> added);

}  // namespace mlc::registry
