#include "packager/ir/text/lexer.h"

namespace mlc::ir {

Lexer::Lexer(std::string_view text) : text_(text) { scan(); }

void Lexer::scan() {
  auto at = [&](size_t i) { return i < text_.size() ? text_[i] : '\0'; };
  for (;; ++at_) {
    char c = at(at_);
    if (c == ';') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      c = at(at_);
    }
    if (c == '\n') ++line_;
    else if (c != ' ' && c != '\t' && c != '\r') break;
    if (at_ >= text_.size()) break;
  }
  token_ = {Token::End, "", line_};
  if (at_ >= text_.size()) return;
  size_t start = at_;
  char c = at(at_);
  if (is_letter(c)) {
    while (is_letter(at(at_)) || is_digit(at(at_))) ++at_;
    token_ = {Token::Name, std::string(text_.substr(start, at_ - start)), line_};
  } else if (is_digit(c)) {
    auto sign = [&] { return (at(at_) == '-' || at(at_) == '+') && at(at_ - 1) == 'e'; };
    while (is_digit(at(at_)) || (at(at_) == '.' && is_digit(at(at_ + 1))) || at(at_) == 'e' || sign()) ++at_;
    token_ = {Token::Number, std::string(text_.substr(start, at_ - start)), line_};
  } else if (c == '"') {
    token_ = {Token::String, "", line_};
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\') ++at_;
      if (at(at_) == '\n') ++line_;
      token_.text += at(at_);
    }
    ++at_;
  } else {
    static constexpr std::string_view kLong[] = {"//", "<=", "==", "!=", "<<", ">>", "->", "<-"};
    token_ = {Token::Punct, std::string(1, c), line_};
    for (std::string_view p : kLong)
      if (text_.substr(at_, 2) == p) token_.text = p;
    at_ += token_.text.size();
  }
}

Lexer::Token Lexer::next() {
  Token t = std::move(token_);
  scan();
  return t;
}
bool Lexer::is(std::string_view s) const {
  return (token_.kind == Token::Punct || token_.kind == Token::Name) && token_.text == s;
}
bool Lexer::accept(std::string_view s) {
  if (!is(s)) return false;
  scan();
  return true;
}
Status Lexer::expect(std::string_view s) {
  return accept(s) ? ok() : error("expected '" + std::string(s) + "', found '" + token_.text + "'");
}
Status Lexer::error(const std::string& what) const {
  return Status(Code::Malformed, "line " + std::to_string(token_.line) + ": " + what);
}

}  // namespace mlc::ir
