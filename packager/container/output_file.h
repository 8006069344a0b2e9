// A file that appears complete or not at all: written under a temporary name in the same folder, synced, renamed. Where
// `path` is a symbolic link, the file behind it is written.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/status.h"
#include "base/unfinished.h"

namespace mlc::container {

class OutputFile {
 public:
  [[nodiscard]] static Result<OutputFile> create(const std::string& path);
  // Whether that will do, as far as it can be known beforehand: a temporary file is made and removed.
  [[nodiscard]] static Status try_create(const std::string& path);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();  // removes the temporary file unless committed

  [[nodiscard]] Status write(Bytes bytes);
  // Where the bytes lie until then; all that was written is there.
  [[nodiscard]] Result<std::string> flushed();
  // fsync, rename over `path`, fsync of the folder. Nothing may be written afterwards.
  [[nodiscard]] Status commit();

 private:
  OutputFile() = default;
  [[nodiscard]] Status flush();
  Status failed(const char* what) const;

  int fd_ = -1;
  std::string path_, temporary_;
  std::vector<std::byte> buffer_;
  std::optional<Unfinished> unfinished_;
};

}  // namespace mlc::container
