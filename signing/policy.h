// Trust: which keys count, and what a container may do. Trust lives outside the file; the file only offers keys.
//
// Keys come from the user's trust folder, from the command line and from a policy file. Where a rule of a policy file
// says `strict`, the user's folder does not count. Two steps, as in the open sequence of spec/signing.md:
//
//   1. authenticate(core, manifest, tail)   before anything of the manifest is parsed: the signature block, the
//                                           signatures, the statement, its digests against the bytes at hand
//   2. decide(authentication, facts, ...)   after the manifest is validated: scope, threshold, expiry, revocation,
//                                           minimum version; what may run
//
//   file                                     no policy       strict            --allow-unsigned
//   signed, threshold met, in scope          all variants    all variants      all variants
//   signed by an unknown key                 portable only   refused, 11       all variants
//   unsigned                                 portable only   refused, 10       all variants
//   signature or digest wrong                refused, 12     refused, 12       refused, 12
//   expired, revoked, version too low        refused, 13     refused, 13       refused, 13
//
// Values own what they hold; a TrustSet is constant after load and may be shared by threads.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "signing/envelope.h"
#include "signing/hash_tree.h"
#include "signing/keys.h"

namespace mlc::signing {

enum class Level : uint8_t { Default, Strict, Permissive, Audit, Skip };  // Default: no rule, no policy file
enum class KeyOrigin : uint8_t { UserFolder, CommandLine, PolicyFile };
enum class KeyRole : uint8_t { Publisher, Extender };

struct TrustedKey {
  PublicKey key;
  std::string name;                 // what messages show: "local:<id>", a file's stem, the policy's id
  std::vector<std::string> models;  // globs; empty: every model
  uint64_t not_before = 0;          // seconds since 1970
  uint64_t not_after = 0;           // 0: never ends
  KeyRole role = KeyRole::Publisher;
  KeyOrigin origin = KeyOrigin::UserFolder;
};

struct PolicyRule {
  std::vector<std::string> models;
  Level level = Level::Strict;
  uint32_t threshold = 1;  // distinct keys
  uint64_t min_version = 0;
  bool require_complete = false;               // no segment left out
  std::vector<std::string> require_variants;   // names that must be present
};

// A trust policy file (`trust.json`).
struct PolicyFile {
  std::string path;
  std::vector<TrustedKey> keys;
  std::vector<PolicyRule> rules;  // the first that matches a model id decides; none: strict, threshold 1
  std::vector<Digest> revoked_keys;
  std::vector<Digest> revoked_roots;
};
// Strict: unknown keys, duplicate keys and ids, wrong types are errors (Usage, with line and column).
[[nodiscard]] Result<PolicyFile> parse_policy(Bytes json, const std::string& name);
// The one entry of `keys` that a file of the trust folder holds.
[[nodiscard]] Result<TrustedKey> parse_trusted_key(Bytes json, const std::string& name);
[[nodiscard]] std::string encode_trusted_key(const PublicKey& key, std::string_view name,
                                             std::span<const std::string> models);

struct TrustSources {
  std::string config_folder;               // its trust/ and trust.json are read; empty: neither
  std::vector<std::string> key_files;      // --trust KEY.pem: any failure is an error
  std::string policy_file;                 // --policy; empty: <config_folder>/trust.json where it exists
};
// What a tool starts from: the user's folder (none if there is no home) and /etc/mlc/trust.json where it exists.
[[nodiscard]] TrustSources default_trust_sources();

class TrustSet {
 public:
  // Reads the sources. A damaged file of the trust folder, or a folder that others may write, grants nothing and
  // becomes a warning; a damaged policy file or --trust file is an error.
  [[nodiscard]] static Result<TrustSet> load(const TrustSources& sources);
  // For tools and tests: the given keys, no files.
  [[nodiscard]] static TrustSet of(std::vector<TrustedKey> keys, std::optional<PolicyFile> policy = std::nullopt);

  const std::vector<TrustedKey>& keys() const { return keys_; }
  const std::vector<std::string>& warnings() const { return warnings_; }
  bool has_policy() const { return policy_.has_value(); }
  const std::string& policy_path() const;  // empty without a policy

  // The rule for a model id. Without a policy: level Default, threshold 1.
  PolicyRule rule_for(std::string_view model_id) const;
  // Every entry with exactly this key (one key may stand under several names and scopes).
  std::vector<const TrustedKey*> find(Bytes spki) const;
  bool key_revoked(const Digest& id) const;
  bool root_revoked(const Digest& root) const;

