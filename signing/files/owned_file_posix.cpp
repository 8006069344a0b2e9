#include "signing/files/owned_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

#include "base/compose.h"
#include "base/on_exit.h"

namespace mlc::signing {

namespace {

constexpr unsigned kMaxLinks = 40;  // as the kernel does

std::string octal(mode_t mode) {
  std::string out;
  for (int shift = 9; shift >= 0; shift -= 3) out += static_cast<char>('0' + ((mode >> shift) & 7));
  return out;
}

// From "/" to what a path names. `at_` is where the walk is, for messages.
class Walk {
 public:
  explicit Walk(std::string path) : path_(std::move(path)) {}

  // What is there, opened with `flags`, folders and links on the way checked; an invalid descriptor if nothing is there.
  Result<Descriptor> open(int flags) {
    MLC_RETURN_IF_ERROR(start());
    while (!steps_.empty()) {
      const Step step = std::move(steps_.back());
      steps_.pop_back();
      MLC_ASSIGN(Descriptor next, enter(step));
      if (!next.valid()) return next;  // nothing is there
      struct stat info;
      if (::fstat(next.get(), &info) != 0) return unreadable(step.name, {});
      if (S_ISLNK(info.st_mode)) {
        MLC_RETURN_IF_ERROR(follow(step, next, info));
      } else if (steps_.empty()) {
        return open_last(step, info, flags);
      } else {
        keep(check(info, place_of(step.name)));
        at_ = place_of(step.name);
        folder_ = std::move(next);
      }
    }
    MLC_RETURN_IF_ERROR(std::move(unsafe_));
    return Descriptor(::openat(folder_.get(), ".", flags | O_CLOEXEC));  // the path was "/"
  }

 private:
  struct Step {
    std::string name;
    bool of_link;  // a part of the text of a link
  };

