#include "base/system/windows_rights.h"

#include <windows.h>

#include <aclapi.h>
#include <sddl.h>

#include <memory>
#include <vector>

#include "base/system/windows_text.h"

namespace mlc::windows {
namespace {

constexpr const char* kUnknown = "unknown accounts";
// TrustedInstaller, who owns the root of the system's drive.
constexpr std::wstring_view kInstaller = L"S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464";

struct LocalFreeOf {
  void operator()(void* memory) const { LocalFree(memory); }
};

std::wstring text_of(PSID account) {
  wchar_t* text = nullptr;
  if (!ConvertSidToStringSidW(account, &text)) return {};
  const std::unique_ptr<wchar_t, LocalFreeOf> owned(text);
  return text;
}

// The account that this process runs as, in its text form.
std::wstring user() {
  HANDLE token = nullptr;
  if (!OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &token)) return {};
  const std::unique_ptr<void, decltype(&CloseHandle)> owned(token, &CloseHandle);
  DWORD bytes = 0;
  GetTokenInformation(token, TokenUser, nullptr, 0, &bytes);
  std::vector<uint64_t> room(bytes / sizeof(uint64_t) + 1);
  if (!GetTokenInformation(token, TokenUser, room.data(), static_cast<DWORD>(room.size() * sizeof(uint64_t)), &bytes)) return {};
  return text_of(reinterpret_cast<const TOKEN_USER*>(room.data())->User.Sid);
}

bool is_believed(PSID account) {
  // Creator owner: of what is made in a folder, not of the folder; its rights are those of the owner, who is looked at by himself.
  for (const WELL_KNOWN_SID_TYPE type : {WinLocalSystemSid, WinBuiltinAdministratorsSid, WinCreatorOwnerSid, WinCreatorOwnerRightsSid})
    if (IsWellKnownSid(account, type)) return true;
  const std::wstring text = text_of(account);
  return !text.empty() && (text == kInstaller || text == user());
}

std::string name_of(PSID account) {
  wchar_t name[256], domain[256];
  DWORD name_len = 256, domain_len = 256;
  SID_NAME_USE use;
  if (LookupAccountSidW(nullptr, account, name, &name_len, domain, &domain_len, &use)) return narrow({name, name_len});
  const std::string text = narrow(text_of(account));
  return text.empty() ? kUnknown : text;
}

}  // namespace

std::string others_with(void* handle, uint32_t rights) {
  PSID owner = nullptr;
  PACL list = nullptr;
  PSECURITY_DESCRIPTOR all = nullptr;
  if (GetSecurityInfo(handle, SE_FILE_OBJECT, OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION, &owner, nullptr, &list, nullptr, &all) != ERROR_SUCCESS) return kUnknown;
  const std::unique_ptr<void, LocalFreeOf> owned(all);
  if (!owner || !list) return "everyone";  // no list: all rights
  if (!is_believed(owner)) return name_of(owner);
  GENERIC_MAPPING of_files{FILE_GENERIC_READ, FILE_GENERIC_WRITE, FILE_GENERIC_EXECUTE, FILE_ALL_ACCESS};
  for (DWORD k = 0; k < list->AceCount; ++k) {
    void* entry = nullptr;
    if (!GetAce(list, k, &entry)) return kUnknown;
    const auto* const header = static_cast<const ACE_HEADER*>(entry);
    if ((header->AceFlags & INHERIT_ONLY_ACE) != 0 || header->AceType == ACCESS_DENIED_ACE_TYPE) continue;
    if (header->AceType != ACCESS_ALLOWED_ACE_TYPE) return kUnknown;  // one that depends on something
    auto* const allowed = static_cast<ACCESS_ALLOWED_ACE*>(entry);
    DWORD mask = allowed->Mask;
    MapGenericMask(&mask, &of_files);
    if ((mask & rights) != 0 && !is_believed(&allowed->SidStart)) return name_of(&allowed->SidStart);
  }
  return {};
}

std::wstring private_list() { return L"D:P(A;;FA;;;SY)(A;;FA;;;BA)(A;;FA;;;" + user() + L")"; }

}  // namespace mlc::windows
