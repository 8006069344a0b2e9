// How far a long piece of work is, for the caller that waits for it.
#pragma once

#include <cstddef>
#include <functional>

namespace mlc {

// Told that `done` of `total` are done, on whichever thread did the last one, several at a time perhaps. May be empty.
using Progress = std::function<void(size_t done, size_t total)>;

}  // namespace mlc
