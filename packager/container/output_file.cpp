#include "packager/container/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/files/links.h"
#include "base/text/shell_word.h"
#include "schema/format.h"
#include "schema/parts.h"

namespace mlc::container {
namespace {

constexpr size_t kBufferLen = 2 << 20;  // a huge page: the system keeps what is written at once in one, and readers map it as that

std::string folder_of(const std::string& path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

OutputFile::OutputFile(OutputFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)), temporary_(std::move(other.temporary_)),
      buffer_(std::move(other.buffer_)), unfinished_(std::move(other.unfinished_)) {}

OutputFile::~OutputFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

Status OutputFile::failed(const char* what) const {
  int error = errno;
  Code code = error == ENOSPC || error == EDQUOT || error == EFBIG || error == ENOMEM ? Code::Resource : Code::NotFound;
  return Status(code, "cannot " + std::string(what) + " " + path_ + ": " + std::strerror(error));
}

Result<OutputFile> OutputFile::create(const std::string& path) {
  OutputFile file;
  MLC_ASSIGN(file.path_, behind_links(path));
  struct stat existing;
  if (::stat(file.path_.c_str(), &existing) == 0 && !S_ISREG(existing.st_mode))
    return Status(Code::Usage, "output " + path + " exists and is not a regular file");
  for (int attempt = 0; attempt < 100; ++attempt) {
    file.temporary_ = file.path_ + ".tmp" + std::to_string(::getpid()) + "." + std::to_string(attempt);
    file.unfinished_.emplace(file.temporary_);  // before it exists: no signal finds it unknown
    file.fd_ = ::open(file.temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file.fd_ >= 0) return file;
    file.unfinished_.reset();
    if (errno != EEXIST) break;
  }
  return file.failed("create");
}

Status OutputFile::try_create(const std::string& path) {
  MLC_ASSIGN(const OutputFile attempt, create(path));
  return ok();
}

Status OutputFile::flush() {
  size_t at = 0;
  while (at < buffer_.size()) {
    ssize_t n = ::write(fd_, buffer_.data() + at, buffer_.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return failed("write");
    at += static_cast<size_t>(n);
  }
  buffer_.clear();
  return ok();
}

Status OutputFile::write(Bytes bytes) {
  while (!bytes.empty()) {
    size_t n = std::min(bytes.size(), kBufferLen - buffer_.size());
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(n));
    bytes = bytes.subspan(n);
    if (buffer_.size() == kBufferLen) MLC_RETURN_IF_ERROR(flush());
  }
  return ok();
}

Status OutputFile::set_size(uint64_t size) {
  return ::ftruncate(fd_, static_cast<off_t>(size)) == 0 ? ok() : failed("make room for");
}

Status OutputFile::write_at(uint64_t offset, Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return failed("write");
    offset += static_cast<uint64_t>(n);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return ok();
}

Result<std::string> OutputFile::flushed() {
  MLC_RETURN_IF_ERROR(flush());
  return temporary_;
}

Status OutputFile::commit() {
  MLC_RETURN_IF_ERROR(flush());
  if (::fsync(fd_) != 0) return failed("sync");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return failed("rename");
  ::close(std::exchange(fd_, -1));
  int folder = ::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    ::fsync(folder);  // some file systems cannot sync a folder; the file itself is safe
    ::close(folder);
  }
  return ok();
}

namespace {

bool begins_as_container(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::array<char, 8> magic{};
  in.read(magic.data(), magic.size());
  const auto expected = std::as_bytes(std::span(format::kMagic));
  const auto found = std::as_bytes(std::span(magic));
  return in.gcount() == 8 && std::equal(found.begin(), found.end(), expected.begin());
}

// What the container is called whose parts (NAME.mlc.000, NAME.mlc.001, ...) a folder holds; empty: it holds none.
std::string name_of_parts(const std::string& folder) {
  const std::string first = format::part_ending(0);
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.size() > first.size() && name.ends_with(first)) return name.substr(0, name.size() - first.size());
  }
  return "";
}

}  // namespace

Status may_write(const std::string& path, bool force) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return ok();
  if (std::filesystem::is_directory(path, error)) {
    if (const std::string name = name_of_parts(path); !name.empty())
      return Status(Code::Usage, path + " is a folder with the parts of a container: one file is written, not parts")
          .hint("-o " + shell_path(name) + "; mlpack push --shape parts cuts it again");
    return Status(Code::Usage, path + " is a folder").hint("-o " + (path.ends_with('/') ? path : path + "/") + "NAME.mlc");
  }
  if (force || (std::filesystem::is_regular_file(path, error) && begins_as_container(path))) return ok();
  return Status(Code::Usage, path + " exists and is no container").hint("--force replaces it");
}

}  // namespace mlc::container
