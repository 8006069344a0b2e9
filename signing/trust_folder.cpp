// The user's trust folder is written here, where no private key is seen: a tool that runs models does this too.
#include <string.h>

#include <cerrno>
#include <optional>

#include "base/compose.h"
#include "base/files/file_calls.h"
#include "signing/files/file.h"
#include "signing/files/owned_file.h"
#include "signing/policy.h"
#include "signing/user_key.h"

namespace mlc::signing {

namespace {

constexpr size_t kMaxTrustFiles = 4096;

Result<TrustedKey> trusted_key_from(const std::string& path, const std::string& name, const std::string& text) {
  if (name.ends_with(".json")) return parse_trusted_key(std::as_bytes(std::span(text.data(), text.size())), path);
  auto key = PublicKey::from_pem(text);
  if (!key.ok()) return std::move(key).status().note(path);
  const std::string stem = name.substr(0, name.size() - 4);
  const bool own = stem == "local-" + key->id_prefix();
  return TrustedKey{*key, own ? local_name(*key) : stem};
}

}  // namespace

// A file that is damaged grants nothing and becomes a warning; one that cannot be read, or that others may change, is an error.
Result<FolderKeys> list_trusted_keys(const std::string& config_folder) {
  FolderKeys out;
  const std::string path = trust_folder(config_folder);
  MLC_ASSIGN(const std::optional<OwnedFolder> folder, OwnedFolder::open(path));
  if (!folder) return out;
  MLC_ASSIGN(const std::vector<std::string> names, folder->names(kMaxTrustFiles));
  for (const std::string& name : names) {
    if (name.starts_with(".") || !(name.ends_with(".pem") || name.ends_with(".json"))) continue;
    const std::string file = compose("{}/{}", path, name);
    auto text = read_owned_file(file, kMaxKeyFile);
    if (!text.ok() && text.status().code != Code::Malformed) return std::move(text).status();
    if (text.ok() && !*text) continue;  // removed meanwhile
    auto key = text.ok() ? trusted_key_from(file, name, **text) : Result<TrustedKey>(std::move(text).status());
    if (key.ok()) out.keys.push_back({file, std::move(key).value()});
    else out.warnings.push_back("ignored, " + key.status().message);
  }
  return out;
}

Result<std::vector<std::string>> remove_trusted_key(const std::string& config_folder, const std::string& id) {
  if (id.size() < kKeyIdPrefix)
    return Status(Code::Usage, "'{}' has fewer than {} digits: that is no id of a key", id, kKeyIdPrefix);
  MLC_ASSIGN(const FolderKeys folder, list_trusted_keys(config_folder));
  std::vector<std::string> removed;
  Status none(Code::NotFound, "no trusted key has an id that begins with {}", id);
  for (const FolderKey& entry : folder.keys) {
    none.facts.push_back(entry.key.key.id_hex());
    if (!entry.key.key.is_called(id)) continue;
    if (!remove_file(entry.path))
      return Status(Code::NotFound, "{}: cannot be removed: {}", entry.path, ::strerror(errno));
    removed.push_back(entry.path);
  }
  if (removed.empty()) return none;
  return removed;
}

Result<std::string> add_trusted_key(const std::string& config_folder, const PublicKey& key,
                                    std::span<const std::string> models) {
  MLC_ASSIGN(const OwnedFolder folder, OwnedFolder::make(trust_folder(config_folder)));
  const std::string stem = compose("{}/{}", folder.path(), key.id_prefix());
  const std::string everywhere = stem + ".pem", scoped = stem + ".json";
  const std::string path = models.empty() ? everywhere : scoped;
  const std::string text = models.empty() ? key.pem() : encode_trusted_key(key, key.id_prefix(), models);
  MLC_RETURN_IF_ERROR(replace_file(path, text, 0644));
  const std::string& other = models.empty() ? scoped : everywhere;  // one file per key, or the wider scope would win
  if (!remove_file(other) && errno != ENOENT)
    return Status(Code::NotFound, "{}: cannot be removed: {}", other, ::strerror(errno));
  return path;
}

}  // namespace mlc::signing
