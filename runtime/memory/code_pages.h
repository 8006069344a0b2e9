#pragma once

#include <cstdint>

namespace mlc {

// How executable memory is obtained. Tried in this order by the probe, with real code.
enum class CodePages : uint8_t {
  None,       // not at all: only the portable form runs
  Anonymous,  // S1: written into an anonymous mapping, then made read-execute
  SealedFd,   // S2: written into a memfd, sealed, mapped read-execute
};

}  // namespace mlc
