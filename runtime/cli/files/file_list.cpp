#include "runtime/cli/files/file_list.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "base/cli/report.h"
#include "runtime/io/file.h"

namespace mlc::cli {
namespace {

constexpr size_t kMostFiles = size_t{1} << 20;
constexpr uint64_t kMostListBytes = uint64_t{256} << 20;
constexpr unsigned kDeepest = 64;

using signing::Descriptor;

Status cannot(const char* what, const std::string& path) {
  return Status(Code::NotFound, "cannot {} '{}': {}", what, path, std::strerror(errno));
}

bool is_folder(const std::string& path) {
  struct stat st = {};
  return ::stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
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
    if (entry->d_name[0] != '.' && names.size() <= kMostFiles) names.emplace_back(entry->d_name);
  ::closedir(stream);
  std::sort(names.begin(), names.end());
  return names;
}

// Where the result of a file that is named goes: as it is named, if that leads nowhere else.
std::string place_of_named(const std::string& path) {
  const std::filesystem::path normal = std::filesystem::path(path).lexically_normal();
  if (path == "-") return "standard-input";
  const bool is_below = normal.is_relative() && !normal.empty() && *normal.begin() != "..";
  return (is_below ? normal : normal.filename()).string();
}

std::string without_extension(const std::string& place) {
  return std::filesystem::path(place).replace_extension().string();
}

}  // namespace

Status FileList::add_file(ListedFile file) {
  if (files_.size() == kMostFiles) return Status(Code::Resource, "there are more than {} files", kMostFiles).hint("give them in parts");
  files_.push_back(std::move(file));
  return ok();
}

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

Status FileList::add(const std::string& name) {
  if (!is_folder(name)) return add_file({name, place_of_named(name), ListedFile::kNamed, ""});
  Descriptor folder(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return cannot("read", name);
  const int descriptor = folder.get();
  folders_.push_back(std::move(folder));
  folder_names_.push_back(name);
  return walk(descriptor, "", 0);
}

Status FileList::add_list(const std::string& list) {
  MLC_ASSIGN(const HostBuffer bytes, io::read_file(list, kMostListBytes));
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const bool has_zeros = text.find('\0') != text.npos;  // find -print0: names may have line ends
  while (!text.empty()) {
    const size_t end = std::min(text.find(has_zeros ? '\0' : '\n'), text.size());
    std::string_view name = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!has_zeros && name.ends_with('\r')) name.remove_suffix(1);
    if (name == "-") return Status(Code::Usage, "the list has '-', and standard input is no file of a list").hint("a file of that name is ./-");
    if (!name.empty()) MLC_RETURN_IF_ERROR(add(std::string(name)));
  }
  return ok();
}

// A result is called as its file, without what ends the name of that: .jpg, .png. Where two would be called alike, both keep it.
Status FileList::give_places() {
  std::map<std::string, size_t> times;
  for (const ListedFile& f : files_) ++times[without_extension(f.place)];
  std::set<std::string> given;
  for (ListedFile& f : files_) {
    if (times[without_extension(f.place)] == 1) f.place = without_extension(f.place);
    if (!given.insert(f.place).second)
      return Status(Code::Usage, "-o {}: the results of two files would be '{}' there, one of them that of {}", results_, f.place, f.path)
          .hint("give each folder a folder of results");
  }
  return ok();
}

Result<FileList> FileList::of(const FileRequest& request) {
  FileList list;
  list.results_ = request.results;
  for (const std::string& name : request.names) MLC_RETURN_IF_ERROR(list.add(name));
  if (!request.list.empty()) MLC_RETURN_IF_ERROR(list.add_list(request.list));
  if (!request.results.empty()) MLC_RETURN_IF_ERROR(list.give_places());
  return list;
}

Result<Descriptor> FileList::open(const ListedFile& file) const {
  if (file.is_named()) {
    Descriptor named(file.path == "-" ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : ::open(file.path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!named.valid()) return cannot("open", file.path);
    return named;
  }
  // Name by name, so that a link that somebody puts in the place of a folder leads nowhere.
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
