// Whole files in and out, "-" being stdin or stdout.
#pragma once

#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/io/limits.h"
#include "runtime/io/tensor.h"

namespace mlc::io {

// The whole file. A missing or unreadable file is Code::NotFound; a directory is refused; Resource if there are more bytes than
// `most` allows.
Result<HostBuffer> read_file(const std::string& path, const FileLimits& most = {});

// The rest of a file that is open, and stays so. `path` stands in messages.
Result<HostBuffer> read_open_file(int fd, const std::string& path, const FileLimits& most = {});

// Bytes at both ends of a file; what is between them may be left out.
struct FileEnds {
  HostBuffer bytes;
  uint64_t gap_at = 0, gap = 0;  // so many bytes of the file, from `gap_at` on, are not among them
};
// Of a file that is open, and stays so, the first `first` and the last `last` bytes at least. Of a regular file that has more, and has
// not been read from, only these are read; another one is read to its end. Errors as read_open_file.
Result<FileEnds> read_file_ends(int fd, const std::string& path, uint64_t first, uint64_t last, uint64_t most = UINT64_MAX);

// A file that is read piece by piece, as far as it is there: a pipe, a device.
class FileReader {
 public:
  // `fd` is closed at the end, unless it is standard input.
  FileReader(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  FileReader(FileReader&& other) noexcept : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}
  FileReader& operator=(FileReader&&) = delete;
  ~FileReader();

  // What is there next, at most as many bytes; waits until there is something. 0: the end.
  Result<size_t> read(std::span<std::byte> to);

 private:
  int fd_;
  std::string path_;
};

// Files that were opened before they are read, for a process that may open none later on.
class InputFiles {
 public:
  InputFiles() = default;
  InputFiles(InputFiles&&) = default;
  ~InputFiles();

  // Opens `path`, but for "-", which is open; a failure is told by `read`. Each call provides for one call of `read`.
  void open_ahead(const std::string& path);
  // The whole file: the next one that was opened ahead by this path, or else opened now. Errors as read_file; Resource if
  // it has more bytes than `most` allows.
  Result<HostBuffer> read(const std::string& path, const FileLimits& most = {});
  // The same of its ends.
  Result<FileEnds> read_ends(const std::string& path, uint64_t first, uint64_t last, uint64_t most = UINT64_MAX);
  // The same file, not yet read.
  Result<FileReader> reader(const std::string& path);
  // What was read of standard input, and is the beginning of what `read` gives of it.
  void give_back(std::vector<std::byte> begun) { begun_ = std::move(begun); }

 private:
  struct Ahead {
    std::string path;
    int fd = -1;
    int error = 0;  // errno, where there is no fd
  };
  // The next one of this path, which is then no longer among them.
  std::optional<Ahead> take(const std::string& path);

  std::vector<Ahead> ahead_;
  std::vector<std::byte> begun_;  // of standard input
};

// Writes beside `path` and renames over it on `commit`, so that readers never see half a file; removed if never committed.
// "-" writes to stdout as it goes.
class FileWriter {
 public:
  static Result<FileWriter> create(const std::string& path);
  FileWriter(FileWriter&& other) noexcept;
  FileWriter& operator=(FileWriter&&) = delete;
  ~FileWriter();

  Status write(Bytes bytes);
  // In place of as many bytes that were written first; what is written later stands behind all others. Not to standard output.
  Status write_first(Bytes bytes);
  // What was written is in the file, on the disk. For a process that leaves `commit` to another one.
  Status sync();
  Status commit();
  // Another name in the same folder, for one that is known only when all is written. Before `commit`.
  Status rename(const std::string& path);

 private:
  FileWriter() = default;
  std::string path_, temporary_;  // temporary_ is empty for stdout and after commit
  std::FILE* file_ = nullptr;
};

}  // namespace mlc::io
