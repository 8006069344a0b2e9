// Where trusted keys come from.
#include <algorithm>

#include "base/compose.h"
#include "signing/files/owned_file.h"
#include "signing/policy.h"
#include "signing/user_key.h"

namespace mlc::signing {

namespace {

constexpr size_t kMaxPolicy = 4u << 20;

Bytes bytes_of(const std::string& text) { return std::as_bytes(std::span(text.data(), text.size())); }

// None if there is no such file, or no name of one.
Result<std::optional<PolicyFile>> policy_at(const std::string& path) {
  if (path.empty()) return std::optional<PolicyFile>();
  MLC_ASSIGN(const std::optional<std::string> text, read_owned_file(path, kMaxPolicy));
  if (!text) return std::optional<PolicyFile>();
  MLC_ASSIGN(PolicyFile policy, parse_policy(bytes_of(*text), path));
  return std::optional(std::move(policy));
}

}  // namespace

bool glob_matches(std::string_view glob, std::string_view text) {
  size_t g = 0, t = 0;
  size_t star = std::string_view::npos, resume = 0;  // the last '*' and where its match may be extended to
  while (t < text.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      resume = t;
    } else if (g < glob.size() && glob[g] == text[t]) {
      ++g;
      ++t;
    } else if (star != std::string_view::npos) {
      g = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (g < glob.size() && glob[g] == '*') ++g;
  return g == glob.size();
}

TrustSources default_trust_sources() {
  TrustSources sources;
  if (auto folder = config_folder(); folder.ok()) sources.config_folder = *folder;
  return sources;
}

Result<TrustSet> TrustSet::load(const TrustSources& sources) {
  TrustSet set;
  const std::string& home = sources.config_folder;
  if (!home.empty()) {
    MLC_ASSIGN(FolderKeys folder, list_trusted_keys(home));
    for (FolderKey& entry : folder.keys) set.keys_.push_back(std::move(entry.key));
    set.warnings_ = std::move(folder.warnings);
  }
  MLC_ASSIGN(std::optional<PolicyFile> system, policy_at(sources.system_policy));
  if (!sources.policy_file.empty()) {
    MLC_ASSIGN(set.policy_, policy_at(sources.policy_file));
    if (!set.policy_) return Status(Code::NotFound, "{}: no such file", sources.policy_file);
    if (system && system->binding) set.binding_ = std::make_shared<TrustSet>(of(set.keys_, std::move(system)));
  } else if (system) {
    set.policy_ = std::move(system);
  } else if (!home.empty()) {
    MLC_ASSIGN(set.policy_, policy_at(home + "/trust.json"));
  }
  const auto add = [&](PublicKey key, std::string name) {
    TrustedKey entry{std::move(key), std::move(name)};
    entry.origin = KeyOrigin::CommandLine;
    set.keys_.push_back(std::move(entry));
  };
  for (const std::string& path : sources.key_files) {
    MLC_ASSIGN(PublicKey key, PublicKey::load(path));
    const size_t slash = path.rfind('/');
    add(std::move(key), slash == std::string::npos ? path : path.substr(slash + 1));
  }
  for (const std::string& text : sources.key_texts) {
    auto key = PublicKey::from_pem(text);
    if (!key.ok()) return std::move(key).status().note("a key in memory");
    add(std::move(*key), "a key in memory");
  }
  set.add_keys_of_policy();
  return set;
}

TrustSet TrustSet::of(std::vector<TrustedKey> keys, std::optional<PolicyFile> policy,
                      std::optional<PolicyFile> binding) {
  TrustSet set;
  if (binding) set.binding_ = std::make_shared<TrustSet>(of(keys, std::move(binding)));
  set.keys_ = std::move(keys);
  set.policy_ = std::move(policy);
  set.add_keys_of_policy();
  return set;
}

void TrustSet::add_keys_of_policy() {
  if (policy_) keys_.insert(keys_.end(), policy_->keys.begin(), policy_->keys.end());
}

const std::string& TrustSet::policy_path() const {
  static const std::string none;
  return policy_ ? policy_->path : none;
}

PolicyRule TrustSet::rule_for(std::string_view model_id) const {
  PolicyRule rule;
  if (!policy_) {
    rule.level = Level::Default;
    return rule;
  }
  for (const PolicyRule& candidate : policy_->rules)
    for (const std::string& glob : candidate.models)
      if (glob_matches(glob, model_id)) return candidate;
  return rule;  // a policy that says nothing about this model: strict
}

bool TrustSet::demands_signer(bool allow_unsigned) const {
  if (!policy_ || (allow_unsigned && !policy_->binding)) return false;
  return std::all_of(policy_->rules.begin(), policy_->rules.end(),
                     [](const PolicyRule& rule) { return rule.level == Level::Strict; });
}
bool TrustSet::refuses_unsigned(bool allow_unsigned) const {
  return demands_signer(allow_unsigned) || (binding_ && binding_->demands_signer(allow_unsigned));
}

std::vector<const TrustedKey*> TrustSet::find(Bytes spki) const {
  std::vector<const TrustedKey*> found;
  for (const TrustedKey& entry : keys_) {
    const Bytes der = entry.key.der();
    if (std::equal(der.begin(), der.end(), spki.begin(), spki.end())) found.push_back(&entry);
  }
  return found;
}

bool TrustSet::key_revoked(const Digest& id) const {
  return policy_ &&
         std::find(policy_->revoked_keys.begin(), policy_->revoked_keys.end(), id) != policy_->revoked_keys.end();
}
bool TrustSet::root_revoked(const Digest& root) const {
  return policy_ &&
         std::find(policy_->revoked_roots.begin(), policy_->revoked_roots.end(), root) != policy_->revoked_roots.end();
}

}  // namespace mlc::signing
