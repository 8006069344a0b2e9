#include <windows.h>

#include <fcntl.h>
#include <io.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/files/file_calls.h"
#include "base/system/windows_text.h"
#include "runtime/cli/files/file_list.h"

namespace mlc::cli {
namespace {

using signing::Descriptor;
using windows::wide_path;

constexpr int kNoFolder = -1;

Status cannot(const char* what, const std::string& path) { return Status(Code::NotFound, "cannot {} '{}': {}", what, path, windows::last_error()); }

std::string joined(const std::string& folder, const std::string& name) {
  return folder.empty() || folder.ends_with('/') || folder.ends_with('\\') ? folder + name : folder + "/" + name;
}

struct Entry {
  std::string name;
  DWORD attributes;
};

// What is in a folder, sorted by the bytes of the names.
Result<std::vector<Entry>> entries_in(const std::string& path) {
  WIN32_FIND_DATAW found;
  const HANDLE all = FindFirstFileW((wide_path(path) + L"\\*").c_str(), &found);
  if (all == INVALID_HANDLE_VALUE) return cannot("read", path);
  const std::unique_ptr<void, decltype(&FindClose)> close(all, &FindClose);
  std::vector<Entry> entries;
  do
    if (found.cFileName[0] != L'.' && entries.size() <= FileList::kMostFiles) entries.push_back({windows::narrow(found.cFileName), found.dwFileAttributes});
  while (FindNextFileW(all, &found));
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return entries;
}

// Volume and number of a folder; all 0: there is none.
struct Identity {
  DWORD volume = 0, high = 0, low = 0;
  bool operator==(const Identity&) const = default;
};
Identity identity_of(const std::string& path) {
  const HANDLE folder = CreateFileW(wide_path(path).c_str(), 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, nullptr, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, nullptr);
  if (folder == INVALID_HANDLE_VALUE) return {};
  BY_HANDLE_FILE_INFORMATION info{};
  const bool is_known = GetFileInformationByHandle(folder, &info) != 0;
  CloseHandle(folder);
  return is_known ? Identity{info.dwVolumeSerialNumber, info.nFileIndexHigh, info.nFileIndexLow} : Identity{};
}

}  // namespace

// Recursion: at most kDeepest.
Status FileList::walk(int, const std::string& below, unsigned depth) {
  const size_t root = folder_names_.size() - 1;
  const std::string here = below.empty() ? folder_names_[root] : joined(folder_names_[root], below);
  if (depth > kDeepest) return Status(Code::Resource, "'{}' has more than {} folders in each other", here, kDeepest);
  const Identity results = results_.empty() ? Identity{} : identity_of(results_);
  MLC_ASSIGN(const std::vector<Entry> entries, entries_in(here));
  for (const Entry& entry : entries) {
    const std::string place = joined(below, entry.name), path = joined(folder_names_[root], place);
    if ((entry.attributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0) {
      ++links_;
      continue;
    }
    if ((entry.attributes & FILE_ATTRIBUTE_DIRECTORY) == 0) MLC_RETURN_IF_ERROR(add_file({path, place, root, place}));
    else if (results == Identity{} || results != identity_of(path)) MLC_RETURN_IF_ERROR(walk(kNoFolder, place, depth + 1));
  }
  return ok();
}

Status FileList::add_folder(const std::string& name) {
  folder_names_.push_back(name);
  return walk(kNoFolder, "", 0);
}

Result<Descriptor> FileList::open(const ListedFile& file) const {
  // What a link leads to is not below the folder. Between this look and the opening a link can be put there by those alone who may
  // write into the folder that the user has named.
  for (size_t end = 0; !file.is_named() && end != std::string::npos;) {
    end = file.below.find('/', end == 0 ? 0 : end + 1);
    const DWORD attributes = GetFileAttributesW(wide_path(joined(folder_names_[file.folder], file.below.substr(0, end))).c_str());
    if (attributes == INVALID_FILE_ATTRIBUTES) return cannot("open", file.path);
    const bool is_folder = (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
    if ((attributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0 || is_folder != (end != std::string::npos))
      return Status(Code::NotFound, "'{}' is no regular file any more", file.path);
  }
  Descriptor opened(file.path == "-" ? duplicate(_fileno(stdin)) : open_to_read(file.path, Waiting::No));
  if (!opened.valid()) return Status(Code::NotFound, "cannot open '{}': {}", file.path, std::strerror(errno));
  return opened;
}

std::vector<int> FileList::descriptors() const { return {}; }

}  // namespace mlc::cli
