// Where the bytes of a container come from: a file, a folder of parts, or memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "base/status.h"

namespace mlc::container {

// Who may change the bytes while they are in use, as far as can be known when they are opened.
enum class Writers : uint8_t {
  Nobody,  // memory that its owner promised not to change; a sealed memfd
  Owner,   // this user and root
  Others,
};

// Thread-safe after construction. The size is fixed at construction: a file that grows later is not noticed, one that
// shrinks makes reads fail.
class Source {
 public:
  virtual ~Source() = default;
  virtual const std::string& name() const = 0;
  virtual uint64_t size() const = 0;
  // Fills `out` with the bytes from `offset`, or fails: NotFound for an I/O error, Malformed if they are not there.
  [[nodiscard]] virtual Status read(uint64_t offset, std::span<std::byte> out) const = 0;
  // These bytes, which are within the size, at one address, valid as long as this object; 256-aligned whenever `offset` is, and the line
  // of 64 bytes in which they end can be read to its end. Resource if that cannot be had.
  [[nodiscard]] virtual Result<const std::byte*> map(uint64_t offset, uint64_t length) const = 0;
  // False: `map` never works, so weights are copied whichever users may change them.
  virtual bool is_mappable() const { return true; }
  virtual Writers writers() const { return Writers::Nobody; }
  // Malformed (E6001) if the bytes have been changed since they were opened, as far as size and time of the file tell.
  [[nodiscard]] virtual Status unchanged() const { return ok(); }
  // The name of the file in which this byte is, or the last one, for messages.
  virtual const std::string& file_at(uint64_t) const { return name(); }
};

// A file, or a folder of parts. NotFound: it, or a part, is missing, not readable, or not a regular file (a symbolic link to a part is not
// followed), or there is no part; Malformed: parts of two containers, an empty one, more than kMaxParts.
[[nodiscard]] Result<std::unique_ptr<Source>> open_file(const std::string& path);
// The file behind a descriptor, which stays the caller's: a duplicate is kept. `name` is for messages; empty: "descriptor 3".
[[nodiscard]] Result<std::unique_ptr<Source>> open_descriptor(int fd, const std::string& name = {});
// `bytes` must outlive the result.
[[nodiscard]] std::unique_ptr<Source> memory_source(Bytes bytes, const std::string& name);

// Which files of a folder are parts: NAME.mlc.000, NAME.mlc.001, ... of one container. For source_posix.cpp and source_windows.cpp.
class PartNames {
 public:
  explicit PartNames(std::string folder) : folder_(std::move(folder)) {}
  // One name in the folder. Malformed: parts of two containers, or more than kMaxParts.
  [[nodiscard]] Status add(std::string_view name);
  size_t count() const { return count_; }
  // Where part `k` below `count` has to be. If all of them are there, no part has another number.
  std::string path(size_t k) const;

 private:
  const std::string folder_;
  std::string model_;  // "NAME.mlc"
  size_t count_ = 0;
};
// `parts` of the folder `name` in this order. NotFound: none; Malformed: an empty one.
[[nodiscard]] Result<std::unique_ptr<Source>> join_parts(std::vector<std::unique_ptr<Source>> parts, const std::string& name);

// Functions of the application that know the bytes.
struct Reader {
  uint64_t bytes = 0;
  int (*read)(void* user, uint64_t offset, void* out, uint64_t bytes) = nullptr;  // 0, or NotFound with the number
  void* user = nullptr;
};
// What `reader` points to must outlive the result. That it gives the right bytes, and the same ones each time, is not believed:
// all that is used is hashed after it was read, and never read again.
[[nodiscard]] std::unique_ptr<Source> reader_source(const Reader& reader, const std::string& name);

}  // namespace mlc::container
