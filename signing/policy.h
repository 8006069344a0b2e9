// Trust: which keys count, and what a container may do. Trust lives outside the file; the file only offers keys.
//
// Keys come from the user's trust folder, from the command line and from a policy file. Where a rule of a policy file
// says `strict`, the user's folder does not count. Three steps, as in the open sequence of spec/signing.md:
//
//   1. authenticate(core, manifest, tail)   before anything of the manifest is parsed: the signature block, the
//                                           signatures, the statement, its digests against the bytes at hand
//   2. decide_signer(authentication, ...)   still before that: whose signatures count, for the model and version that the
//                                           statement names; revocation, expiry, minimum version, versions seen
//   3. decide_model(verdict, facts, ...)    after the manifest is validated: that it is the model of the statement, what
//                                           an unsigned file may do, completeness
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
#include <memory>
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
  bool require_marks = false;                  // refused where the versions seen cannot be remembered
};

// A trust policy file (`trust.json`).
struct PolicyFile {
  std::string path;
  std::vector<TrustedKey> keys;
  std::vector<PolicyRule> rules;  // the first that matches a model id decides; none: strict, threshold 1
  std::vector<Digest> revoked_keys;
  std::vector<Digest> revoked_roots;
  // Policies that travel (rotation/policy_bundle.h): which one this is, until when it may be installed, and whose signatures the next
  // one needs. Of their keys only key, name and period are given.
  uint64_t version = 0;  // 0: none
  uint64_t expires = 0;  // seconds since 1970, 0: never
  std::vector<TrustedKey> administrators;
  uint32_t administrators_needed = 0;  // how many of them; 0: there are none
  // --trust, --allow-unsigned and --allow-older do not count beside it. For the system's policy also: another policy may
  // only refuse more than this one.
  bool binding = false;
};
// Strict: unknown keys, duplicate keys and ids, wrong types are errors (Usage, with line and column).
[[nodiscard]] Result<PolicyFile> parse_policy(Bytes json, const std::string& name);
// The one entry of `keys` that a file of the trust folder holds.
[[nodiscard]] Result<TrustedKey> parse_trusted_key(Bytes json, const std::string& name);
[[nodiscard]] std::string encode_trusted_key(const PublicKey& key, std::string_view name,
                                             std::span<const std::string> models);

// /etc/mlc/trust.json; on Windows the same below %ProgramData%.
[[nodiscard]] std::string system_policy_path();

struct TrustSources {
  std::string config_folder;               // its trust/ and trust.json are read; empty: neither
  std::vector<std::string> key_files;      // --trust KEY.pem: any failure is an error
  std::vector<std::string> key_texts;      // the same, as PEM in memory
  std::string policy_file;                 // --policy; empty: the system's, else <config_folder>/trust.json, if there
  std::string system_policy = system_policy_path();  // the administrator's; empty: none
};
// What a tool starts from: the user's folder (none if there is no home) and the system's policy.
[[nodiscard]] TrustSources default_trust_sources();

class TrustSet {
 public:
  // Reads the sources. Only what does not exist is none: what is there and cannot be read (E3305), or can be changed by
  // others than this user and root (E3304, owned_file.h), is an error, and so is a damaged policy or --trust file. A
  // damaged key of the trust folder grants nothing and becomes a warning.
  [[nodiscard]] static Result<TrustSet> load(const TrustSources& sources);
  // For tools and tests: the given keys, no files.
  [[nodiscard]] static TrustSet of(std::vector<TrustedKey> keys, std::optional<PolicyFile> policy = std::nullopt,
                                   std::optional<PolicyFile> binding = std::nullopt);

  const std::vector<TrustedKey>& keys() const { return keys_; }
  const std::vector<std::string>& warnings() const { return warnings_; }
  bool has_policy() const { return policy_.has_value(); }
  bool is_binding() const { return policy_ && policy_->binding; }
  // The system's binding policy with the keys that count beside it, where policy() is another one; else null. A file may
  // do what both allow.
  const TrustSet* binding() const { return binding_.get(); }
  const std::string& policy_path() const;  // empty without a policy

  // The rule for a model id. Without a policy: level Default, threshold 1.
  PolicyRule rule_for(std::string_view model_id) const;
  // Whether this policy refuses an unsigned file whatever model it says it is: each rule is strict, and the wish for
  // unsigned files does not count or is not there.
  bool demands_signer(bool allow_unsigned) const;
  // The same of this policy or the binding one: the manifest of such a file is not parsed.
  bool refuses_unsigned(bool allow_unsigned) const;
  // Every entry with exactly this key (one key may stand under several names and scopes).
  std::vector<const TrustedKey*> find(Bytes spki) const;
  bool key_revoked(const Digest& id) const;
  bool root_revoked(const Digest& root) const;

 private:
  void add_keys_of_policy();

  std::vector<TrustedKey> keys_;

  std::optional<PolicyFile> policy_;
  std::shared_ptr<const TrustSet> binding_;
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

class VersionMarks;

struct DecideOptions {
  bool allow_unsigned = false;
  bool allow_older = false;               // a version below one that was accepted before is a warning
  const VersionMarks* marks = nullptr;    // the versions seen (version_marks.h); null: not remembered
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
  std::vector<Digest> signers;        // key ids that count, if Trusted
  bool marks_required = false;        // by the rule: the version has to be remembered
  std::vector<std::string> warnings;  // what a lenient level let pass; unusable files of the trust folder
};

// Step 2. Of a signed file the verdict is complete but for step 3, which can only refuse. Of an unsigned file it is
// Refused where every rule wants a signer, and otherwise PortableOnly until step 3 knows the model.
[[nodiscard]] Verdict decide_signer(const Authentication& authentication, const TrustSet& trust,
                                    const DecideOptions& options);

// Step 3, with the verdict of step 2, which is not Refused, and the same arguments.
[[nodiscard]] Verdict decide_model(const Verdict& signer, const Authentication& authentication, const ModelFacts& facts,
                                   const TrustSet& trust, const DecideOptions& options);

// What this trust says of a key that signed something else about the model: a statement beside the file.
[[nodiscard]] SignatureReport judge_key(const PublicKey& key, const std::string& model_id, const Authentication& authentication,
                                        const TrustSet& trust, const DecideOptions& options);

// What is known after step 2 of what native code may do, for callers that keep files away from their privileges until they know. Never
// and Certain hold whatever the manifest says, unless step 3 refuses the file. `signer` is the verdict of step 2.
enum class NativeCode : uint8_t { Never, Depends, Certain };
[[nodiscard]] NativeCode native_code_before_manifest(const Verdict& signer, const Authentication& authentication,
                                                     const TrustSet& trust, const DecideOptions& options);

[[nodiscard]] std::string_view name_of(Trust trust);            // "trusted", "unknown-signer", ...
[[nodiscard]] std::string_view name_of(MayRun may_run);         // "all", "portable", "none"
[[nodiscard]] std::string_view name_of(SignatureStatus status); // "ok", "unknown-key", ...

}  // namespace mlc::signing
