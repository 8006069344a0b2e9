// A file that is open here cannot be opened for writing by others, where none of them has it open so already: Windows refuses them.
// So what is mapped stays as it was verified.
#include <windows.h>

#include <io.h>

#include <memory>
#include <mutex>

#include "base/compose.h"
#include "base/system/windows_rights.h"
#include "base/system/windows_text.h"
#include "runtime/container/source.h"

namespace mlc::container {
namespace {

struct CloseHandleOf {
  void operator()(void* handle) const { CloseHandle(handle); }
};
using OwnedHandle = std::unique_ptr<void, CloseHandleOf>;

constexpr const char* kHowToReplace = "rename a new file over it instead of writing into it, or open it with verify: copy";
constexpr DWORD kMostAtOnce = 1 << 30;

uint64_t size_of(const BY_HANDLE_FILE_INFORMATION& info) { return uint64_t{info.nFileSizeHigh} << 32 | info.nFileSizeLow; }
uint64_t time_of(const BY_HANDLE_FILE_INFORMATION& info) { return uint64_t{info.ftLastWriteTime.dwHighDateTime} << 32 | info.ftLastWriteTime.dwLowDateTime; }

class FileSource final : public Source {
 public:
  FileSource(std::string path, OwnedHandle file, const BY_HANDLE_FILE_INFORMATION& info, Writers writers)
      : path_(std::move(path)), writers_(writers), file_(std::move(file)), size_(size_of(info)), modified_(time_of(info)) {}
  ~FileSource() override {
    if (mapping_ != nullptr) UnmapViewOfFile(mapping_);
  }

  const std::string& name() const override { return path_; }
  uint64_t size() const override { return size_; }

  Status read(uint64_t offset, std::span<std::byte> out) const override {
    if (!range_within(offset, out.size(), size_))
      return Status(Code::Malformed, "bytes {} to {} + {} lie beyond the end of {}", offset, offset, out.size(), path_);
    while (!out.empty()) {
      OVERLAPPED from{};
      from.Offset = static_cast<DWORD>(offset);
      from.OffsetHigh = static_cast<DWORD>(offset >> 32);
      DWORD n = 0;
      if (!ReadFile(file_.get(), out.data(), static_cast<DWORD>(std::min<size_t>(out.size(), kMostAtOnce)), &n, &from) && GetLastError() != ERROR_HANDLE_EOF)
        return Status(Code::NotFound, "cannot read {}: {}", path_, windows::last_error());
      if (n == 0) return Status(Code::Malformed, 6001, "{} became shorter while it was read", path_).hint(kHowToReplace);
      offset += n;
      out = out.subspan(n);
    }
    return ok();
  }

  Result<const std::byte*> map(uint64_t offset, uint64_t) const override {
    std::lock_guard lock(mu_);
    if (mapping_ == nullptr) {
      const auto refused = [&] { return Status(Code::Resource, "cannot map {}: {}", path_, windows::last_error()); };
      const OwnedHandle section(CreateFileMappingW(file_.get(), nullptr, PAGE_READONLY, 0, 0, nullptr));
      if (!section) return refused();
      mapping_ = MapViewOfFile(section.get(), FILE_MAP_READ, 0, 0, 0);  // which keeps the section
      if (mapping_ == nullptr) return refused();
    }
    return static_cast<const std::byte*>(mapping_) + offset;  // behind the last byte are zeros to the end of a page
  }

  Writers writers() const override { return writers_; }

  Status unchanged() const override {
    BY_HANDLE_FILE_INFORMATION now{};
    if (!GetFileInformationByHandle(file_.get(), &now)) return Status(Code::NotFound, "cannot look at {}: {}", path_, windows::last_error());
    if (size_of(now) == size_ && time_of(now) == modified_) return ok();
    Status changed(Code::Malformed, 6001, "{} was changed while it was in use", path_);
    if (size_of(now) != size_) changed.facts.push_back(compose("{} bytes found, {} when it was opened", size_of(now), size_));
    return std::move(changed).hint(kHowToReplace);
  }

