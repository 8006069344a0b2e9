#include "packager/ir/text.h"

#include <charconv>
#include <cmath>

namespace mlc::ir {
namespace {

enum Precedence { kOr, kAnd, kCompare, kBitOr, kBitXor, kBitAnd, kShift, kSum, kProduct, kAtom };

struct Infix {
  std::string_view text;
  int precedence;
};
Infix infix_of(Op op) {
  switch (op) {
    case Op::Add: return {"+", kSum};
    case Op::Sub: return {"-", kSum};
    case Op::Mul: return {"*", kProduct};
    case Op::Div: return {"/", kProduct};
    case Op::FloorDiv: return {"//", kProduct};
    case Op::FloorMod: return {"%", kProduct};
    case Op::And: return {"and", kAnd};
    case Op::Or: return {"or", kOr};
    case Op::BitAnd: return {"&", kBitAnd};
    case Op::BitOr: return {"|", kBitOr};
    case Op::BitXor: return {"^", kBitXor};
    case Op::Shl: return {"<<", kShift};
    case Op::Shr: return {">>", kShift};
    case Op::Lt: return {"<", kCompare};
    case Op::Le: return {"<=", kCompare};
    case Op::Eq: return {"==", kCompare};
    case Op::Ne: return {"!=", kCompare};
    default: return {};
  }
}

struct Named {
  Op op;
  std::string_view name;
  int operands;  // 0: any number
};
constexpr Named kNamed[] = {
    {Op::Neg, "neg", 1}, {Op::Abs, "abs", 1}, {Op::Not, "not", 1}, {Op::BitNot, "bitnot", 1}, {Op::Floor, "floor", 1},
    {Op::Ceil, "ceil", 1}, {Op::Trunc, "trunc", 1}, {Op::Rint, "rint", 1}, {Op::Sqrt, "sqrt", 1},
    {Op::IsNan, "is_nan", 1}, {Op::IsInf, "is_inf", 1}, {Op::Exp, "exp", 1}, {Op::Log, "log", 1}, {Op::Sin, "sin", 1},
    {Op::Cos, "cos", 1}, {Op::Tan, "tan", 1}, {Op::Asin, "asin", 1}, {Op::Acos, "acos", 1}, {Op::Atan, "atan", 1},
    {Op::Sinh, "sinh", 1}, {Op::Cosh, "cosh", 1}, {Op::Tanh, "tanh", 1}, {Op::Asinh, "asinh", 1},
    {Op::Acosh, "acosh", 1}, {Op::Atanh, "atanh", 1}, {Op::Erf, "erf", 1}, {Op::TruncDiv, "tdiv", 2},
    {Op::TruncMod, "tmod", 2}, {Op::Min, "min", 2}, {Op::Max, "max", 2}, {Op::Pow, "pow", 2},
    {Op::Select, "select", 3}, {Op::Fma, "fma", 3}, {Op::SumLanes, "sum_lanes", 1}, {Op::ProdLanes, "prod_lanes", 1},
    {Op::MinLanes, "min_lanes", 1}, {Op::MaxLanes, "max_lanes", 1}, {Op::Widen, "widen", 0},
    {Op::Dot, "dot", 3},
};
std::string_view name_of(Op op) {
  for (const Named& n : kNamed)
    if (n.op == op) return n.name;
  return {};
}

bool plain_name(std::string_view s) {
  if (s.empty() || (s[0] >= '0' && s[0] <= '9')) return false;
  for (char c : s)
    if (!(c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))) return false;
  return true;
}

std::string number_text(double v, DType t) {
  char buffer[40];
  std::string s;
  if (std::isnan(v)) s = "nan";
  else if (std::isinf(v)) s = v < 0 ? "-inf" : "inf";
  else {
    auto r = t == DType::F64 ? std::to_chars(buffer, buffer + 40, v)
                             : std::to_chars(buffer, buffer + 40, static_cast<float>(v));
    s.assign(buffer, r.ptr);
    if (s.find_first_of(".e") == std::string::npos) s += ".0";
  }
  return t == DType::F32 ? s : s + ":" + std::string(mlc::name_of(t));
}

struct Piece {
  std::string text;
  int precedence = kAtom;
};

}  // namespace

std::string print_type(Type type) {
  std::string s(mlc::name_of(type.dtype));
  return type.lanes == 1 ? s : s + "x" + std::to_string(type.lanes);
}

