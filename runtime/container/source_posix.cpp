#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "base/compose.h"
#include "runtime/container/source.h"
#include "schema/executable.h"
#include "schema/format.h"
#include "signing/files/file.h"

namespace mlc::container {
namespace {

using signing::Descriptor;

// The mode says who may write, access control lists included: their mask stands where the group's bits are.
bool others_may_write(const struct stat& info) {
  return (info.st_uid != 0 && info.st_uid != ::geteuid()) || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

// The folder that holds the file now, whatever links led to it. None: the file has no name any more.
bool folder_is_open_to_others(int fd) {
  char path[4096];
  const ssize_t length = ::readlink(compose("/proc/self/fd/{}", fd).c_str(), path, sizeof path - 1);
  if (length <= 0) return true;  // not known
  path[length] = 0;
  char* slash = std::strrchr(path, '/');
  if (slash == nullptr) return false;
  slash[slash == path ? 1 : 0] = 0;
  struct stat info = {};
  if (::stat(path, &info) != 0) return errno != ENOENT;
  // In a folder such as /tmp (sticky) users may not replace the files of others.
  const bool sticky = (info.st_mode & S_ISVTX) != 0 && (info.st_uid == 0 || info.st_uid == ::geteuid());
  return !sticky && others_may_write(info);
}

constexpr int kHowToOpen = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;  // opening a pipe without a writer must not wait
constexpr const char* kHowToReplace = "rename a new file over it instead of writing into it, or open it with verify: copy";

Writers writers_of(int fd, const struct stat& info) {
  const int seals = ::fcntl(fd, F_GET_SEALS);  // fails but for files of memory
  if (seals >= 0 && (seals & F_SEAL_WRITE) != 0 && (seals & F_SEAL_SHRINK) != 0) return Writers::Nobody;
  return others_may_write(info) || folder_is_open_to_others(fd) ? Writers::Others : Writers::Owner;
}

class FileSource final : public Source {
 public:
  // Takes `fd` over where it succeeds. `part`: what of the file the bytes are.
  FileSource(std::string path, Descriptor& fd, const struct stat& info, const format::ContainerPart& part)
      : path_(std::move(path)), writers_(writers_of(fd.get(), info)), fd_(std::move(fd)), begin_(part.offset), size_(part.length),
        file_size_(static_cast<uint64_t>(info.st_size)), modified_(info.st_mtim) {}
  ~FileSource() override {
    if (mapping_ != nullptr) ::munmap(mapping_, size_);
  }

  const std::string& name() const override { return path_; }
  uint64_t size() const override { return size_; }

  Status read(uint64_t offset, std::span<std::byte> out) const override {
    if (!range_within(offset, out.size(), size_))
      return Status(Code::Malformed, "bytes {} to {} + {} lie beyond the end of {}", offset, offset, out.size(), path_);
    while (!out.empty()) {
      ssize_t n = ::pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(begin_ + offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return Status(Code::NotFound, "cannot read {}: {}", path_, std::strerror(errno));
      if (n == 0) return Status(Code::Malformed, 6001, "{} became shorter while it was read", path_).hint(kHowToReplace);
      offset += static_cast<uint64_t>(n);
      out = out.subspan(static_cast<size_t>(n));
    }
    return ok();
  }

  Result<const std::byte*> map(uint64_t offset, uint64_t) const override {
    std::lock_guard lock(mu_);
    if (mapping_ == nullptr) {
      void* address = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd_.get(), static_cast<off_t>(begin_));
      if (address == MAP_FAILED) return Status(Code::Resource, "cannot map {}: {}", path_, std::strerror(errno));
      // What is not in memory yet is then read ahead, and kept, in huge pages where the file system can: hashing takes 50 faults
      // for 100 MB instead of 1600, and kernels find what they read in as many entries of the TLB. Asked for by posix_fadvise
      // it would be kept in pages of 4 KB, for every later process too.
      (void)::madvise(address, size_, MADV_HUGEPAGE);
      mapping_ = address;
    }
    return static_cast<const std::byte*>(mapping_) + offset;  // behind the last byte are zeros to the end of a page
  }

  Writers writers() const override { return writers_; }

  // The time of the last change of the inode would tell more, but it also changes when a new file is renamed over this one,
  // which is how files are to be replaced.
  Status unchanged() const override {
    if (writers_ == Writers::Nobody) return ok();
    struct stat now = {};
    if (::fstat(fd_.get(), &now) != 0) return Status(Code::NotFound, "cannot look at {}: {}", path_, std::strerror(errno));
    const auto size = static_cast<uint64_t>(now.st_size);
    if (size == file_size_ && now.st_mtim.tv_sec == modified_.tv_sec && now.st_mtim.tv_nsec == modified_.tv_nsec) return ok();
    Status changed(Code::Malformed, 6001, "{} was changed while it was in use", path_);
    if (size != file_size_) changed.facts.push_back(compose("{} bytes found, {} when it was opened", size, file_size_));
    return std::move(changed).hint(kHowToReplace);
  }

 private:
  const std::string path_;
  const Writers writers_;
  const Descriptor fd_;
  const uint64_t begin_, size_;  // of the container: in executables a multiple of kPageAlign, which pages are no larger than
  const uint64_t file_size_;
  const timespec modified_;
  mutable std::mutex mu_;
  mutable void* mapping_ = nullptr;  // guarded by mu_ until set, constant afterwards
};

std::string kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISBLK(mode) || S_ISCHR(mode)) return "a device";
  return "not a regular file";
}

// A part is a file as it is, whatever it ends with: the trailer of a program is one of a whole file.
Result<std::unique_ptr<Source>> source_of(Descriptor fd, const std::string& name, bool is_part = false) {
  struct stat info = {};
  if (::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode))
    return Status(Code::NotFound, "{} is {}, not a container", name, kind_of(info.st_mode));
  const auto size = static_cast<uint64_t>(info.st_size);
  format::ContainerPart part{0, size};
  std::array<std::byte, format::kTrailerLen> last;
  std::array<uint8_t, format::kMagic.size()> first{};
  // A file that begins as a container is one, whatever it ends with.
  if (!is_part && ::pread(fd.get(), first.data(), first.size(), 0) > 0 && first != format::kMagic &&
      ::pread(fd.get(), last.data(), last.size(), static_cast<off_t>(size - last.size())) == static_cast<ssize_t>(last.size()))
    MLC_RETURN_IF_ERROR(format::find_part(last, size, name, part));
  return std::unique_ptr<Source>(std::make_unique<FileSource>(name, fd, info, part));
}

