#include "base/cli/columns.h"

#include <algorithm>

namespace mlc::cli {

size_t columns_of(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string padded(std::string_view text, size_t width) {
  const size_t wide = columns_of(text);
  return std::string(text) + std::string(wide < width ? width - wide : 0, ' ');
}

std::string in_lines(std::string_view head, std::string_view text) {
  const size_t indent = columns_of(head);
  std::string out(head);
  size_t at = indent;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    const size_t wide = columns_of(word);
    if (at > indent && at + 1 + wide > kColumns) {
      out += "\n" + std::string(indent, ' ');
      at = indent;
    } else if (at > indent) {
      out += ' ';
      ++at;
    }
    out += word;
    at += wide;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  out.erase(out.find_last_not_of(' ') + 1);
  return out + "\n";
}

}  // namespace mlc::cli
