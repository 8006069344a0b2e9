#include "signing/files/owned_file.h"

#include <windows.h>

#include <fcntl.h>
#include <io.h>

#include <algorithm>
#include <memory>

#include "base/system/windows_rights.h"
#include "base/system/windows_text.h"

namespace mlc::signing {

namespace {

using windows::wide_path;

struct CloseHandleOf {
  void operator()(void* handle) const { CloseHandle(handle); }
};
using OwnedHandle = std::unique_ptr<void, CloseHandleOf>;

OwnedHandle opened(const std::wstring& path, DWORD access) {
  const HANDLE handle = CreateFileW(path.c_str(), access, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, nullptr, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, nullptr);
  return OwnedHandle(handle == INVALID_HANDLE_VALUE ? nullptr : handle);
}

Status not_readable(const std::string& path, const std::string& place) {
  return Status(Code::NotFound, 3305, "{}: there, but cannot be read: {}: {}", path, place, windows::last_error());
}

Status check(HANDLE handle, uint32_t rights, const std::string& path, const std::string& place) {
  const std::string who = windows::others_with(handle, rights);
  if (who.empty()) return ok();
  return Status(Code::Untrusted, 3304, "{}: not believed, others may change {} ({})", path, place, who)
      .hint("icacls \"{}\" shows who may; take the right away, or use a folder of your own", place);
}

// The folders that what is open lies in, the root of the drive first. They are those of the place that it has been found at.
Status check_folders(HANDLE handle, const std::string& path) {
  std::wstring place(32768, L'\0');
  const DWORD length = GetFinalPathNameByHandleW(handle, place.data(), static_cast<DWORD>(place.size()), FILE_NAME_NORMALIZED);
  if (length == 0 || length >= place.size()) return not_readable(path, path);
  place.resize(length);
  constexpr size_t kStart = 4;  // \\?\.
  for (size_t end = place.find(L'\\', kStart); end != std::wstring::npos; end = place.find(L'\\', end + 1)) {
    const std::wstring folder = place.substr(0, end + 1);
    if (folder.starts_with(LR"(\\?\UNC\)") && std::count(folder.begin(), folder.end(), L'\\') < 6) continue;  // the name of a server
    const OwnedHandle open = opened(folder, READ_CONTROL);
    if (!open) return not_readable(path, windows::plain_path(folder));
    MLC_RETURN_IF_ERROR(check(open.get(), windows::kReplaceInFolder, path, windows::plain_path(folder)));
  }
  return ok();
}

// What is there, checked; null if there is nothing.
Result<OwnedHandle> open_owned(const std::string& path, bool is_folder) {
  OwnedHandle handle = opened(wide_path(path), GENERIC_READ | READ_CONTROL);
  if (!handle) {
    const DWORD error = GetLastError();
    const bool is_missing = error == ERROR_FILE_NOT_FOUND || error == ERROR_PATH_NOT_FOUND;
    if (is_missing && GetFileAttributesW(wide_path(path).c_str()) == INVALID_FILE_ATTRIBUTES) return OwnedHandle();
    if (is_missing) return Status(Code::NotFound, 3305, "{}: the link leads to something that does not exist", path);
    SetLastError(error);
    return not_readable(path, path);
  }
  BY_HANDLE_FILE_INFORMATION info{};
  if (!GetFileInformationByHandle(handle.get(), &info)) return not_readable(path, path);
  const bool is_regular = GetFileType(handle.get()) == FILE_TYPE_DISK;
  if (!is_regular || is_folder != ((info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0))
    return Status(Code::NotFound, 3305, "{}: not a {}", path, is_folder ? "folder" : "regular file");
  MLC_RETURN_IF_ERROR(check_folders(handle.get(), path));
  MLC_RETURN_IF_ERROR(check(handle.get(), is_folder ? windows::kChangeFolder : windows::kChangeFile, path, path));
  return handle;
}

}  // namespace

Status check_private(const Descriptor& fd, const std::string& path) {
  const std::string who = windows::others_with(reinterpret_cast<HANDLE>(_get_osfhandle(fd.get())), windows::kReadData | windows::kChangeFile);
  if (who.empty()) return ok();
  return Status(Code::Untrusted, 3303, "{}: a private key that others may read or write ({})", path, who)
      .hint("icacls \"{}\" /inheritance:r /grant:r \"%USERNAME%:F\"", path);
}

Result<std::optional<std::string>> read_owned_file(const std::string& path, size_t limit) {
  MLC_ASSIGN(OwnedHandle handle, open_owned(path, /*is_folder=*/false));
  if (!handle) return std::optional<std::string>();
  const Descriptor fd(_open_osfhandle(reinterpret_cast<intptr_t>(handle.get()), _O_RDONLY | _O_BINARY | _O_NOINHERIT));
  if (!fd.valid()) return Status(Code::Resource, "{}: too many files are open", path);
  (void)handle.release();  // the descriptor's
  MLC_ASSIGN(std::string text, read_all(fd, path, limit));
  return std::optional(std::move(text));
}

Result<std::optional<OwnedFolder>> OwnedFolder::open(const std::string& path) {
  MLC_ASSIGN(const OwnedHandle handle, open_owned(path, /*is_folder=*/true));
  if (!handle) return std::optional<OwnedFolder>();
  return std::optional(OwnedFolder(path, Descriptor()));
}

// The folder that is there already need not be the user's alone: what is made in it is looked at afterwards.
Result<OwnedFolder> OwnedFolder::make(const std::string& path, Readers) {
  for (size_t end = path.find('/'); end != std::string::npos;) {
    end = path.find('/', end + 1);
    const std::string part = path.substr(0, end);
    if (!CreateDirectoryW(wide_path(part).c_str(), nullptr) && GetFileAttributesW(wide_path(part).c_str()) == INVALID_FILE_ATTRIBUTES)
      return Status(Code::NotFound, 3305, "{}: cannot create the folder: {}", part, windows::last_error());
  }
  MLC_ASSIGN(std::optional<OwnedFolder> made, open(path));
  if (!made) return Status(Code::NotFound, 3305, "{}: the folder has disappeared", path);
  return std::move(*made);
}

// A folder cannot be locked, but a file in it can.
Status OwnedFolder::lock() {
  const auto failed = [&] { return Status(Code::NotFound, 3306, "{}: cannot be locked: {}", path_, windows::last_error()); };
  const HANDLE file = CreateFileW(wide_path(path_ + "/.lock").c_str(), GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, nullptr,
                                  OPEN_ALWAYS, FILE_ATTRIBUTE_NORMAL, nullptr);
  if (file == INVALID_HANDLE_VALUE) return failed();
  fd_ = Descriptor(_open_osfhandle(reinterpret_cast<intptr_t>(file), _O_RDWR | _O_BINARY | _O_NOINHERIT));
  if (!fd_.valid()) {
    CloseHandle(file);
    return Status(Code::Resource, 3306, "{}: cannot be locked: too many files are open", path_);
  }
  OVERLAPPED from{};
  return LockFileEx(file, LOCKFILE_EXCLUSIVE_LOCK, 0, 1, 0, &from) ? ok() : failed();
}

Result<std::vector<std::string>> OwnedFolder::names(size_t most) const {
  std::vector<std::string> names;
  const auto failed = [&] { return Status(Code::NotFound, 3305, "{}: cannot be listed: {}", path_, windows::last_error()); };
  WIN32_FIND_DATAW found;
  const HANDLE all = FindFirstFileW((wide_path(path_) + L"\\*").c_str(), &found);
  if (all == INVALID_HANDLE_VALUE) return failed();
  const std::unique_ptr<void, decltype(&FindClose)> close(all, &FindClose);
  do
    if (names.size() <= most) names.push_back(windows::narrow(found.cFileName));
  while (FindNextFileW(all, &found));
  if (GetLastError() != ERROR_NO_MORE_FILES) return failed();
  if (names.size() > most) return Status(Code::NotFound, 3305, "{}: more than {} entries", path_, most);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace mlc::signing
