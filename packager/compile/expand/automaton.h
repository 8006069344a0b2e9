// Private to the folder: an automaton over bytes that may be in several nodes at once, and the table of one that is in a single
// state and accepts the same.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"

namespace mlc::compile {

// From one node to another: by a byte from `low` to `high`, or by none (perhaps only where something holds).
struct Edge {
  enum class Kind : uint8_t { Byte, Empty, AtStart, AtEnd, Boundary, NoBoundary } kind = Kind::Empty;
  uint8_t low = 0, high = 0;
  uint32_t to = 0;
};

struct Part {
  uint32_t in = 0, out = 0;
};

struct Automaton {
  std::vector<std::vector<Edge>> nodes;
  Part whole;
  bool conditions = false, words = false;  // some edge has a condition; one about words
};

// The table that regex.h describes. Resource: it would have more than 4096 states.
Result<std::vector<int32_t>> table_of(const Automaton& a);

}  // namespace mlc::compile
