// What every byte of a container is spent on: a tree whose leaves add up to the size of the file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "packager/cli/look.h"

namespace mlc::cli {

// Stored bytes. The children of an entry add up to it exactly.
struct SizeEntry {
  std::string name;
  uint64_t bytes = 0;
  std::string note;  // in a few words; may be empty
  std::vector<SizeEntry> children;
};

enum class SizeBy {
  Kind,     // weights, code, plans, golden vectors, assets, ...
  Variant,  // what leaving one out would save; what several share
  Segment,
  Tensor,   // every copy of every tensor
};

// The root is the file. Largest first on every level.
[[nodiscard]] SizeEntry size_tree(const OpenContainer& file, SizeBy by);

// Folds the children below `least` bytes into one "others", on every level.
void fold_small(SizeEntry& entry, uint64_t least);

// "5.10 MB", "4.1 kB", "300 B"
[[nodiscard]] std::string human_bytes(uint64_t bytes);

}  // namespace mlc::cli
