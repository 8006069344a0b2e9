// Names and places of user_key.h: what a reader needs, without the code of private keys.
#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/compose.h"
#include "signing/user_key.h"

namespace mlc::signing {

namespace {

// `variable` names a folder of the XDG Base Directory Specification, which lies at `otherwise` in the home if it is not
// set; a relative one is invalid and ignored.
Result<std::string> xdg_folder(const char* variable, const char* otherwise) {
  if (const char* xdg = ::getenv(variable); xdg && xdg[0] == '/') return compose("{}/mlc", xdg);
  if (const char* home = ::getenv("HOME"); home && home[0] == '/') return compose("{}/{}/mlc", home, otherwise);
  struct passwd entry, *found = nullptr;
  char buffer[4096];
  if (::getpwuid_r(::getuid(), &entry, buffer, sizeof buffer, &found) == 0 && found && entry.pw_dir[0] == '/')
    return compose("{}/{}/mlc", entry.pw_dir, otherwise);
  return Status(Code::NotFound, "no folder of this user's own: neither {} nor HOME is set", variable)
      .hint("export HOME=/path/to/a/folder");
}

}  // namespace

Result<std::string> config_folder() { return xdg_folder("XDG_CONFIG_HOME", ".config"); }
Result<std::string> state_folder() { return xdg_folder("XDG_STATE_HOME", ".local/state"); }
Result<std::string> cache_folder() { return xdg_folder("XDG_CACHE_HOME", ".cache"); }

std::string user_key_path(const std::string& config_folder) { return config_folder + "/key.pem"; }
std::string trust_folder(const std::string& config_folder) { return config_folder + "/trust"; }
std::string local_name(const PublicKey& key) { return "local:" + key.id_prefix(); }

}  // namespace mlc::signing