std::string print_sym(const Sym* s) {
  if (plain_name(s->name)) return "$" + s->name;
  std::string quoted = "$\"";
  for (char c : s->name) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

std::string print(const Expr* root, const Names& names, size_t limit) {
  std::unordered_map<const Expr*, Piece> done;
  size_t total = 0;
  Piece result;
  auto dim_name = [&](const Dim* d) { return names.dim ? names.dim(d) : d->name; };
  auto inner = [&](const Expr* e, int at_least) {
    const Piece& p = done.at(e);
    return p.precedence < at_least ? "(" + p.text + ")" : p.text;
  };
  auto list = [&](const Expr* e) {
    std::string s;
    for (const Expr* a : e->args) s += (s.empty() ? "" : ", ") + done.at(a).text;
    return s;
  };
  walk(root, [&](const Expr* e) {
    Piece p;
    auto it = e == root ? names.defined.end() : names.defined.find(e);
    if (it != names.defined.end()) {
      p.text = it->second;
    } else if (total > limit) {
      p.text = "...";
    } else {
      switch (e->op) {
        case Op::Const:
          if (is_float(e->type.dtype)) p.text = number_text(e->f, e->type.dtype);
          else if (e->type.dtype == DType::Bool) p.text = e->i ? "true" : "false";
          else if (e->type.dtype == DType::I64) p.text = std::to_string(e->i);
          else if (e->type.dtype == DType::U64) p.text = std::to_string(static_cast<uint64_t>(e->i)) + ":u64";
          else p.text = std::to_string(e->i) + ":" + std::string(mlc::name_of(e->type.dtype));
          if (e->type.lanes != 1) p.text = "splat<" + std::to_string(e->type.lanes) + ">(" + p.text + ")";
          if (p.text[0] == '-') p.precedence = kProduct - 1;
          break;
        case Op::Sym: p.text = names.sym ? names.sym(e->sym) : print_sym(e->sym); break;
        case Op::Dim: p.text = dim_name(e->dim); break;
        case Op::Var: p.text = names.var ? names.var(e->i) : "#" + std::to_string(e->i); break;
        case Op::Load:
          p.text = "%" + std::to_string(e->array);
          if (e->access != Access::Proved) p.text += e->access == Access::Checked ? "?" : "~";
          if (e->type.lanes != 1) p.text += ":" + print_type(e->type);
          p.text += "[" + list(e) + "]";
          break;
        case Op::Fold: {
          p.text = e->fold->combiner->name + "(" + list(e) + " for";
          const char* separator = " ";
          for (const Dim* d : e->fold->dims) {
            p.text += separator + dim_name(d);
            separator = ", ";
          }
          if (e->fold->where) p.text += " where " + done.at(e->fold->where).text;
          p.text += ")";
          break;
        }
        case Op::Field: p.text = inner(e->args[0], kAtom) + "." + std::to_string(e->i); break;
        case Op::Cast: p.text = "cast<" + print_type(e->type) + ">(" + list(e) + ")"; break;
        case Op::SatCast: p.text = "sat<" + print_type(e->type) + ">(" + list(e) + ")"; break;
        case Op::Bitcast: p.text = "bits<" + print_type(e->type) + ">(" + list(e) + ")"; break;
        case Op::Splat: p.text = "splat<" + std::to_string(e->type.lanes) + ">(" + list(e) + ")"; break;
        case Op::Ramp:
          p.text = "ramp<" + std::to_string(e->type.lanes) + ", " + std::to_string(e->i) + ">(" + list(e) + ")";
          break;
        case Op::Extract: p.text = "extract<" + std::to_string(e->i) + ">(" + list(e) + ")"; break;
        default:
          if (Infix f = infix_of(e->op); !f.text.empty()) {
            p.precedence = f.precedence;
            bool chain = f.precedence != kCompare;
            p.text = inner(e->args[0], f.precedence + !chain) + " " + std::string(f.text) + " " +
                     inner(e->args[1], f.precedence + 1);
          } else {
            p.text = std::string(name_of(e->op)) + "(" + list(e) + ")";
          }
          break;
      }
    }
    total += p.text.size();
    if (e == root) result = p;
    done.insert_or_assign(e, std::move(p));
  });
  return result.text;
}

std::string to_string(const Expr* e) { return e ? print(e) : "true"; }

Lexer::Lexer(std::string_view text) : text_(text) { scan(); }

void Lexer::scan() {
  auto at = [&](size_t i) { return i < text_.size() ? text_[i] : '\0'; };
  for (;; ++at_) {
    char c = at(at_);
    if (c == ';') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      c = at(at_);
    }
    if (c == '\n') ++line_;
    else if (c != ' ' && c != '\t' && c != '\r') break;
    if (at_ >= text_.size()) break;
  }
  token_ = {Token::End, "", line_};
  if (at_ >= text_.size()) return;
  auto letter = [](char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  auto digit = [](char c) { return c >= '0' && c <= '9'; };
  size_t start = at_;
  char c = at(at_);
  if (letter(c)) {
    while (letter(at(at_)) || digit(at(at_))) ++at_;
    token_ = {Token::Name, std::string(text_.substr(start, at_ - start)), line_};
  } else if (digit(c)) {
    auto sign = [&] { return (at(at_) == '-' || at(at_) == '+') && at(at_ - 1) == 'e'; };
    while (digit(at(at_)) || (at(at_) == '.' && digit(at(at_ + 1))) || at(at_) == 'e' || sign()) ++at_;
    token_ = {Token::Number, std::string(text_.substr(start, at_ - start)), line_};
  } else if (c == '"') {
    token_ = {Token::String, "", line_};
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\') ++at_;
      if (at(at_) == '\n') ++line_;
      token_.text += at(at_);
    }
    ++at_;
  } else {
    static constexpr std::string_view kLong[] = {"//", "<=", "==", "!=", "<<", ">>", "->", "<-"};
    token_ = {Token::Punct, std::string(1, c), line_};
    for (std::string_view p : kLong)
      if (text_.substr(at_, 2) == p) token_.text = p;
    at_ += token_.text.size();
  }
}

Lexer::Token Lexer::next() {
  Token t = std::move(token_);
  scan();
  return t;
}
bool Lexer::is(std::string_view s) const {
  return (token_.kind == Token::Punct || token_.kind == Token::Name) && token_.text == s;
}
bool Lexer::accept(std::string_view s) {
  if (!is(s)) return false;
  scan();
  return true;
}
Status Lexer::expect(std::string_view s) {
  return accept(s) ? ok() : error("expected '" + std::string(s) + "', found '" + token_.text + "'");
}
Status Lexer::error(const std::string& what) const {
  return Status(Code::Malformed, "line " + std::to_string(token_.line) + ": " + what);
}

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
