#include "packager/lang/parse/lexer.h"

#include <charconv>
#include <string_view>

namespace mlc::lang {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name(char c) { return is_name_start(c) || is_digit(c); }

// Longest first.
constexpr std::string_view kPunct[] = {"...", "..", "=>", "->", "<-", "//", "==", "!=", "<=", ">=", "-", "+", "*",
                                       "/",   "%",  "<",  "=",  ">",  "?",  ":",  ";",  ",",  ".",  "(", ")", "{",
                                       "}",   "[",  "]",  "|",  "~",  "@"};

// Where the digits of a real number end that begins at `at`; `at` itself behind an integer's.
size_t end_of_real(std::string_view text, size_t at) {
  auto digits = [&](size_t k) {
    while (k < text.size() && is_digit(text[k])) ++k;
    return k;
  };
  size_t end = at;
  if (end + 1 < text.size() && text[end] == '.' && is_digit(text[end + 1])) end = digits(end + 1);
  if (end >= text.size() || text[end] != 'e') return end;
  size_t exponent = end + 1;
  if (exponent < text.size() && (text[exponent] == '-' || text[exponent] == '+')) ++exponent;
  return exponent < text.size() && is_digit(text[exponent]) ? digits(exponent) : end;
}

// Reads the number at token.offset: 12, 0x1f, 1.5e-3. Answers where it ends.
size_t number(std::string_view text, Token& token) {
  const size_t at = token.offset;
  const bool hex = text[at] == '0' && at + 1 < text.size() && (text[at + 1] == 'x' || text[at + 1] == 'X');
  size_t end = hex ? at + 2 : at;
  while (end < text.size() && (is_digit(text[end]) || (hex && text[end] >= 'a' && text[end] <= 'f'))) ++end;
  if (!hex) {
    const size_t real = end_of_real(text, end);
    token.is_real = real != end;
    end = real;
  }
  token.kind = TokenKind::Number;
  token.text = text.substr(at, end - at);
  const char* first = text.data() + at;
  const char* last = text.data() + end;
  uint64_t bits = 0;
  const std::from_chars_result read = token.is_real ? std::from_chars(first, last, token.real)
                                      : hex         ? std::from_chars(first + 2, last, bits, 16)
                                                    : std::from_chars(first, last, token.integer);
  if (hex) token.integer = static_cast<int64_t>(bits);
  if (read.ec != std::errc() || read.ptr != last || (end < text.size() && is_name_start(text[end])))
    fail_at(token.pos, "'" + token.text + "' is not a number that this language can hold");
  return end;
}

}  // namespace

std::vector<Token> tokenize(std::string_view text, const std::string* file, int line) {
  std::vector<Token> tokens;
  tokens.reserve(text.size() / 3);
  size_t at = 0, line_start = 0;
  auto pos = [&](size_t offset) { return Pos{line, static_cast<int>(offset - line_start) + 1, file}; };
  while (at < text.size()) {
    const char c = text[at];
    if (c == '\n') {
      ++line;
      line_start = ++at;
      continue;
    }
    if (c == ' ' || c == '\t' || c == '\r') {
      ++at;
      continue;
    }
    if (c == '#') {
      while (at < text.size() && text[at] != '\n') ++at;
      continue;
    }
    Token token;
    token.pos = pos(at);
    token.offset = at;
    if (is_name_start(c)) {
      size_t end = at;
      while (end < text.size() && is_name(text[end])) ++end;
      token.kind = TokenKind::Name;
      token.text = text.substr(at, end - at);
      at = end;
    } else if (is_digit(c)) {
      at = number(text, token);
    } else if (c == '"') {
      size_t end = at + 1;
      while (end < text.size() && text[end] != '"' && text[end] != '\n') ++end;
      if (end >= text.size() || text[end] != '"') fail_at(token.pos, "a string without its closing quote");
      token.kind = TokenKind::String;
      token.text = text.substr(at + 1, end - at - 1);
      at = end + 1;
    } else {
      token.kind = TokenKind::Punct;
      for (std::string_view p : kPunct)
        if (p[0] == c && text.compare(at, p.size(), p) == 0) {
          token.text = p;
          break;
        }
      if (token.text.empty()) {
        const unsigned byte = static_cast<unsigned char>(c);
        fail_at(token.pos, byte > 32 && byte < 127 ? "the character '" + std::string(1, c) + "' has no meaning here"
                                                        : "byte " + std::to_string(byte) + " has no meaning here");
      }
      at += token.text.size();
    }
    token.end = at;
    tokens.push_back(std::move(token));
  }
  Token end;
  end.pos = {line + 1, 0, file};
  end.offset = end.end = text.size();
  tokens.push_back(end);
  return tokens;
}

}  // namespace mlc::lang
