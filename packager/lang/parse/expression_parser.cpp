#include "packager/lang/parse/expression_parser.h"

#include <algorithm>

namespace mlc::lang {
namespace {
constexpr int kMaxTree = 250;
}

Node* ExpressionParser::make(NodeKind kind, Pos pos, std::vector<const Node*> kids, std::string text) {
  Node& n = module_.nodes.emplace_back();
  n.kind = kind;
  n.pos = pos;
  n.kids = std::move(kids);
  n.text = std::move(text);
  for (const Node* kid : n.kids) deepen(n, kid);
  return &n;
}

// Depth is bounded for the tree too: a left-leaning chain (a + b + c ...) nests the tree but not the parser.
void ExpressionParser::deepen(Node& n, const Node* kid) {
  n.depth = std::max(n.depth, kid->depth + 1);
  if (n.depth > kMaxTree) fail_at(n.pos, "an expression nested too deeply");
}

void ExpressionParser::adopt(Node* n, const Node* kid) {
  deepen(*n, kid);
  n->kids.push_back(kid);
}

const Node* ExpressionParser::expr() {
  Nested nested(*this);
  const Pos pos = raw().pos;
  if (at("let")) {
    take();
    Node* n = make(NodeKind::Let, pos);
    do {
      n->names.push_back(name());
      expect("=");
      adopt(n, expr());
    } while (accept(","));
    expect("in");
    adopt(n, expr());
    return n;
  }
  const Node* c = or_expr();
  if (!accept("?")) return c;
  const Node* a = expr();
  expect(":");
  const Node* b = expr();
  return make(NodeKind::Cond, pos, {c, a, b});
}

const Node* ExpressionParser::or_expr() {
  const Node* a = and_expr();
  while (at("or")) {
    const Pos pos = take().pos;
    const Node* b = and_expr();
    a = make(NodeKind::Or, pos, {a, b});
  }
  return a;
}

const Node* ExpressionParser::and_expr() {
  const Node* a = comparison();
  while (at("and")) {
    const Pos pos = take().pos;
    const Node* b = comparison();
    a = make(NodeKind::And, pos, {a, b});
  }
  return a;
}

const Node* ExpressionParser::comparison() {
  const Node* a = sum();
  if (!at_any("<", "<=", ">", ">=", "==", "!=")) return a;
  Node* n = make(NodeKind::Compare, raw().pos, {a});
  while (at_any("<", "<=", ">", ">=", "==", "!=")) {
    n->ops.push_back(take().text);
    adopt(n, sum());
  }
  return n;
}

const Node* ExpressionParser::sum() {
  const Node* a = product();
  while (at_any("+", "-")) {
    const Token& t = take();
    const Node* b = product();
    a = make(NodeKind::Binary, t.pos, {a, b}, t.text);
  }
  return a;
}

const Node* ExpressionParser::product() {
  const Node* a = unary();
  while (at_any("*", "/", "//", "%")) {
    if (at("*") && (next().text == "," || next().text == "]") && next().kind == TokenKind::Punct) break;
    const Token& t = take();
    const Node* b = unary();
    a = make(NodeKind::Binary, t.pos, {a, b}, t.text);
  }
  return a;
}

const Node* ExpressionParser::unary() {
  Nested nested(*this);
  const Pos pos = raw().pos;
  if (accept("-")) return make(NodeKind::Neg, pos, {unary()});
  if (accept("not")) return make(NodeKind::Not, pos, {unary()});
  return postfix();
}

// Items up to, not including, `close`.
std::vector<const Node*> ExpressionParser::items(std::string_view close) {
  std::vector<const Node*> r;
  while (!at(close)) {
    if (at("*") && (next().text == "," || next().text == "]")) {
      r.push_back(make(NodeKind::Star, take().pos));
    } else {
      r.push_back(expr());
    }
    if (!accept(",")) break;
  }
  return r;
}

const Node* ExpressionParser::postfix() {
  const Node* a = primary();
  while (true) {
    const Pos pos = raw().pos;
    if (at("[")) {
      take();
      std::vector<const Node*> kids{a};
      {
        Bracket bracket(*this);
        for (const Node* n : items("]")) kids.push_back(n);
        expect("]");
      }
      a = make(NodeKind::Index, pos, std::move(kids));
    } else if (at(".")) {
      take();
      a = make(NodeKind::Member, pos, {a}, name("the name of a field"));
    } else {
      return a;
    }
  }
}

const Node* ExpressionParser::number() {
  const Token& t = take();
  Node* n = make(NodeKind::Number, t.pos, {}, t.text);
  n->is_real = t.is_real;
  n->integer = t.integer;
  n->real = t.real;
  return n;
}

const Node* ExpressionParser::primary() {
  Nested nested(*this);
  const Token& t = peek();
  const Pos pos = raw().pos;
  if (t.kind == TokenKind::Number) return number();
  if (t.kind == TokenKind::String) return make(NodeKind::String, pos, {}, take().text);
  if (accept("|")) {
    std::string n = name("the name of a dim");
    expect("|");
    return make(NodeKind::Extent, pos, {}, n);
  }
  if (accept("(")) {
    Bracket bracket(*this);
    auto kids = items(")");
    expect(")");
    if (kids.empty()) fail_at(pos, "empty parentheses");
    return kids.size() == 1 ? kids[0] : make(NodeKind::Tuple, pos, std::move(kids));
  }
  if (accept("[")) return list(pos);
  if (at("match")) return match();
  if (at("scan")) {
    take();
    const Node* f = primary();
    if (f->kind != NodeKind::Fold) fail_at(pos, "'scan' wants a fold: scan sum(e for s)");
    const_cast<Node*>(f)->scan = true;
    return f;
  }
  if (t.kind != TokenKind::Name) error("an expression expected, found " + found());
  std::string n = take().text;
  if ((n == "sat" || n == "bitcast" || n == "wide") && at("<")) {
    take();
    std::string type = name("an element type");
    expect(">");
    expect("(");
    Bracket bracket(*this);
    const Node* e = expr();
    expect(")");
    return make(n == "sat" ? NodeKind::SatCast : n == "wide" ? NodeKind::WideCast : NodeKind::BitCast, pos, {e}, type);
  }
  if (at("(")) return call(pos, n);
  return make(NodeKind::Name, pos, {}, n);
}

const Node* ExpressionParser::list(Pos pos) {
  Bracket bracket(*this);
  auto kids = items("]");
  if (at("for")) {
    if (kids.size() != 1) error("a comprehension makes one value per item");
    take();
    Node* n = make(NodeKind::Comprehension, pos, std::move(kids), name());
    expect("in");
    adopt(n, expr());
    if (accept("..")) {
      n->has_range = true;
      adopt(n, expr());
    }
    if (accept("if")) {
      n->has_filter = true;
      adopt(n, expr());
    }
    expect("]");
    return n;
  }
  expect("]");
  return make(NodeKind::List, pos, std::move(kids));
}

const Node* ExpressionParser::call(Pos pos, const std::string& callee) {
  expect("(");
  Bracket bracket(*this);
  auto kids = items(")");
  if (!at("for")) {
    expect(")");
    return make(NodeKind::Call, pos, std::move(kids), callee);
  }
  take();
  Node* n = make(NodeKind::Fold, pos, std::move(kids), callee);
  n->names = names();
  if (accept(";")) {
    do {
      std::string flag = name("'exclusive' or 'reverse'");
      expect(":");
      if (flag == "exclusive") n->exclusive = expr();
      else if (flag == "reverse") n->reverse = expr();
      else error("'exclusive' or 'reverse' expected, found '" + flag + "'");
    } while (accept(","));
  }
  if (accept("where")) n->where = expr();
  expect(")");
  return n;
}

const Node* ExpressionParser::match() {
  const Pos pos = take().pos;
  Node* n = make(NodeKind::Match, pos, {postfix()});
  expect("{");
  Bracket bracket(*this);
  while (!at("}")) {
    const Pos arm = raw().pos;
    n->names.push_back(peek().kind == TokenKind::Number ? take().text : name("a case"));
    while (accept(",")) {  // A, B => e
      n->names.push_back(name("a case"));
      n->kids.push_back(nullptr);  // filled below
    }
    expect("=>");
    const Node* e = arm_value(arm);
    adopt(n, e);
    for (size_t i = n->kids.size() - 1; i > 1 && n->kids[i - 1] == nullptr; --i) n->kids[i - 1] = e;
    accept(";");
  }
  expect("}");
  return n;
}

// The value of a case ends where a line begins at the column of the case.
const Node* ExpressionParser::arm_value(Pos arm) {
  Indented indented(*this, arm.column);
  return expr();
}

}  // namespace mlc::lang
