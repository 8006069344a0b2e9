#include <charconv>

#include "packager/ir/text/operators.h"
#include "packager/ir/text/text.h"

namespace mlc::ir {

Result<Type> parse_type(Lexer& in) {
  std::string s = in.next().text;
  Type t;
  size_t x = s.find('x');
  auto d = dtype_named(s.substr(0, x));
  if (!d) return in.error("no element type '" + s + "'");
  t.dtype = *d;
  if (x != std::string::npos) {
    unsigned lanes = 0;
    auto r = std::from_chars(s.data() + x + 1, s.data() + s.size(), lanes);
    if (r.ptr != s.data() + s.size() || lanes < 1 || lanes > 4096) return in.error("bad number of lanes in '" + s + "'");
    t.lanes = static_cast<uint16_t>(lanes);
  }
  return t;
}

namespace {

class ExprParser {
 public:
  ExprParser(Context& ctx, Lexer& in, const Scope& scope) : ctx_(ctx), in_(in), scope_(scope) {}

  Result<const Expr*> parse(int at_least = kOr) {
    if (++depth_ > 200) return in_.error("expression nested too deeply");
    MLC_ASSIGN(const Expr* left, atom());
    for (;;) {
      Op op;
      Infix f{};
      if (!infix_here(op, f) || f.precedence < at_least) break;
      in_.next();
      MLC_ASSIGN(const Expr* right, parse(f.precedence + 1));
      Type type = left->type;
      if (left->type != right->type)
        return in_.error("operands of '" + std::string(f.text) + "' differ in type: " + print_type(left->type) + " and " +
                         print_type(right->type));
      if (f.precedence == kCompare) type.dtype = DType::Bool;
      left = make(op, type, {left, right});
    }
    --depth_;
    return left;
  }

 private:
  bool infix_here(Op& op, Infix& f) {
    if (in_.peek().kind != Lexer::Token::Punct && in_.peek().kind != Lexer::Token::Name) return false;
    for (unsigned i = static_cast<unsigned>(Op::Add); i <= static_cast<unsigned>(Op::Ne); ++i) {
      Infix candidate = infix_of(static_cast<Op>(i));
      if (!candidate.text.empty() && candidate.text == in_.peek().text) {
        op = static_cast<Op>(i);
        f = candidate;
        return true;
      }
    }
    return false;
  }

  const Expr* make(Op op, Type type, std::vector<const Expr*> args, int64_t i = 0) {
    Expr e;
    e.op = op;
    e.type = type;
    e.i = i;
    return ctx_.raw(e, std::move(args));
  }

  Result<std::vector<const Expr*>> arguments(std::string_view close) {
    std::vector<const Expr*> args;
    while (!in_.is(close) && !in_.is("for")) {
      if (!args.empty()) MLC_RETURN_IF_ERROR(in_.expect(","));
      MLC_ASSIGN(const Expr* a, parse());
      args.push_back(a);
    }
    return args;
  }

  Result<int64_t> integer() {
    bool negative = in_.accept("-");
    std::string s = in_.next().text;
    uint64_t v = 0;
    auto r = std::from_chars(s.data(), s.data() + s.size(), v);
    if (s.empty() || r.ec != std::errc() || r.ptr != s.data() + s.size()) return in_.error("expected an integer, found '" + s + "'");
    return static_cast<int64_t>(negative ? 0 - v : v);
  }

  Result<const Expr*> number() {
    bool negative = in_.accept("-");
    std::string s = in_.next().text;
    DType t = DType::None;
    if (in_.accept(":")) {
      MLC_ASSIGN(Type type, parse_type(in_));
      t = type.dtype;
    }
    bool real = s == "inf" || s == "nan" || s.find_first_of(".e") != std::string::npos;
    if (real) {
      double v = 0;
      auto r = std::from_chars(s.data(), s.data() + s.size(), v);
      if (r.ptr != s.data() + s.size()) return in_.error("bad number '" + s + "'");
      if (t == DType::None) t = DType::F32;
      if (!is_float(t)) return in_.error("'" + s + "' is no number of type " + std::string(mlc::name_of(t)));
      return ctx_.number(negative ? -v : v, t);
    }
    uint64_t v = 0;
    auto r = std::from_chars(s.data(), s.data() + s.size(), v);
    if (s.empty() || r.ec != std::errc() || r.ptr != s.data() + s.size()) return in_.error("bad number '" + s + "'");
    return ctx_.integer(static_cast<int64_t>(negative ? 0 - v : v), t == DType::None ? DType::I64 : t);
  }

