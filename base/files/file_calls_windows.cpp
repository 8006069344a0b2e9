#include <windows.h>

#include <fcntl.h>
#include <io.h>
#include <sddl.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "base/compose.h"
#include "base/files/file_calls.h"
#include "base/system/windows_rights.h"
#include "base/system/windows_text.h"

namespace mlc {
namespace {

using windows::set_errno;
using windows::wide_path;

constexpr DWORD kAllShare = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
constexpr size_t kMostAtOnce = 1 << 30;

// -1 with errno.
int failed() {
  set_errno();
  return -1;
}

int descriptor_of(HANDLE file, int flags) {
  if (file == INVALID_HANDLE_VALUE) return failed();
  const int fd = _open_osfhandle(reinterpret_cast<intptr_t>(file), flags | _O_BINARY | _O_NOINHERIT);
  if (fd < 0) CloseHandle(file);
  return fd;
}

HANDLE handle_of(int fd) { return reinterpret_cast<HANDLE>(_get_osfhandle(fd)); }

}  // namespace

int open_to_read(const std::string& path, Waiting) {
  return descriptor_of(CreateFileW(wide_path(path).c_str(), GENERIC_READ, kAllShare, nullptr, OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, nullptr), _O_RDONLY);
}

int open_new(const std::string& path, unsigned mode) {
  SECURITY_ATTRIBUTES rights{sizeof(SECURITY_ATTRIBUTES), nullptr, FALSE};  // null: those of the folder
  if ((mode & 077) == 0 &&
      !ConvertStringSecurityDescriptorToSecurityDescriptorW(windows::private_list().c_str(), SDDL_REVISION_1, &rights.lpSecurityDescriptor, nullptr))
    return failed();
  const HANDLE file = CreateFileW(wide_path(path).c_str(), GENERIC_READ | GENERIC_WRITE | DELETE, kAllShare, &rights, CREATE_NEW, FILE_ATTRIBUTE_NORMAL, nullptr);
  const int fd = descriptor_of(file, _O_RDWR);
  const int error = errno;
  LocalFree(rights.lpSecurityDescriptor);
  errno = error;
  return fd;
}

int open_new_beside(const std::string& path, std::string& made) {
  static std::atomic<unsigned> counter{0};
  constexpr int kTries = 100;
  for (int k = 0; k < kTries; ++k) {
    made = compose("{}.{}.{}.tmp", path, GetCurrentProcessId(), counter.fetch_add(1));
    const int fd = open_new(made, 0666);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

int duplicate(int fd) {
  HANDLE copy = INVALID_HANDLE_VALUE;
  if (!DuplicateHandle(GetCurrentProcess(), handle_of(fd), GetCurrentProcess(), &copy, 0, FALSE, DUPLICATE_SAME_ACCESS)) return failed();
  return descriptor_of(copy, _O_RDONLY);
}

void close_descriptor(int fd) { _close(fd); }

bool set_mode(int, unsigned) { return true; }

int64_t read_some(int fd, void* to, size_t bytes) {
  DWORD got = 0;
  if (ReadFile(handle_of(fd), to, static_cast<DWORD>(std::min(bytes, kMostAtOnce)), &got, nullptr)) return got;
  return GetLastError() == ERROR_BROKEN_PIPE || GetLastError() == ERROR_HANDLE_EOF ? 0 : failed();  // the writer has ended
}

int64_t read_some_at(int fd, void* to, size_t bytes, uint64_t at) {
  OVERLAPPED from{};
  from.Offset = static_cast<DWORD>(at);
  from.OffsetHigh = static_cast<DWORD>(at >> 32);
  LARGE_INTEGER stood{};  // reading moves the handle here, wherever it reads
  if (!SetFilePointerEx(handle_of(fd), LARGE_INTEGER{}, &stood, FILE_CURRENT)) return failed();
  DWORD got = 0;
  const bool is_read = ReadFile(handle_of(fd), to, static_cast<DWORD>(std::min(bytes, kMostAtOnce)), &got, &from) != 0 || GetLastError() == ERROR_HANDLE_EOF;
  if (!is_read) return failed();
  return SetFilePointerEx(handle_of(fd), stood, nullptr, FILE_BEGIN) ? int64_t{got} : failed();
}

bool sync_descriptor(int fd) { return _commit(fd) == 0; }

void sync_folder_of(const std::string&) {}  // NTFS writes names to its journal by itself

bool rename_over(const std::string& from, const std::string& to) {
  if (MoveFileExW(wide_path(from).c_str(), wide_path(to).c_str(), MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH)) return true;
  set_errno();
  return false;
}

bool rename_to_new(const std::string& from, const std::string& to) {
  if (MoveFileExW(wide_path(from).c_str(), wide_path(to).c_str(), MOVEFILE_WRITE_THROUGH)) return true;
  set_errno();
  const int error = errno;
  remove_file(from);
  errno = error;
  return false;
}

bool remove_file(const std::string& path) {
  if (DeleteFileW(wide_path(path).c_str())) return true;
  set_errno();
  return false;
}

bool has_file(const std::string& path) {
  if (GetFileAttributesW(wide_path(path).c_str()) != INVALID_FILE_ATTRIBUTES) return true;
  set_errno();
  if (errno == ENOENT) errno = 0;
  return false;
}

bool is_folder(const std::string& path) {
  const DWORD attributes = GetFileAttributesW(wide_path(path).c_str());
  return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
}

std::optional<uint64_t> regular_file_size(const std::string& path) {
  WIN32_FILE_ATTRIBUTE_DATA info{};
  if (!GetFileAttributesExW(wide_path(path).c_str(), GetFileExInfoStandard, &info)) return std::nullopt;
  if ((info.dwFileAttributes & (FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_DEVICE)) != 0) return std::nullopt;
  return uint64_t{info.nFileSizeHigh} << 32 | info.nFileSizeLow;
}

bool make_folders(const std::string& path) {
  for (size_t end = 0; end != std::string::npos;) {
    end = path.find_first_of("/\\", end + 1);
    CreateDirectoryW(wide_path(path.substr(0, end)).c_str(), nullptr);
  }
  if (is_folder(path)) return true;
  set_errno();
  return false;
}

}  // namespace mlc
