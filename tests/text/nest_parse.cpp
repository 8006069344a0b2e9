#include "packager/nest/proc.h"
#include "tests/text/nest_text.h"

#include <algorithm>
#include <charconv>

#include "packager/ir/text/text.h"
#include "packager/nest/text/print.h"

namespace mlc::nest {
namespace {

using ir::Expr;
using ir::Lexer;

class Parser {
 public:
  Parser(ir::Context& ctx, Lexer& in, const DataByHash& data_of, int depth = 0) : ctx_(ctx), in_(in), data_of_(data_of), depth_(depth) {
    scope_.array_type = [this](uint32_t n) -> ir::Type {
      if (n >= kFirstLocal && n - kFirstLocal < locals_.size()) return {locals_[n - kFirstLocal].dtype, 1};
      return n < f_.arrays.size() ? ir::Type{f_.arrays[n].dtype, 1} : ir::Type{};
    };
  }

  Result<Function> run() {
    MLC_RETURN_IF_ERROR(in_.expect("function"));
    f_.name = in_.next().text;
    while (in_.peek().kind != Lexer::Token::End && !(depth_ > 0 && in_.is("}"))) {
      if (in_.accept("sym")) MLC_RETURN_IF_ERROR(sym());
      else if (in_.accept("dim")) MLC_RETURN_IF_ERROR(dim());
      else if (in_.accept("combiner")) MLC_RETURN_IF_ERROR(combiner());
      else if (in_.accept("array")) MLC_RETURN_IF_ERROR(array());
      else if (in_.accept("inputs")) MLC_RETURN_IF_ERROR(numbers(f_.inputs));
      else if (in_.accept("outputs")) MLC_RETURN_IF_ERROR(numbers(f_.outputs));
      else if (in_.accept("check")) MLC_RETURN_IF_ERROR(check());
      else if (in_.accept("define")) MLC_RETURN_IF_ERROR(definition());
      else if (in_.accept("element")) MLC_RETURN_IF_ERROR(element());
      else if (in_.accept("control")) MLC_RETURN_IF_ERROR(control());
      else if (in_.accept("nest")) MLC_RETURN_IF_ERROR(nest());
      else if (in_.accept("proc")) MLC_RETURN_IF_ERROR(proc());
      else return in_.error("expected a declaration or a statement, found '" + in_.peek().text + "'");
    }
    return std::move(f_);
  }

 private:
  Result<const Expr*> expr() { return ir::parse_expr(ctx_, in_, scope_); }
  Result<int64_t> integer() {
    bool negative = in_.accept("-");
    std::string s = in_.next().text;
    uint64_t v = 0;
    auto r = std::from_chars(s.data(), s.data() + s.size(), v);
    if (s.empty() || r.ec != std::errc() || r.ptr != s.data() + s.size()) return in_.error("expected an integer, found '" + s + "'");
    return static_cast<int64_t>(negative ? 0 - v : v);
  }
  Result<uint32_t> number() {
    MLC_RETURN_IF_ERROR(in_.expect("%"));
    MLC_ASSIGN(int64_t n, integer());
    if (n < 0 || n > UINT32_MAX || scope_.array_type(static_cast<uint32_t>(n)).dtype == DType::None)
      return in_.error("no array %" + std::to_string(n));
    return static_cast<uint32_t>(n);
  }
  Status numbers(std::vector<uint32_t>& out) {
    while (in_.is("%")) {
      MLC_ASSIGN(uint32_t n, number());
      out.push_back(n);
    }
    return ok();
  }
  Result<std::vector<const Expr*>> list(std::string_view open, std::string_view close) {
    MLC_RETURN_IF_ERROR(in_.expect(open));
    std::vector<const Expr*> out;
    while (!in_.is(close)) {
      if (!out.empty()) MLC_RETURN_IF_ERROR(in_.expect(","));
      MLC_ASSIGN(const Expr* e, expr());
      out.push_back(e);
    }
    MLC_RETURN_IF_ERROR(in_.expect(close));
    return out;
  }