  Result<const Expr*> load() {
    MLC_ASSIGN(int64_t array, integer());
    if (array < 0 || array > UINT32_MAX) return in_.error("bad array number");
    Access access = in_.accept("?") ? Access::Checked : in_.accept("~") ? Access::Clamped : Access::Proved;
    Type type{};
    if (in_.accept(":")) {
      MLC_ASSIGN(type, parse_type(in_));
    } else if (scope_.array_type) {
      type = scope_.array_type(static_cast<uint32_t>(array));
    }
    if (type.dtype == DType::None) return in_.error("no array %" + std::to_string(array));
    MLC_RETURN_IF_ERROR(in_.expect("["));
    MLC_ASSIGN(auto index, arguments("]"));
    MLC_RETURN_IF_ERROR(in_.expect("]"));
    return ctx_.load(static_cast<uint32_t>(array), type, std::move(index), access);
  }

  Result<const Expr*> atom() {
    MLC_ASSIGN(const Expr* e, simple());
    while (in_.peek().kind == Lexer::Token::Punct && in_.is(".")) {
      in_.next();
      MLC_ASSIGN(int64_t k, integer());
      if (e->op != Op::Fold || k < 0 || static_cast<uint64_t>(k) >= e->args.size()) return in_.error("no such field");
      e = make(Op::Field, e->args[static_cast<size_t>(k)]->type, {e}, k);
    }
    return e;
  }

  Result<const Expr*> simple() {
    using Kind = Lexer::Token;
    Kind t = in_.peek();
    if (t.kind == Kind::Number || in_.is("-") || in_.is("inf") || in_.is("nan")) return number();
    if (in_.accept("(")) {
      MLC_ASSIGN(const Expr* e, parse());
      MLC_RETURN_IF_ERROR(in_.expect(")"));
      return e;
    }
    if (in_.accept("%")) return load();
    if (in_.accept("$")) {
      Kind name = in_.next();
      if (name.kind != Kind::Name && name.kind != Kind::String) return in_.error("expected the name of a symbol");
      return ctx_.sym(ctx_.declare_sym(name.text));
    }
    if (in_.accept("#")) {
      MLC_ASSIGN(int64_t v, integer());
      auto it = scope_.vars.find(v);
      if (it == scope_.vars.end()) return in_.error("no variable #" + std::to_string(v));
      return it->second;
    }
    if (in_.accept("@")) {
      auto it = scope_.defined.find("@" + in_.next().text);
      return it == scope_.defined.end() ? Result<const Expr*>(in_.error("no such name")) : it->second;
    }
    if (t.kind != Kind::Name) return in_.error("expected an expression, found '" + t.text + "'");
    in_.next();
    if (t.text == "true" || t.text == "false") return ctx_.boolean(t.text == "true");
    if (in_.is("<")) {
      if (auto r = bracketed(t.text); r.ok() || !r.status().message.empty()) return r;
    }
    if (in_.is("(")) return call(t.text);
    if (auto it = scope_.defined.find(t.text); it != scope_.defined.end()) return it->second;
    if (auto it = scope_.dims.find(t.text); it != scope_.dims.end()) return ctx_.dim(it->second);
    return in_.error("no dim '" + t.text + "'");
  }

