#include "runtime/cli/files/file_list.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/cli/report.h"
#include "base/files/file_calls.h"
#include "runtime/io/file.h"

namespace mlc::cli {
namespace {

constexpr uint64_t kMostListBytes = uint64_t{256} << 20;

// Where the result of a file that is named goes: as it is named, if that leads nowhere else.
std::string place_of_named(const std::string& path) {
  const std::filesystem::path normal = std::filesystem::path(path).lexically_normal();
  if (path == "-") return "standard-input";
  const bool is_below = normal.is_relative() && !normal.empty() && *normal.begin() != "..";
  return (is_below ? normal : normal.filename()).generic_string();
}

std::string without_extension(const std::string& place) {
  return std::filesystem::path(place).replace_extension().generic_string();
}

}  // namespace

Status FileList::add_file(ListedFile file) {
  if (files_.size() == kMostFiles) return Status(Code::Resource, "there are more than {} files", kMostFiles).hint("give them in parts");
  files_.push_back(std::move(file));
  return ok();
}

Status FileList::add(const std::string& name) {
  if (is_folder(name)) return add_folder(name);
  return add_file({name, place_of_named(name), ListedFile::kNamed, ""});
}

Status FileList::add_list(const std::string& list) {
  MLC_ASSIGN(const HostBuffer bytes, io::read_file(list, {.bytes = kMostListBytes}));
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

}  // namespace mlc::cli
