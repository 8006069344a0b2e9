#include "base/system/windows_text.h"

#include <windows.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

namespace mlc::windows {

std::wstring wide(std::string_view utf8) {
  if (utf8.empty() || utf8.size() > 1 << 30) return {};
  const int length = static_cast<int>(utf8.size());
  std::wstring out(static_cast<size_t>(MultiByteToWideChar(CP_UTF8, 0, utf8.data(), length, nullptr, 0)), L'\0');
  MultiByteToWideChar(CP_UTF8, 0, utf8.data(), length, out.data(), static_cast<int>(out.size()));
  return out;
}

std::string narrow(std::wstring_view utf16) {
  if (utf16.empty() || utf16.size() > 1 << 29) return {};
  const int length = static_cast<int>(utf16.size());
  std::string out(static_cast<size_t>(WideCharToMultiByte(CP_UTF8, 0, utf16.data(), length, nullptr, 0, nullptr, nullptr)), '\0');
  WideCharToMultiByte(CP_UTF8, 0, utf16.data(), length, out.data(), static_cast<int>(out.size()), nullptr, nullptr);
  return out;
}

std::wstring wide_path(std::string_view utf8) {
  std::wstring path = wide(utf8);
  if (path.find(L'\0') != std::wstring::npos) return {};
  std::replace(path.begin(), path.end(), L'/', L'\\');
  if (path.empty() || path.starts_with(LR"(\\?\)") || path.starts_with(LR"(\\.\)")) return path;
  const DWORD room = GetFullPathNameW(path.c_str(), 0, nullptr, nullptr);
  std::wstring full(room, L'\0');
  const DWORD length = room == 0 ? 0 : GetFullPathNameW(path.c_str(), room, full.data(), nullptr);
  if (length == 0 || length >= room) return path;
  full.resize(length);
  if (full.starts_with(LR"(\\.\)")) return full;  // NUL, CON
  if (full.starts_with(LR"(\\)")) return LR"(\\?\UNC)" + full.substr(1);
  return LR"(\\?\)" + full;
}

std::string plain_path(std::wstring_view path) {
  std::string out;
  if (path.starts_with(LR"(\\?\UNC\)")) out = "//" + narrow(path.substr(8));
  else out = narrow(path.starts_with(LR"(\\?\)") ? path.substr(4) : path);
  std::replace(out.begin(), out.end(), '\\', '/');
  return out;
}

std::string error_text(unsigned long error) {
  wchar_t text[512];
  const DWORD length = FormatMessageW(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, nullptr, error, 0, text, std::size(text), nullptr);
  std::string out = narrow({text, length});
  while (!out.empty() && (out.back() == '\n' || out.back() == '\r' || out.back() == '.' || out.back() == ' ')) out.pop_back();
  return out.empty() ? "error " + std::to_string(error) + " of Windows" : out;
}

std::string last_error() { return error_text(GetLastError()); }

void set_errno() {
  switch (GetLastError()) {
    case ERROR_FILE_NOT_FOUND: case ERROR_PATH_NOT_FOUND: case ERROR_INVALID_DRIVE: case ERROR_BAD_NETPATH: case ERROR_BAD_NET_NAME:
    case ERROR_INVALID_NAME: case ERROR_BAD_PATHNAME: errno = ENOENT; break;
    case ERROR_FILE_EXISTS: case ERROR_ALREADY_EXISTS: errno = EEXIST; break;
    case ERROR_SHARING_VIOLATION: case ERROR_LOCK_VIOLATION: errno = EBUSY; break;
    case ERROR_NOT_ENOUGH_MEMORY: case ERROR_OUTOFMEMORY: errno = ENOMEM; break;
    case ERROR_DISK_FULL: case ERROR_HANDLE_DISK_FULL: errno = ENOSPC; break;
    case ERROR_INVALID_HANDLE: errno = EBADF; break;
    case ERROR_TOO_MANY_OPEN_FILES: errno = EMFILE; break;
    case ERROR_BROKEN_PIPE: case ERROR_NO_DATA: errno = EPIPE; break;
    case ERROR_DIR_NOT_EMPTY: errno = ENOTEMPTY; break;
    case ERROR_ACCESS_DENIED: errno = EACCES; break;
    default: errno = EIO; break;
  }
}

std::string variable(const wchar_t* name) {
  std::wstring value(256, L'\0');
  for (;;) {
    const DWORD length = GetEnvironmentVariableW(name, value.data(), static_cast<DWORD>(value.size()));
    if (length == 0) return {};
    const bool fits = length < value.size();
    value.resize(length);
    if (fits) return narrow(value);
  }
}

}  // namespace mlc::windows
