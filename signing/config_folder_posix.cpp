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

std::string system_policy_path() { return "/etc/mlc/trust.json"; }

Result<std::string> config_folder() { return xdg_folder("XDG_CONFIG_HOME", ".config"); }
Result<std::string> state_folder() { return xdg_folder("XDG_STATE_HOME", ".local/state"); }
Result<std::string> cache_folder() { return xdg_folder("XDG_CACHE_HOME", ".cache"); }

}  // namespace mlc::signing
