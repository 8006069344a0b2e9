#include "runtime/trust/trust_key.h"

#include <algorithm>

#include "base/text/shell_word.h"
#include "runtime/container/container.h"
#include "signing/keys.h"
#include "signing/policy.h"
#include "signing/user_key.h"

namespace mlc::trust {

using namespace signing;

namespace {

// The keys whose signatures under the container are valid.
Result<std::vector<PublicKey>> signers_of(const std::string& path) {
  MLC_ASSIGN(const auto file, container::AuthenticatedFile::open(path));
  const std::optional<Authentication>& found = file.authentication();
  if (!found) return Status(Code::Malformed, 1101, path + " is truncated: it ends before its signatures").hint("copy or download it again");
  std::vector<PublicKey> keys;
  for (const CheckedSignature& signature : found->signatures())
    if (signature.valid) keys.push_back(*signature.key);
  if (keys.empty()) return Status(Code::Unsigned, 3001, path + " is not signed");
  return keys;
}

Status which_signer(const TrustOptions& options, const std::vector<PublicKey>& signers) {
  Status status(Code::Usage, "a file cannot say whom to trust: name the key that you expect");
  for (const PublicKey& signer : signers) status = std::move(status).fact("signed by " + signer.id_hex());
  return std::move(status).hint(options.tool + " trust " + shell_path(options.source) + " --id ID");
}

}  // namespace

Result<TrustResult> trust_key(const TrustOptions& options) {
  MLC_ASSIGN(const std::string folder, config_folder());
  std::vector<PublicKey> candidates;
  if (auto key = PublicKey::load(options.source); key.ok()) {
    candidates.push_back(std::move(key).value());
  } else {
    auto signers = signers_of(options.source);
    // Neither a key nor a container: for a text, what the key reader said helps more.
    if (!signers.ok()) return options.source.ends_with(".mlc") ? std::move(signers).status() : std::move(key).status();
    candidates = std::move(signers).value();
    if (options.expect_id.empty()) return which_signer(options, candidates);
  }
  if (!options.expect_id.empty()) {
    const bool long_enough = options.expect_id.size() >= kKeyIdPrefix;
    const auto wanted = std::find_if(candidates.begin(), candidates.end(), [&](const PublicKey& key) {
      return long_enough && key.is_called(options.expect_id);
    });
    if (wanted == candidates.end()) {
      Status status(Code::Untrusted, 3002, options.source + " has no key whose id begins with " + options.expect_id + " (at least " +
                                               std::to_string(kKeyIdPrefix) + " hex digits)");
      for (const PublicKey& key : candidates) status = std::move(status).fact("found " + key.id_hex());
      return status;
    }
    candidates = {*wanted};
  }
  const PublicKey& key = candidates.front();
  MLC_ASSIGN(const FolderKeys before, list_trusted_keys(folder));
  MLC_ASSIGN(const std::string path, add_trusted_key(folder, key, options.models));
  TrustResult result{key.id_hex(), path, {}};
  for (const FolderKey& entry : before.keys)  // a key has one file beside that of its owner
    if (entry.key.key.id_hex() == result.key_id && entry.path.find("/local-") == std::string::npos) result.models_before = entry.key.models;
  return result;
}

}  // namespace mlc::trust
