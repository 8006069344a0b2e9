#include <windows.h>

#include <knownfolders.h>
#include <shlobj.h>

#include "base/system/windows_text.h"
#include "signing/user_key.h"

namespace mlc::signing {

namespace {

// Empty: the system has none.
std::string known_folder(const KNOWNFOLDERID& known) {
  wchar_t* text = nullptr;
  const bool is_there = SHGetKnownFolderPath(known, 0, nullptr, &text) == S_OK;
  const std::string folder = is_there ? windows::plain_path(text) : std::string();
  CoTaskMemFree(text);
  return folder;
}

// `variable` names the folder, as the session of the user has set it; where it does not, or names a relative one, the profile is asked.
Result<std::string> folder_in_profile(const wchar_t* variable, const KNOWNFOLDERID& known, const char* below) {
  std::string folder = windows::plain_path(windows::wide(windows::variable(variable)));
  const bool is_absolute = folder.starts_with("//") || (folder.size() > 2 && folder[1] == ':' && folder[2] == '/');
  if (!is_absolute) folder = known_folder(known);
  if (folder.empty())
    return Status(Code::NotFound, "no folder of this user's own: {} is not set, and the profile has none", windows::narrow(variable))
        .hint("set {} to a folder", windows::narrow(variable));
  return folder + "/mlc" + below;
}

}  // namespace

std::string system_policy_path() {
  const std::string folder = known_folder(FOLDERID_ProgramData);
  return folder.empty() ? "C:/ProgramData/mlc/trust.json" : folder + "/mlc/trust.json";
}

// What is to follow its user to other machines, and what is not.
Result<std::string> config_folder() { return folder_in_profile(L"APPDATA", FOLDERID_RoamingAppData, ""); }
Result<std::string> state_folder() { return folder_in_profile(L"LOCALAPPDATA", FOLDERID_LocalAppData, "/state"); }
Result<std::string> cache_folder() { return folder_in_profile(L"LOCALAPPDATA", FOLDERID_LocalAppData, "/cache"); }

}  // namespace mlc::signing