Status cannot_open(const std::string& path) {
  return Status(Code::NotFound, "cannot open {}: {}", path, errno == ELOOP ? "a symbolic link, or more of them than are followed" : std::strerror(errno));
}

Result<std::unique_ptr<Source>> open_folder(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(path.c_str()), ::closedir);
  if (!stream) return cannot_open(path);
  PartNames names(path);
  while (const dirent* entry = ::readdir(stream.get())) MLC_RETURN_IF_ERROR(names.add(entry->d_name));
  std::vector<std::unique_ptr<Source>> parts(names.count());
  for (size_t k = 0; k < parts.size(); ++k) {
    const std::string place = names.path(k);
    Descriptor fd(::open(place.c_str(), kHowToOpen | O_NOFOLLOW));
    if (!fd.valid()) return cannot_open(place);
    MLC_ASSIGN(parts[k], source_of(std::move(fd), place, /*is_part=*/true));
  }
  return join_parts(std::move(parts), path);
}

}  // namespace

Result<std::unique_ptr<Source>> open_file(const std::string& path) {
  Descriptor fd(::open(path.c_str(), kHowToOpen));
  if (!fd.valid()) return cannot_open(path);
  struct stat info = {};
  if (::fstat(fd.get(), &info) == 0 && S_ISDIR(info.st_mode)) return open_folder(path);
  return source_of(std::move(fd), path);
}

Result<std::unique_ptr<Source>> open_descriptor(int fd, const std::string& given_name) {
  const std::string name = given_name.empty() ? compose("descriptor {}", fd) : given_name;
  Descriptor own(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (!own.valid()) return Status(Code::NotFound, "cannot open {}: {}", name, std::strerror(errno));
  return source_of(std::move(own), name);
}

}  // namespace mlc::container