 private:
  std::vector<TrustedKey> keys_;
  std::optional<PolicyFile> policy_;
  std::vector<std::string> warnings_;
};

// `*` stands for any characters, '/' included; everything else for itself. Linear in pattern times text.
[[nodiscard]] bool glob_matches(std::string_view glob, std::string_view text);

// One signature of the file, checked against its own key.
struct CheckedSignature {
  std::optional<PublicKey> key;  // none: the bytes are no supported key
  bool valid = false;            // it signs the payload under that key
};

// The outcome of step 1. Built by authenticate only, so holding one means: the block is well-formed and, if the file
// is signed, at least one signature is valid and the statement names exactly these core and manifest bytes.
class Authentication {
 public:
  const Digest& root() const { return root_; }
  const Digest& manifest_digest() const { return manifest_; }
  bool is_signed() const { return statement_.has_value(); }
  const std::optional<Statement>& statement() const { return statement_; }
  const std::vector<CheckedSignature>& signatures() const { return signatures_; }

 private:
  friend Result<Authentication> authenticate(std::span<const std::byte, kCoreSize>, Bytes, Bytes);
  Authentication() = default;

  Digest root_{};
  Digest manifest_{};
  std::optional<Statement> statement_;
  std::vector<CheckedSignature> signatures_;
};

// Step 1. `tail` is the file from body_size to the end, empty for an unsigned file. Malformed: the block is damaged.
// BadSignature: no signature is valid, or the statement is about other bytes. Whose key it was is step 2's question.
[[nodiscard]] Result<Authentication> authenticate(std::span<const std::byte, kCoreSize> core, Bytes manifest,
                                                  Bytes tail);

// What the validated manifest says, for comparison with the statement and the rules.
struct ModelFacts {
  std::string id;
  uint64_t version = 0;
  uint64_t not_after = 0;
  bool complete = true;                  // no segment is absent
  std::vector<std::string> variants;     // names of the variants whose segments are all present
};

struct DecideOptions {
  bool allow_unsigned = false;
  uint64_t now = 0;         // seconds since 1970; the caller's clock
  std::string file;         // how messages name the container
};

enum class Trust : uint8_t {
  Trusted,
  UnknownSigner,
  Unsigned,
  BadSignature,
  Expired,
  Revoked,
  TooOld,
  RequirementNotMet
};
enum class MayRun : uint8_t { AllVariants, PortableOnly, Refused };
enum class SignatureStatus : uint8_t {
  Ok,
  UnknownKey,
  OutOfScope,
  WrongRole,
  KeyExpired,
  KeyRevoked,
  Duplicate,
  Invalid
};

struct SignatureReport {
  std::string key_id;  // hex; empty if the bytes are no key
  std::string name;    // of a trusted key, else empty
  SignatureStatus status = SignatureStatus::Invalid;
};

struct Verdict {
  Trust trust = Trust::Unsigned;
  MayRun may_run = MayRun::Refused;
  Status status;  // OK unless refused; then code (10..13, 5), sentence, help
  std::string reason;                 // one sentence, always set: "signed by local:ab12..."
  std::string help;                   // the command that would trust the signer; empty if there is none
  std::vector<SignatureReport> signatures;
  std::vector<std::string> warnings;  // what a lenient level let pass; unusable files of the trust folder
};

// Step 2.
[[nodiscard]] Verdict decide(const Authentication& authentication, const ModelFacts& facts, const TrustSet& trust,
                             const DecideOptions& options);

// What is known between the steps of what native code may do, for who keeps files away from its privileges until it knows.
// Never and Certain hold whatever the manifest says, unless step 2 refuses the file.
enum class NativeCode : uint8_t { Never, Depends, Certain };
[[nodiscard]] NativeCode native_code_before_manifest(const Authentication& authentication, const TrustSet& trust,
                                                     const DecideOptions& options);

[[nodiscard]] std::string_view name_of(Trust trust);            // "trusted", "unknown-signer", ...
[[nodiscard]] std::string_view name_of(MayRun may_run);         // "all", "portable", "none"
[[nodiscard]] std::string_view name_of(SignatureStatus status); // "ok", "unknown-key", ...

}  // namespace mlc::signing