  Status sym() {
    MLC_RETURN_IF_ERROR(in_.expect("$"));
    std::string name = in_.next().text;
    MLC_ASSIGN(int64_t lo, integer());
    MLC_ASSIGN(int64_t hi, integer());
    MLC_RETURN_IF_ERROR(in_.expect("multiple"));
    MLC_ASSIGN(int64_t multiple, integer());
    ctx_.declare_sym(name, lo, hi, multiple);
    return ok();
  }
  Status dim() {
    std::string name = in_.next().text;
    MLC_RETURN_IF_ERROR(in_.expect("="));
    MLC_ASSIGN(const Expr* extent, expr());
    if (!scope_.dims.emplace(name, nullptr).second) return in_.error("dim '" + name + "' declared twice");
    scope_.dims[name] = ctx_.declare_dim(name, extent);
    return ok();
  }
  Result<const Expr*> variable() {
    MLC_RETURN_IF_ERROR(in_.expect("#"));
    MLC_ASSIGN(int64_t number, integer());
    MLC_RETURN_IF_ERROR(in_.expect(":"));
    MLC_ASSIGN(ir::Type type, ir::parse_type(in_));
    const Expr*& v = scope_.vars[number];
    if (!v) v = ctx_.fresh_var(type);
    return v;
  }
  Status combiner() {
    ir::Combiner c;
    c.name = in_.next().text;
    c.join = ir::Join::Custom;
    for (auto* side : {&c.left, &c.right}) {
      MLC_RETURN_IF_ERROR(in_.expect("("));
      while (!in_.is(")")) {
        if (!side->empty()) MLC_RETURN_IF_ERROR(in_.expect(","));
        MLC_ASSIGN(const Expr* v, variable());
        side->push_back(v);
      }
      MLC_RETURN_IF_ERROR(in_.expect(")"));
    }
    MLC_RETURN_IF_ERROR(in_.expect("unit"));
    MLC_ASSIGN(c.units, list("(", ")"));
    MLC_RETURN_IF_ERROR(in_.expect("join"));
    MLC_ASSIGN(c.joins, list("(", ")"));
    c.commutative = in_.accept("commutative");
    if (c.left.size() != c.right.size() || c.left.size() != c.units.size() || c.left.size() != c.joins.size() || c.left.empty())
      return in_.error("combiner '" + c.name + "' needs one unit and one join per field");
    std::string name = c.name;
    scope_.combiners[name] = ctx_.declare_combiner(std::move(c));
    return ok();
  }

  Status array() {
    MLC_RETURN_IF_ERROR(in_.expect("%"));
    MLC_ASSIGN(int64_t n, integer());
    if (n != static_cast<int64_t>(f_.arrays.size())) return in_.error("arrays are numbered in order");
    Array a;
    a.name = in_.next().text;
    std::string kind = in_.next().text;
    const auto known = std::find(std::begin(kArrayKinds), std::end(kArrayKinds), kind);
    if (known == std::end(kArrayKinds)) return in_.error("no kind of array '" + kind + "'");
    a.kind = static_cast<Array::Kind>(known - std::begin(kArrayKinds));
    MLC_ASSIGN(ir::Type type, ir::parse_type(in_));
    a.dtype = type.dtype;
    MLC_ASSIGN(a.shape, list("[", "]"));
    if (in_.accept("list")) {
      MLC_ASSIGN(const int64_t depth, integer());
      if (depth < 1 || depth > kMaxDepth) return in_.error("a list of depth " + std::to_string(depth));
      a.list_depth = static_cast<uint8_t>(depth);
    }
    if (in_.accept("layout")) MLC_RETURN_IF_ERROR(layout(a));
    if (in_.accept("part")) {
      MLC_RETURN_IF_ERROR(in_.expect("of"));
      MLC_RETURN_IF_ERROR(in_.expect("%"));
      MLC_ASSIGN(const int64_t whole, integer());
      a.whole = static_cast<uint32_t>(whole);
      MLC_ASSIGN(a.layout.within, list("[", "]"));
      MLC_RETURN_IF_ERROR(in_.expect("at"));
      MLC_ASSIGN(a.layout.at, list("[", "]"));
    }
    if (in_.accept("hex")) {
      MLC_ASSIGN(a.data, hex(in_.next().text));
    } else if (in_.accept("data")) {
      MLC_ASSIGN(int64_t size, integer());
      std::string hash = in_.next().text;
      if (data_of_) a.data = data_of_(hash, static_cast<uint64_t>(size));
    }
    f_.arrays.push_back(std::move(a));
    return ok();
  }
  Status layout(Array& a) {
    while (in_.accept("[")) {
      Piece p;
      MLC_ASSIGN(int64_t axis, integer());
      if (axis < 0 || static_cast<size_t>(axis) >= a.shape.size()) return in_.error("no axis " + std::to_string(axis));
      p.axis = static_cast<uint8_t>(axis);
      if (in_.accept("/")) {
        MLC_ASSIGN(p.divisor, integer());
      }
      if (in_.accept("%")) {
        MLC_ASSIGN(p.extent, integer());
      }
      if (p.divisor < 1 || p.extent < 0) return in_.error("bad piece of a layout");
      a.layout.pieces.push_back(p);
      MLC_RETURN_IF_ERROR(in_.expect("]"));
    }
    return ok();
  }
  Result<std::shared_ptr<const ConstData>> hex(const std::string& s) {
    auto bytes = std::make_shared<std::vector<std::byte>>();
    auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; };
    if (s.size() % 2) return in_.error("odd number of hex digits");
    for (size_t i = 0; i < s.size(); i += 2) {
      int h = digit(s[i]), l = digit(s[i + 1]);
      if (h < 0 || l < 0) return in_.error("bad hex digits");
      bytes->push_back(static_cast<std::byte>(h * 16 + l));
    }
    return std::shared_ptr<const ConstData>(std::make_shared<ConstData>(ConstData{Bytes(*bytes), bytes}));
  }

