#include "packager/lang/parser.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <string_view>

#include "packager/lang/lexer.h"

namespace mlc::lang {
namespace {

constexpr int kMaxDepth = 120;  // of nested expressions and blocks
constexpr int kMaxTree = 250;
constexpr size_t kMaxFile = 4u << 20;
constexpr size_t kMaxStatements = 10000;  // of one definition, those of its clauses included

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

class Parser {
 public:
  Parser(Module& module, const std::string& file, const std::string& text)
      : module_(module), file_(file), text_(text), tokens_(tokenize(file, text)) {
    base_.push_back({kNoBase, 0});
  }

  void run() {
    while (raw().kind != TokenKind::End) {
      const Token& first = raw();
      base_.push_back({first.pos.column, at_});
      if (accept("domain")) {
        domain_ = name("a domain");
        while (accept(".")) domain_ += "." + name("a domain");
      } else if (at("fn")) {
        fn();
      } else if (at("combiner")) {
        combiner();
      } else if (at("op")) {
        op();
      } else if (at("clauses")) {
        clauses();
      } else {
        error("'op', 'fn', 'combiner', 'clauses' or 'domain' expected, found '" + first.text + "'");
      }
      accept(";");
      base_.pop_back();
    }
  }

 private:
  static constexpr int kNoBase = -1;
  struct Base {
    int column;    // a line that starts at or left of it ends the statement
    size_t token;  // where the statement begins: not ended by itself
  };

  const Token& raw() const { return tokens_[at_]; }
  // The token here, or End where the layout ends the statement.
  const Token& peek(size_t ahead = 0) const {
    static const Token end{};
    const Token& t = tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
    if (ahead == 0 && at_ > 0 && at_ != base_.back().token && t.pos.column <= base_.back().column &&
        t.pos.line > tokens_[at_ - 1].pos.line)
      return end;
    return t;
  }
  bool at(std::string_view text) const {
    const Token& t = peek();
    return (t.kind == TokenKind::Punct || t.kind == TokenKind::Name) && t.text == text;
  }
  bool at_any(std::initializer_list<std::string_view> texts) const {
    return std::any_of(texts.begin(), texts.end(), [&](std::string_view t) { return at(t); });
  }
  const Token& take() {
    if (peek().kind == TokenKind::End) error("the text ends too early here");
    return tokens_[at_++];
  }
  bool accept(std::string_view text) {
    if (!at(text)) return false;
    ++at_;
    return true;
  }
  void expect(std::string_view text) {
    if (!accept(text)) error("'" + std::string(text) + "' expected, found " + found());
  }
  std::string found() const { return peek().kind == TokenKind::End ? "the end of the statement" : "'" + peek().text + "'"; }
  std::string name(std::string_view what = "a name") {
    if (peek().kind != TokenKind::Name) error(std::string(what) + " expected, found " + found());
    return take().text;
  }
  std::vector<std::string> names() {
    std::vector<std::string> r{name()};
    while (accept(",")) r.push_back(name());
    return r;
  }
  [[noreturn]] void error(std::string message) const { fail_at(file_, raw().pos, std::move(message)); }

  struct Nested {
    explicit Nested(Parser& p) : parser(p) {
      if (++parser.depth_ > kMaxDepth) parser.error("nested too deeply");
    }
    ~Nested() { --parser.depth_; }
    Parser& parser;
  };
  struct Bracket {  // layout does not count inside
    explicit Bracket(Parser& p) : parser(p) { parser.base_.push_back({kNoBase, 0}); }
    ~Bracket() { parser.base_.pop_back(); }
    Parser& parser;
  };

  Node* make(NodeKind kind, Pos pos, std::vector<const Node*> kids = {}, std::string text = {}) {
    Node& n = module_.nodes.emplace_back();
    n.kind = kind;
    n.pos = pos;
    n.kids = std::move(kids);
    n.text = std::move(text);
    for (const Node* kid : n.kids) deepen(n, kid);
    return &n;
  }
  // Depth is bounded for the tree too: a left-leaning chain (a + b + c ...) nests the tree but not the parser.
  void deepen(Node& n, const Node* kid) {
    n.depth = std::max(n.depth, kid->depth + 1);
    if (n.depth > kMaxTree) fail_at(file_, n.pos, "an expression nested too deeply");
  }
  void adopt(Node* n, const Node* kid) {
    deepen(*n, kid);
    n->kids.push_back(kid);
  }

