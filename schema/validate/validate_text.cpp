// Strings of a manifest: what may stand in them and how messages show them.
#include <cstdio>

#include "base/text/text.h"
#include "schema/validate/validate.h"

namespace mlc::format {
bool is_clean_text(std::string_view text, uint64_t max_len) {
  if (text.size() > max_len) return false;
  for (size_t at = 0; at < text.size();) {
    uint32_t c = 0;
    unsigned len = decode_utf8(text, at, c);
    if (len == 0 || is_unseen(c)) return false;
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
    if (len != 0 && !is_unseen(c) && c != '"' && c != '\\') {
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
