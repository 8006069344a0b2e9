#include "packager/pipeline/port_patterns.h"

namespace mlc::pipeline {

std::optional<std::vector<std::string>> matched(std::string_view pattern, std::string_view name) {
  std::vector<std::string> parts;  // the text between the stars
  parts.emplace_back();
  for (const char c : pattern) {
    if (c == '*') parts.emplace_back();
    else parts.back() += c;
  }
  if (!name.starts_with(parts[0])) return std::nullopt;
  std::vector<std::string> found;
  size_t at = parts[0].size();
  for (size_t k = 1; k < parts.size(); ++k) {
    const bool is_last = k + 1 == parts.size();
    size_t end = at;
    if (is_last) end = name.size() >= at + parts[k].size() && name.ends_with(parts[k]) ? name.size() - parts[k].size() : std::string_view::npos;
    else end = name.find(parts[k], at);
    if (end == std::string_view::npos) return std::nullopt;
    found.emplace_back(name.substr(at, end - at));
    if (found.back().find('.') != std::string::npos) return std::nullopt;
    at = end + parts[k].size();
  }
  return at == name.size() ? std::optional(found) : std::nullopt;
}

std::string filled(std::string_view pattern, const std::vector<std::string>& texts) {
  std::string name;
  size_t next = 0;
  for (const char c : pattern) {
    if (c == '*') name += texts[next++];
    else name += c;
  }
  return name;
}

}  // namespace mlc::pipeline
