#include "packager/compile/expand/character_classes.h"

#include <algorithm>

namespace mlc::compile {

Ranges sorted(Ranges r) {
  std::sort(r.begin(), r.end());
  Ranges out;
  for (const Range& x : r)
    if (!out.empty() && x.first <= out.back().second + 1) out.back().second = std::max(out.back().second, x.second);
    else out.push_back(x);
  return out;
}

Ranges inverse(const Ranges& r) {
  Ranges out;
  uint32_t from = 0;
  for (const Range& x : sorted(r)) {
    if (x.first > from) out.push_back({from, x.first - 1});
    from = x.second + 1;
  }
  if (from <= kLastCodePoint) out.push_back({from, kLastCodePoint});
  return out;
}

Ranges in_both_cases(Ranges r) {
  Ranges others;
  for (const auto& [low, high] : r)
    for (uint32_t c = 'A'; c <= 'Z'; ++c) {
      if (c >= low && c <= high) others.push_back({c + 32, c + 32});
      if (c + 32 >= low && c + 32 <= high) others.push_back({c, c});
    }
  r.insert(r.end(), others.begin(), others.end());
  return r;
}

std::optional<Ranges> named_class(char c) {
  switch (c) {
    case 'd': return Ranges{{'0', '9'}};
    case 'w': return Ranges{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    case 's': return Ranges{{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}};
    case 'D': case 'W': case 'S': return inverse(*named_class(static_cast<char>(c + 32)));
    default: return {};
  }
}

const std::map<std::string, Ranges>& posix_classes() {
  static const std::map<std::string, Ranges> classes = {
      {"alnum", {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}}, {"alpha", {{'A', 'Z'}, {'a', 'z'}}}, {"ascii", {{0, 127}}},
      {"blank", {{'\t', '\t'}, {' ', ' '}}}, {"cntrl", {{0, 31}, {127, 127}}}, {"digit", {{'0', '9'}}}, {"graph", {{'!', '~'}}},
      {"lower", {{'a', 'z'}}}, {"print", {{' ', '~'}}}, {"punct", {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}},
      {"space", {{'\t', '\r'}, {' ', ' '}}}, {"upper", {{'A', 'Z'}}}, {"word", {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}},
      {"xdigit", {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}}};
  return classes;
}

}  // namespace mlc::compile
