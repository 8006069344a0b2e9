// Tokens of the text forms of the compiler's levels.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace mlc::ir {

constexpr bool is_letter(char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Names, numbers, strings, and the operators as they stand. Comments start with ';'. The text must outlive the lexer.
class Lexer {
 public:
  explicit Lexer(std::string_view text);
  struct Token {
    enum Kind { End, Name, Number, String, Punct } kind = End;
    std::string text;
    int line = 1;
  };
  const Token& peek() const { return token_; }
  Token next();
  bool is(std::string_view punct_or_name) const;
  bool accept(std::string_view punct_or_name);
  Status expect(std::string_view punct_or_name);
  Status error(const std::string& what) const;
  struct Mark {
    size_t at;
    int line;
    Token token;
  };
  Mark mark() const { return {at_, line_, token_}; }
  void reset(Mark m) { at_ = m.at; line_ = m.line; token_ = std::move(m.token); }

 private:
  void scan();
  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
  Token token_;
};

}  // namespace mlc::ir
