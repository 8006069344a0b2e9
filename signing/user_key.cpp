#include "signing/user_key.h"

#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

#include "signing/file.h"
#include "signing/policy.h"

namespace mlc::signing {

Result<std::string> config_folder() {
  // A relative XDG_CONFIG_HOME is invalid and ignored (XDG Base Directory Specification).
  if (const char* xdg = ::getenv("XDG_CONFIG_HOME"); xdg && xdg[0] == '/') return std::string(xdg) + "/mlc";
  if (const char* home = ::getenv("HOME"); home && home[0] == '/') return std::string(home) + "/.config/mlc";
  struct passwd entry, *found = nullptr;
  char buffer[4096];
  if (::getpwuid_r(::getuid(), &entry, buffer, sizeof buffer, &found) == 0 && found && entry.pw_dir[0] == '/')
    return std::string(entry.pw_dir) + "/.config/mlc";
  return Status(Code::NotFound, "no folder for keys: neither XDG_CONFIG_HOME nor HOME is set")
      .hint("export HOME=/path/to/a/folder");
}

std::string user_key_path(const std::string& config_folder) { return config_folder + "/key.pem"; }
std::string trust_folder(const std::string& config_folder) { return config_folder + "/trust"; }
std::string local_name(const PublicKey& key) { return "local:" + key.id_prefix(); }

Result<PrivateKey> user_key(const std::string& config_folder) {
  const std::string path = user_key_path(config_folder);
  MLC_RETURN_IF_ERROR(make_private_folders(trust_folder(config_folder)));
  if (!file_exists(path)) {
    MLC_ASSIGN(const PrivateKey fresh, PrivateKey::generate(KeyType::P256));
    Status stored = fresh.store(path);
    // Another process may have been first; then its key is the user's key.
    if (!stored.ok() && !file_exists(path)) return stored;
  }
  MLC_ASSIGN(PrivateKey key, PrivateKey::load(path, /*private_only=*/true));
  const PublicKey& half = key.public_key();
  const std::string trusted = trust_folder(config_folder) + "/local-" + half.id_prefix() + ".pem";
  if (!file_exists(trusted)) MLC_RETURN_IF_ERROR(replace_file(trusted, half.pem(), 0644));
  return key;
}

Result<std::string> add_trusted_key(const std::string& config_folder, const PublicKey& key,
                                    std::span<const std::string> models) {
  const std::string folder = trust_folder(config_folder);
  MLC_RETURN_IF_ERROR(make_private_folders(folder));
  const std::string stem = folder + "/" + key.id_prefix();
  const std::string everywhere = stem + ".pem", scoped = stem + ".json";
  const std::string path = models.empty() ? everywhere : scoped;
  const std::string text = models.empty() ? key.pem() : encode_trusted_key(key, key.id_prefix(), models);
  MLC_RETURN_IF_ERROR(replace_file(path, text, 0644));
  const std::string& other = models.empty() ? scoped : everywhere;  // one file per key, or the wider scope would win
  if (::unlink(other.c_str()) != 0 && file_exists(other)) return Status(Code::NotFound, other + ": cannot be removed");
  return path;
}

}  // namespace mlc::signing
