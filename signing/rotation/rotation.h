// Whether a policy may follow another one (spec/signing.md, section 12; the rules are those by which TUF replaces its
// root): signed by enough administrators of the policy that is there and by enough of its own, exactly one version
// above it, not expired, and not below one that was installed here before. Whatever fails, the policy that is there
// stays.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "signing/rotation/policy_bundle.h"
#include "signing/version_marks.h"

namespace mlc::signing {

// Under this name in the place of a model's id, the list of versions beside an installed policy remembers what was
// installed.
inline constexpr std::string_view kPolicyMark = "mlc/policy";

// What a chain is judged against.
struct RotationBase {
  std::optional<PolicyFile> policy;   // that is there
  std::string text;                   // and its bytes
  std::optional<PublicKey> first;     // the root of a first installation: the key that has to have signed
  std::optional<VersionMarks> marks;  // of earlier installations
  uint64_t now = 0;                   // seconds since 1970
};
struct Rotation {
  bool already = false;                    // the last bundle is what is there, byte for byte
  std::vector<const TrustedKey*> signers;  // the last bundle's own administrators that signed it, of that bundle
};
// Of the chain's last bundle, which the others lead to. Those of versions that are there are passed over.
//   Malformed 3401     not a chain
//   Untrusted 3402     too few administrators
//   BadSignature 3403  one of theirs is wrong
//   Expired 3404       it may not be installed any more
//   Expired 3405       older, or of this version and different
//   NotFound 3406      versions between are missing
//   Usage 3407         nothing vouches for it: no administrators and no root; or a root where there are administrators
[[nodiscard]] Result<Rotation> judge_rotation(std::span<const PolicyBundle> chain, const RotationBase& base);
// The same of a chain alone: enough of its own administrators signed the first, each leads to the next, the last has not
// expired.
[[nodiscard]] Status judge_alone(std::span<const PolicyBundle> chain, uint64_t now);

// The own administrators whose signatures count now.
[[nodiscard]] Result<std::vector<const TrustedKey*>> own_signers(const PolicyBundle& bundle, uint64_t now);

struct InstallOptions {
  std::string path;                // of the policy that is replaced, or made
  std::vector<std::string> files;  // of bundles, the oldest first
  std::string first_key;           // file of the root's public key; empty: the policy that is there decides
  uint64_t now = 0;
};
struct InstallResult {
  uint64_t version = 0, version_before = 0;  // 0: there was none, or one without a version
  uint64_t expires = 0;
  bool already = false;              // nothing was written
  std::vector<std::string> signers;  // names of the policy's administrators
};
// Complete or not at all, under a lock of the policy's folder, which is made if need be. The version is remembered
// there.
[[nodiscard]] Result<InstallResult> install_policy(const InstallOptions& options);

// The bundles of all files in their order, for those who read them as one chain.
[[nodiscard]] Result<std::vector<PolicyBundle>> load_chain(std::span<const std::string> files);
// The policy in a file, or the last one of a file of bundles, and its bytes.
[[nodiscard]] Result<RotationBase> base_in(const std::string& path);

}  // namespace mlc::signing
