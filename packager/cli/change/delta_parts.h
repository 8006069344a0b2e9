// The bytes of a container at places that every copy of it has, and where a new container finds bytes of its own in an old one.
#pragma once

#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "packager/cli/change/stored.h"
#include "packager/delta/delta.h"

namespace mlc::cli {

// `file` must outlive it.
class PlacedBytes {
 public:
  [[nodiscard]] static Result<PlacedBytes> of(const ContainerFile& file);
  // Any source: Malformed where there is no such place, NotFound where this copy lacks it.
  [[nodiscard]] Result<std::vector<std::byte>> read(const delta::Source& source);
  // Bytes of the file itself.
  [[nodiscard]] Result<std::vector<std::byte>> read_file(uint64_t offset, uint64_t length);

  const ContainerFile& file() const { return *file_; }
  const std::vector<container::StoredSegment>& segments() const { return segments_; }

 private:
  explicit PlacedBytes(const ContainerFile& file) : file_(&file) {}
  const ContainerFile* file_;
  std::vector<container::StoredSegment> segments_;
  std::ifstream in_;
};

struct Leaf {
  Digest digest{};
  delta::Source place;  // in stored bytes of its segment
};
[[nodiscard]] std::vector<Leaf> leaves_of(uint32_t segment, const container::StoredSegment& stored);

// A piece of the new file, in its order.
struct Piece {
  uint64_t offset = 0;
  uint32_t length = 0;
  enum class Kind : uint8_t { Zeros, Same, Other } kind = Kind::Other;
  delta::Source source;  // Same: these bytes; Other: bytes that may be alike, or none
};
// All bytes of `b`, both of which were verified.
[[nodiscard]] std::vector<Piece> pieces_of(const PlacedBytes& a, const PlacedBytes& b);

}  // namespace mlc::cli
