// Words, numbers and signs of a PTX text, with the lines they stand on. No comments: our images have none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace mlc::targets::ptx {

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) { next(); }

  // Letters, digits, any of "_$.%" and "::" in a row, or one other character; empty at the end.
  std::string_view token() const { return token_; }
  unsigned line() const { return token_line_; }
  bool at_end() const { return token_.empty(); }

  void next() {
    while (pos_ < text_.size() && (text_[pos_] == ' ' || text_[pos_] == '\t' || text_[pos_] == '\n')) line_ += text_[pos_++] == '\n';
    token_line_ = line_;
    const size_t begin = pos_;
    while (pos_ < text_.size() && (is_word(text_[pos_]) || (pos_ > begin && text_.substr(pos_, 2) == "::"))) pos_ += is_word(text_[pos_]) ? 1 : 2;
    if (pos_ == begin && pos_ < text_.size()) ++pos_;
    token_ = text_.substr(begin, pos_ - begin);
  }
  bool accept(std::string_view what) {
    if (token_ != what) return false;
    next();
    return true;
  }
  Status expect(std::string_view what) {
    if (accept(what)) return ok();
    return bad("'" + std::string(what) + "' expected");
  }
  Status bad(const std::string& what) const {
    return Status(Code::Malformed, "line " + std::to_string(token_line_) + ": " + what + ", found '" + std::string(token_.substr(0, 60)) + "'");
  }
  // A decimal number below 2^63; of more than one digit none begins with 0.
  Result<uint64_t> number() {
    const std::optional<uint64_t> n = decimal(token_);
    if (!n || *n >> 63) return bad("a number expected");
    next();
    return *n;
  }
  static std::optional<uint64_t> decimal(std::string_view word) {
    if (word.empty() || word.size() > 20 || (word.size() > 1 && word[0] == '0')) return std::nullopt;
    uint64_t n = 0;
    for (const char c : word)
      if (c < '0' || c > '9' || __builtin_mul_overflow(n, uint64_t{10}, &n) || __builtin_add_overflow(n, static_cast<uint64_t>(c - '0'), &n)) return std::nullopt;
    return n;
  }

 private:
  static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' || c == '.' || c == '%';
  }

  std::string_view text_, token_;
  size_t pos_ = 0;
  unsigned line_ = 1, token_line_ = 1;
};

}  // namespace mlc::targets::ptx
