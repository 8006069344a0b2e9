#include "signing/files/file.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>

#include "base/compose.h"
#include "base/files/file_calls.h"

namespace mlc::signing {

bool write_all(const Descriptor& fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

namespace {

Status system_error(Code code, const std::string& path, std::string_view what) {
  return Status(code, "{}: {}: {}", path, what, strerror(errno));
}

// A complete, synced file beside `path`; the caller moves or links it into place.
Result<std::string> write_beside(const std::string& path, std::string_view text, mode_t mode, bool exact_mode = false) {
  static std::atomic<unsigned> counter{0};
  const std::string temporary =
      compose("{}.tmp.{}.{}", path, ::getpid(), counter.fetch_add(1));
  Descriptor fd(open_new(temporary, mode));
  if (!fd.valid()) return system_error(Code::NotFound, temporary, "cannot create the file");
  if ((exact_mode && !set_mode(fd.get(), mode)) || !write_all(fd, text) || !sync_descriptor(fd.get()) || !fd.close()) {
    Status status = system_error(Code::NotFound, temporary, "cannot write the file");
    fd.close();
    remove_file(temporary);
    return status;
  }
  return temporary;
}

Status move_into_place(const std::string& temporary, const std::string& path) {
  if (!rename_over(temporary, path)) {
    Status status = system_error(Code::NotFound, path, "cannot replace the file");
    remove_file(temporary);
    return status;
  }
  sync_folder_of(path);
  return ok();
}

}  // namespace

bool Descriptor::close() { return fd_ < 0 || ::close(std::exchange(fd_, -1)) == 0; }

Result<std::string> read_all(const Descriptor& fd, const std::string& path, size_t limit) {
  std::string text;
  char buffer[4096];
  for (;;) {
    const int64_t n = read_some(fd.get(), buffer, sizeof buffer);
    if (n < 0) return system_error(Code::NotFound, path, "cannot read the file");
    if (n == 0) return text;
    text.append(buffer, static_cast<size_t>(n));
    if (text.size() > limit)
      return Status(Code::Malformed, "{}: longer than {} bytes", path, limit);
  }
}

Result<std::string> read_small_file(const std::string& path, size_t limit, bool private_only) {
  const Descriptor fd(open_to_read(path, Waiting::No));
  if (!fd.valid()) return system_error(Code::NotFound, path, "cannot open the file");
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return system_error(Code::NotFound, path, "cannot read the file");
  if (!S_ISREG(info.st_mode)) return Status(Code::NotFound, "{}: not a regular file", path);
  if (private_only) MLC_RETURN_IF_ERROR(check_private(fd, path));
  return read_all(fd, path, limit);
}

Status create_file(const std::string& path, std::string_view text, mode_t mode) {
  MLC_ASSIGN(const std::string temporary, write_beside(path, text, mode));
  if (!rename_to_new(temporary, path))
    return errno == EEXIST ? Status(Code::Usage, "{} exists already and is not overwritten", path)
                           : system_error(Code::NotFound, path, "cannot create the file");
  sync_folder_of(path);
  return ok();
}

Status replace_file(const std::string& path, std::string_view text, mode_t mode) {
  MLC_ASSIGN(const std::string temporary, write_beside(path, text, mode));
  return move_into_place(temporary, path);
}

Status replace_shared_file(const std::string& path, std::string_view text, mode_t mode) {
  MLC_ASSIGN(const std::string temporary, write_beside(path, text, mode, /*exact_mode=*/true));
  return move_into_place(temporary, path);
}

Result<bool> file_exists(const std::string& path) {
  if (has_file(path)) return true;
  if (errno == 0) return false;
  return Status(Code::NotFound, 3305, "{}: cannot be looked at: {}", path, strerror(errno));
}

namespace {

constexpr size_t kMaxPassphrase = 1024;

Result<std::string> read_descriptor(std::string_view number) {
  int fd = -1;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), fd);
  if (error != std::errc() || end != number.data() + number.size() || fd < 0)
    return Status(Code::Usage, "passphrase 'fd:{}': a descriptor is a whole number", number);
  const Descriptor copy(duplicate(fd));  // whose it is closes it
  if (!copy.valid()) return Status(Code::NotFound, "passphrase: descriptor {} is not open", fd);
  return read_all(copy, "descriptor " + std::string(number), kMaxPassphrase);
}

}  // namespace

Result<std::string> read_passphrase(std::string_view source) {
  const bool is_file = source.starts_with("file:");
  if (!is_file && !source.starts_with("fd:"))
    return Status(Code::Usage, "a passphrase comes from file:PATH or fd:N, not on the command line, where others can read it");
  MLC_ASSIGN(std::string text, is_file ? read_small_file(std::string(source.substr(5)), kMaxPassphrase, /*private_only=*/true) : read_descriptor(source.substr(3)));
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  if (text.empty()) return Status(Code::Usage, "the passphrase in {} is empty", source);
  return text;
}

}  // namespace mlc::signing