 private:
  const std::string path_;
  const Writers writers_;
  const OwnedHandle file_;
  const uint64_t size_;
  const uint64_t modified_;  // in steps of 100 ns
  mutable std::mutex mu_;
  mutable void* mapping_ = nullptr;  // guarded by mu_ until set, constant afterwards
};

Result<std::unique_ptr<Source>> source_of(OwnedHandle file, const std::string& name, bool is_shared) {
  const DWORD type = GetFileType(file.get());
  BY_HANDLE_FILE_INFORMATION info{};
  if (type != FILE_TYPE_DISK || !GetFileInformationByHandle(file.get(), &info))
    return Status(Code::NotFound, "{} is {}, not a container", name, type == FILE_TYPE_PIPE ? "a pipe" : type == FILE_TYPE_CHAR ? "a device" : "not a regular file");
  if ((info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0) return Status(Code::NotFound, "{} is a folder, not a container", name);
  const bool is_others = is_shared || !windows::others_with(file.get(), windows::kChangeFile).empty();
  return std::unique_ptr<Source>(std::make_unique<FileSource>(name, std::move(file), info, is_others ? Writers::Others : Writers::Owner));
}

// A part that is a link is opened itself, and refused.
Result<std::unique_ptr<Source>> open_place(const std::string& path, bool is_part) {
  const std::wstring place = windows::wide_path(path);
  const DWORD flags = FILE_FLAG_BACKUP_SEMANTICS | (is_part ? FILE_FLAG_OPEN_REPARSE_POINT : 0);
  // A folder is opened, too: to say that it is one.
  const auto open = [&](DWORD share) {
    const HANDLE file = CreateFileW(place.c_str(), GENERIC_READ, share, nullptr, OPEN_EXISTING, flags, nullptr);
    return OwnedHandle(file == INVALID_HANDLE_VALUE ? nullptr : file);
  };
  OwnedHandle file = open(FILE_SHARE_READ | FILE_SHARE_DELETE);
  const bool is_written = !file && GetLastError() == ERROR_SHARING_VIOLATION;  // others have it open for that
  if (is_written) file = open(FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE);
  if (!file) return Status(Code::NotFound, "cannot open {}: {}", path, windows::last_error());
  BY_HANDLE_FILE_INFORMATION info{};
  if (is_part && GetFileInformationByHandle(file.get(), &info) && (info.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0)
    return Status(Code::Malformed, "{} is a symbolic link, a file expected", path).hint("copy what it leads to, or make a hard link");
  return source_of(std::move(file), path, is_written);
}

}  // namespace

Result<std::unique_ptr<Source>> open_file(const std::string& path) {
  if (const DWORD attributes = GetFileAttributesW(windows::wide_path(path).c_str()); attributes == INVALID_FILE_ATTRIBUTES || (attributes & FILE_ATTRIBUTE_DIRECTORY) == 0)
    return open_place(path, /*is_part=*/false);
  WIN32_FIND_DATAW found;
  const HANDLE all = FindFirstFileW((windows::wide_path(path) + L"\\*").c_str(), &found);
  if (all == INVALID_HANDLE_VALUE) return Status(Code::NotFound, "cannot read {}: {}", path, windows::last_error());
  const std::unique_ptr<void, decltype(&FindClose)> close(all, &FindClose);
  PartNames names(path);
  do MLC_RETURN_IF_ERROR(names.add(windows::narrow(found.cFileName)));
  while (FindNextFileW(all, &found));
  std::vector<std::unique_ptr<Source>> parts(names.count());
  for (size_t k = 0; k < parts.size(); ++k) {
    MLC_ASSIGN(parts[k], open_place(names.path(k), /*is_part=*/true));
  }
  return join_parts(std::move(parts), path);
}

// Of the C library's numbers. Who else may write is not known of a file that others opened.
Result<std::unique_ptr<Source>> open_descriptor(int fd, const std::string& given_name) {
  const std::string name = given_name.empty() ? compose("descriptor {}", fd) : given_name;
  HANDLE copy = nullptr;
  if (!DuplicateHandle(GetCurrentProcess(), reinterpret_cast<HANDLE>(_get_osfhandle(fd)), GetCurrentProcess(), &copy, 0, FALSE, DUPLICATE_SAME_ACCESS))
    return Status(Code::NotFound, "cannot open {}: {}", name, windows::last_error());
  return source_of(OwnedHandle(copy), name, /*is_shared=*/true);
}

}  // namespace mlc::container
