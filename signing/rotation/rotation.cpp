#include "signing/rotation/rotation.h"

#include <algorithm>

#include "base/compose.h"

namespace mlc::signing {

namespace {

bool counts_now(const TrustedKey& key, const PolicyFile& policy, uint64_t now) {
  const auto& revoked = policy.revoked_keys;
  if (std::find(revoked.begin(), revoked.end(), key.key.id()) != revoked.end()) return false;
  return now >= key.not_before && (key.not_after == 0 || now <= key.not_after);
}

// A signature that is wrong is a changed file even where the others suffice.
Result<bool> has_signed(const PolicyBundle& bundle, const PublicKey& key) {
  const PolicyBundle::Signed found = bundle.by(key);
  if (found != PolicyBundle::Signed::Wrong) return found == PolicyBundle::Signed::Yes;
  return Status(Code::BadSignature, 3403, "{}: the signature by {} is wrong: the bundle was changed", bundle.name,
                key.id_hex())
      .hint("copy or download it again");
}

Result<std::vector<const TrustedKey*>> signers_among(const PolicyBundle& bundle, const PolicyFile& policy,
                                                     uint64_t now) {
  std::vector<const TrustedKey*> signers;
  for (const TrustedKey& key : policy.administrators) {
    MLC_ASSIGN(const bool signed_it, has_signed(bundle, key.key));
    if (signed_it && counts_now(key, policy, now)) signers.push_back(&key);
  }
  return signers;
}

// `whose`: how a message calls them.
Status require_administrators(const PolicyBundle& bundle, const PolicyFile& policy, std::string_view whose,
                              uint64_t now) {
  MLC_ASSIGN(const std::vector<const TrustedKey*> signers, signers_among(bundle, policy, now));
  if (signers.size() >= policy.administrators_needed) return ok();
  Status status(Code::Untrusted, 3402, "{}: version {} has {} of the {} signatures that it needs of {}", bundle.name,
                bundle.policy.version, signers.size(), policy.administrators_needed, whose);
  for (const TrustedKey& key : policy.administrators) {
    const bool counted = std::find(signers.begin(), signers.end(), &key) != signers.end();
    const char* state = counted                        ? "has signed"
                        : counts_now(key, policy, now) ? "has not signed"
                                                       : "does not count: revoked, or outside its period";
    status = std::move(status).fact("{}  {}  {}", key.key.id_hex(), key.name, state);
  }
  return std::move(status).hint("mlpack policy sign BUNDLE --key KEY adds the signature of an administrator");
}

Status require_own(const PolicyBundle& bundle, uint64_t now) {
  return require_administrators(bundle, bundle.policy, "its own administrators", now);
}

Status require_chain(std::span<const PolicyBundle> chain) {
  if (chain.empty() || chain.size() > kMaxPolicyChain)
    return Status(Code::Malformed, 3401, "{} policy bundles, expected 1 to {}", chain.size(), kMaxPolicyChain);
  for (size_t i = 1; i < chain.size(); ++i) {
    const uint64_t before = chain[i - 1].policy.version, version = chain[i].policy.version;
    if (version - 1 == before) continue;
    if (version <= before)
      return Status(Code::Malformed, 3401, "{}: version {} stands behind version {}, expected the oldest first",
                    chain[i].name, version, before);
    return Status(Code::NotFound, 3406, "{}: version {} stands behind version {}: those between are missing",
                  chain[i].name, version, before);
  }
  return ok();
}

Status require_unexpired(const PolicyBundle& last, uint64_t now) {
  if (now < last.policy.expires) return ok();
  return Status(Code::Expired, 3404, "{}: version {} may be installed until {}, which has passed", last.name,
                last.policy.version, format_time(last.policy.expires).value_or("?"))
      .hint("ask its administrators for a newer one");
}

Status older(const PolicyBundle& last, const char* pattern, Pieces pieces) {
  return Status(Code::Expired, 3405, "{}: version {} is not installed: {}", last.name, last.policy.version,
                compose_pieces(pattern, pieces));
}

Status require_not_seen(const PolicyBundle& last, const RotationBase& base) {
  if (!base.marks) return ok();
  uint64_t seen = 0;
  const auto look = [&](const PublicKey& key) { seen = std::max(seen, base.marks->version(key.id(), kPolicyMark)); };
  for (const TrustedKey& key : last.policy.administrators) look(key.key);
  if (base.policy)
    for (const TrustedKey& key : base.policy->administrators) look(key.key);
  if (base.first) look(*base.first);
  if (last.policy.version >= seen) return ok();
  return older(last, "version {} of these administrators was installed here before", {seen});
}

// From the administrators of the policy that is there through the chain, each vouching for the next.
Status require_succession(std::span<const PolicyBundle> chain, const PolicyFile& installed, uint64_t now) {
  const PolicyFile* current = &installed;
  for (const PolicyBundle& bundle : chain) {
    if (bundle.policy.version <= installed.version) continue;
    if (bundle.policy.version - 1 != current->version)
      return Status(Code::NotFound, 3406, "{}: version {} cannot follow version {}: those between are missing",
                    bundle.name, bundle.policy.version, current->version)
          .hint("give them as well, the oldest first: mlrun trust --install FILE...");
    MLC_RETURN_IF_ERROR(require_administrators(
        bundle, *current, compose("the administrators of version {}, which it follows", current->version), now));
    MLC_RETURN_IF_ERROR(require_own(bundle, now));
    current = &bundle.policy;
  }
  return ok();
}

// A first installation: the root's key stands in for the policy that is not there yet.
Status require_root(std::span<const PolicyBundle> chain, const PublicKey& root, uint64_t now) {
  const PolicyBundle& bundle = chain.front();
  MLC_ASSIGN(const bool signed_it, has_signed(bundle, root));
  if (!signed_it)
    return Status(Code::Untrusted, 3402, "{}: version {} is not signed by the key {}, which is to be trusted first",
                  bundle.name, bundle.policy.version, root.id_hex());
  MLC_RETURN_IF_ERROR(require_own(bundle, now));
  return require_succession(chain.subspan(1), bundle.policy, now);
}

}  // namespace

Result<std::vector<const TrustedKey*>> own_signers(const PolicyBundle& bundle, uint64_t now) {
  return signers_among(bundle, bundle.policy, now);
}

Status judge_alone(std::span<const PolicyBundle> chain, uint64_t now) {
  MLC_RETURN_IF_ERROR(require_chain(chain));
  MLC_RETURN_IF_ERROR(require_own(chain.front(), now));
  MLC_RETURN_IF_ERROR(require_succession(chain.subspan(1), chain.front().policy, now));
  return require_unexpired(chain.back(), now);
}

Result<Rotation> judge_rotation(std::span<const PolicyBundle> chain, const RotationBase& base) {
  MLC_RETURN_IF_ERROR(require_chain(chain));
  const PolicyBundle& last = chain.back();
  Rotation rotation;
  MLC_ASSIGN(rotation.signers, own_signers(last, base.now));
  if (base.policy && !base.policy->administrators.empty()) {
    const PolicyFile& installed = *base.policy;
    rotation.already = last.text == base.text;
    if (rotation.already) return rotation;
    if (base.first)
      return Status(Code::Usage, 3407, "{} has administrators, who decide what follows it: no other key can",
                    installed.path)
          .hint("without --trust-first; to begin anew, remove the file first");
    if (last.policy.version < installed.version)
      return older(last, "{} is version {}", {installed.path, installed.version});
    if (last.policy.version == installed.version)
      return older(last, "{} is another policy of that version", {installed.path});
    MLC_RETURN_IF_ERROR(require_succession(chain, installed, base.now));
  } else if (base.first) {
    MLC_RETURN_IF_ERROR(require_root(chain, *base.first, base.now));
  } else {
    const std::string why =
        base.policy ? compose("{} has no administrators", base.policy->path) : std::string("no policy is installed");
    return Status(Code::Usage, 3407, "{}: {}, so nothing says whose bundles count", last.name, why)
        .hint("--trust-first KEY.pub.pem, with the key of an administrator that you know");
  }
  MLC_RETURN_IF_ERROR(require_not_seen(last, base));
  MLC_RETURN_IF_ERROR(require_unexpired(last, base.now));
  return rotation;
}

}  // namespace mlc::signing