  Status start() {
    std::string path = path_;
    if (!path.starts_with('/')) {
      std::array<char, PATH_MAX> here;
      if (::getcwd(here.data(), here.size()) == nullptr) return unreadable(".", {});
      path = compose("{}/{}", here.data(), path_);
    }
    push(path, /*of_link=*/false);
    return to_root();
  }
  Status to_root() {
    at_ = "/";
    folder_ = Descriptor(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    struct stat info;
    if (!folder_.valid() || ::fstat(folder_.get(), &info) != 0) return unreadable("", {});
    keep(check(info, at_));
    return ok();
  }
  // Where nothing is in the end, it does not matter who may write on the way.
  void keep(Status status) {
    if (unsafe_.ok()) unsafe_ = std::move(status);
  }
  // The parts of `path`, the next one last.
  void push(std::string_view path, bool of_link) {
    for (size_t end = path.size(); end > 0;) {
      const size_t slash = path.rfind('/', end - 1);
      const size_t begin = slash == std::string_view::npos ? 0 : slash + 1;
      const std::string_view name = path.substr(begin, end - begin);
      if (!name.empty() && name != ".") steps_.push_back({std::string(name), of_link});
      end = begin == 0 ? 0 : begin - 1;
    }
  }
  std::string place_of(const std::string& name) const {
    return at_.ends_with('/') ? at_ + name : compose("{}/{}", at_, name);
  }

  Result<Descriptor> enter(const Step& step) {
    Descriptor next(::openat(folder_.get(), step.name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (next.valid()) return next;
    const bool missing = errno == ENOENT || errno == ENOTDIR;
    if (missing && !step.of_link) return next;
    if (missing)
      return Status(Code::NotFound, 3305, "{}: a link leads to {}, which does not exist", path_, place_of(step.name));
    return unreadable("", errno == EACCES ? "x" : "");
  }
  Status follow(const Step& step, const Descriptor& link, const struct stat& info) {
    const std::string place = place_of(step.name);
    if (++links_ > kMaxLinks) return Status(Code::NotFound, 3305, "{}: too many links", path_);
    if (!belongs_here(info.st_uid)) keep(foreign(info, place));
    std::array<char, PATH_MAX> text;
    const ssize_t len = ::readlinkat(link.get(), "", text.data(), text.size());
    if (len <= 0) return unreadable(step.name, {});
    const std::string_view target(text.data(), static_cast<size_t>(len));
    push(target, /*of_link=*/true);
    return target.starts_with('/') ? to_root() : ok();
  }
  Result<Descriptor> open_last(const Step& step, const struct stat& found, int flags) {
    const std::string place = place_of(step.name);
    MLC_RETURN_IF_ERROR(std::move(unsafe_));
    if ((flags & O_DIRECTORY) ? !S_ISDIR(found.st_mode) : !S_ISREG(found.st_mode))
      return Status(Code::NotFound, 3305, "{}: not a {}", path_, (flags & O_DIRECTORY) ? "folder" : "regular file");
    Descriptor last(::openat(folder_.get(), step.name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC));
    if (!last.valid()) {
      if (errno != EACCES) return unreadable(step.name, {});
      MLC_RETURN_IF_ERROR(check(found, place));  // whose it is says more than that it cannot be read
      return unreadable(step.name, "r");
    }
    struct stat info;
    if (::fstat(last.get(), &info) != 0) return unreadable(step.name, {});
    MLC_RETURN_IF_ERROR(check(info, place));
    return last;
  }

  static bool belongs_here(uid_t owner) { return owner == 0 || owner == ::geteuid(); }
  Status foreign(const struct stat& info, const std::string& place) const {
    const uid_t user = ::geteuid();
    Status status(Code::Untrusted, 3304, "{}: not believed, {} belongs to user {}", path_, place, info.st_uid);
    if (user == 0) return std::move(status).hint("chown root {}, or run with root's own HOME (sudo -H)", place);
    return std::move(status).fact("expected user {} or root", user).hint("set HOME to a folder of your own; or, if {} is meant to be yours, sudo chown {} {}", place, user, place);
  }
  Status check(const struct stat& info, const std::string& place) const {
    if (!belongs_here(info.st_uid)) return foreign(info, place);
    if ((info.st_mode & 022) == 0 || (S_ISDIR(info.st_mode) && (info.st_mode & S_ISVTX) != 0)) return ok();
    return Status(Code::Untrusted, 3304, "{}: not believed, others may change {} (mode {})", path_, place,
                  octal(info.st_mode))
        .hint("{}chmod go-w {}", info.st_uid == ::geteuid() ? "" : "sudo ", place);
  }
  // With errno; `right` is what is missing at the place, if that is known.
  Status unreadable(const std::string& name, std::string_view right) const {
    const char* why = ::strerror(errno);
    const std::string place = name.empty() ? at_ : place_of(name);
    Status status(Code::NotFound, 3305, "{}: there, but cannot be read: {}: {}", path_, place, why);
    struct stat info;
    if (right.empty() || ::fstatat(folder_.get(), name.c_str(), &info, AT_EMPTY_PATH) != 0) return status;
    const bool own = info.st_uid == ::geteuid();
    return std::move(status).hint("{}chmod {}+{} {}", own ? "" : "sudo ", own ? "u" : "a", right, place);
  }

  const std::string path_;
  std::string at_ = "/";
  Descriptor folder_;
  std::vector<Step> steps_;  // the next one last
  Status unsafe_;            // the first folder or link that others may change
  unsigned links_ = 0;
};

}  // namespace

Status check_private(const Descriptor& fd, const std::string& path) {
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return Status(Code::NotFound, "{}: cannot read the file: {}", path, ::strerror(errno));
  if (info.st_uid != ::geteuid())
    return Status(Code::Untrusted, 3303, "{}: a private key that belongs to user {}, expected user {}", path,
                  info.st_uid, ::geteuid())
        .hint("sudo chown {} {}", ::geteuid(), path);
  if ((info.st_mode & 077) != 0)
    return Status(Code::Untrusted, 3303, "{}: a private key that others may read or write", path)
        .hint("chmod 600 {}", path);
  return ok();
}

Result<std::optional<std::string>> read_owned_file(const std::string& path, size_t limit) {
  MLC_ASSIGN(const Descriptor fd, Walk(path).open(O_RDONLY | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid()) return std::optional<std::string>();
  MLC_ASSIGN(std::string text, read_all(fd, path, limit));
  return std::optional(std::move(text));
}

Result<std::optional<OwnedFolder>> OwnedFolder::open(const std::string& path) {
  MLC_ASSIGN(Descriptor fd, Walk(path).open(O_RDONLY | O_DIRECTORY));
  if (!fd.valid()) return std::optional<OwnedFolder>();
  return std::optional(OwnedFolder(path, std::move(fd)));
}

Result<OwnedFolder> OwnedFolder::make(const std::string& path, Readers readers) {
  // The folder that is there already must be one where this user may have files: root does not write into the home of
  // another user, who could not read what it leaves there.
  size_t end = path.size();
  while (end > 0) {
    MLC_ASSIGN(const bool there, file_exists(path.substr(0, end)));
    if (there) break;
    const size_t slash = path.rfind('/', end - 1);
    end = slash == std::string::npos ? 0 : slash;
  }
  const std::string first = end > 0 ? path.substr(0, end) : path.starts_with('/') ? "/" : ".";
  MLC_ASSIGN(const std::optional<OwnedFolder> checked, open(first));
  while (end < path.size()) {
    end = std::min(path.find('/', end + 1), path.size());
    const std::string part = path.substr(0, end);
    const bool made = ::mkdir(part.c_str(), 0700) == 0;
    if (!(made ? readers == Readers::User || ::chmod(part.c_str(), 0755) == 0 : errno == EEXIST))
      return Status(Code::NotFound, 3305, "{}: cannot create the folder: {}", part, ::strerror(errno));
  }
  MLC_ASSIGN(std::optional<OwnedFolder> made, open(path));
  if (!made) return Status(Code::NotFound, 3305, "{}: the folder has disappeared", path);
  return std::move(*made);
}

Status OwnedFolder::lock() {
  int locked = -1;
  do locked = ::flock(fd_.get(), LOCK_EX);
  while (locked != 0 && errno == EINTR);
  return locked == 0 ? ok() : Status(Code::NotFound, 3306, "{}: cannot be locked: {}", path_, ::strerror(errno));
}

Result<std::vector<std::string>> OwnedFolder::names(size_t most) const {
  std::vector<std::string> names;
  const auto failed = [&] { return Status(Code::NotFound, 3305, "{}: cannot be listed: {}", path_, ::strerror(errno)); };
  const int copy = ::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0);
  DIR* dir = copy < 0 ? nullptr : ::fdopendir(copy);
  if (dir == nullptr) {
    if (copy >= 0) ::close(copy);
    return failed();
  }
  const OnExit close_folder([&] { ::closedir(dir); });
  ::rewinddir(dir);
  errno = 0;
  while (const dirent* entry = ::readdir(dir)) {
    if (names.size() <= most) names.emplace_back(entry->d_name);
    errno = 0;
  }
  const bool read = errno == 0;
  if (!read) return failed();
  if (names.size() > most) return Status(Code::NotFound, 3305, "{}: more than {} entries", path_, most);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace mlc::signing
