#include "base/shell_word.h"

#include <algorithm>

namespace mlc {

std::string shell_word(std::string_view word) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || std::string_view("_-./+,:@%=").find(c) != std::string_view::npos;
  };
  const std::string prefix = word.starts_with('-') ? "./" : "";
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) return prefix + std::string(word);
  std::string quoted = "'" + prefix;
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace mlc
