// The leaves of a container by where they are in the file: what a pull has to fetch, and what an older file has of it.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/status.h"
#include "runtime/container/container.h"
#include "runtime/container/source.h"
#include "schema/placement.h"

namespace mlc::registry {

struct Leaf {
  uint64_t offset = 0;  // in the file
  uint32_t length = 0;  // as it is stored
  Digest digest{};
  uint32_t segment = 0;
};

// Where the segments of a file are. The reader has compared the file with this very placement; `manifest_len` is what its header page says.
[[nodiscard]] Result<format::Placement> placement_of(const container::Container& file, uint64_t manifest_len);

// Of every present segment, by offset. `file` was opened from bytes that `source` has too, and `manifest_len` is what its header page
// says; the leaf tables are read from there and compared with the segments' digests. BadSignature where one does not match.
[[nodiscard]] Result<std::vector<Leaf>> leaves_of(const container::Container& file, const container::Source& source, uint64_t manifest_len);

// Bytes [begin, end) of a file.
struct Range {
  uint64_t begin = 0, end = 0;
  friend bool operator==(const Range&, const Range&) = default;
};
// What has to be asked for to get these leaves, which are ordered by offset: gaps of less than `gap` bytes between them are fetched as well.
// What is longer than `most` is cut between leaves.
[[nodiscard]] std::vector<Range> ranges_of(const std::vector<Leaf>& leaves, uint64_t gap, uint64_t most);

}  // namespace mlc::registry