  // cast<f32>(x), ramp<8, 4>(x) ...; an empty error where `name` is no such operation.
  Result<const Expr*> bracketed(const std::string& name) {
    Op op = name == "cast" ? Op::Cast : name == "sat" ? Op::SatCast : name == "bits" ? Op::Bitcast
            : name == "splat" ? Op::Splat : name == "ramp" ? Op::Ramp : name == "extract" ? Op::Extract : Op::Const;
    if (op == Op::Const) return Status(Code::Malformed, "");
    in_.next();
    Type type;
    int64_t first = 0, second = 0;
    if (op == Op::Cast || op == Op::SatCast || op == Op::Bitcast) {
      MLC_ASSIGN(type, parse_type(in_));
    } else {
      MLC_ASSIGN(first, integer());
      if (in_.accept(",")) {
        MLC_ASSIGN(second, integer());
      }
      if (first < 0 || first > 4096) return in_.error("bad number of lanes");
    }
    MLC_RETURN_IF_ERROR(in_.expect(">"));
    MLC_RETURN_IF_ERROR(in_.expect("("));
    MLC_ASSIGN(const Expr* a, parse());
    MLC_RETURN_IF_ERROR(in_.expect(")"));
    if (op == Op::Splat || op == Op::Ramp) type = {a->type.dtype, static_cast<uint16_t>(first)};
    if (op == Op::Splat && a->is_const()) {
      Expr e = *a;
      e.args = {};
      e.type = type;
      return ctx_.raw(e, {});
    }
    if (op == Op::Extract) type = {a->type.dtype, 1};
    return make(op, type, {a}, op == Op::Ramp ? second : op == Op::Extract ? first : 0);
  }

  Result<const Expr*> call(const std::string& name) {
    in_.next();
    MLC_ASSIGN(auto args, arguments(")"));
    if (in_.is("for")) return fold(name, std::move(args));
    MLC_RETURN_IF_ERROR(in_.expect(")"));
    for (const Named& n : kNamed) {
      if (n.name != name) continue;
      if (args.empty() || (n.operands && args.size() != static_cast<size_t>(n.operands)))
        return in_.error("wrong number of operands of '" + name + "'");
      Type type = n.op == Op::Select ? args[1]->type : args[0]->type;
      if (n.op == Op::IsNan || n.op == Op::IsInf) type.dtype = DType::Bool;
      if (n.op == Op::SumLanes || n.op == Op::ProdLanes || n.op == Op::MinLanes || n.op == Op::MaxLanes) type.lanes = 1;
      if (n.op == Op::Widen) {
        unsigned lanes = 0;
        for (const Expr* a : args) lanes += a->type.lanes;
        type.lanes = static_cast<uint16_t>(lanes);
      }
      return make(n.op, type, std::move(args));
    }
    return in_.error("no operation '" + name + "'");
  }

  Result<const Expr*> fold(const std::string& name, std::vector<const Expr*> bodies) {
    in_.next();
    Fold f;
    for (unsigned j = 0; j < 7; ++j)
      if (ctx_.builtin(static_cast<Join>(j))->name == name) f.combiner = ctx_.builtin(static_cast<Join>(j));
    if (!f.combiner) {
      auto it = scope_.combiners.find(name);
      if (it == scope_.combiners.end()) return in_.error("no combiner '" + name + "'");
      f.combiner = it->second;
    }
    size_t fields = f.combiner->join == Join::Custom ? f.combiner->joins.size() : 1;
    if (bodies.size() != fields) return in_.error("'" + name + "' wants " + std::to_string(fields) + " values");
    while (!in_.is("where") && !in_.is(")")) {
      if (!f.dims.empty()) MLC_RETURN_IF_ERROR(in_.expect(","));
      std::string d = in_.next().text;
      auto it = scope_.dims.find(d);
      if (it == scope_.dims.end()) return in_.error("no dim '" + d + "'");
      f.dims.push_back(it->second);
    }
    if (in_.accept("where")) {
      MLC_ASSIGN(f.where, parse());
    }
    MLC_RETURN_IF_ERROR(in_.expect(")"));
    Expr e;
    e.op = Op::Fold;
    e.type = bodies[0]->type;
    e.fold = &f;
    return ctx_.raw(e, std::move(bodies));
  }

  Context& ctx_;
  Lexer& in_;
  const Scope& scope_;
  int depth_ = 0;
};

}  // namespace

Result<const Expr*> parse_expr(Context& ctx, Lexer& in, const Scope& scope) { return ExprParser(ctx, in, scope).parse(); }

}  // namespace mlc::ir