  Status check() {
    MLC_ASSIGN(const Expr* condition, expr());
    f_.checks.push_back({condition, in_.next().text});
    return ok();
  }
  Status definition() {
    MLC_RETURN_IF_ERROR(in_.expect("$"));
    const ir::Sym* sym = ctx_.declare_sym(in_.next().text);
    MLC_RETURN_IF_ERROR(in_.expect("="));
    MLC_ASSIGN(const Expr* value, expr());
    f_.definitions.push_back({sym, value});
    return ok();
  }
  Status element() {
    MLC_RETURN_IF_ERROR(in_.expect("$"));
    const ir::Sym* sym = ctx_.declare_sym(in_.next().text);
    MLC_RETURN_IF_ERROR(in_.expect("="));
    MLC_ASSIGN(const uint32_t input, number());
    MLC_ASSIGN(const int64_t place, integer());
    if (place < 0) return in_.error("an element is numbered from 0");
    f_.elements.push_back({sym, input, static_cast<uint64_t>(place)});
    return ok();
  }

  // Arrays, `none` for an absent one.
  Status operands(std::vector<uint32_t>& out) {
    while (in_.is("%") || in_.is("none")) {
      if (in_.accept("none")) {
        out.push_back(kNoArray);
        continue;
      }
      MLC_ASSIGN(const uint32_t n, number());
      out.push_back(n);
    }
    return ok();
  }
  Status settings(StepSettings& set) {
    const auto numbered = [&](const char* word, uint32_t& out) -> Status {
      if (!in_.accept(word)) return ok();
      MLC_ASSIGN(const int64_t n, integer());
      if (n < 0 || n > UINT32_MAX) return in_.error("'" + std::string(word) + "' takes a number of 0 to 4294967295");
      out = static_cast<uint32_t>(n);
      return ok();
    };
    MLC_RETURN_IF_ERROR(numbered("axis", set.axis));
    set.new_axis = in_.accept("new");
    set.drop_axis = in_.accept("drop");
    MLC_RETURN_IF_ERROR(numbered("cuts", set.max_cuts));
    MLC_RETURN_IF_ERROR(numbered("letters", set.min_letters));
    set.between = in_.accept("between");
    if (in_.accept("lower")) set.case_change = CaseChange::Lower;
    else if (in_.accept("upper")) set.case_change = CaseChange::Upper;
    set.match_case = in_.accept("match_case");
    set.integers = in_.accept("integers");
    return ok();
  }

  Status control() {
    if (depth_ >= kMaxDepth) return in_.error("bodies are nested deeper than " + std::to_string(kMaxDepth));
    Statement s;
    s.control = std::make_unique<Control>();
    Control& c = *s.control;
    const std::string kind = in_.next().text;
    const auto known = std::find(std::begin(kStepWords) + 1, std::end(kStepWords), kind);
    if (known == std::end(kStepWords)) return in_.error("no kind of control '" + kind + "'");
    c.kind = static_cast<StepOp>(known - std::begin(kStepWords));
    s.source = in_.next().text;
    MLC_RETURN_IF_ERROR(in_.expect("reads"));
    MLC_RETURN_IF_ERROR(operands(c.inputs));
    MLC_RETURN_IF_ERROR(in_.expect("writes"));
    MLC_RETURN_IF_ERROR(operands(c.outputs));
    if (in_.accept("carried")) {
      MLC_ASSIGN(const int64_t n, integer());
      if (n < 0 || static_cast<uint64_t>(n) > c.inputs.size()) return in_.error("a loop carries what it is given");
      c.carried = static_cast<uint32_t>(n);
    }
    MLC_RETURN_IF_ERROR(settings(c.set));
    if (in_.accept("service")) {
      c.service = in_.next().text;
      c.options = in_.next().text;
    }
    while (in_.accept("$")) c.symbols.push_back(ctx_.declare_sym(in_.next().text));
    while (in_.accept("{")) {
      MLC_ASSIGN(Function body, Parser(ctx_, in_, data_of_, depth_ + 1).run());
      c.bodies.push_back(std::make_unique<Function>(std::move(body)));
      MLC_RETURN_IF_ERROR(in_.expect("}"));
    }
    f_.body.push_back(std::move(s));
    return ok();
  }

