// Compression of a segment: one zstd frame per 2^20 decoded bytes, each with its content size and a checksum, none with
// a dictionary (spec/container.md, "Compression"). The only file of the writer that knows zstd.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/status.h"

namespace mlc::container {

struct Frames {
  std::vector<std::byte> stored;   // the frames, back to back
  std::vector<uint32_t> lengths;   // stored bytes of each
};

enum class Effort : uint8_t {
  Small,  // level 19: code, plans, texts
  Fast,   // level 3: golden arrays, which are large and hardly shrink
};

// Equal input gives equal bytes with the same version of zstd. Resource if zstd fails.
[[nodiscard]] Result<Frames> compress(Bytes decoded, Effort effort);

// What the bytes depend on, for provenance: "zstd-1.5.4-levels-19-3".
[[nodiscard]] std::string compressor_id();

}  // namespace mlc::container
