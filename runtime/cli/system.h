// What commands ask of the system.
#pragma once

#include <cstdint>

namespace mlc::cli {

// The most memory that this process has had, in bytes; 0: not told.
[[nodiscard]] uint64_t most_memory_bytes();
// Processes that wanted a CPU in the last minute, on average; below 0: not told.
[[nodiscard]] double load_of_minute();
// How many descriptors this process may have, once it has asked for `wanted`.
[[nodiscard]] uint64_t descriptors_allowed(uint64_t wanted);

}  // namespace mlc::cli