  Result<const ir::Dim*> dim_name() {
    std::string name = in_.next().text;
    auto it = scope_.dims.find(name);
    if (it == scope_.dims.end()) return in_.error("no dim '" + name + "'");
    return it->second;
  }
  Status dims(std::vector<const ir::Dim*>& out) {
    MLC_RETURN_IF_ERROR(in_.expect("("));
    while (!in_.is(")")) {
      if (!out.empty()) MLC_RETURN_IF_ERROR(in_.expect(","));
      MLC_ASSIGN(const ir::Dim* d, dim_name());
      out.push_back(d);
    }
    return in_.expect(")");
  }

  Status nest() {
    Statement s;
    s.source = in_.next().text;
    s.nest = std::make_unique<Nest>();
    Nest& n = *s.nest;
    MLC_RETURN_IF_ERROR(dims(n.dims));
    if (in_.accept("where")) {
      MLC_ASSIGN(n.where, expr());
    }
    if (in_.accept("scan")) {
      MLC_ASSIGN(n.scan_dim, dim_name());
      MLC_RETURN_IF_ERROR(in_.expect("by"));
      MLC_ASSIGN(n.scan_combiner, combiner_name());
      n.scan_exclusive = in_.accept("exclusive");
      n.scan_reverse = in_.accept("reverse");
    }
    s.joins = in_.accept("joins");
    MLC_RETURN_IF_ERROR(in_.expect("{"));
    scope_.defined.clear();
    while (!in_.accept("}")) {
      if (in_.accept("let")) {
        MLC_RETURN_IF_ERROR(in_.expect("@"));
        std::string name = "@" + in_.next().text;
        MLC_RETURN_IF_ERROR(in_.expect("="));
        MLC_ASSIGN(const Expr* e, expr());
        scope_.defined[name] = e;
        continue;
      }
      Write w;
      w.push = in_.accept("push");
      if (!w.push) MLC_RETURN_IF_ERROR(in_.expect("write"));
      MLC_ASSIGN(w.array, number());
      MLC_ASSIGN(w.index, list("[", "]"));
      MLC_RETURN_IF_ERROR(in_.expect("="));
      MLC_ASSIGN(w.value, expr());
      if (w.push) {
        MLC_RETURN_IF_ERROR(in_.expect("by"));
        MLC_ASSIGN(const ir::Combiner* c, combiner_name());
        w.join = c->join;
      }
      n.writes.push_back(std::move(w));
    }
    scope_.defined.clear();
    f_.body.push_back(std::move(s));
    return ok();
  }
  Result<const ir::Combiner*> combiner_name() {
    std::string name = in_.next().text;
    for (unsigned j = 0; j < 7; ++j)
      if (ctx_.builtin(static_cast<ir::Join>(j))->name == name) return ctx_.builtin(static_cast<ir::Join>(j));
    auto it = scope_.combiners.find(name);
    if (it == scope_.combiners.end()) return in_.error("no combiner '" + name + "'");
    return it->second;
  }

  Status proc() {
    Statement s;
    s.source = in_.next().text;
    s.proc = std::make_unique<Proc>();
    Proc& p = *s.proc;
    locals_.clear();
    MLC_RETURN_IF_ERROR(dims(p.dims));
    MLC_RETURN_IF_ERROR(in_.expect("reads"));
    MLC_RETURN_IF_ERROR(numbers(p.reads));
    MLC_RETURN_IF_ERROR(in_.expect("writes"));
    MLC_RETURN_IF_ERROR(numbers(p.writes));
    MLC_RETURN_IF_ERROR(in_.expect("{"));
    while (in_.accept("alloc")) {
      MLC_RETURN_IF_ERROR(in_.expect("%"));
      MLC_ASSIGN(int64_t n, integer());
      if (n != static_cast<int64_t>(kFirstLocal + locals_.size())) return in_.error("locals are numbered in order");
      loop::LocalArray l;
      l.name = in_.next().text;
      MLC_ASSIGN(ir::Type type, ir::parse_type(in_));
      l.dtype = type.dtype;
      MLC_ASSIGN(l.shape, list("[", "]"));
      locals_.push_back(std::move(l));
    }
    MLC_RETURN_IF_ERROR(block(p.body, 0));
    MLC_RETURN_IF_ERROR(in_.expect("}"));
    p.locals = std::move(locals_);
    locals_.clear();
    f_.body.push_back(std::move(s));
    return ok();
  }

