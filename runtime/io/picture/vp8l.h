// What libwebp takes for the tables of prefix codes of a lossless WebP stream. The size of a picture does not bound it: a
// picture may have 65536 groups of codes at 20 KB each, and a file of 200 KB can state them all. How many a stream has
// at most stands behind its transforms, which have to be passed over symbol by symbol.
// Format: RFC 9649, section 3.
#pragma once

#include "runtime/io/limits.h"

namespace mlc::io {

// Bytes. `stream`: the bits behind the header of a VP8L chunk, or behind the first byte of an ALPH chunk; `width` and
// `height` of the picture, each at most 2^14. Time: linear in the pixels / 16. Malformed where libwebp refuses the stream
// as well.
Result<uint64_t> vp8l_table_memory(Bytes stream, uint32_t width, uint32_t height);

}  // namespace mlc::io
