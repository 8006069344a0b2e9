#include "packager/lang/parse/token_cursor.h"

namespace mlc::lang {
namespace {
constexpr int kMaxDepth = 120;  // of nested expressions and blocks
}

TokenCursor::Nested::Nested(TokenCursor& c) : cursor(c) {
  if (++cursor.depth_ > kMaxDepth) cursor.error("nested too deeply");
}

const Token& TokenCursor::take() {
  if (peek().kind == TokenKind::End) error("the text ends too early here");
  return tokens_[at_++];
}

void TokenCursor::expect(std::string_view text) {
  if (!accept(text)) error("'" + std::string(text) + "' expected, found " + found());
}

std::string TokenCursor::found() const { return peek().kind == TokenKind::End ? "the end of the statement" : "'" + peek().text + "'"; }

std::string TokenCursor::name(std::string_view what) {
  if (peek().kind != TokenKind::Name) error(std::string(what) + " expected, found " + found());
  return take().text;
}

std::vector<std::string> TokenCursor::names() {
  std::vector<std::string> r{name()};
  while (accept(",")) r.push_back(name());
  return r;
}

void TokenCursor::error(std::string message) const { fail_at(raw().pos, std::move(message)); }

void TokenCursor::end_of_statement() {
  if (peek().kind != TokenKind::End && !at(";") && !at("}")) error("the statement does not end here: " + found());
}

bool TokenCursor::accept_on_any_line(std::string_view name) {
  if (raw().kind != TokenKind::Name || raw().text != name) return false;
  ++at_;
  return true;
}

std::string_view TokenCursor::written_since(size_t begin) const {
  return text_.substr(begin, tokens_[at_ - 1].end - begin);
}

int TokenCursor::line_column() const {
  size_t k = at_;
  while (k > 0 && tokens_[k - 1].pos.line == tokens_[at_].pos.line) --k;
  return tokens_[k].pos.column;
}

}  // namespace mlc::lang
