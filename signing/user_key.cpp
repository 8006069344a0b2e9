#include "signing/user_key.h"

#include "base/compose.h"
#include "signing/files/file.h"
#include "signing/files/owned_file.h"

namespace mlc::signing {

Result<PrivateKey> user_key(const std::string& config_folder) {
  const std::string path = user_key_path(config_folder);
  MLC_ASSIGN(const OwnedFolder folder, OwnedFolder::make(trust_folder(config_folder)));
  MLC_ASSIGN(const bool made, file_exists(path));
  if (!made) {
    MLC_ASSIGN(const PrivateKey fresh, PrivateKey::generate(KeyType::P256));
    Status stored = fresh.store(path);
    // Another process may have been first; then its key is the user's key.
    MLC_ASSIGN(const bool there, file_exists(path));
    if (!there) return stored;
  }
  MLC_ASSIGN(PrivateKey key, PrivateKey::load(path));
  const PublicKey& half = key.public_key();
  const std::string trusted = compose("{}/local-{}.pem", folder.path(), half.id_prefix());
  MLC_ASSIGN(const bool known, file_exists(trusted));
  if (!known) MLC_RETURN_IF_ERROR(replace_file(trusted, half.pem(), 0644));
  return key;
}

Result<NamedKey> named_key(const std::string& file, const std::string& passphrase) {
  if (file.empty()) {
    MLC_ASSIGN(const std::string folder, config_folder());
    MLC_ASSIGN(PrivateKey key, user_key(folder));
    std::string name = local_name(key.public_key());
    return NamedKey{std::move(key), std::move(name)};
  }
  MLC_ASSIGN(PrivateKey key, PrivateKey::load_with(file, passphrase));
  std::string name = key.public_key().id_prefix();
  return NamedKey{std::move(key), std::move(name)};
}

}  // namespace mlc::signing
