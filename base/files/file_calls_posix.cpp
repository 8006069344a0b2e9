#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/files/file_calls.h"

namespace mlc {

int open_to_read(const std::string& path, Waiting waiting) {
  return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | (waiting == Waiting::No ? O_NONBLOCK | O_NOCTTY : 0));
}

int open_new(const std::string& path, unsigned mode) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  if (fd < 0 || ::fchmod(fd, mode) == 0) return fd;
  const int error = errno;
  ::close(fd);
  ::unlink(path.c_str());
  errno = error;
  return -1;
}

int open_new_beside(const std::string& path, std::string& made) {
  std::string name = path + ".XXXXXX";
  const int fd = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd < 0) return fd;
  // mkostemp makes the file private; a result gets the mode that any other new file would get.
  const mode_t mask = ::umask(0);
  ::umask(mask);
  if (::fchmod(fd, 0666 & ~mask) != 0) {
    const int error = errno;
    ::close(fd);
    ::unlink(name.c_str());
    errno = error;
    return -1;
  }
  made = std::move(name);
  return fd;
}

int duplicate(int fd) { return ::fcntl(fd, F_DUPFD_CLOEXEC, 3); }

void close_descriptor(int fd) { ::close(fd); }

bool set_mode(int fd, unsigned mode) { return ::fchmod(fd, static_cast<mode_t>(mode)) == 0; }

int64_t read_some(int fd, void* to, size_t bytes) {
  for (;;) {
    const ssize_t got = ::read(fd, to, bytes);
    if (got >= 0 || errno != EINTR) return got;
  }
}

int64_t read_some_at(int fd, void* to, size_t bytes, uint64_t at) {
  for (;;) {
    const ssize_t got = ::pread(fd, to, bytes, static_cast<off_t>(at));
    if (got >= 0 || errno != EINTR) return got;
  }
}

bool sync_descriptor(int fd) { return ::fsync(fd) == 0; }

void sync_folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

bool rename_over(const std::string& from, const std::string& to) { return std::rename(from.c_str(), to.c_str()) == 0; }

bool rename_to_new(const std::string& from, const std::string& to) {
  const bool linked = ::link(from.c_str(), to.c_str()) == 0;
  const int error = errno;
  ::unlink(from.c_str());
  errno = error;
  return linked;
}

bool remove_file(const std::string& path) { return ::unlink(path.c_str()) == 0; }

bool has_file(const std::string& path) {
  struct stat info;
  if (::lstat(path.c_str(), &info) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) errno = 0;
  return false;
}

bool is_folder(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

std::optional<uint64_t> regular_file_size(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  return static_cast<uint64_t>(info.st_size);
}

bool make_folders(const std::string& path) {
  for (size_t end = 0; end != std::string::npos;) {
    end = path.find('/', end + 1);
    if (::mkdir(path.substr(0, end).c_str(), 0777) != 0 && errno != EEXIST && end == std::string::npos) return false;
  }
  return is_folder(path);
}

}  // namespace mlc
