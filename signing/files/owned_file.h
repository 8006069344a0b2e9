// Files that decide whom to trust: policies, trusted keys, the versions seen. Such a file is believed only if no user but
// this user and root can change it, and one that is there and cannot be read is an error: a policy that fails to be read
// is not a missing policy.
//
//   folder  every one on the way, from "/" on and through each symbolic link: it belongs to the user or to root, and
//           neither its group nor others may write to it. A sticky folder (/tmp) may be open to all: no user can replace
//           in it what belongs to another user.
//   link    belongs to the user or to root
//   file    a regular file that belongs to the user or to root; neither its group nor others may write
//
// The user is the effective one. Root is no exception: it believes what belongs to root, so that HOME of another user
// (sudo -E) does not lend that user root's trust. OpenSSH's StrictModes asks the same of authorized_keys, up to the home
// folder; here the way begins at "/", because policies also lie outside of homes, and a user who may rename a home decides
// what is in it. What is checked is what is read: each step is taken from the descriptor of the folder before it.
//
// On Windows the same is asked of owners and access control lists: SYSTEM, the group of administrators and TrustedInstaller are root, a
// right that lets others change a file, or replace what lies in a folder, is what the mode's bits are, and links are resolved
// by the system first.
//
// Errors: Untrusted E3304 (owner or mode, with the chmod or chown to type), NotFound E3305 (there, but not readable; a
// link that leads nowhere). Not an error is only what does not exist (ENOENT, ENOTDIR).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "signing/files/file.h"

namespace mlc::signing {

// The whole of such a file, of at most `limit` bytes (else Malformed); none if there is nothing at `path`.
[[nodiscard]] Result<std::optional<std::string>> read_owned_file(const std::string& path, size_t limit);

enum class Readers : bool { User, All };

// A folder that passed the checks.
class OwnedFolder {
 public:
  // None if there is nothing at `path`; NotFound if it is no folder.
  [[nodiscard]] static Result<std::optional<OwnedFolder>> open(const std::string& path);
  // Opens it, or makes it and its missing parents: for this user alone (mode 0700), or so that every user may read what is in it
  // (0755), whatever the umask is.
  [[nodiscard]] static Result<OwnedFolder> make(const std::string& path, Readers readers = Readers::User);

  const std::string& path() const { return path_; }
  int descriptor() const { return fd_.get(); }  // of the folder, for calls of POSIX: not on Windows
  // Waits until no other process has it locked; as long as this lives. E3306 if it cannot be locked.
  [[nodiscard]] Status lock();
  // Names of all entries, sorted; E3305 if there are more than `most`.
  [[nodiscard]] Result<std::vector<std::string>> names(size_t most) const;

 private:
  OwnedFolder(std::string path, Descriptor fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  Descriptor fd_;  // of the folder; on Windows of the file that is locked
};

}  // namespace mlc::signing
