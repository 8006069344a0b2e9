#include "packager/text/unicode.h"

#include <unicode/uchar.h>
#include <unicode/unorm2.h>

#include "schema/text/compiled.h"

namespace mlc::text {
namespace {

// Whether the code point was assigned in that version.
bool is_of(uint32_t c, unsigned major) {
  UVersionInfo age;
  u_charAge(static_cast<UChar32>(c), age);
  return age[0] != 0 && age[0] <= major;
}

constexpr unsigned kCategories = 8;     // punctuation, controls, marks
constexpr unsigned kNormalization = 9;  // decompositions, combining classes, what StripAccents removes

struct Range {
  uint32_t first, last;
};
template <size_t N>
bool is_in(const Range (&ranges)[N], uint32_t c) {
  for (const Range& range : ranges)
    if (c >= range.first && c <= range.last) return true;
  return false;
}

// Categories that Unicode 16, which the reference's patterns follow, gives otherwise than the database at hand (15).
struct NewCategory {
  Range range;
  uint32_t category;
};
constexpr NewCategory kNewCategories[] = {
    {{0x897, 0x897}, U_GC_MN_MASK}, {{0x1B4E, 0x1B4F}, U_GC_PO_MASK}, {{0x1B7F, 0x1B7F}, U_GC_PO_MASK}, {{0x1C89, 0x1C89}, U_GC_LU_MASK},
    {{0x1C8A, 0x1C8A}, U_GC_LL_MASK}, {{0x2427, 0x2429}, U_GC_SO_MASK}, {{0x2FFC, 0x2FFF}, U_GC_SO_MASK}, {{0x31E4, 0x31E5}, U_GC_SO_MASK},
    {{0x31EF, 0x31EF}, U_GC_SO_MASK}, {{0xA7CB, 0xA7CC}, U_GC_LU_MASK}, {{0xA7CD, 0xA7CD}, U_GC_LL_MASK}, {{0xA7DA, 0xA7DA}, U_GC_LU_MASK},
    {{0xA7DB, 0xA7DB}, U_GC_LL_MASK}, {{0xA7DC, 0xA7DC}, U_GC_LU_MASK}, {{0x105C0, 0x105F3}, U_GC_LO_MASK}, {{0x10D40, 0x10D49}, U_GC_ND_MASK},
    {{0x10D4A, 0x10D4D}, U_GC_LO_MASK}, {{0x10D4E, 0x10D4E}, U_GC_LM_MASK}, {{0x10D4F, 0x10D4F}, U_GC_LO_MASK}, {{0x10D50, 0x10D65}, U_GC_LU_MASK},
    {{0x10D69, 0x10D6D}, U_GC_MN_MASK}, {{0x10D6E, 0x10D6E}, U_GC_PD_MASK}, {{0x10D6F, 0x10D6F}, U_GC_LM_MASK}, {{0x10D70, 0x10D85}, U_GC_LL_MASK},
    {{0x10D8E, 0x10D8F}, U_GC_SM_MASK}, {{0x10EC2, 0x10EC4}, U_GC_LO_MASK}, {{0x10EFC, 0x10EFC}, U_GC_MN_MASK}, {{0x11380, 0x11389}, U_GC_LO_MASK},
    {{0x1138B, 0x1138B}, U_GC_LO_MASK}, {{0x1138E, 0x1138E}, U_GC_LO_MASK}, {{0x11390, 0x113B5}, U_GC_LO_MASK}, {{0x113B7, 0x113B7}, U_GC_LO_MASK},
    {{0x113B8, 0x113BA}, U_GC_MC_MASK}, {{0x113BB, 0x113C0}, U_GC_MN_MASK}, {{0x113C2, 0x113C2}, U_GC_MC_MASK}, {{0x113C5, 0x113C5}, U_GC_MC_MASK},
    {{0x113C7, 0x113CA}, U_GC_MC_MASK}, {{0x113CC, 0x113CD}, U_GC_MC_MASK}, {{0x113CE, 0x113CE}, U_GC_MN_MASK}, {{0x113CF, 0x113CF}, U_GC_MC_MASK},
    {{0x113D0, 0x113D0}, U_GC_MN_MASK}, {{0x113D1, 0x113D1}, U_GC_LO_MASK}, {{0x113D2, 0x113D2}, U_GC_MN_MASK}, {{0x113D3, 0x113D3}, U_GC_LO_MASK},
    {{0x113D4, 0x113D5}, U_GC_PO_MASK}, {{0x113D7, 0x113D8}, U_GC_PO_MASK}, {{0x113E1, 0x113E2}, U_GC_MN_MASK}, {{0x116D0, 0x116E3}, U_GC_ND_MASK},
    {{0x1171E, 0x1171E}, U_GC_MC_MASK}, {{0x11BC0, 0x11BE0}, U_GC_LO_MASK}, {{0x11BE1, 0x11BE1}, U_GC_PO_MASK}, {{0x11BF0, 0x11BF9}, U_GC_ND_MASK},
    {{0x11F5A, 0x11F5A}, U_GC_MN_MASK}, {{0x13460, 0x143FA}, U_GC_LO_MASK}, {{0x16100, 0x1611D}, U_GC_LO_MASK}, {{0x1611E, 0x16129}, U_GC_MN_MASK},
    {{0x1612A, 0x1612C}, U_GC_MC_MASK}, {{0x1612D, 0x1612F}, U_GC_MN_MASK}, {{0x16130, 0x16139}, U_GC_ND_MASK}, {{0x16D40, 0x16D42}, U_GC_LM_MASK},
    {{0x16D43, 0x16D6A}, U_GC_LO_MASK}, {{0x16D6B, 0x16D6C}, U_GC_LM_MASK}, {{0x16D6D, 0x16D6F}, U_GC_PO_MASK}, {{0x16D70, 0x16D79}, U_GC_ND_MASK},
    {{0x18CFF, 0x18CFF}, U_GC_LO_MASK}, {{0x1CC00, 0x1CCEF}, U_GC_SO_MASK}, {{0x1CCF0, 0x1CCF9}, U_GC_ND_MASK}, {{0x1CD00, 0x1CEB3}, U_GC_SO_MASK},
    {{0x1E5D0, 0x1E5ED}, U_GC_LO_MASK}, {{0x1E5EE, 0x1E5EF}, U_GC_MN_MASK}, {{0x1E5F0, 0x1E5F0}, U_GC_LO_MASK}, {{0x1E5F1, 0x1E5FA}, U_GC_ND_MASK},
    {{0x1E5FF, 0x1E5FF}, U_GC_PO_MASK}, {{0x1F8B2, 0x1F8BB}, U_GC_SO_MASK}, {{0x1F8C0, 0x1F8C1}, U_GC_SO_MASK}, {{0x1FA89, 0x1FA89}, U_GC_SO_MASK},
    {{0x1FA8F, 0x1FA8F}, U_GC_SO_MASK}, {{0x1FABE, 0x1FABE}, U_GC_SO_MASK}, {{0x1FAC6, 0x1FAC6}, U_GC_SO_MASK}, {{0x1FADC, 0x1FADC}, U_GC_SO_MASK},
    {{0x1FADF, 0x1FADF}, U_GC_SO_MASK}, {{0x1FAE9, 0x1FAE9}, U_GC_SO_MASK}, {{0x1FBCB, 0x1FBEF}, U_GC_SO_MASK}, {{0x2EBF0, 0x2EE5D}, U_GC_LO_MASK}};
// Capital letters of Unicode 16 and 17: the small ones are that far away.
struct NewCapitals {
  Range range;
  int32_t distance;
};
constexpr NewCapitals kNewCapitals[] = {{{0x1C89, 0x1C89}, 1}, {{0xA7CB, 0xA7CB}, -42343}, {{0xA7CC, 0xA7CC}, 1}, {{0xA7CE, 0xA7CE}, 1},
                                        {{0xA7D2, 0xA7D2}, 1}, {{0xA7D4, 0xA7D4}, 1}, {{0xA7DA, 0xA7DA}, 1}, {{0xA7DC, 0xA7DC}, -42561},
                                        {{0x10D50, 0x10D65}, 32}, {{0x16EA0, 0x16EB8}, 27}};

// Those whose category another version changed, as the reference has them.
constexpr Range kOldPunctuation[] = {{0x166D, 0x166D}, {0x111C9, 0x111C9}};
constexpr Range kOldMarks[] = {{0x1734, 0x1734}};
constexpr Range kNoOldMarks[] = {{0x1885, 0x1886}, {0xA9BD, 0xA9BD}, {0x111C9, 0x111C9}};

constexpr Range kIdeographs[] = {{0x4E00, 0x9FFF}, {0x3400, 0x4DBF}, {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
                                 {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF}, {0x2F800, 0x2FA1F}};

// What the normaliser Nmt removes, and what it makes a blank.
constexpr Range kDropped[] = {{0x01, 0x08}, {0x0B, 0x0B}, {0x0E, 0x1F}, {0x7F, 0x7F}, {0x8F, 0x8F}, {0x9F, 0x9F}};
constexpr Range kBlankLikes[] = {{0x09, 0x0A}, {0x0C, 0x0D}, {0x1680, 0x1680}, {0x200B, 0x200F}, {0x2028, 0x2029}, {0x2581, 0x2581},
                                 {0xFEFF, 0xFEFF}, {0xFFFD, 0xFFFD}};

bool is_ascii_punctuation(uint32_t c) {
  return (c >= 0x21 && c <= 0x2F) || (c >= 0x3A && c <= 0x40) || (c >= 0x5B && c <= 0x60) || (c >= 0x7B && c <= 0x7E);
}

// What StripAccents removes: 1CF2 and 1CF3 were marks of that version, 111C9 has become one since.
bool is_any_mark(uint32_t c) {
  if (c == 0x1CF2 || c == 0x1CF3 || c == 0x111C9) return c != 0x111C9;
  return is_of(c, kNormalization) && (U_MASK(u_charType(static_cast<UChar32>(c))) & U_GC_M_MASK) != 0;
}

bool is_word_char(UChar32 c, uint32_t category) {
  return u_hasBinaryProperty(c, UCHAR_ALPHABETIC) || u_hasBinaryProperty(c, UCHAR_JOIN_CONTROL) ||
         (category & (U_GC_L_MASK | U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0;
}

}  // namespace

uint32_t general_category(uint32_t code_point) {
  static const std::vector<uint32_t> all = [] {
    std::vector<uint32_t> masks(kCodePoints);
    for (uint32_t c = 0; c < kCodePoints; ++c) masks[c] = U_MASK(u_charType(static_cast<UChar32>(c)));
    for (const NewCategory& one : kNewCategories)
      for (uint32_t c = one.range.first; c <= one.range.last; ++c) masks[c] = one.category;
    return masks;
  }();
  return all[code_point];
}

namespace {

uint16_t find_bits(uint32_t code_point) {
  const auto c = static_cast<UChar32>(code_point);
  const uint32_t category = general_category(code_point);
  const uint32_t old_category = is_of(code_point, kCategories) ? U_MASK(u_charType(c)) : 0;
  const auto bit = [](ClassBit which, bool is) { return static_cast<uint16_t>(is ? which : 0); };
  const bool is_line = code_point == '\t' || code_point == '\n' || code_point == '\r';
  return bit(kSpace, u_hasBinaryProperty(c, UCHAR_WHITE_SPACE)) |
         bit(kPunctuation, is_ascii_punctuation(code_point) || (old_category & U_GC_P_MASK) || is_in(kOldPunctuation, code_point)) |
         bit(kControl, code_point == 0 || code_point == 0xFFFD || (!is_line && (old_category & U_GC_C_MASK & ~U_GC_CN_MASK))) |
         bit(kMark, ((old_category & U_GC_MN_MASK) && !is_in(kNoOldMarks, code_point)) || is_in(kOldMarks, code_point)) |
         bit(kLetter, category & U_GC_L_MASK) | bit(kNumber, category & U_GC_N_MASK) |
         bit(kWordChar, is_word_char(c, category)) | bit(kIdeograph, is_in(kIdeographs, code_point)) |
         bit(kAnyMark, is_any_mark(code_point)) | bit(kUnwritten, is_in(kDropped, code_point)) | bit(kBlankLike, is_in(kBlankLikes, code_point));
}

}  // namespace

uint16_t class_bits(uint32_t code_point) {
  static const std::vector<uint16_t> all = [] {
    std::vector<uint16_t> bits(kCodePoints);
    for (uint32_t c = 0; c < kCodePoints; ++c) bits[c] = find_bits(c);
    return bits;
  }();
  return all[code_point];
}

namespace {

std::vector<uint32_t> decomposed_by(const UNormalizer2* normalizer, uint32_t code_point) {
  if (!is_of(code_point, kNormalization)) return {};
  UErrorCode error = U_ZERO_ERROR;
  UChar units[32];
  const int32_t count = unorm2_getDecomposition(normalizer, static_cast<UChar32>(code_point), units, 32, &error);
  std::vector<uint32_t> out;
  for (int32_t i = 0; U_SUCCESS(error) && i < count;) {
    UChar32 c;
    U16_NEXT(units, i, count, c);
    out.push_back(static_cast<uint32_t>(c));
  }
  return out;
}

}  // namespace

std::vector<uint32_t> decomposition(uint32_t code_point) {
  UErrorCode error = U_ZERO_ERROR;
  return decomposed_by(unorm2_getNFDInstance(&error), code_point);
}

std::vector<uint32_t> compatible_decomposition(uint32_t code_point) {
  UErrorCode error = U_ZERO_ERROR;
  return decomposed_by(unorm2_getNFKDInstance(&error), code_point);
}

const std::vector<Composition>& compositions() {
  static const std::vector<Composition> all = [] {
    std::vector<Composition> out;
    UErrorCode error = U_ZERO_ERROR;
    const UNormalizer2* nfc = unorm2_getNFCInstance(&error);
    for (uint32_t c = 0; c < kCodePoints; ++c) {
      if (!is_of(c, kNormalization) || (c >= 0xAC00 && c <= 0xD7A3)) continue;
      UChar units[8];
      error = U_ZERO_ERROR;
      const int32_t count = unorm2_getRawDecomposition(nfc, static_cast<UChar32>(c), units, 8, &error);
      UChar32 first = 0, second = 0;
      int32_t at = 0;
      if (U_FAILURE(error) || count < 2) continue;
      U16_NEXT(units, at, count, first);
      if (at >= count) continue;
      U16_NEXT(units, at, count, second);
      if (unorm2_composePair(nfc, first, second) == static_cast<UChar32>(c))
        out.push_back({static_cast<uint32_t>(first), static_cast<uint32_t>(second), c});
    }
    return out;
  }();
  return all;
}

uint32_t combining_class(uint32_t code_point) {
  return is_of(code_point, kNormalization) ? u_getCombiningClass(static_cast<UChar32>(code_point)) : 0;
}

std::vector<uint32_t> small_letters(uint32_t code_point) {
  if (code_point == 0x130) return {'i', 0x307};
  for (const NewCapitals& capitals : kNewCapitals)
    if (code_point >= capitals.range.first && code_point <= capitals.range.last)
      return {static_cast<uint32_t>(static_cast<int32_t>(code_point) + capitals.distance)};
  const auto small = static_cast<uint32_t>(u_tolower(static_cast<UChar32>(code_point)));
  return small == code_point ? std::vector<uint32_t>() : std::vector<uint32_t>{small};
}

uint32_t unicode_version() {
  UVersionInfo version;
  u_getUnicodeVersion(version);
  return uint32_t{version[0]} << 8 | version[1];
}

}  // namespace mlc::text
