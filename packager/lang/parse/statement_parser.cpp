#include "packager/lang/parse/statement_parser.h"

namespace mlc::lang {
namespace {

// Without comments and ends of lines.
std::string in_one_line(std::string_view text) {
  std::string line;
  bool is_comment = false;
  for (const char c : text) {
    is_comment = c != '\n' && (is_comment || c == '#');
    const bool is_blank = is_comment || c == ' ' || c == '\n' || c == '\r' || c == '\t';
    if (!is_blank) line += c;
    else if (!line.empty() && line.back() != ' ') line += ' ';
  }
  return line;
}

}  // namespace

// --- types -------------------------------------------------------------------------------------------------------
DimSpec StatementParser::dim_spec() {
  DimSpec d;
  d.pos = raw().pos;
  if (accept("~")) d.broadcast = true;
  if (accept("(")) {
    d.kind = DimSpec::Kind::Product;
    d.factors = names();
    expect(")");
    if (d.factors.size() < 2) error("a product has at least two factors");
    if (d.broadcast) error("a product cannot broadcast");
    return d;
  }
  if (peek().kind == TokenKind::Number) {
    const Token& t = take();
    if (t.is_real || t.integer < 0) fail_at(t.pos, "an extent is a whole number");
    d.kind = DimSpec::Kind::Literal;
    d.literal = t.integer;
    return d;
  }
  d.name = name("a dim");
  if (accept("@")) d.axis = name("the attribute that holds the axis");
  if (accept("...")) d.kind = DimSpec::Kind::Pack;
  return d;
}

TypeSpec StatementParser::type_spec() {
  TypeSpec t;
  t.element = name("an element type");
  t.dims = dims_in_brackets();
  return t;
}

std::vector<DimSpec> StatementParser::dims_in_brackets() {
  std::vector<DimSpec> dims;
  expect("[");
  Bracket bracket(*this);
  while (!at("]")) {
    dims.push_back(dim_spec());
    if (!accept(",")) break;
  }
  expect("]");
  return dims;
}

// --- clauses and statements on arrays ----------------------------------------------------------------------------
void StatementParser::statements(Clauses& into) {
  while (!at_end()) {
    {
      Indented indented(*this, line_column());
      statement(into);
      end_of_statement();
    }
    accept(";");
  }
}

void StatementParser::statement(Clauses& into) {
  if (accept("attr")) return attribute(into);
  if (accept("let")) return lets(into);
  Stmt s = clause();
  s.attrs_above = into.attrs.size();
  into.body.push_back(std::move(s));
}

void StatementParser::attribute(Clauses& into) {
  const Pos pos = raw().pos;
  const std::vector<std::string> declared = names();
  AttrDecl a;
  a.pos = pos;
  expect(":");
  attribute_type(a);
  a.optional = accept("?");
  if (accept("=")) a.fallback = expr();
  if (a.kind == AttrDecl::Kind::Graph && (a.list || a.fallback)) error("a graph is no list and has no default");
  for (const std::string& n : declared) {
    if (into.attr(n)) fail_at(pos, "a second declaration of '" + n + "'");
    a.name = n;
    into.attrs.push_back(a);
  }
}

void StatementParser::attribute_type(AttrDecl& a) {
  if (accept("{")) {
    Bracket bracket(*this);
    a.kind = AttrDecl::Kind::Enum;
    a.enumerators = names();
    expect("}");
    return;
  }
  const std::string type = name("a type");
  if (type == "int") a.kind = AttrDecl::Kind::Int;
  else if (type == "float") a.kind = AttrDecl::Kind::Float;
  else if (type == "string") a.kind = AttrDecl::Kind::String;
  else if (type == "type") a.kind = AttrDecl::Kind::Type;
  else if (type == "tensor") a.kind = AttrDecl::Kind::Tensor;
  else if (type == "graph") a.kind = AttrDecl::Kind::Graph;
  else error("'int', 'float', 'string', 'type', 'tensor', 'graph' or '{' expected, found '" + type + "'");
  if (a.kind == AttrDecl::Kind::Type || a.kind == AttrDecl::Kind::Tensor) a.type_variable = name("a type variable");
  if (!accept("[")) return;
  Bracket bracket(*this);
  a.list = true;
  a.shape = items("]");
  expect("]");
  for (const Node* n : a.shape)
    if (n->kind != NodeKind::Name && n->kind != NodeKind::Number) fail_at(n->pos, "a dim or a number expected");
  if (a.shape.size() > 2) error("a list attribute has at most two axes");
}

void StatementParser::lets(Clauses& into) {
  do {
    Stmt s;
    s.kind = StmtKind::Let;
    s.pos = raw().pos;
    s.names = names();
    expect("=");
    s.value = expr();
    into.body.push_back(std::move(s));
  } while (accept(","));
}

void StatementParser::definition(Stmt& s, StmtKind kind, std::string_view name_of_what) {
  s.kind = kind;
  s.names = {name(name_of_what)};
  if (kind == StmtKind::Dims) expect("...");
  if (kind == StmtKind::Dim) accept("...");
  expect(kind == StmtKind::Exists ? "<=" : "=");
  s.value = expr();
}

Stmt StatementParser::clause() {
  Stmt s;
  s.pos = raw().pos;
  if (at("use") && next().kind == TokenKind::Name) {
    take();
    s.kind = StmtKind::Use;
    s.pos = raw().pos;
    s.text = name("the name of clauses");
  } else if (accept("dim")) {
    definition(s, StmtKind::Dim, "a dim");
  } else if (accept("dims")) {
    definition(s, StmtKind::Dims, "a pack");
  } else if (accept("rank")) {
    definition(s, StmtKind::Rank, "a pack");
  } else if (accept("exists")) {
    definition(s, StmtKind::Exists, "a dim");
  } else if (accept("check")) {
    check(s);
  } else if (accept("when")) {
    s.kind = StmtKind::When;
    s.value = expr();
  } else if (accept("proc")) {
    s.kind = StmtKind::Proc;
    if (accept("for")) s.names = names();
    s.body = block();
  } else if (next().kind == TokenKind::Name && accept("alloc")) {
    alloc(s);
  } else {
    return array_statement();
  }
  return s;
}

void StatementParser::check(Stmt& s) {
  s.kind = StmtKind::Check;
  const size_t begin = peek().offset;
  s.value = expr();
  s.source = in_one_line(written_since(begin));
  if (!accept("else")) return;
  if (peek().kind != TokenKind::String) error("a sentence in quotes expected, found " + found());
  s.text = take().text;
}

Target StatementParser::target() {
  Target t;
  t.pos = raw().pos;
  t.array = name("an array");
  expect("[");
  Bracket bracket(*this);
  t.index = items("]");
  expect("]");
  return t;
}

Stmt StatementParser::array_statement() {
  Stmt s;
  s.pos = raw().pos;
  do s.targets.push_back(target());
  while (accept(","));
  if (accept("<-")) {
    push(s);
    return s;
  }
  expect("=");
  if (at("graph") && next().kind == TokenKind::Name) {
    graph_call(s);
    return s;
  }
  s.kind = StmtKind::Map;
  s.value = expr();
  if (accept("for")) {
    expect("each");
    s.kind = StmtKind::Each;
    s.text = name("a 'many' parameter");
    if (s.targets.size() != 1) error("'for each' has one place");
  }
  return s;
}

void StatementParser::push(Stmt& s) {
  s.kind = StmtKind::Push;
  if (s.targets.size() != 1) error("a push has one place");
  s.value = expr();
  expect("for");
  s.names = names();
  expect("by");
  s.by = expr();
}

void StatementParser::graph_call(Stmt& s) {
  s.kind = StmtKind::Graph;
  take();
  s.text = name("the attribute that is a graph");
  expect("(");
  Bracket bracket(*this);
  s.names = names();
  expect(")");
}

// --- procs -------------------------------------------------------------------------------------------------------
std::vector<Stmt> StatementParser::block() {
  Nested nested(*this);
  expect("{");
  std::vector<Stmt> r;
  Bracket bracket(*this);
  while (!at("}")) {
    {
      Indented indented(*this, line_column());
      r.push_back(proc_statement());
      while ((r.back().kind == StmtKind::Let || r.back().kind == StmtKind::Var) && accept(",")) {
        Stmt next;
        next.kind = r.back().kind;
        next.pos = raw().pos;
        next.names = {name()};
        expect("=");
        next.value = expr();
        r.push_back(std::move(next));
      }
      end_of_statement();
    }
    accept(";");
  }
  expect("}");
  return r;
}

Stmt StatementParser::proc_statement() {
  Nested nested(*this);
  Stmt s;
  s.pos = raw().pos;
  if (at("let") || at("var")) {
    s.kind = take().text == "let" ? StmtKind::Let : StmtKind::Var;
    s.names = {name()};
    expect("=");
    s.value = expr();
  } else if (accept("for")) {
    proc_for(s);
  } else if (accept("while")) {
    s.kind = StmtKind::While;
    s.value = expr();
    expect("within");
    s.bound = expr();
    s.body = block();
  } else if (accept("if")) {
    proc_if(s);
  } else if (accept("alloc")) {
    alloc(s);
  } else if (accept("yield")) {
    s.kind = StmtKind::Yield;
    s.names = {name("an existential dim")};
    expect("=");
    s.value = expr();
  } else {
    const bool store = next().kind == TokenKind::Punct && next().text == "[";
    s.kind = store ? StmtKind::Store : StmtKind::Assign;
    if (store) s.targets = {target()};
    else s.names = {name()};
    expect("=");
    s.value = expr();
  }
  return s;
}

void StatementParser::alloc(Stmt& s) {
  s.kind = StmtKind::Alloc;
  s.names = {name("an array")};
  expect(":");
  s.wide = at("wide") && next().text == "<";
  if (!s.wide) {
    s.type = type_spec();
    return;
  }
  name("wide");
  expect("<");
  const std::string element = name("an element type");
  expect(">");
  s.type.dims = dims_in_brackets();
  s.type.element = element;
}

void StatementParser::proc_for(Stmt& s) {
  s.kind = StmtKind::ForDims;
  s.names = names();
  if (accept("in")) {
    s.kind = StmtKind::ForRange;
    if (s.names.size() != 1) error("a range has one counter");
    s.value = expr();
    expect("..");
    s.bound = expr();
  }
  s.body = block();
}

void StatementParser::proc_if(Stmt& s) {
  s.kind = StmtKind::If;
  s.value = expr();
  s.body = block();
  if (!accept_on_any_line("else")) return;
  if (at("if")) s.orelse.push_back(proc_statement());
  else s.orelse = block();
}

}  // namespace mlc::lang
