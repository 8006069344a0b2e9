// The headers of a JPEG 2000 codestream (ISO 15444-1, annex A), read as far as they decide what decoding takes: OpenJPEG
// allocates by tile, component, precinct and code block as the file says, before it has seen any data.
#pragma once

#include "runtime/io/limits.h"

namespace mlc::io {

struct Codestream {
  uint64_t width = 0, height = 0;
  uint32_t components = 0;
  uint64_t tiles = 0;
  uint64_t tile_width = 0, tile_height = 0;  // of the largest

  // Over all tiles and components, each at its most.
  uint64_t layers = 1, resolutions = 1;
  uint64_t blocks = 0;          // code blocks of a component of a tile
  uint64_t precincts = 0;       // of a component of a tile, each once for every band
  uint64_t most_precincts = 0;  // of a resolution
  uint64_t packets = 0;         // of a layer of a component of a tile
  uint64_t bit_planes = 0;      // of a code block
  bool short_segments = false;  // a coding pass may end a segment (the styles "lazy" and "terminate each")
  uint64_t markers = 0, tile_parts = 0;
};

// `codestream` begins with SOC and ends with the file. Malformed, or Unsupported for extensions of part 2, where anything
// does not stand as the standard has it: what is misread here could not be bounded.
Result<Codestream> read_codestream(Bytes codestream, const DecodeLimits& limits);

}  // namespace mlc::io
