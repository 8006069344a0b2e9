// Little- and big-endian numbers of hostile bytes: what lies outside reads as 0 and is remembered.
#pragma once

#include "base/checked.h"

namespace mlc::io {

struct ByteReader {
  Bytes bytes;
  bool failed = false;

  // `n` at most 4.
  uint32_t little(uint64_t at, unsigned n) { return number(at, n, false); }
  uint32_t big(uint64_t at, unsigned n) { return number(at, n, true); }

 private:
  uint32_t number(uint64_t at, unsigned n, bool big_endian) {
    if (!range_within(at, n, bytes.size())) {
      failed = true;
      return 0;
    }
    uint32_t value = 0;
    for (unsigned i = 0; i < n; ++i)
      value |= std::to_integer<uint32_t>(bytes[at + i]) << 8 * (big_endian ? n - 1 - i : i);
    return value;
  }
};

}  // namespace mlc::io
