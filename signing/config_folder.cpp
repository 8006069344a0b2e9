// Names and places of user_key.h: what a reader needs, without the code of private keys.
#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/compose.h"
#include "signing/user_key.h"

namespace mlc::signing {

Result<std::string> config_folder() {
  // A relative XDG_CONFIG_HOME is invalid and ignored (XDG Base Directory Specification).
  if (const char* xdg = ::getenv("XDG_CONFIG_HOME"); xdg && xdg[0] == '/') return compose("{}/mlc", xdg);
  if (const char* home = ::getenv("HOME"); home && home[0] == '/') return compose("{}/.config/mlc", home);
  struct passwd entry, *found = nullptr;
  char buffer[4096];
  if (::getpwuid_r(::getuid(), &entry, buffer, sizeof buffer, &found) == 0 && found && entry.pw_dir[0] == '/')
    return compose("{}/.config/mlc", entry.pw_dir);
  return Status(Code::NotFound, "no folder for keys: neither XDG_CONFIG_HOME nor HOME is set")
      .hint("export HOME=/path/to/a/folder");
}

std::string user_key_path(const std::string& config_folder) { return config_folder + "/key.pem"; }
std::string trust_folder(const std::string& config_folder) { return config_folder + "/trust"; }
std::string local_name(const PublicKey& key) { return "local:" + key.id_prefix(); }

}  // namespace mlc::signing
