// The tables of a compiled tokenizer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "packager/text/pattern.h"
#include "schema/text/compiled.h"

namespace mlc::text {

struct NamedNumber {
  std::string text;  // not empty, each once
  uint32_t number;
};
// The units of a trie, as bytes. Of no texts: no bytes.
std::vector<std::byte> make_trie(std::vector<NamedNumber> texts);

// Pairs are there once.
std::vector<std::byte> make_merges(const std::vector<Merge>& merges);

// Bits of pairs of symbols between which a merge may be.
std::vector<std::byte> make_neighbours(const std::vector<std::pair<uint32_t, uint32_t>>& pairs);

// A number of each code point.
std::vector<std::byte> make_blocks(const std::vector<uint16_t>& numbers);
std::vector<std::byte> make_patterns(const PatternTables& patterns);
// Of every code point the bits of `mask`.
std::vector<std::byte> make_classes(uint16_t mask);
// Those whose bit (kDecomposed, kCompatible, kComposing, kLowered, kOrdered) is in `mask`.
std::vector<std::byte> make_maps(uint16_t mask);

}  // namespace mlc::text
