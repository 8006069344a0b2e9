#include "runtime/cli/files/file_list.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace mlc::cli {
namespace {

using signing::Descriptor;

Status cannot(const char* what, const std::string& path) {
  return Status(Code::NotFound, "cannot {} '{}': {}", what, path, std::strerror(errno));
}

std::string joined(const std::string& folder, const std::string& name) {
  return folder.empty() || folder.ends_with('/') ? folder + name : folder + "/" + name;
}

// The names in a folder, sorted.
Result<std::vector<std::string>> names_in(int folder, const std::string& path) {
  const int own = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const stream = own >= 0 ? ::fdopendir(own) : nullptr;
  if (!stream) {
    Status failed = cannot("read", path);
    if (own >= 0) ::close(own);
    return failed;
  }
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(stream))
    if (entry->d_name[0] != '.' && names.size() <= FileList::kMostFiles) names.emplace_back(entry->d_name);
  ::closedir(stream);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

// Is this folder the one that answers are written to?
bool FileList::is_results(int folder) const {
  struct stat here = {}, there = {};
  return !results_.empty() && ::fstat(folder, &here) == 0 && ::stat(results_.c_str(), &there) == 0 && here.st_dev == there.st_dev &&
         here.st_ino == there.st_ino;
}

// Recursion: at most kDeepest.
Status FileList::walk(int folder, const std::string& below, unsigned depth) {
  const size_t root = folders_.size() - 1;
  const std::string here = below.empty() ? folder_names_[root] : joined(folder_names_[root], below);
  if (depth > kDeepest) return Status(Code::Resource, "'{}' has more than {} folders in each other", here, kDeepest);
  MLC_ASSIGN(const std::vector<std::string> names, names_in(folder, here));
  for (const std::string& name : names) {
    struct stat st = {};
    if (::fstatat(folder, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) continue;  // it has gone
    const std::string place = joined(below, name);
    if (S_ISLNK(st.st_mode)) ++links_;
    if (S_ISREG(st.st_mode)) MLC_RETURN_IF_ERROR(add_file({joined(folder_names_[root], place), place, root, place}));
    if (!S_ISDIR(st.st_mode)) continue;
    const Descriptor inner(::openat(folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!inner.valid()) return cannot("read", joined(folder_names_[root], place));
    if (!is_results(inner.get())) MLC_RETURN_IF_ERROR(walk(inner.get(), place, depth + 1));
  }
  return ok();
}

Status FileList::add_folder(const std::string& name) {
  Descriptor folder(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return cannot("read", name);
  const int descriptor = folder.get();
  folders_.push_back(std::move(folder));
  folder_names_.push_back(name);
  return walk(descriptor, "", 0);
}

Result<Descriptor> FileList::open(const ListedFile& file) const {
  if (file.is_named()) {
    Descriptor named(file.path == "-" ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : ::open(file.path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!named.valid()) return cannot("open", file.path);
    return named;
  }
  // Name by name, so that a folder replaced by a link is not followed.
  Descriptor inner;
  int folder = folders_[file.folder].get();
  for (size_t begin = 0;;) {
    const size_t end = file.below.find('/', begin);
    const std::string name = file.below.substr(begin, end - begin);
    const int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | (end == std::string::npos ? O_NONBLOCK : O_DIRECTORY);
    Descriptor next(::openat(folder, name.c_str(), flags));
    if (!next.valid()) return cannot("open", file.path);
    inner = std::move(next);
    folder = inner.get();
    if (end == std::string::npos) break;
    begin = end + 1;
  }
  struct stat st = {};
  if (::fstat(inner.get(), &st) != 0 || !S_ISREG(st.st_mode)) return Status(Code::NotFound, "'{}' is no regular file any more", file.path);
  return inner;
}

std::vector<int> FileList::descriptors() const {
  std::vector<int> all;
  for (const Descriptor& d : folders_) all.push_back(d.get());
  return all;
}

}  // namespace mlc::cli
