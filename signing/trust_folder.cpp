// The user's trust folder is written here, where no private key is seen: a tool that runs models does this too.
#include <string.h>
#include <unistd.h>

#include <cerrno>

#include "base/compose.h"
#include "signing/file.h"
#include "signing/owned_file.h"
#include "signing/policy.h"
#include "signing/user_key.h"

namespace mlc::signing {

Result<std::string> add_trusted_key(const std::string& config_folder, const PublicKey& key,
                                    std::span<const std::string> models) {
  MLC_ASSIGN(const OwnedFolder folder, OwnedFolder::make(trust_folder(config_folder)));
  const std::string stem = compose("{}/{}", folder.path(), key.id_prefix());
  const std::string everywhere = stem + ".pem", scoped = stem + ".json";
  const std::string path = models.empty() ? everywhere : scoped;
  const std::string text = models.empty() ? key.pem() : encode_trusted_key(key, key.id_prefix(), models);
  MLC_RETURN_IF_ERROR(replace_file(path, text, 0644));
  const std::string& other = models.empty() ? scoped : everywhere;  // one file per key, or the wider scope would win
  if (::unlink(other.c_str()) != 0 && errno != ENOENT)
    return Status(Code::NotFound, "{}: cannot be removed: {}", other, ::strerror(errno));
  return path;
}

}  // namespace mlc::signing
