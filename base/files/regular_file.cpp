#include "base/files/regular_file.h"

#include <string.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/files/file_calls.h"

namespace mlc {
namespace {

Status not_read(const std::string& path) { return Status(Code::NotFound, 1003, "{}: {}", path, strerror(errno)); }

Result<std::string> read_from(int fd, const std::string& path, uint64_t most, Code too_long) {
  struct stat info;
  if (fstat(fd, &info) != 0) return not_read(path);
  if (!S_ISREG(info.st_mode)) return Status(Code::NotFound, 1003, "{} is not a regular file", path);
  const auto size = static_cast<uint64_t>(info.st_size);
  if (size > most) return Status(too_long, "{} has {} bytes, at most {} are expected", path, size, most);
  std::string text(size, '\0');
  size_t used = 0;
  while (used < text.size()) {
    const int64_t n = read_some(fd, text.data() + used, text.size() - used);
    if (n < 0) return not_read(path);
    if (n == 0) break;  // it has become shorter
    used += static_cast<size_t>(n);
  }
  text.resize(used);
  return text;
}

}  // namespace

Result<std::string> read_regular_file(const std::string& path, uint64_t most, Code too_long) {
  const int fd = open_to_read(path, Waiting::No);
  if (fd < 0) return not_read(path);
  Result<std::string> text = read_from(fd, path, most, too_long);
  close_descriptor(fd);
  return text;
}

}  // namespace mlc
