// Statements about a file that are beside it: an in-toto statement in a DSSE envelope in a Sigstore bundle (JSON, version 0.3), signed
// by a key. model-signing, cosign and other verifiers read them; spec/signing.md, section 11, has the fields.
//
// The payload is signed and parsed as the same bytes. Bundles are read as strangers write them: what is not understood (certificates,
// entries of a log) is refused with a sentence, never passed over.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "signing/keys.h"

namespace mlc::signing {

inline constexpr size_t kMaxBundle = 8u << 20;
inline constexpr std::string_view kBundleType = "application/vnd.dev.sigstore.bundle.v0.3+json";

struct Bundle {
  std::string hint;     // what the signer calls its key; empty: nothing
  std::string payload;  // the statement's bytes
  std::vector<std::byte> signature;
};

// A bundle of this statement with one signature by `key`. Usage for an Ed25519 key: verifiers of bundles take ECDSA only.
[[nodiscard]] Result<std::string> sign_bundle(std::string_view payload, const PrivateKey& key);

// Malformed, naming `name` and the field.
[[nodiscard]] Result<Bundle> parse_bundle(std::string_view text, const std::string& name);

// Whether the bundle's signature is one of this key over its payload.
[[nodiscard]] bool is_signed_by(const Bundle& bundle, const PublicKey& key);

// What sign_bundle calls a key: 64 hex digits, SHA-256 of its PEM text.
[[nodiscard]] std::string hint_of(const PublicKey& key);

// The parts of a statement that every reader needs; what its predicate says is `predicate_type`'s affair.
struct StatementHead {
  std::string predicate_type;
  struct Subject {
    std::string name;
    std::vector<std::pair<std::string, std::string>> digests;  // algorithm and hex digits, as found
  };
  std::vector<Subject> subjects;
};
[[nodiscard]] Result<StatementHead> parse_statement_head(std::string_view payload, const std::string& name);

}  // namespace mlc::signing
