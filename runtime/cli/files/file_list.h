// The files of a command that answers each of several: those of folders, of lists and those that are named, in the order in
// which they are answered.
//
// A folder gives its regular files and those of the folders in it, the entries of each folder in the order of the bytes of
// their names. Left out: what is called .SOMETHING, symbolic links (counted: one may lead out of the folder), what is neither
// a file nor a folder, and the folder that answers are written to. What is named is taken as it is, a link too.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "signing/files/file.h"

namespace mlc::cli {

struct ListedFile {
  std::string path;   // as a user would name it; "-" is standard input
  std::string place;  // of its result, below the folder of results, without what ends the name of that; unique
  size_t folder = kNamed;
  std::string below;  // its path below that folder

  static constexpr size_t kNamed = SIZE_MAX;  // the user has named it: no folder was looked through
  bool is_named() const { return folder == kNamed; }
};

struct FileRequest {
  std::vector<std::string> names;  // of files and folders
  std::string list;                // a file of further ones, a line each or, where it has a byte 0, one before each; "-": standard input; empty: none
  std::string results;             // a folder; empty: none
};

class FileList {
 public:
  // NotFound: a folder or list cannot be read. Resource: there are too many files, or too many folders in each other. Usage: two of
  // them would have one place for their results.
  static Result<FileList> of(const FileRequest& request);

  const std::vector<ListedFile>& files() const { return files_; }
  uint64_t links() const { return links_; }
  // For reading, no link on the way below its folder being followed, be it put there since. A folder, or what is no regular file
  // of a folder any more, is NotFound.
  Result<signing::Descriptor> open(const ListedFile& file) const;
  // What is open: the folders.
  std::vector<int> descriptors() const;

  static constexpr size_t kMostFiles = size_t{1} << 20;

 private:
  static constexpr unsigned kDeepest = 64;  // folders in each other

  FileList() = default;
  Status add(const std::string& name);
  Status add_folder(const std::string& name);
  Status add_list(const std::string& list);
  Status walk(int folder, const std::string& below, unsigned depth);
  Status add_file(ListedFile file);
  Status give_places();
  bool is_results(int folder) const;

  std::vector<ListedFile> files_;
  std::vector<signing::Descriptor> folders_;  // on Windows none is open: places of files are looked at again when they are opened
  std::vector<std::string> folder_names_;
  std::string results_;
  uint64_t links_ = 0;
};

}  // namespace mlc::cli
