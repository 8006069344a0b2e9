// Where trusted keys come from.
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/compose.h"
#include "signing/file.h"
#include "signing/policy.h"
#include "signing/user_key.h"

namespace mlc::signing {

namespace {

constexpr size_t kMaxPolicy = 4u << 20;
constexpr size_t kMaxTrustFiles = 4096;

// Names of the regular-looking entries, in an order that does not depend on the file system.
std::set<std::string> file_names(const std::string& folder) {
  std::set<std::string> names;
  if (DIR* dir = ::opendir(folder.c_str())) {
    while (const dirent* entry = ::readdir(dir)) {
      const std::string_view name = entry->d_name;
      if ((name.ends_with(".pem") || name.ends_with(".json")) && !name.starts_with(".") &&
          names.size() < kMaxTrustFiles)
        names.emplace(name);
    }
    ::closedir(dir);
  }
  return names;
}

// True if only this user or root may change what lies in the folder.
bool is_private_to_write(const std::string& folder) {
  struct stat info;
  if (::stat(folder.c_str(), &info) != 0) return false;
  return (info.st_mode & 022) == 0 && (info.st_uid == ::geteuid() || info.st_uid == 0 || ::geteuid() == 0);
}

Result<TrustedKey> trusted_key_from(const std::string& folder, const std::string& name) {
  const std::string path = compose("{}/{}", folder, name);
  MLC_ASSIGN(const std::string text, read_small_file(path, kMaxKeyFile));
  if (std::string_view(name).ends_with(".json")) return parse_trusted_key(std::as_bytes(std::span(text.data(), text.size())), path);
  auto key = PublicKey::from_pem(text);
  if (!key.ok()) return std::move(key).status().note(path);
  const std::string stem = name.substr(0, name.size() - 4);
  const bool own = stem == "local-" + key->id_prefix();
  return TrustedKey{*key, own ? local_name(*key) : stem};
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
  const std::string system_wide = "/etc/mlc/trust.json";
  if (file_exists(system_wide)) sources.policy_file = system_wide;
  return sources;
}

Result<TrustSet> TrustSet::load(const TrustSources& sources) {
  TrustSet set;
  const std::string& home = sources.config_folder;
  std::string policy_path = sources.policy_file;
  if (!home.empty() && file_exists(home)) {
    const std::string folder = trust_folder(home);
    if (!is_private_to_write(home) || (file_exists(folder) && !is_private_to_write(folder))) {
      set.warnings_.push_back(home + ": others may write here, no key in it is trusted");
    } else {
      for (const std::string& name : file_names(folder)) {
        auto key = trusted_key_from(folder, name);
        if (key.ok()) set.keys_.push_back(std::move(key).value());
        else set.warnings_.push_back("ignored, " + key.status().message);
      }
      if (policy_path.empty() && file_exists(home + "/trust.json")) policy_path = home + "/trust.json";
    }
  }
  for (const std::string& path : sources.key_files) {
    MLC_ASSIGN(PublicKey key, PublicKey::load(path));
    const size_t slash = path.rfind('/');
    TrustedKey entry{std::move(key), slash == std::string::npos ? path : path.substr(slash + 1)};
    entry.origin = KeyOrigin::CommandLine;
    set.keys_.push_back(std::move(entry));
  }
  if (!policy_path.empty()) {
    MLC_ASSIGN(const std::string text, read_small_file(policy_path, kMaxPolicy));
    MLC_ASSIGN(PolicyFile policy, parse_policy(std::as_bytes(std::span(text.data(), text.size())), policy_path));
    for (const TrustedKey& key : policy.keys) set.keys_.push_back(key);
    set.policy_ = std::move(policy);
  }
  return set;
}

TrustSet TrustSet::of(std::vector<TrustedKey> keys, std::optional<PolicyFile> policy) {
  TrustSet set;
  set.keys_ = std::move(keys);
  if (policy)
    for (const TrustedKey& key : policy->keys) set.keys_.push_back(key);
  set.policy_ = std::move(policy);
  return set;
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
