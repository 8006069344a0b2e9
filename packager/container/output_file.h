// A file that appears complete or not at all: written under a temporary name in the same folder, synced, renamed. Where
// `path` is a symbolic link, the file behind it is written.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/files/unfinished.h"
#include "base/status.h"

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
  // In place of `write`, for a file whose parts arrive in any order: of `size` bytes, zeros where nothing is written.
  [[nodiscard]] Status set_size(uint64_t size);
  [[nodiscard]] Status write_at(uint64_t offset, Bytes bytes);
  // For reading what was written so; stays this object's.
  [[nodiscard]] int descriptor() const { return fd_; }
  // Where the bytes are until then; all that was written is there.
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

// Whether a container may be written to `path`: OK if there is no such file, or it begins like a container, or anything is to be
// replaced; Usage otherwise, and for folders.
[[nodiscard]] Status may_write(const std::string& path, bool force);

}  // namespace mlc::container
