// Small files: keys and policies. Internal to signing/ and the tools that manage keys.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"

namespace mlc::signing {

// An open file, or none.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { close(); }
  bool valid() const { return fd_ >= 0; }
  int get() const { return fd_; }
  bool close();  // false if that failed

 private:
  int fd_ = -1;
};

// From where the descriptor is to the end, at most `limit` bytes (else Malformed). `path` is for messages.
[[nodiscard]] Result<std::string> read_all(const Descriptor& fd, const std::string& path, size_t limit);

// False if not all of it could be written; errno says why.
[[nodiscard]] bool write_all(const Descriptor& fd, std::string_view bytes);

// The whole of a regular file of at most `limit` bytes. NotFound: missing, not readable, not a regular file (a FIFO is
// refused without blocking); Malformed: longer. With `private_only`, Untrusted (E3303) unless the opened file belongs to
// this user and no other user may read or write it; root is no exception.
[[nodiscard]] Result<std::string> read_small_file(const std::string& path, size_t limit, bool private_only = false);

// Untrusted (E3303) unless the opened file belongs to this user and no other user may read or write it (on Windows but for the system and
// its administrators).
[[nodiscard]] Status check_private(const Descriptor& fd, const std::string& path);

// The passphrase of a private key, from where no list of processes shows it. `source`: "file:PATH", a file that is this user's alone,
// or "fd:N", a descriptor that the process was given, read to its end. One line end at the end does not count. Usage for another
// source and for an empty passphrase; Malformed beyond 1,024 bytes. The caller wipes the string.
[[nodiscard]] Result<std::string> read_passphrase(std::string_view source);

// Creates `path`, complete or not at all: written beside its place (O_EXCL, `mode`), synced, then linked. Usage if
// something is there already.
[[nodiscard]] Status create_file(const std::string& path, std::string_view text, mode_t mode);
// The same, but replaces what is there.
[[nodiscard]] Status replace_file(const std::string& path, std::string_view text, mode_t mode);
// The same for a file that other users have to read: `mode` holds whatever the umask of this process is.
[[nodiscard]] Status replace_shared_file(const std::string& path, std::string_view text, mode_t mode);

// Whether anything has that name, be it a link that leads nowhere. NotFound (E3305) if that cannot be told.
[[nodiscard]] Result<bool> file_exists(const std::string& path);

}  // namespace mlc::signing
