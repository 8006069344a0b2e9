// Files that come with a stranger's model, read whole.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace mlc {

// The whole of a regular file of at most `most` bytes, of which none is read where its size is larger; `too_long` is the code of that.
// NotFound (E1003): missing, not readable, or no regular file. A FIFO is refused without waiting for its writer, a device
// without reading from it.
[[nodiscard]] Result<std::string> read_regular_file(const std::string& path, uint64_t most, Code too_long = Code::Malformed);

}  // namespace mlc
