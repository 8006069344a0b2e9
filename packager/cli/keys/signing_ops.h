// keygen, sign and verify as functions: what the commands of mlpack do, without flags and printing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "packager/cli/attest/bundle_check.h"
#include "packager/cli/look.h"
#include "schema/manifest.h"
#include "signing/keys.h"
#include "signing/policy.h"

namespace mlc::cli {

struct KeygenOptions {
  signing::KeyType type = signing::KeyType::P256;
  std::string output;  // private key; its public half goes to the same name with .pub.pem. Empty: the user's own key
};
struct KeygenResult {
  std::string name, key_id, private_path, public_path;
};
// Never overwrites a key. The user's own key is P-256 and made only if there is none.
[[nodiscard]] Result<KeygenResult> keygen(const KeygenOptions& options);

struct SignOptions {
  std::string file;
  std::string key_file;                // empty: the user's own key; with `attach` a public one
  std::string passphrase;              // where that of an encrypted key comes from (read_passphrase in signing/files/file.h)
  std::string attach;                  // file of a signature that was made elsewhere: its bytes, ECDSA's in DER
  std::string output;                  // empty: the file itself
  std::optional<uint64_t> not_after;   // seconds since 1970; at most the manifest's
  bool replace = false;                // drop the signatures that are there
  bool force = false;                  // overwrite an output that is no container
};
struct SignResult {  // write_signing_input: without key
  Digest root{};
  std::string key_name, key_id, output;
  size_t num_signatures = 0;
  uint64_t not_after = 0;  // what the signatures state, seconds since 1970; 0: no end
};
// Every segment is hashed before the signature is made: what is signed is good.
[[nodiscard]] Result<SignResult> sign_container(const SignOptions& options);

// For keys that do not leave a machine of their own: writes what has to be signed to the file `to`, which must not exist. The same
// options with `attach` then take the signature. Nothing else is written.
[[nodiscard]] Result<SignResult> write_signing_input(const SignOptions& options, const std::string& to);

struct VerifyOptions {
  std::string file;
  bool deep = false;                // every leaf of every weight
  std::vector<std::string> keys;    // if any: only these keys count, no folder, no policy
  std::string policy;
  std::string expect_root, expect_id;
  std::vector<std::string> bundles;  // files of statements that must be about this file, by a trusted key
};
// A file of a statement, read before the container is.
struct BundleText {
  std::string path;
  Result<std::string> text;
};
struct VerifyResult {
  Digest root{};
  std::string model_id;
  uint64_t model_version = 0;
  uint64_t not_after = 0;  // of the signatures, else of the model; seconds since 1970, 0: no end
  signing::Verdict verdict;
  std::vector<Status> problems;  // damaged segments, unmet expectations
  std::vector<BundleAnswer> bundles;
  Status outcome;                // OK: signed by a trusted key and whole
};
// Whom the options trust; what they do not say is the user's.
[[nodiscard]] Result<signing::TrustSet> trust_for(const VerifyOptions& options);
// A file that cannot be opened at all (structure, wrong signature, policy) is an error; everything else is a result.
[[nodiscard]] Result<VerifyResult> verify_container(SealedContainer& sealed, const signing::TrustSet& trust, const VerifyOptions& options,
                                                    const std::vector<BundleText>& bundles);

// When what a container states ends (seconds since 1970, 0: never): the signed statement counts before the manifest.
[[nodiscard]] uint64_t end_of_validity(const signing::Authentication& authentication, const format::Manifest& manifest);
// "until 2027-11-20T23:59:59Z", and that it has passed if it has.
[[nodiscard]] std::string validity_text(uint64_t not_after);

}  // namespace mlc::cli
