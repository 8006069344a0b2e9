// What is stated about a container beside it: in-toto statements (spec/signing.md, section 11). Equal files give equal bytes: there
// are no times, hosts or paths in them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/cli/json_tree.h"
#include "schema/manifest.h"
#include "signing/hash_tree.h"

namespace mlc::cli {

inline constexpr std::string_view kOmsPredicate = "https://model_signing/signature/v1.0";
inline constexpr std::string_view kProvenancePredicate = "https://slsa.dev/provenance/v1";
inline constexpr std::string_view kBillPredicate = "https://cyclonedx.org/bom";

// The container that is spoken of. `manifest` must outlive it.
struct Subject {
  std::string name;  // a base name
  Digest file{};     // SHA-256 of all its bytes
  Digest root{};
  const format::Manifest& manifest;
};

// A module of a variant and SHA-256 of its decoded bytes, which are what `mlpack extract --what modules` writes.
struct ModuleDigest {
  std::string name, target;
  Digest digest{};
};

// OpenSSF model signing, version 1.0: the one file of a model, by SHA-256.
[[nodiscard]] std::string oms_statement(std::string_view name, const Digest& file);
// A statement of any other type. Its subject has the digest of the file and the root, which stays when signatures are added.
[[nodiscard]] std::string statement_about(const Subject& subject, std::string_view predicate_type, Json predicate);

// SLSA provenance, version 1. `builder_id`: a URI that says which machine or service built the file.
[[nodiscard]] Json provenance_of(const Subject& subject, std::string_view builder_id);
// CycloneDX 1.6: the model with its card, what it was made of, the code that it has.
[[nodiscard]] Json bill_of_materials(const Subject& subject, const std::vector<ModuleDigest>& modules);

}  // namespace mlc::cli
