#include "schema/pipeline/lines.h"

namespace mlc::pipeline {
namespace {

constexpr size_t kMaxBytes = 64u << 20;

// Length of the UTF-8 sequence at `at` (RFC 3629), 0 where there is none.
size_t sequence_length(std::string_view s, size_t at) {
  auto byte = [&](size_t i) { return at + i < s.size() ? static_cast<unsigned char>(s[at + i]) : 0u; };
  auto tail = [&](size_t i, unsigned low = 0x80, unsigned high = 0xBF) { return byte(i) >= low && byte(i) <= high; };
  unsigned b = byte(0);
  if (b < 0x80) return 1;
  if (b >= 0xC2 && b <= 0xDF) return tail(1) ? 2 : 0;
  if (b >= 0xE0 && b <= 0xEF) return tail(1, b == 0xE0 ? 0xA0 : 0x80, b == 0xED ? 0x9F : 0xBF) && tail(2) ? 3 : 0;
  if (b >= 0xF0 && b <= 0xF4)
    return tail(1, b == 0xF0 ? 0x90 : 0x80, b == 0xF4 ? 0x8F : 0xBF) && tail(2) && tail(3) ? 4 : 0;
  return 0;
}

}  // namespace

Result<std::vector<std::string>> split_lines(Bytes bytes, std::string_view name) {
  std::string_view s(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  auto bad = [&](size_t at, const char* what) {
    return Status(Code::Usage, 5004, std::string(name) + ": " + what + " at byte " + std::to_string(at));
  };
  if (s.size() > kMaxBytes)
    return Status(
        Code::Usage, 5004,
        std::string(name) + " has " + std::to_string(s.size()) + " bytes, at most " + std::to_string(kMaxBytes));
  std::vector<std::string> lines;
  size_t begin = s.starts_with("\xEF\xBB\xBF") ? 3 : 0;
  size_t at = begin;
  while (at < s.size()) {
    if (s[at] == '\n') {
      size_t end = at > begin && s[at - 1] == '\r' ? at - 1 : at;
      lines.emplace_back(s.substr(begin, end - begin));
      begin = ++at;
      continue;
    }
    unsigned char c = static_cast<unsigned char>(s[at]);
    bool line_end = c == '\r' && at + 1 < s.size() && s[at + 1] == '\n';
    if ((c < 0x20 && c != '\t' && !line_end) || c == 0x7F) return bad(at, "a control character");
    size_t n = sequence_length(s, at);
    if (n == 0) return bad(at, "not valid UTF-8");
    at += n;
  }
  if (begin < s.size()) lines.emplace_back(s.substr(begin));
  return lines;
}

}  // namespace mlc::pipeline
