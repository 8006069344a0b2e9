#include "schema/pipeline/lines.h"

#include <algorithm>
#include <cstdlib>

#include "base/text/text.h"

namespace mlc::pipeline {

Result<std::vector<std::string>> split_lines(Bytes bytes, std::string_view name) {
  std::string_view s(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  auto bad = [&](size_t at, const char* what) {
    return Status(Code::Usage, 5004, std::string(name) + ": " + what + " at byte " + std::to_string(at));
  };
  if (s.size() > kMaxListBytes)
    return Status(
        Code::Usage, 5004,
        std::string(name) + " has " + std::to_string(s.size()) + " bytes, at most " + std::to_string(kMaxListBytes));
  const bool open_end = !s.empty() && s.back() != '\n';
  const auto count = static_cast<size_t>(std::count(s.begin(), s.end(), '\n')) + open_end;
  if (count > kMaxLines)
    return Status(Code::Usage, 5004,
                  std::string(name) + " has " + std::to_string(count) + " lines, at most " + std::to_string(kMaxLines));
  std::vector<std::string> lines;
  lines.reserve(count);
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
    uint32_t code_point = 0;
    const unsigned n = decode_utf8(s, at, code_point);
    if (n == 0) return bad(at, "not valid UTF-8");
    at += n;
  }
  if (begin < s.size()) lines.emplace_back(s.substr(begin));
  return lines;
}

Status check_labels(std::string_view step, const std::string& labels, int64_t offset, size_t lines, int64_t columns) {
  if (columns + offset == static_cast<int64_t>(lines) && offset > -columns) return ok();
  Status s(Code::Usage, 5003,
           "step '" + std::string(step) + "': " + labels + " has " + std::to_string(lines) + " lines, the scores have " + std::to_string(columns) +
               " columns" + (offset ? " and label_offset is " + std::to_string(offset) : ""));
  const int64_t fitting = static_cast<int64_t>(lines) - columns;
  if (std::abs(fitting) <= 8)
    s.help = "\"label_offset\": " + std::to_string(fitting) + ", or a list of " + std::to_string(columns) + " lines";
  return s;
}

Status check_charset(const CtcGreedy& step, size_t lines, int64_t columns) {
  int64_t have = static_cast<int64_t>(lines) + 1 + step.final_space;
  if (have == columns && step.blank < columns) return ok();
  return Status(Code::Usage, 5003,
                "step 'ctc_greedy': " + step.charset + " has " + std::to_string(lines) + " lines, with the blank" +
                    (step.final_space ? " and the final space" : "") + " " + std::to_string(have) +
                    " classes, the scores have " + std::to_string(columns) + " columns");
}

}  // namespace mlc::pipeline
