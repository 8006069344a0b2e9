// The user's own folder and key: what makes "build, then run" work without ceremony.
//
//   $XDG_CONFIG_HOME/mlc/  (or ~/.config/mlc/)   mode 0700, as owned_file.h asks
//     key.pem              private key, P-256, mode 0600, made on first use
//     trust/*.pem          public keys that this user trusts for every model
//     trust/*.json         the same with a scope: one entry of `keys` in a trust policy (policy.h)
//     trust.json           a trust policy, optional
//
// The public half of key.pem is put into trust/ as local-<id prefix>.pem, so this user on this machine trusts what he
// built; `inspect` and messages show it as local:<id prefix>.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "signing/keys.h"
#include "signing/policy.h"

namespace mlc::signing {

// Where the folder is; NotFound if neither XDG_CONFIG_HOME nor a home directory is known. Creates nothing.
[[nodiscard]] Result<std::string> config_folder();
// The same for what programs remember: $XDG_STATE_HOME/mlc or ~/.local/state/mlc (version_marks.h).
[[nodiscard]] Result<std::string> state_folder();
// The same for what can be made again at any time: $XDG_CACHE_HOME/mlc or ~/.cache/mlc.
// On Windows: %APPDATA%\mlc, %LOCALAPPDATA%\mlc\state and \cache.
[[nodiscard]] Result<std::string> cache_folder();

[[nodiscard]] std::string user_key_path(const std::string& config_folder);
[[nodiscard]] std::string trust_folder(const std::string& config_folder);

// "local:<id prefix>"
[[nodiscard]] std::string local_name(const PublicKey& key);

// Loads the user's key, or makes it; in both cases its public half is in the trust folder afterwards. Refuses a key
// file that others can read or write, and a folder that they can write to (owned_file.h). Two processes that start at once end up with the same key.
[[nodiscard]] Result<PrivateKey> user_key(const std::string& config_folder);

// The private key in a file, or the user's own where `file` is empty, and how messages call it. `passphrase`: where that of an encrypted
// key comes from (read_passphrase in file.h).
struct NamedKey {
  PrivateKey key;
  std::string name;
};
[[nodiscard]] Result<NamedKey> named_key(const std::string& file, const std::string& passphrase);

// A key of the trust folder, and the file that holds it.
struct FolderKey {
  std::string path;
  TrustedKey key;
};
struct FolderKeys {
  std::vector<FolderKey> keys;        // in an order that does not depend on the file system
  std::vector<std::string> warnings;  // files that are damaged: they grant nothing
};
// An error where a file cannot be read, or can be changed by others (owned_file.h). No folder: no keys.
[[nodiscard]] Result<FolderKeys> list_trusted_keys(const std::string& config_folder);
// Removes the files of the keys whose id begins with `id`, at least kKeyIdPrefix digits (Usage), and returns their paths.
// NotFound: there is none.
[[nodiscard]] Result<std::vector<std::string>> remove_trusted_key(const std::string& config_folder, const std::string& id);

// Puts a public key into the trust folder, for every model, or only for ids that match one of `models` (globs).
// Returns the path of the file. A key that is there already is not an error; its scope is replaced.
[[nodiscard]] Result<std::string> add_trusted_key(const std::string& config_folder, const PublicKey& key,
                                                  std::span<const std::string> models);

}  // namespace mlc::signing
