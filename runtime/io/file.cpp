#include "runtime/io/file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/files/file_calls.h"
#include "base/files/links.h"

namespace mlc::io {
namespace {

Status io_error(const std::string& path, const char* what) {
  return Status(Code::NotFound, "cannot " + std::string(what) + " '" + path + "': " + std::strerror(errno));
}

// Read until the end: the size that stat reports is a hint only (pipes, /proc, files that grow).
Result<HostBuffer> read_all(int fd, const std::string& path, uint64_t size_hint, const FileLimits& limits, Bytes begun = {}) {
  const uint64_t most = size_hint > 0 ? limits.bytes : std::min(limits.bytes, limits.unsized);
  const auto too_large = [&](const std::string& found) {
    const bool is_unsized = size_hint == 0 && limits.unsized < limits.bytes;
    Status s(Code::Resource, 6006, "'" + path + "' has " + found + " bytes" + (is_unsized ? " and does not say how many" : "") + ", at most " + std::to_string(most) + " are allowed for inputs");
    if (!limits.option) return s;
    return std::move(s).hint("{}{} allows more, if the host has it", is_unsized ? "give it as a file that has an end, or " : "", limits.option);
  };
  if (size_hint > most) return too_large(std::to_string(size_hint));
  MLC_ASSIGN(HostBuffer buffer, HostBuffer::allocate(std::max<uint64_t>(size_hint > 0 ? size_hint : std::min<uint64_t>(most, 1 << 16), begun.size()) + 1));
  size_t used = begun.size();
  if (used > 0) std::memcpy(buffer.data(), begun.data(), used);
  for (;;) {
    if (used > most) return too_large("more than " + std::to_string(most));
    if (used == buffer.size()) {
      const uint64_t doubled = uint64_t{used} * 2;
      MLC_ASSIGN(HostBuffer larger, HostBuffer::allocate(most == UINT64_MAX ? doubled : std::min(doubled, most + 1)));
      std::memcpy(larger.data(), buffer.data(), used);
      buffer = std::move(larger);
    }
    const int64_t got = read_some(fd, buffer.data() + used, buffer.size() - used);
    if (got < 0) return io_error(path, "read");
    if (got == 0) break;
    used += static_cast<size_t>(got);
  }
  buffer.shrink(used);
  return buffer;
}

}  // namespace

Result<HostBuffer> read_open_file(int fd, const std::string& path, const FileLimits& most) {
  struct stat st = {};
  if (::fstat(fd, &st) != 0) return io_error(path, "read");
  if (S_ISDIR(st.st_mode)) return Status(Code::NotFound, "cannot read '" + path + "': it is a directory");
  return read_all(fd, path, S_ISREG(st.st_mode) && st.st_size > 0 ? static_cast<uint64_t>(st.st_size) : 0, most);
}

namespace {

// Into all of `to`, from `at` on, or where that is null from where the file stands. How much there was.
Result<size_t> read_fully(int fd, const std::string& path, std::span<std::byte> to, const uint64_t* at = nullptr) {
  size_t used = 0;
  while (used < to.size()) {
    const int64_t got = at ? read_some_at(fd, to.data() + used, to.size() - used, *at + used) : read_some(fd, to.data() + used, to.size() - used);
    if (got < 0) return io_error(path, "read");
    if (got == 0) break;
    used += static_cast<size_t>(got);
  }
  return used;
}

// What comes, piece by piece; what is neither among the first nor the last bytes so far is forgotten.
Result<FileEnds> keep_ends(int fd, const std::string& path, uint64_t first, uint64_t last, Bytes begun) {
  constexpr uint64_t kPiece = 1 << 16;
  FileEnds ends;
  MLC_ASSIGN(ends.bytes, HostBuffer::allocate(first + 2 * last + kPiece + begun.size()));
  size_t used = begun.size();
  if (used > 0) std::memcpy(ends.bytes.data(), begun.data(), used);
  for (;;) {
    MLC_ASSIGN(const size_t got, read_fully(fd, path, ends.bytes.bytes().subspan(used)));
    used += got;
    const bool is_full = used == ends.bytes.size();
    if (used > first + last) {
      std::memmove(ends.bytes.data() + first, ends.bytes.data() + used - last, last);
      ends.gap_at = first;
      ends.gap += used - last - first;
      used = first + last;
    }
    if (!is_full) break;
  }
  ends.bytes.shrink(used);
  return ends;
}

}  // namespace

Result<FileEnds> read_file_ends(int fd, const std::string& path, uint64_t first, uint64_t last, uint64_t most) {
  if (first + last > most)
    return Status(Code::Resource, "'" + path + "': " + std::to_string(first + last) + " bytes are needed, at most " + std::to_string(most) + " are allowed for inputs");
  struct stat st = {};
  if (::fstat(fd, &st) != 0) return io_error(path, "read");
  if (S_ISDIR(st.st_mode)) return Status(Code::NotFound, "cannot read '" + path + "': it is a directory");
  const auto size = static_cast<uint64_t>(std::max<off_t>(st.st_size, 0));
  if (!S_ISREG(st.st_mode) || size <= first + last || ::lseek(fd, 0, SEEK_CUR) != 0) return keep_ends(fd, path, first, last, {});
  FileEnds ends;
  MLC_ASSIGN(ends.bytes, HostBuffer::allocate(first + last));
  const std::span<std::byte> bytes = ends.bytes.bytes();
  const uint64_t begin = 0, behind = size - last;
  MLC_ASSIGN(const size_t head, read_fully(fd, path, bytes.first(first), &begin));
  MLC_ASSIGN(const size_t tail, read_fully(fd, path, bytes.subspan(first), &behind));
  if (head + tail != bytes.size()) return Status(Code::NotFound, "cannot read '" + path + "': it became shorter while it was read");
  ends.gap_at = first, ends.gap = behind - first;
  return ends;
}

namespace {

Result<HostBuffer> read_standard_input(const FileLimits& most, Bytes begun) {
  struct stat st = {};
  const bool has_size = ::fstat(STDIN_FILENO, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0;
  return read_all(STDIN_FILENO, "standard input", has_size ? static_cast<uint64_t>(st.st_size) : 0, most, begun);
}

Result<HostBuffer> read_and_close(int fd, const std::string& path, const FileLimits& most) {
  Result<HostBuffer> result = read_open_file(fd, path, most);
  close_descriptor(fd);
  return result;
}

}  // namespace

Result<HostBuffer> read_file(const std::string& path, const FileLimits& most) {
  if (path == "-") return read_standard_input(most, {});
  const int fd = open_to_read(path, Waiting::Yes);
  return fd >= 0 ? read_and_close(fd, path, most) : io_error(path, "open");
}

InputFiles::~InputFiles() {
  for (const Ahead& a : ahead_)
    if (a.fd >= 0) close_descriptor(a.fd);
}

void InputFiles::open_ahead(const std::string& path) {
  if (path == "-") return;
  Ahead a{path, open_to_read(path, Waiting::Yes), 0};
  if (a.fd < 0) a.error = errno;
  ahead_.push_back(std::move(a));
}

std::optional<InputFiles::Ahead> InputFiles::take(const std::string& path) {
  const auto found = std::find_if(ahead_.begin(), ahead_.end(), [&](const Ahead& a) { return a.path == path; });
  if (found == ahead_.end()) return std::nullopt;
  Ahead taken = std::move(*found);
  ahead_.erase(found);
  return taken;
}

Result<HostBuffer> InputFiles::read(const std::string& path, const FileLimits& most) {
  const std::optional<Ahead> ahead = take(path);
  if (path == "-") return read_standard_input(most, std::exchange(begun_, {}));
  if (!ahead) return read_file(path, most);
  errno = ahead->error;
  return ahead->fd >= 0 ? read_and_close(ahead->fd, path, most) : io_error(path, "open");
}

Result<FileEnds> InputFiles::read_ends(const std::string& path, uint64_t first, uint64_t last, uint64_t most) {
  const std::optional<Ahead> ahead = take(path);
  if (path == "-") {
    if (first + last > most) return read_file_ends(STDIN_FILENO, "standard input", first, last, most);  // the error
    return keep_ends(STDIN_FILENO, "standard input", first, last, std::exchange(begun_, {}));
  }
  const int fd = ahead ? ahead->fd : open_to_read(path, Waiting::Yes);
  if (ahead) errno = ahead->error;
  if (fd < 0) return io_error(path, "open");
  Result<FileEnds> ends = read_file_ends(fd, path, first, last, most);
  close_descriptor(fd);
  return ends;
}

Result<FileReader> InputFiles::reader(const std::string& path) {
  if (path == "-") return FileReader(STDIN_FILENO, "standard input");
  const std::optional<Ahead> ahead = take(path);
  const int fd = ahead ? ahead->fd : open_to_read(path, Waiting::Yes);
  if (ahead) errno = ahead->error;
  if (fd < 0) return io_error(path, "open");
  return FileReader(fd, path);
}

FileReader::~FileReader() {
  if (fd_ > STDIN_FILENO) close_descriptor(fd_);
}

Result<size_t> FileReader::read(std::span<std::byte> to) {
  const int64_t got = read_some(fd_, to.data(), to.size());
  return got >= 0 ? Result<size_t>(static_cast<size_t>(got)) : io_error(path_, "read");
}

Result<FileWriter> FileWriter::create(const std::string& path) {
  FileWriter w;
  w.path_ = path;
  if (path == "-") {
    w.file_ = stdout;
    return w;
  }
  MLC_ASSIGN(w.path_, behind_links(path));
  const int fd = open_new_beside(w.path_, w.temporary_);
  if (fd < 0) {
    w.temporary_.clear();
    return io_error(path, "write");
  }
  w.file_ = ::fdopen(fd, "wb");
  if (!w.file_) {
    Status s = io_error(path, "write");
    close_descriptor(fd);
    return s;
  }
  return w;
}

FileWriter::FileWriter(FileWriter&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      file_(std::exchange(other.file_, nullptr)) {}

FileWriter::~FileWriter() {
  if (file_ && file_ != stdout) std::fclose(file_);
  if (!temporary_.empty()) remove_file(temporary_);
}

Status FileWriter::write(Bytes bytes) {
  assert(file_ && "write after commit");
  if (bytes.empty()) return ok();
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) return io_error(path_, "write");
  return ok();
}

Status FileWriter::write_first(Bytes bytes) {
  assert(file_ && file_ != stdout && "what went to standard output stays");
  if (std::fseek(file_, 0, SEEK_SET) != 0) return io_error(path_, "write");
  MLC_RETURN_IF_ERROR(write(bytes));
  return std::fseek(file_, 0, SEEK_END) == 0 ? ok() : io_error(path_, "write");
}

Status FileWriter::sync() {
  assert(file_ && "sync after commit");
  if (std::fflush(file_) != 0) return io_error(path_, "write");
  return file_ == stdout || sync_descriptor(::fileno(file_)) ? ok() : io_error(path_, "write");
}

Status FileWriter::rename(const std::string& path) {
  MLC_ASSIGN(path_, behind_links(path));
  return ok();
}

Status FileWriter::commit() {
  assert(file_ && "committed twice");
  std::FILE* f = std::exchange(file_, nullptr);
  if (f == stdout) return std::fflush(f) == 0 ? ok() : io_error("standard output", "write");
  bool good = std::fflush(f) == 0 && sync_descriptor(::fileno(f));
  Status failed = good ? ok() : io_error(path_, "write");
  if (std::fclose(f) != 0 && good) return io_error(path_, "write");
  if (!good) return failed;
  if (!rename_over(temporary_, path_)) return io_error(path_, "write");
  temporary_.clear();
  return ok();
}

}  // namespace mlc::io
