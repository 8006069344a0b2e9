// Whole files in and out, "-" being stdin or stdout.
#pragma once

#include <cstdio>
#include <string>

#include "runtime/io/tensor.h"

namespace mlc::io {

// The whole file. A missing or unreadable file is Code::NotFound; a directory is refused.
Result<HostBuffer> read_file(const std::string& path);

// Writes beside `path` and renames over it on `commit`, so that nobody sees half a file; removed if never committed.
// "-" writes to stdout as it goes.
class FileWriter {
 public:
  static Result<FileWriter> create(const std::string& path);
  FileWriter(FileWriter&& other) noexcept;
  FileWriter& operator=(FileWriter&&) = delete;
  ~FileWriter();

  Status write(Bytes bytes);
  Status commit();

 private:
  FileWriter() = default;
  std::string path_, temporary_;  // temporary_ is empty for stdout and after commit
  std::FILE* file_ = nullptr;
};

}  // namespace mlc::io
