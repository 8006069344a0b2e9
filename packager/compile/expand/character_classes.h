// Private to the folder: sets of characters as ranges of code points, and those that patterns have names for.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mlc::compile {

constexpr uint32_t kLastCodePoint = 0x10FFFF;

using Range = std::pair<uint32_t, uint32_t>;
using Ranges = std::vector<Range>;  // of code points

// In order, joined where they touch.
Ranges sorted(Ranges r);
Ranges inverse(const Ranges& r);
// The same letters in upper and lower case (of ASCII).
Ranges in_both_cases(Ranges r);
// \d, \w, \s and what is none of these, by its letter.
std::optional<Ranges> named_class(char c);
// [:alpha:] and the like.
const std::map<std::string, Ranges>& posix_classes();

}  // namespace mlc::compile
