// Private to the parser: expressions (section 5 of spec/operator-language.md), one function per level of precedence.
#pragma once

#include "packager/lang/parse/ast.h"
#include "packager/lang/parse/token_cursor.h"

namespace mlc::lang {

class ExpressionParser : protected TokenCursor {
 protected:
  ExpressionParser(Module& module, std::string_view text, const std::string* file, int line) : TokenCursor(text, file, line), module_(module) {}

  const Node* expr();
  // Items up to, not including, `close`.
  std::vector<const Node*> items(std::string_view close);

  Module& module_;

 private:
  const Node* or_expr();
  const Node* and_expr();
  const Node* comparison();
  const Node* sum();
  const Node* product();
  const Node* unary();
  const Node* postfix();
  const Node* primary();
  const Node* number();
  const Node* list(Pos pos);
  const Node* call(Pos pos, const std::string& callee);
  const Node* match();
  const Node* arm_value(Pos arm);

  Node* make(NodeKind kind, Pos pos, std::vector<const Node*> kids = {}, std::string text = {});
  void adopt(Node* n, const Node* kid);
  void deepen(Node& n, const Node* kid);
};

}  // namespace mlc::lang
