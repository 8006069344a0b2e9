#include "runtime/probe/text.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "base/compose.h"

namespace mlc::probe {

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && (s.back() == '\n' || s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  return s;
}

std::optional<int64_t> parse_int(std::string_view s) {
  s = trimmed(s);
  int64_t v = 0;
  const auto r = std::from_chars(s.data(), s.data() + s.size(), v);
  if (r.ec != std::errc() || r.ptr != s.data() + s.size()) return std::nullopt;
  return v;
}

std::string_view next_field(std::string_view& rest, char separator) {
  const size_t at = rest.find(separator);
  const std::string_view field = rest.substr(0, at);
  rest = at == std::string_view::npos ? std::string_view() : rest.substr(at + 1);
  return field;
}

std::vector<int> parse_cpu_list(std::string_view s) {
  std::vector<int> cpus;
  int64_t next = 0;
  s = trimmed(s);
  while (!s.empty()) {
    std::string_view part = next_field(s, ',');
    const size_t dash = part.find('-');
    const auto first = parse_int(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_int(part.substr(dash + 1));
    if (!first || !last || *first < next || *last < *first || *last >= 65536) return {};
    for (next = *first; next <= *last; ++next) cpus.push_back(static_cast<int>(next));
  }
  return cpus;
}

std::vector<int> in_both(const std::vector<int>& a, const std::vector<int>& b) {
  std::vector<int> both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

std::optional<uint64_t> parse_size(std::string_view s) {
  s = trimmed(s);
  uint64_t scale = 1;
  if (!s.empty() && (s.back() == 'K' || s.back() == 'M' || s.back() == 'G')) {
    scale = s.back() == 'K' ? 1u << 10 : s.back() == 'M' ? 1u << 20 : 1u << 30;
    s.remove_suffix(1);
  }
  const auto v = parse_int(s);
  if (!v || *v < 0 || static_cast<uint64_t>(*v) > (uint64_t{1} << 40)) return std::nullopt;
  return static_cast<uint64_t>(*v) * scale;
}

std::string cpu_dir(int cpu) { return compose("/sys/devices/system/cpu/cpu{}", cpu); }

std::optional<std::string> read_in(const Sources& s, const std::string& folder, const char* file) {
  return s.read_file(folder + file);
}

std::vector<int> cpus_in(const Sources& s, const std::string& folder, const char* file) {
  const auto text = read_in(s, folder, file);
  return text ? parse_cpu_list(*text) : std::vector<int>();
}

std::optional<int64_t> int_in(const Sources& s, const std::string& folder, const char* file) {
  const auto text = read_in(s, folder, file);
  return text ? parse_int(*text) : std::nullopt;
}

}  // namespace mlc::probe
