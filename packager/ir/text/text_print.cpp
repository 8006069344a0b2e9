#include <algorithm>
#include <charconv>
#include <cmath>

#include "packager/ir/text/operators.h"
#include "packager/ir/text/text.h"

namespace mlc::ir {
namespace {

bool plain_name(std::string_view s) {
  return !s.empty() && !is_digit(s[0]) && std::all_of(s.begin(), s.end(), [](char c) { return is_letter(c) || is_digit(c); });
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

namespace {

std::string const_text(const Expr* e) {
  const DType t = e->type.dtype;
  std::string s = is_float(t)           ? number_text(e->f, t)
                  : t == DType::Bool    ? (e->i ? "true" : "false")
                  : t == DType::I64     ? std::to_string(e->i)
                  : t == DType::U64     ? std::to_string(static_cast<uint64_t>(e->i)) + ":u64"
                                        : std::to_string(e->i) + ":" + std::string(mlc::name_of(t));
  return e->type.lanes == 1 ? s : "splat<" + std::to_string(e->type.lanes) + ">(" + s + ")";
}

// Texts of all nodes below a root, operands first.
class Printer {
 public:
  Printer(const Names& names, size_t limit) : names_(names), limit_(limit) {}

  std::string print(const Expr* root) {
    walk(root, [&](const Expr* e) {
      Piece p;
      auto it = e == root ? names_.defined.end() : names_.defined.find(e);
      if (it != names_.defined.end()) p.text = it->second;
      else if (total_ > limit_) p.text = "...";
      else p = piece(e);
      total_ += p.text.size();
      done_.insert_or_assign(e, std::move(p));
    });
    return std::move(done_.at(root).text);
  }

 private:
  struct Piece {
    std::string text;
    int precedence = kAtom;
  };

  Piece piece(const Expr* e) const {
    const std::string lanes = std::to_string(e->type.lanes);
    switch (e->op) {
      case Op::Const: {
        std::string s = const_text(e);
        const int precedence = s[0] == '-' ? kProduct - 1 : kAtom;
        return {std::move(s), precedence};
      }
      case Op::Sym: return {names_.sym ? names_.sym(e->sym) : print_sym(e->sym)};
      case Op::Dim: return {name(e->dim)};
      case Op::Var: return {names_.var ? names_.var(e->i) : "#" + std::to_string(e->i)};
      case Op::Load: return {load(e)};
      case Op::Fold: return {fold(e)};
      case Op::Field: return {inner(e->args[0], kAtom) + "." + std::to_string(e->i)};
      case Op::Cast: return {call(e, "cast<" + print_type(e->type) + ">")};
      case Op::SatCast: return {call(e, "sat<" + print_type(e->type) + ">")};
      case Op::Bitcast: return {call(e, "bits<" + print_type(e->type) + ">")};
      case Op::Splat: return {call(e, "splat<" + lanes + ">")};
      case Op::Ramp: return {call(e, "ramp<" + lanes + ", " + std::to_string(e->i) + ">")};
      case Op::Extract: return {call(e, "extract<" + std::to_string(e->i) + ">")};
      default: break;
    }
    const Infix infix = infix_of(e->op);
    if (infix.text.empty()) return {call(e, std::string(name_of(e->op)))};
    const bool chain = infix.precedence != kCompare;
    return {inner(e->args[0], infix.precedence + !chain) + " " + std::string(infix.text) + " " + inner(e->args[1], infix.precedence + 1),
            infix.precedence};
  }

  std::string name(const Dim* d) const { return names_.dim ? names_.dim(d) : d->name; }
  std::string inner(const Expr* e, int at_least) const {
    const Piece& p = done_.at(e);
    return p.precedence < at_least ? "(" + p.text + ")" : p.text;
  }
  std::string list(const Expr* e) const {
    std::string s;
    for (const Expr* a : e->args) s += (s.empty() ? "" : ", ") + done_.at(a).text;
    return s;
  }
  std::string call(const Expr* e, const std::string& function) const { return function + "(" + list(e) + ")"; }

  std::string load(const Expr* e) const {
    std::string s = "%" + std::to_string(e->array);
    if (e->access != Access::Proved) s += e->access == Access::Checked ? "?" : "~";
    if (e->type.lanes != 1) s += ":" + print_type(e->type);
    return s + "[" + list(e) + "]";
  }
  std::string fold(const Expr* e) const {
    std::string s = e->fold->combiner->name + "(" + list(e) + " for";
    const char* separator = " ";
    for (const Dim* d : e->fold->dims) {
      s += separator + name(d);
      separator = ", ";
    }
    if (e->fold->where) s += " where " + done_.at(e->fold->where).text;
    return s + ")";
  }

  const Names& names_;
  const size_t limit_;
  size_t total_ = 0;
  std::unordered_map<const Expr*, Piece> done_;
};

}  // namespace

std::string print(const Expr* root, const Names& names, size_t limit) { return Printer(names, limit).print(root); }

std::string to_string(const Expr* e) { return e ? print(e) : "true"; }

}  // namespace mlc::ir
