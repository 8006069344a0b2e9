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
constexpr unsigned kNormalization = 9;  // decompositions, combining classes

struct Range {
  uint32_t first, last;
};
template <size_t N>
bool is_in(const Range (&ranges)[N], uint32_t c) {
  for (const Range& range : ranges)
    if (c >= range.first && c <= range.last) return true;
  return false;
}

// Assigned by Unicode 16, which the database at hand (15) does not know and the reference's patterns do.
constexpr Range kNewLetters[] = {{0x1C89, 0x1C8A}, {0xA7CB, 0xA7CD}, {0xA7DA, 0xA7DC}, {0x105C0, 0x105F3}, {0x10D4A, 0x10D65}, {0x10D6F, 0x10D85},
                                 {0x10EC2, 0x10EC4}, {0x11380, 0x11389}, {0x1138B, 0x1138B}, {0x1138E, 0x1138E}, {0x11390, 0x113B5},
                                 {0x113B7, 0x113B7}, {0x113D1, 0x113D1}, {0x113D3, 0x113D3}, {0x11BC0, 0x11BE0}, {0x13460, 0x143FA},
                                 {0x16100, 0x1611D}, {0x16D40, 0x16D6C}, {0x18CFF, 0x18CFF}, {0x1E5D0, 0x1E5ED}, {0x1E5F0, 0x1E5F0},
                                 {0x2EBF0, 0x2EE5D}};
constexpr Range kNewDigits[] = {{0x10D40, 0x10D49}, {0x116D0, 0x116E3}, {0x11BF0, 0x11BF9}, {0x16130, 0x16139},
                                {0x16D70, 0x16D79}, {0x1CCF0, 0x1CCF9}, {0x1E5F1, 0x1E5FA}};
constexpr Range kNewMarks[] = {{0x897, 0x897}, {0x10D69, 0x10D6D}, {0x10EFC, 0x10EFC}, {0x113B8, 0x113C0}, {0x113C2, 0x113C2},
                               {0x113C5, 0x113C5}, {0x113C7, 0x113CA}, {0x113CC, 0x113D0}, {0x113D2, 0x113D2}, {0x113E1, 0x113E2},
                               {0x11F5A, 0x11F5A}, {0x1611E, 0x1612F}, {0x1E5EE, 0x1E5EF}};
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

bool is_ascii_punctuation(uint32_t c) {
  return (c >= 0x21 && c <= 0x2F) || (c >= 0x3A && c <= 0x40) || (c >= 0x5B && c <= 0x60) || (c >= 0x7B && c <= 0x7E);
}

bool is_word_char(UChar32 c, uint32_t category) {
  return u_hasBinaryProperty(c, UCHAR_ALPHABETIC) || u_hasBinaryProperty(c, UCHAR_JOIN_CONTROL) ||
         (category & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0;
}

}  // namespace

uint16_t class_bits(uint32_t code_point) {
  const auto c = static_cast<UChar32>(code_point);
  const uint32_t category = U_MASK(u_charType(c));
  const uint32_t old_category = is_of(code_point, kCategories) ? category : 0;
  const bool letter = (category & U_GC_L_MASK) || is_in(kNewLetters, code_point), digit = (category & U_GC_N_MASK) || is_in(kNewDigits, code_point);
  const auto bit = [](ClassBit which, bool is) { return static_cast<uint16_t>(is ? which : 0); };
  const bool is_line = code_point == '\t' || code_point == '\n' || code_point == '\r';
  return bit(kSpace, u_hasBinaryProperty(c, UCHAR_WHITE_SPACE)) |
         bit(kPunctuation, is_ascii_punctuation(code_point) || (old_category & U_GC_P_MASK) || is_in(kOldPunctuation, code_point)) |
         bit(kControl, code_point == 0 || code_point == 0xFFFD || (!is_line && (old_category & U_GC_C_MASK & ~U_GC_CN_MASK))) |
         bit(kMark, ((old_category & U_GC_MN_MASK) && !is_in(kNoOldMarks, code_point)) || is_in(kOldMarks, code_point)) |
         bit(kLetter, letter) | bit(kNumber, digit) |
         bit(kWordChar, is_word_char(c, category) || is_in(kNewLetters, code_point) || is_in(kNewDigits, code_point) || is_in(kNewMarks, code_point)) |
         bit(kIdeograph, is_in(kIdeographs, code_point));
}

std::vector<uint32_t> decomposition(uint32_t code_point) {
  if (!is_of(code_point, kNormalization)) return {};
  UErrorCode error = U_ZERO_ERROR;
  const UNormalizer2* nfd = unorm2_getNFDInstance(&error);
  UChar units[32];
  const int32_t count = unorm2_getDecomposition(nfd, static_cast<UChar32>(code_point), units, 32, &error);
  std::vector<uint32_t> out;
  for (int32_t i = 0; U_SUCCESS(error) && i < count;) {
    UChar32 c;
    U16_NEXT(units, i, count, c);
    out.push_back(static_cast<uint32_t>(c));
  }
  return out;
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
