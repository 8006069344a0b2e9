// Tokens of the operator language. `#` starts a comment; positions count from 1; a tab is one column.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "packager/lang/parse/ast.h"

namespace mlc::lang {

enum class TokenKind : uint8_t { Name, Number, String, Punct, End };

struct Token {
  TokenKind kind = TokenKind::End;
  std::string text;
  Pos pos;
  size_t offset = 0, end = 0;  // bytes in the text
  bool is_real = false;
  int64_t integer = 0;
  double real = 0;
};

// Throws Failure on a character or number that is not of the language. `file` is the name that positions get, `line` the number of
// the first line.
std::vector<Token> tokenize(std::string_view text, const std::string* file, int line = 1);

}  // namespace mlc::lang
