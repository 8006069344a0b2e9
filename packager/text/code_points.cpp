#include "packager/text/code_points.h"

#include <unicode/uchar.h>
#include <unicode/uscript.h>
#include <unicode/uset.h>
#include <unicode/ustring.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "packager/text/unicode.h"
#include "schema/text/compiled.h"

namespace mlc::text {
namespace {

constexpr uint32_t kLast = kCodePoints - 1;

template <class Is>
CodePoints those(Is is) {
  CodePoints out;
  for (uint32_t c = 0; c <= kLast; ++c) {
    const uint32_t begin = c;
    while (c <= kLast && is(c)) ++c;
    if (c > begin) out.add(begin, c - 1);
  }
  return out;
}

// What Unicode 16 adds to scripts that the database at hand (15) knows.
struct NewScript {
  uint32_t first, last;
  UScriptCode script;
};
constexpr NewScript kNewScripts[] = {{0x897, 0x897, USCRIPT_ARABIC}, {0x1B4E, 0x1B4F, USCRIPT_BALINESE}, {0x1B7F, 0x1B7F, USCRIPT_BALINESE},
                                     {0x1C89, 0x1C8A, USCRIPT_CYRILLIC}, {0xA7CB, 0xA7CD, USCRIPT_LATIN}, {0xA7DA, 0xA7DC, USCRIPT_LATIN},
                                     {0x10EC2, 0x10EC4, USCRIPT_ARABIC}, {0x10EFC, 0x10EFC, USCRIPT_ARABIC}, {0x116D0, 0x116E3, USCRIPT_MYANMAR},
                                     {0x11F5A, 0x11F5A, USCRIPT_KAWI}, {0x13460, 0x143FA, USCRIPT_EGYPTIAN_HIEROGLYPHS},
                                     {0x18CFF, 0x18CFF, USCRIPT_KHITAN_SMALL_SCRIPT}, {0x2EBF0, 0x2EE5D, USCRIPT_HAN}};

CodePoints of_script(int32_t script) {
  CodePoints out = those([&](uint32_t c) { return u_getIntPropertyValue(static_cast<UChar32>(c), UCHAR_SCRIPT) == script; });
  for (const NewScript& one : kNewScripts)
    if (one.script == script) out.add(one.first, one.last);
  return out;
}

CodePoints of_category(uint32_t mask) {
  return those([mask](uint32_t c) { return (general_category(c) & mask) != 0; });
}

// What a letter becomes where case does not count, if that is several letters.
std::vector<std::array<uint32_t, 2>> begins_of_folded() {
  std::vector<std::array<uint32_t, 2>> out;
  for (uint32_t c = 0; c <= kLast; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    UChar units[2], folded[16];
    int32_t length = 0;
    U16_APPEND_UNSAFE(units, length, c);
    UErrorCode error = U_ZERO_ERROR;
    const int32_t count = u_strFoldCase(folded, 16, units, length, U_FOLD_CASE_DEFAULT, &error);
    if (U_FAILURE(error) || u_countChar32(folded, count) < 2) continue;
    int32_t at = 0;
    std::array<uint32_t, 2> begin{};
    for (uint32_t& one : begin) {
      UChar32 next;
      U16_NEXT(folded, at, count, next);
      one = static_cast<uint32_t>(next);
    }
    out.push_back(begin);
  }
  return out;
}

}  // namespace

void CodePoints::add(uint32_t first, uint32_t last) {
  const auto begin = std::find_if(ranges_.begin(), ranges_.end(), [&](const Range& r) { return uint64_t{r.last} + 1 >= first; });
  auto end = begin;
  for (; end != ranges_.end() && end->first <= uint64_t{last} + 1; ++end) first = std::min(first, end->first), last = std::max(last, end->last);
  ranges_.insert(ranges_.erase(begin, end), {first, last});
}

void CodePoints::add(const CodePoints& other) {
  for (const Range& range : other.ranges_) add(range.first, range.last);
}

CodePoints CodePoints::others() const {
  CodePoints out;
  uint32_t next = 0;
  for (const Range& range : ranges_) {
    if (range.first > next) out.ranges_.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLast) out.ranges_.push_back({next, kLast});
  return out;
}

bool CodePoints::has(uint32_t code_point) const {
  const auto at = std::lower_bound(ranges_.begin(), ranges_.end(), code_point, [](const Range& r, uint32_t c) { return r.last < c; });
  return at != ranges_.end() && at->first <= code_point;
}

namespace {

// Looks at each code point; so each name is looked up once, see below.
bool find_named(const std::string& text, CodePoints& out) {
  const std::string_view name = text;
  if (text == "Any") return out = CodePoints(0, kLast), true;
  if (const int32_t mask = u_getPropertyValueEnum(UCHAR_GENERAL_CATEGORY_MASK, text.c_str()); mask != UCHAR_INVALID_CODE)
    return out = of_category(static_cast<uint32_t>(mask)), true;
  const int32_t script = u_getPropertyValueEnum(UCHAR_SCRIPT, text.c_str());
  if (script > USCRIPT_INHERITED && script != USCRIPT_UNKNOWN) return out = of_script(script), true;
  constexpr std::string_view kClusters = "GCB=";
  if (name.starts_with(kClusters)) {
    const int32_t value = u_getPropertyValueEnum(UCHAR_GRAPHEME_CLUSTER_BREAK, text.c_str() + kClusters.size());
    return out = those([&](uint32_t c) { return u_getIntPropertyValue(static_cast<UChar32>(c), UCHAR_GRAPHEME_CLUSTER_BREAK) == value; }), true;
  }
  for (const UProperty property : {UCHAR_WHITE_SPACE, UCHAR_EXTENDED_PICTOGRAPHIC})
    if (u_getPropertyEnum(text.c_str()) == property)
      return out = those([&](uint32_t c) { return u_hasBinaryProperty(static_cast<UChar32>(c), property) != 0; }), true;
  return false;
}

}  // namespace

bool named_code_points(std::string_view name, CodePoints& out) {
  static std::mutex mutex;
  static std::map<std::string, CodePoints, std::less<>> known;  // no more than there are names
  const std::scoped_lock lock(mutex);
  if (const auto at = known.find(name); at != known.end()) return out = at->second, true;
  const std::string text(name);
  if (!find_named(text, out)) return false;
  if (known.size() < 1000) known.emplace(text, out);
  return true;
}

bool shorthand_code_points(char letter, CodePoints& out) {
  constexpr uint32_t kWord = U_GC_L_MASK | U_GC_M_MASK | U_GC_ND_MASK | U_GC_NL_MASK | U_GC_PC_MASK;
  switch (letter) {
    case 's': return named_code_points("White_Space", out);
    case 'd': return named_code_points("Nd", out);
    case 'h': return out = CodePoints('0', '9'), out.add('A', 'F'), out.add('a', 'f'), true;
    case 'w': {
      static const CodePoints words =
          those([](uint32_t c) { return (general_category(c) & kWord) || u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_ALPHABETIC); });
      return out = words, true;
    }
    default: return false;
  }
}

bool any_case(CodePoints& points) {
  const std::unique_ptr<USet, decltype(&uset_close)> set(uset_openEmpty(), &uset_close);
  for (const auto& range : points.ranges()) uset_addRange(set.get(), static_cast<UChar32>(range.first), static_cast<UChar32>(range.last));
  uset_closeOver(set.get(), USET_CASE_INSENSITIVE);
  bool whole = true;
  const int32_t items = uset_getItemCount(set.get());
  for (int32_t i = 0; i < items; ++i) {
    UChar32 first = 0, last = 0;
    UErrorCode error = U_ZERO_ERROR;
    if (uset_getItem(set.get(), i, &first, &last, nullptr, 0, &error) == 0) points.add(static_cast<uint32_t>(first), static_cast<uint32_t>(last));
    else whole = false;
  }
  return whole;
}

bool joins_in_case(const CodePoints& first, const CodePoints& second) {
  static const auto begins = begins_of_folded();
  return std::any_of(begins.begin(), begins.end(), [&](const auto& begin) { return first.has(begin[0]) && second.has(begin[1]); });
}

}  // namespace mlc::text
