#include <windows.h>

#include <algorithm>
#include <memory>
#include <string_view>

#include "base/files/links.h"
#include "base/system/windows_text.h"

namespace mlc {
namespace {

using windows::wide_path;

struct CloseHandleOf {
  void operator()(void* handle) const { CloseHandle(handle); }
};

// Where something that is there lies, all links resolved; empty, with GetLastError: it cannot be told.
std::wstring final_path(const std::string& path) {
  const HANDLE opened = CreateFileW(wide_path(path).c_str(), 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, nullptr, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, nullptr);
  if (opened == INVALID_HANDLE_VALUE) return {};
  const std::unique_ptr<void, CloseHandleOf> file(opened);
  std::wstring out(MAX_PATH, L'\0');
  for (;;) {
    const DWORD length = GetFinalPathNameByHandleW(file.get(), out.data(), static_cast<DWORD>(out.size()), FILE_NAME_NORMALIZED);
    if (length == 0) return {};
    const bool fits = length < out.size();
    out.resize(length);
    if (fits) return out;
  }
}

bool is_link(const std::string& path) {
  const DWORD attributes = GetFileAttributesW(wide_path(path).c_str());
  return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0;
}

Result<std::string> resolved(const std::string& path) {
  const std::wstring place = final_path(path);
  if (place.empty()) return Status(Code::NotFound, 1003, "{}: {}", path, windows::last_error());
  return windows::plain_path(place);
}

}  // namespace

Result<std::string> behind_links(const std::string& path) {
  if (!is_link(path)) return path;
  const std::wstring place = final_path(path);
  if (place.empty()) return Status(Code::NotFound, "{}: the link leads nowhere: {}", path, windows::last_error());
  return windows::plain_path(place);
}

Result<std::string> place_inside(const std::string& folder, const std::string& path) {
  const Status outside(Code::Malformed, "it lies outside of the folder");
  // A colon names a drive, or a stream of a file.
  if (path.empty() || path.find_first_of(std::string_view("\0:\\", 3)) != std::string::npos || leads_out(path)) return outside;
  MLC_ASSIGN(std::string top, resolved(folder.empty() ? "." : folder));
  MLC_ASSIGN(std::string place, resolved(folder.empty() ? path : folder + "/" + path));
  if (!top.ends_with('/')) top += '/';
  if (!(place + "/").starts_with(top)) return outside;
  return place;
}

}  // namespace mlc
