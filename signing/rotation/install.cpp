// The one file operation of a rotation: the policy in its folder, and beside it the list of versions that were
// installed.
#include "base/compose.h"
#include "signing/files/owned_file.h"
#include "signing/rotation/rotation.h"

namespace mlc::signing {

namespace {

constexpr size_t kMaxInstalled = 4u << 20;  // what a reader of policies takes

Bytes bytes_within(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

std::string folder_with(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

std::vector<Digest> ids_of(std::span<const TrustedKey* const> keys) {
  std::vector<Digest> ids;
  for (const TrustedKey* key : keys) ids.push_back(key->key.id());
  return ids;
}

}  // namespace

Result<std::vector<PolicyBundle>> load_chain(std::span<const std::string> files) {
  std::vector<PolicyBundle> chain;
  for (const std::string& path : files) {
    MLC_ASSIGN(const std::string text, read_small_file(path, kMaxPolicyFile));
    MLC_ASSIGN(std::vector<PolicyBundle> bundles, parse_policy_bundles(text, path));
    if (chain.size() + bundles.size() > kMaxPolicyChain)
      return Status(Code::Malformed, 3401, "{}: with it there are more than {} policy bundles", path, kMaxPolicyChain);
    for (PolicyBundle& bundle : bundles) chain.push_back(std::move(bundle));
  }
  return chain;
}

Result<RotationBase> base_in(const std::string& path) {
  MLC_ASSIGN(std::string text, read_small_file(path, kMaxPolicyFile));
  RotationBase base;
  if (auto bundles = parse_policy_bundles(text, path); bundles.ok()) {
    base.policy = std::move(bundles->back().policy);
    base.text = std::move(bundles->back().text);
    return base;
  }
  MLC_ASSIGN(base.policy, parse_policy(bytes_within(text), path));
  base.text = std::move(text);
  return base;
}

Result<InstallResult> install_policy(const InstallOptions& options) {
  MLC_ASSIGN(const std::vector<PolicyBundle> chain, load_chain(options.files));
  RotationBase base;
  base.now = options.now;
  if (!options.first_key.empty()) {
    MLC_ASSIGN(base.first, PublicKey::load(options.first_key));
  }
  MLC_ASSIGN(OwnedFolder folder, OwnedFolder::make(folder_with(options.path), Readers::All));
  MLC_RETURN_IF_ERROR(folder.lock());
  MLC_ASSIGN(std::optional<std::string> installed, read_owned_file(options.path, kMaxInstalled));
  if (installed) {
    MLC_ASSIGN(base.policy, parse_policy(bytes_within(*installed), options.path));
    base.text = *std::move(installed);
  }
  MLC_ASSIGN(base.marks, VersionMarks::load(folder.path()));
  MLC_ASSIGN(const Rotation rotation, judge_rotation(chain, base));
  const PolicyBundle& last = chain.back();
  InstallResult result;
  result.version = last.policy.version;
  result.version_before = base.policy ? base.policy->version : 0;
  result.expires = last.policy.expires;
  result.already = rotation.already;
  for (const TrustedKey* key : rotation.signers) result.signers.push_back(key->name);
  if (rotation.already) return result;
  // The mark first: between the two steps the next attempt is that of the same version, which passes.
  MLC_RETURN_IF_ERROR(remember_version(folder, ids_of(rotation.signers), kPolicyMark, last.policy.version));
  MLC_RETURN_IF_ERROR(replace_shared_file(options.path, last.text, 0644));
  return result;
}

}  // namespace mlc::signing
