// Private to the parser: a place among the tokens of a file, and the layout rules. A statement ends where a line starts at or
// left of the column of the line that the statement began on; brackets suspend that.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "packager/lang/parse/lexer.h"

namespace mlc::lang {

class TokenCursor {
 protected:
  TokenCursor(std::string_view text, const std::string* file, int line) : text_(text), tokens_(tokenize(text, file, line)) {}

  const Token& raw() const { return tokens_[at_]; }
  // The token here, or End where the layout ends the statement.
  const Token& peek() const {
    static const Token end;
    const Token& t = tokens_[at_];
    const Base& base = base_.back();
    const bool ends = t.pos.column <= base.column && at_ > 0 && at_ != base.token && t.pos.line > tokens_[at_ - 1].pos.line;
    return ends ? end : t;
  }
  // The token behind it, whatever the layout says.
  const Token& next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  // Asked a dozen times for each token: inline, where the length of `text` is known.
  bool at(std::string_view text) const {
    const Token& t = peek();
    return t.text.size() == text.size() && (t.kind == TokenKind::Punct || t.kind == TokenKind::Name) &&
           std::equal(text.begin(), text.end(), t.text.begin());
  }
  template <class... Texts>
  bool at_any(Texts... texts) const {
    return (at(texts) || ...);
  }
  bool at_end() const { return peek().kind == TokenKind::End; }
  const Token& take();
  bool accept(std::string_view text) {
    if (!at(text)) return false;
    ++at_;
    return true;
  }
  void expect(std::string_view text);
  std::string found() const;
  std::string name(std::string_view what = "a name");
  std::vector<std::string> names();
  void end_of_statement();
  // `else` belongs to its `if` also where it begins a line.
  bool accept_on_any_line(std::string_view name);
  // The text from `begin` (an offset) to the token before this one.
  std::string_view written_since(size_t begin) const;
  [[noreturn]] void error(std::string message) const;

  // Bounds the recursion of the parser.
  struct Nested {
    explicit Nested(TokenCursor& c);
    ~Nested() { --cursor.depth_; }
    Nested(const Nested&) = delete;
    TokenCursor& cursor;
  };
  // Layout does not count inside.
  struct Bracket {
    explicit Bracket(TokenCursor& c) : cursor(c) { cursor.base_.push_back({kNoColumn, 0}); }
    ~Bracket() { cursor.base_.pop_back(); }
    Bracket(const Bracket&) = delete;
    TokenCursor& cursor;
  };
  // What begins here ends at a line that starts at or left of `column`.
  struct Indented {
    Indented(TokenCursor& c, int column) : cursor(c) { cursor.base_.push_back({column, cursor.at_}); }
    ~Indented() { cursor.base_.pop_back(); }
    Indented(const Indented&) = delete;
    TokenCursor& cursor;
  };
  // Column at which the line of the current token starts.
  int line_column() const;

 private:
  static constexpr int kNoColumn = -1;
  struct Base {
    int column;    // a line that starts at or left of it ends the statement
    size_t token;  // where the statement begins: not ended by itself
  };

  const std::string_view text_;
  std::vector<Token> tokens_;
  std::vector<Base> base_ = {{kNoColumn, 0}};
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace mlc::lang