  // Statements up to the closing brace or a yield.
  Status block(std::vector<loop::StmtPtr>& out, int depth) {
    if (depth > 60) return in_.error("statements nested too deeply");
    while (!in_.is("}") && !in_.is("yield")) {
      auto s = std::make_unique<loop::Stmt>();
      MLC_RETURN_IF_ERROR(statement(*s, depth));
      out.push_back(std::move(s));
    }
    return ok();
  }
  Status braces(std::vector<loop::StmtPtr>& out, int depth) {
    MLC_RETURN_IF_ERROR(in_.expect("{"));
    MLC_RETURN_IF_ERROR(block(out, depth + 1));
    return in_.expect("}");
  }
  Status statement(loop::Stmt& s, int depth) {
    using loop::StmtKind;
    if (in_.accept("for")) {
      s.kind = StmtKind::For;
      MLC_RETURN_IF_ERROR(in_.expect("#"));
      MLC_ASSIGN(int64_t number, integer());
      const Expr*& v = scope_.vars[number];
      if (!v) v = ctx_.fresh_var({DType::I64, 1});
      s.var = v;
      MLC_RETURN_IF_ERROR(in_.expect("in"));
      MLC_ASSIGN(s.begin, expr());
      MLC_RETURN_IF_ERROR(in_.expect("to"));
      MLC_ASSIGN(s.end, expr());
      MLC_RETURN_IF_ERROR(in_.expect("step"));
      MLC_ASSIGN(s.step, integer());
      if (s.step < 1) return in_.error("a step is positive");
      if (in_.accept("unroll")) s.for_kind = loop::ForKind::Unroll;
      return braces(s.body, depth);
    }
    if (in_.accept("while")) {
      s.kind = StmtKind::While;
      MLC_ASSIGN(s.cond, expr());
      MLC_RETURN_IF_ERROR(in_.expect("within"));
      MLC_ASSIGN(s.bound, expr());
      return braces(s.body, depth);
    }
    if (in_.accept("if")) {
      s.kind = StmtKind::If;
      MLC_ASSIGN(s.cond, expr());
      MLC_RETURN_IF_ERROR(braces(s.body, depth));
      return in_.accept("else") ? braces(s.orelse, depth) : ok();
    }
    if (in_.is("let") || in_.is("local")) {
      s.kind = in_.next().text == "let" ? StmtKind::Let : StmtKind::Local;
      MLC_ASSIGN(s.var, variable());
      if (in_.accept("=")) {
        MLC_ASSIGN(s.value, expr());
      }
      return ok();
    }
    if (in_.accept("store")) {
      s.kind = StmtKind::Store;
      MLC_ASSIGN(s.array, number());
      MLC_ASSIGN(s.index, list("[", "]"));
      MLC_RETURN_IF_ERROR(in_.expect("="));
      MLC_ASSIGN(s.value, expr());
      if (in_.accept("where")) {
        MLC_ASSIGN(s.cond, expr());
      }
      return ok();
    }
    if (in_.accept("fault")) {
      s.kind = StmtKind::Fault;
      MLC_ASSIGN(int64_t code, integer());
      s.fault = static_cast<int32_t>(code);
      MLC_RETURN_IF_ERROR(in_.expect("if"));
      MLC_ASSIGN(s.cond, expr());
      return ok();
    }
    if (in_.is("#")) {
      s.kind = StmtKind::Assign;
      MLC_ASSIGN(s.var, expr());
      MLC_RETURN_IF_ERROR(in_.expect("="));
      MLC_ASSIGN(s.value, expr());
      return ok();
    }
    return in_.error("expected a statement, found '" + in_.peek().text + "'");
  }

  static constexpr int kMaxDepth = 64;

  ir::Context& ctx_;
  Lexer& in_;
  const DataByHash& data_of_;
  int depth_;
  Function f_;
  ir::Scope scope_;
  std::vector<loop::LocalArray> locals_;
};

}  // namespace

Result<Function> parse(ir::Context& ctx, std::string_view text, const DataByHash& data_of) {
  Lexer in(text);
  return Parser(ctx, in, data_of).run();
}

}  // namespace mlc::nest
