// Strings of a manifest: what may stand in them and how messages show them.
#include <cstdio>

#include "base/text.h"
#include "schema/validate.h"

namespace mlc::format {
namespace {

// Characters that change how a line of text looks without being seen: controls, line separators, bidirectional marks.
bool is_control(uint32_t c) {
  return c < 0x20 || (c >= 0x7F && c <= 0x9F) || c == 0x2028 || c == 0x2029 || (c >= 0x202A && c <= 0x202E) ||
         (c >= 0x2066 && c <= 0x2069) || c == 0x200E || c == 0x200F || c == 0xFEFF;
}

}  // namespace

bool is_clean_text(std::string_view text, uint64_t max_len) {
  if (text.size() > max_len) return false;
  for (size_t at = 0; at < text.size();) {
    uint32_t c = 0;
    unsigned len = decode_utf8(text, at, c);
    if (len == 0 || is_control(c)) return false;
    at += len;
  }
  return true;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (size_t at = 0; at < text.size();) {
    if (out.size() > 80) {
      out += "...";
      break;
    }
    uint32_t c = 0;
    unsigned len = decode_utf8(text, at, c);
    if (len != 0 && !is_control(c) && c != '"' && c != '\\') {
      out += text.substr(at, len);
    } else {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", static_cast<uint8_t>(text[at]));
      out += escaped;
      len = 1;
    }
    at += len;
  }
  return out + "\"";
}

}  // namespace mlc::format
