// Where the bytes of a container come from: a file, or memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

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
  // All bytes at one 256-aligned address, valid as long as this object; Resource if that cannot be had.
  [[nodiscard]] virtual Result<const std::byte*> map() const = 0;
  // False: `map` never works, so weights are copied whichever users may change them.
  virtual bool is_mappable() const { return true; }
  virtual Writers writers() const { return Writers::Nobody; }
  // Malformed (E6001) if the bytes have been changed since they were opened, as far as size and time of the file tell.
  [[nodiscard]] virtual Status unchanged() const { return ok(); }
  // Whether something else may lie right behind the last byte of `map`. Behind a mapped file are zeros to the end of a page.
  virtual bool has_neighbours() const { return false; }
};

// NotFound: missing, not readable, not a regular file.
[[nodiscard]] Result<std::unique_ptr<Source>> open_file(const std::string& path);
// The file behind a descriptor, which stays the caller's: a duplicate is kept. `name` is for messages; empty: "descriptor 3".
[[nodiscard]] Result<std::unique_ptr<Source>> open_descriptor(int fd, const std::string& name = {});
// `bytes` must outlive the result.
[[nodiscard]] std::unique_ptr<Source> memory_source(Bytes bytes, const std::string& name);


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
