#include "signing/user_key.h"

#include <unistd.h>

#include "base/compose.h"
#include "signing/file.h"
#include "signing/policy.h"

namespace mlc::signing {

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
  const std::string trusted = compose("{}/local-{}.pem", trust_folder(config_folder), half.id_prefix());
  if (!file_exists(trusted)) MLC_RETURN_IF_ERROR(replace_file(trusted, half.pem(), 0644));
  return key;
}

Result<std::string> add_trusted_key(const std::string& config_folder, const PublicKey& key,
                                    std::span<const std::string> models) {
  const std::string folder = trust_folder(config_folder);
  MLC_RETURN_IF_ERROR(make_private_folders(folder));
  const std::string stem = compose("{}/{}", folder, key.id_prefix());
  const std::string everywhere = stem + ".pem", scoped = stem + ".json";
  const std::string path = models.empty() ? everywhere : scoped;
  const std::string text = models.empty() ? key.pem() : encode_trusted_key(key, key.id_prefix(), models);
  MLC_RETURN_IF_ERROR(replace_file(path, text, 0644));
  const std::string& other = models.empty() ? scoped : everywhere;  // one file per key, or the wider scope would win
  if (::unlink(other.c_str()) != 0 && file_exists(other)) return Status(Code::NotFound, "{}: cannot be removed", other);
  return path;
}

}  // namespace mlc::signing
