// What the Unicode Character Database says of code points, as far as tokenizers ask, and as of which version.
//
// The reference's parts were made with different versions of it, which decide what is unassigned: a letter of a later one
// is removed by its BertNormalizer. Each question here is answered as of the version that the reference answers with.
#pragma once

#include <cstdint>
#include <vector>

namespace mlc::text {

// The category, as the bit of ICU's U_GC_..._MASK.
uint32_t general_category(uint32_t code_point);
// Bits of ClassBit but those that say where a code point stands in a map.
uint16_t class_bits(uint32_t code_point);
// What the code point is decomposed into, canonically and wholly; empty if into nothing else. Not of Hangul syllables.
std::vector<uint32_t> decomposition(uint32_t code_point);
std::vector<uint32_t> compatible_decomposition(uint32_t code_point);
struct Composition {
  uint32_t first, second, both;
};
const std::vector<Composition>& compositions();  // but of Hangul
uint32_t combining_class(uint32_t code_point);
// The small letters of a code point; empty if they are itself.
std::vector<uint32_t> small_letters(uint32_t code_point);
// Major << 8 | minor of the database that this program was built with.
uint32_t unicode_version();

}  // namespace mlc::text
