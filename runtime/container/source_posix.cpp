#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>

#include "base/compose.h"
#include "runtime/container/source.h"

namespace mlc::container {
namespace {

class FileSource final : public Source {
 public:
  FileSource(std::string path, int fd, uint64_t size) : path_(std::move(path)), fd_(fd), size_(size) {}
  ~FileSource() override {
    if (mapping_ != nullptr) ::munmap(mapping_, size_);
    ::close(fd_);
  }

  const std::string& name() const override { return path_; }
  uint64_t size() const override { return size_; }

  Status read(uint64_t offset, std::span<std::byte> out) const override {
    if (!range_within(offset, out.size(), size_))
      return Status(Code::Malformed, "bytes {} to {} + {} lie beyond the end of {}", offset, offset, out.size(), path_);
    while (!out.empty()) {
      ssize_t n = ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return Status(Code::NotFound, "cannot read {}: {}", path_, std::strerror(errno));
      if (n == 0) return Status(Code::Malformed, "{} became shorter while it was read", path_);
      offset += static_cast<uint64_t>(n);
      out = out.subspan(static_cast<size_t>(n));
    }
    return ok();
  }

  Result<const std::byte*> map() const override {
    std::lock_guard lock(mu_);
    if (mapping_ == nullptr) {
      void* address = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd_, 0);
      if (address == MAP_FAILED) return Status(Code::Resource, "cannot map {}: {}", path_, std::strerror(errno));
      mapping_ = address;
    }
    return static_cast<const std::byte*>(mapping_);
  }

 private:
  const std::string path_;
  const int fd_;
  const uint64_t size_;
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

}  // namespace

Result<std::unique_ptr<Source>> open_file(const std::string& path) {
  // O_NONBLOCK: opening a pipe that nobody writes to must not wait.
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) return Status(Code::NotFound, "cannot open {}: {}", path, std::strerror(errno));
  struct stat info = {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    std::string kind = kind_of(info.st_mode);
    ::close(fd);
    return Status(Code::NotFound, "{} is {}, not a container", path, kind);
  }
  return std::unique_ptr<Source>(std::make_unique<FileSource>(path, fd, static_cast<uint64_t>(info.st_size)));
}

}  // namespace mlc::container