  // --- expressions ---------------------------------------------------------------------------------------------
  const Node* expr() {
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
  const Node* or_expr() {
    const Node* a = and_expr();
    while (at("or")) {
      const Pos pos = take().pos;
      const Node* b = and_expr();
      a = make(NodeKind::Or, pos, {a, b});
    }
    return a;
  }
  const Node* and_expr() {
    const Node* a = comparison();
    while (at("and")) {
      const Pos pos = take().pos;
      const Node* b = comparison();
      a = make(NodeKind::And, pos, {a, b});
    }
    return a;
  }
  const Node* comparison() {
    const Node* a = sum();
    if (!at_any({"<", "<=", ">", ">=", "==", "!="})) return a;
    Node* n = make(NodeKind::Compare, raw().pos, {a});
    while (at_any({"<", "<=", ">", ">=", "==", "!="})) {
      n->ops.push_back(take().text);
      adopt(n, sum());
    }
    return n;
  }
  const Node* sum() {
    const Node* a = product();
    while (at_any({"+", "-"})) {
      const Token& t = take();
      const Node* b = product();
      a = make(NodeKind::Binary, t.pos, {a, b}, t.text);
    }
    return a;
  }
  const Node* product() {
    const Node* a = unary();
    while (at_any({"*", "/", "//", "%"})) {
      if (at("*") && (peek(1).text == "," || peek(1).text == "]") && peek(1).kind == TokenKind::Punct) break;
      const Token& t = take();
      const Node* b = unary();
      a = make(NodeKind::Binary, t.pos, {a, b}, t.text);
    }
    return a;
  }
  const Node* unary() {
    Nested nested(*this);
    const Pos pos = raw().pos;
    if (accept("-")) return make(NodeKind::Neg, pos, {unary()});
    if (accept("not")) return make(NodeKind::Not, pos, {unary()});
    return postfix();
  }
  // Items up to, not including, `close`.
  std::vector<const Node*> items(std::string_view close) {
    std::vector<const Node*> r;
    while (!at(close)) {
      if (at("*") && (peek(1).text == "," || peek(1).text == "]")) {
        r.push_back(make(NodeKind::Star, take().pos));
      } else {
        r.push_back(expr());
      }
      if (!accept(",")) break;
    }
    return r;
  }
  const Node* postfix() {
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
  const Node* number() {
    const Token& t = take();
    Node* n = make(NodeKind::Number, t.pos, {}, t.text);
    n->is_real = t.is_real;
    n->integer = t.integer;
    n->real = t.real;
    return n;
  }
  const Node* primary() {
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
      if (kids.empty()) fail_at(file_, pos, "empty parentheses");
      return kids.size() == 1 ? kids[0] : make(NodeKind::Tuple, pos, std::move(kids));
    }
    if (accept("[")) return list(pos);
    if (at("match")) return match();
    if (at("scan")) {
      take();
      const Node* f = primary();
      if (f->kind != NodeKind::Fold) fail_at(file_, pos, "'scan' wants a fold: scan sum(e for s)");
      const_cast<Node*>(f)->scan = true;
      return f;
    }
    if (t.kind != TokenKind::Name) error("an expression expected, found " + found());
    std::string n = take().text;
    if ((n == "sat" || n == "bitcast") && at("<")) {
      take();
      std::string type = name("an element type");
      expect(">");
      expect("(");
      Bracket bracket(*this);
      const Node* e = expr();
      expect(")");
      return make(n == "sat" ? NodeKind::SatCast : NodeKind::BitCast, pos, {e}, type);
    }
    if (at("(")) return call(pos, n);
    return make(NodeKind::Name, pos, {}, n);
  }
  const Node* list(Pos pos) {
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
  const Node* call(Pos pos, const std::string& callee) {
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
  const Node* match() {
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
      base_.push_back({arm.column, at_});
      const Node* e = expr();
      base_.pop_back();
      adopt(n, e);
      for (size_t i = n->kids.size() - 1; i > 1 && n->kids[i - 1] == nullptr; --i) n->kids[i - 1] = e;
      accept(";");
    }
    expect("}");
    return n;
  }

  // --- declarations --------------------------------------------------------------------------------------------
  DimSpec dim_spec() {
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
      if (t.is_real || t.integer < 0) fail_at(file_, t.pos, "an extent is a whole number");
      d.kind = DimSpec::Kind::Literal;
      d.literal = t.integer;
      return d;
    }
    d.name = name("a dim");
    if (accept("@")) d.axis = name("the attribute that holds the axis");
    if (accept("...")) d.kind = DimSpec::Kind::Pack;
    return d;
  }
  TypeSpec type_spec() {
    TypeSpec t;
    t.element = name("an element type");
    expect("[");
    Bracket bracket(*this);
    while (!at("]")) {
      t.dims.push_back(dim_spec());
      if (!accept(",")) break;
    }
    expect("]");
    return t;
  }
  std::vector<TypeVariable> type_variables() {
    std::vector<TypeVariable> r;
    if (!accept("<")) return r;
    do {
      TypeVariable v;
      v.name = name("a type variable");
      expect(":");
      do v.classes.push_back(name("a class of element types"));
      while (accept("|"));
      if (accept("=")) v.fallback = name("an element type");
      r.push_back(std::move(v));
    } while (accept(","));
    expect(">");
    return r;
  }
  void fn() {
    const Pos pos = take().pos;
    FnDef f;
    f.file = file_;
    f.domain = domain_;
    f.pos = pos;
    f.name = name();
    expect("(");
    if (!at(")")) f.params = names();
    expect(")");
    expect("=");
    f.body = expr();
    end_of_statement();
    if (!module_.fns.emplace(domain_ + ":" + f.name, f).second) fail_at(file_, pos, "a second definition of the function " + f.name);
  }
  void combiner() {
    const Pos pos = take().pos;
    CombinerDef c;
    c.file = file_;
    c.domain = domain_;
    c.pos = pos;
    c.name = name();
    c.type_variables = type_variables();
    expect("(");
    do {
      std::string field = name("a field");
      expect(":");
      c.fields.emplace_back(field, name("an element type"));
    } while (accept(","));
    expect(")");
    c.ordered = accept("ordered");
    expect("unit");
    const Node* unit = expr();
    if (c.fields.size() == 1) c.units = {unit};
    else if (unit->kind == NodeKind::Tuple) c.units = unit->kids;
    if (c.units.size() != c.fields.size()) fail_at(file_, unit->pos, "the unit has one value per field");
    expect("join");
    c.left = name();
    expect(",");
    c.right = name();
    expect("=");
    c.joins = {expr()};
    end_of_statement();
    if (!module_.combiners.emplace(domain_ + ":" + c.name, c).second) fail_at(file_, pos, "a second definition of the combiner " + c.name);
  }
  void end_of_statement() {
    if (peek().kind != TokenKind::End && !at(";") && !at("}")) error("the statement does not end here: " + found());
  }

  void op() {
    const size_t begin = raw().offset;
    const Pos pos = take().pos;
    OpDef& o = module_.ops.emplace_back();
    o.domain = domain_;
    o.file = file_;
    o.pos = pos;
    o.name = name("the name of an operator");
    expect("@");
    if (peek().kind != TokenKind::Number) error("the opset version from which the definition is in force expected");
    o.since = take().integer;
    o.type_variables = type_variables();
    expect("(");
    {
      Bracket bracket(*this);
      while (!at(")")) {
        o.params.push_back(param());
        if (!accept(",")) break;
      }
      expect(")");
    }
    expect("->");
    do {
      Result_ r;
      r.pos = raw().pos;
      r.name = name("a result");
      expect(":");
      r.type = type_spec();
      r.many = accept("many");
      r.optional = accept("?");
      o.results.push_back(std::move(r));
    } while (accept(","));
    statements(o);
    o.text = text_.substr(begin, tokens_[at_ - 1].end - begin);
    for (const std::string& used : used_) o.text += "\n" + clauses_.at(used).text;
    used_.clear();
  }
  // clauses name: statements that several definitions of this file share, put where one says `use name`.
  void clauses() {
    const size_t begin = raw().offset;
    const Pos pos = take().pos;
    OpDef block;
    const std::string name = this->name("the name of the clauses");
    statements(block);
    block.text = text_.substr(begin, tokens_[at_ - 1].end - begin);
    used_.clear();
    if (!clauses_.emplace(name, std::move(block)).second)
      fail_at(file_, pos, "a second block of clauses '" + name + "'");
  }
  void statements(OpDef& o) {
    while (peek().kind != TokenKind::End) {
      base_.push_back({line_column(), at_});
      statement(o);
      end_of_statement();
      base_.pop_back();
      accept(";");
    }
  }
  void use(OpDef& o) {
    const Pos pos = raw().pos;
    const std::string which = name("the name of clauses");
    const auto block = clauses_.find(which);
    if (block == clauses_.end()) fail_at(file_, pos, "there are no clauses '" + which + "' above in this file");
    for (const AttrDecl& a : block->second.attrs) {
      if (o.attr(a.name)) fail_at(file_, pos, "a second attribute '" + a.name + "'");
      o.attrs.push_back(a);
    }
    o.body.insert(o.body.end(), block->second.body.begin(), block->second.body.end());
    if (o.body.size() > kMaxStatements)
      fail_at(file_, pos, "a definition of more than " + std::to_string(kMaxStatements) + " statements");
    if (std::find(used_.begin(), used_.end(), which) == used_.end()) used_.push_back(which);
  }
  Param param() {
    Param p;
    p.pos = raw().pos;
    p.name = name("a parameter");
    expect(":");
    if ((at("sym") || at("const")) && peek(1).kind == TokenKind::Name)
      p.mode = take().text == "sym" ? ParamMode::Sym : ParamMode::Const;
    p.type = type_spec();
    p.many = accept("many");
    p.optional = accept("?");
    if (accept("=")) p.fallback = expr();
    if (p.fallback && !p.optional) error("a default belongs to an optional parameter: write '?' before '='");
    return p;
  }
  // Column at which the line of the current token starts.
  int line_column() const {
    size_t k = at_;
    while (k > 0 && tokens_[k - 1].pos.line == tokens_[at_].pos.line) --k;
    return tokens_[k].pos.column;
  }

  void attribute(OpDef& o) {
    const Pos pos = raw().pos;
    std::vector<std::string> ns = names();
    AttrDecl a;
    a.pos = pos;
    expect(":");
    if (accept("{")) {
      Bracket bracket(*this);
      a.kind = AttrDecl::Kind::Enum;
      a.enumerators = names();
      expect("}");
    } else {
      std::string type = name("a type");
      if (type == "int") a.kind = AttrDecl::Kind::Int;
      else if (type == "float") a.kind = AttrDecl::Kind::Float;
      else if (type == "string") a.kind = AttrDecl::Kind::String;
      else if (type == "type") a.kind = AttrDecl::Kind::Type;
      else if (type == "tensor") a.kind = AttrDecl::Kind::Tensor;
      else if (type == "graph") a.kind = AttrDecl::Kind::Graph;
      else error("'int', 'float', 'string', 'type', 'tensor', 'graph' or '{' expected, found '" + type + "'");
      if (a.kind == AttrDecl::Kind::Type || a.kind == AttrDecl::Kind::Tensor) a.type_variable = name("a type variable");
      if (accept("[")) {
        Bracket bracket(*this);
        a.list = true;
        a.shape = items("]");
        expect("]");
        for (const Node* n : a.shape)
          if (n->kind != NodeKind::Name && n->kind != NodeKind::Number) fail_at(file_, n->pos, "a dim or a number expected");
        if (a.shape.size() > 2) error("a list attribute has at most two axes");
      }
    }
    a.optional = accept("?");
    if (accept("=")) a.fallback = expr();
    if (a.kind == AttrDecl::Kind::Graph && (a.list || a.fallback)) error("a graph is no list and has no default");
    for (auto& n : ns) {
      if (o.attr(n) || o.param(n)) fail_at(file_, pos, "a second declaration of '" + n + "'");
      a.name = n;
      o.attrs.push_back(a);
    }
  }
  Target target() {
    Target t;
    t.pos = raw().pos;
    t.array = name("an array");
    expect("[");
    Bracket bracket(*this);
    t.index = items("]");
    expect("]");
    return t;
  }
  void graph_call(Stmt& s) {
    s.kind = StmtKind::Graph;
    take();
    s.text = name("the attribute that is a graph");
    expect("(");
    Bracket bracket(*this);
    s.names = names();
    expect(")");
  }
  void statement(OpDef& o) {
    Stmt s;
    s.pos = raw().pos;
    if (accept("attr")) return attribute(o);
    if (at("use") && peek(1).kind == TokenKind::Name) {
      take();
      return use(o);
    }
    if (accept("let")) {
      do {
        Stmt l;
        l.kind = StmtKind::Let;
        l.pos = raw().pos;
        l.names = names();
        expect("=");
        l.value = expr();
        o.body.push_back(std::move(l));
      } while (accept(","));
      return;
    }
    if (accept("dim")) { s.kind = StmtKind::Dim; s.names = {name("a dim")}; accept("..."); expect("="); s.value = expr(); }
    else if (accept("dims")) { s.kind = StmtKind::Dims; s.names = {name("a pack")}; expect("..."); expect("="); s.value = expr(); }
    else if (accept("rank")) { s.kind = StmtKind::Rank; s.names = {name("a pack")}; expect("="); s.value = expr(); }
    else if (accept("check")) {
      s.kind = StmtKind::Check;
      const size_t begin = peek().offset;
      s.value = expr();
      s.source = in_one_line(std::string_view(text_).substr(begin, tokens_[at_ - 1].end - begin));
      if (accept("else")) {
        if (peek().kind != TokenKind::String) error("a sentence in quotes expected, found " + found());
        s.text = take().text;
      }
    }
    else if (accept("when")) { s.kind = StmtKind::When; s.value = expr(); }
    else if (accept("exists")) { s.kind = StmtKind::Exists; s.names = {name("a dim")}; expect("<="); s.value = expr(); }
    else if (accept("proc")) {
      s.kind = StmtKind::Proc;
      if (accept("for")) s.names = names();
      s.body = block();
    } else {
      do s.targets.push_back(target());
      while (accept(","));
      if (accept("<-")) {
        s.kind = StmtKind::Push;
        if (s.targets.size() != 1) error("a push has one place");
        s.value = expr();
        expect("for");
        s.names = names();
        expect("by");
        s.by = expr();
      } else {
        expect("=");
        if (at("graph") && peek(1).kind == TokenKind::Name) {
          graph_call(s);
          o.body.push_back(std::move(s));
          return;
        }
        s.kind = StmtKind::Map;
        s.value = expr();
        if (accept("for")) {
          expect("each");
          s.kind = StmtKind::Each;
          s.text = name("a 'many' parameter");
          if (s.targets.size() != 1) error("'for each' has one place");
        }
      }
    }
    o.body.push_back(std::move(s));
  }

  // --- procs ---------------------------------------------------------------------------------------------------
  std::vector<Stmt> block() {
    Nested nested(*this);
    expect("{");
    std::vector<Stmt> r;
    Bracket bracket(*this);
    while (!at("}")) {
      base_.push_back({line_column(), at_});
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
      base_.pop_back();
      accept(";");
    }
    expect("}");
    return r;
  }
  Stmt proc_statement() {
    Nested nested(*this);
    Stmt s;
    s.pos = raw().pos;
    if (at("let") || at("var")) {
      s.kind = take().text == "let" ? StmtKind::Let : StmtKind::Var;
      s.names = {name()};
      expect("=");
      s.value = expr();
    } else if (accept("for")) {
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
    } else if (accept("while")) {
      s.kind = StmtKind::While;
      s.value = expr();
      expect("within");
      s.bound = expr();
      s.body = block();
    } else if (accept("if")) {
      s.kind = StmtKind::If;
      s.value = expr();
      s.body = block();
      if (raw().kind == TokenKind::Name && raw().text == "else") {  // also where it begins a line
        ++at_;
        if (at("if")) s.orelse.push_back(proc_statement());
        else s.orelse = block();
      }
    } else if (accept("alloc")) {
      s.kind = StmtKind::Alloc;
      s.names = {name("an array")};
      expect(":");
      s.type = type_spec();
    } else if (accept("yield")) {
      s.kind = StmtKind::Yield;
      s.names = {name("an existential dim")};
      expect("=");
      s.value = expr();
    } else {
      const bool store = peek(1).kind == TokenKind::Punct && peek(1).text == "[";
      if (store) {
        s.kind = StmtKind::Store;
        s.targets = {target()};
      } else {
        s.kind = StmtKind::Assign;
        s.names = {name()};
      }
      expect("=");
      s.value = expr();
    }
    return s;
  }

  Module& module_;
  const std::string& file_;
  const std::string& text_;
  std::vector<Token> tokens_;
  std::vector<Base> base_;
  size_t at_ = 0;
  int depth_ = 0;
  std::string domain_ = "ai.onnx";
  std::map<std::string, OpDef> clauses_;  // attributes and statements by name
  std::vector<std::string> used_;         // by the definition being read
};

}  // namespace

void parse_file(Module& module, const std::string& file, const std::string& text) {
  if (text.size() > kMaxFile) fail_at(file, {1, 1}, "the file is larger than 4 MiB");
  Parser(module, file, text).run();
}

}  // namespace mlc::lang
