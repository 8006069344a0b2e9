// Operations on the values of an expression: element types that adapt and meet, arithmetic, comparison, logic, choice.
#include <algorithm>
#include <cmath>

#include "packager/ir/numeric.h"
#include "packager/lang/expand/expander.h"

namespace mlc::lang {
namespace {

bool is_real(DType t) { return is_float(t); }

}  // namespace

// Applies f to scalars, element by element where arguments are lists (all of one length).
ExprValue Expander::lift(const std::vector<ExprValue>& args, Pos pos, const std::function<ExprValue(const std::vector<ExprValue>&)>& f) {
  size_t n = 0;
  bool any = false;
  for (const ExprValue& a : args) {
    if (a.kind == ExprValue::Kind::Tuple || a.kind == ExprValue::Kind::Record) fail_here(pos, "a tuple is no number");
    if (a.kind == ExprValue::Kind::Absent) fail_here(pos, "an absent attribute is read");
    if (!a.is_list()) continue;
    if (any && n != a.length())
      fail_here(pos, "lists of different length meet: " + std::to_string(n) + " and " + std::to_string(a.length()));
    n = a.length();
    any = true;
  }
  if (!any) return f(args);
  spend(n);
  ListBuilder r(ctx_);
  std::vector<ExprValue> each;
  for (const ExprValue& a : args) each.push_back(a.is_list() ? ExprValue() : a);
  for (size_t k = 0; k < n; ++k) {
    for (size_t j = 0; j < args.size(); ++j)
      if (args[j].is_list()) each[j] = item(args[j], k);
    r.add(lift(each, pos, f));
  }
  return r.done();
}

// The same of plain integers or truth values, without an expression of each.
std::optional<ExprValue> Expander::on_numbers(ir::Op op, const ExprValue& a, const ExprValue& b) {
  const auto type_of = [](const ExprValue& v) {
    if (v.numbers) return v.numbers->dtype;
    return v.is_const() && v.soft ? v.e->type.dtype : DType::None;
  };
  const bool logic = op == ir::Op::And || op == ir::Op::Or;
  const DType wanted = logic ? DType::Bool : DType::I64;
  if (!(a.numbers || b.numbers) || type_of(a) != wanted || type_of(b) != wanted) return {};
  if (a.numbers && b.numbers && a.length() != b.length()) return {};
  const bool arithmetic = op == ir::Op::Add || op == ir::Op::Sub || op == ir::Op::Mul;
  Numbers r{arithmetic ? DType::I64 : DType::Bool, {}};
  const size_t count = a.numbers ? a.length() : b.length();
  spend(count / kNumbersPerStep);
  r.values.reserve(count);
  const auto at = [](const ExprValue& v, size_t k) { return v.numbers ? v.numbers->at(k) : ir::Scalar{v.e->i, 0}; };
  for (size_t k = 0; k < count; ++k) r.values.push_back(ir::apply_binary(op, wanted, at(a, k), at(b, k)).i);
  return list(std::move(r));
}

Ex Expander::special_number(ExprValue::Special special, DType t, Pos pos) {
  switch (special) {
    case ExprValue::Special::Lowest:
      if (t == DType::Bool) return ctx_.boolean(false);
      return is_float(t) ? ctx_.number(ir::lowest_finite(t), t) : ctx_.integer(ir::lowest_int(t), t);
    case ExprValue::Special::Highest:
      if (t == DType::Bool) return ctx_.boolean(true);
      return is_float(t) ? ctx_.number(ir::highest_finite(t), t) : ctx_.integer(ir::highest_int(t), t);
    case ExprValue::Special::Bottom:
      if (t == DType::Bool) return ctx_.boolean(false);
      return is_float(t) ? ctx_.number(-INFINITY, t) : ctx_.integer(ir::lowest_int(t), t);
    case ExprValue::Special::Top:
      if (t == DType::Bool) return ctx_.boolean(true);
      return is_float(t) ? ctx_.number(INFINITY, t) : ctx_.integer(ir::highest_int(t), t);
    case ExprValue::Special::None: break;
  }
  fail_here(pos, "not a number");
}

Ex Expander::adapt(const ExprValue& v, DType to, Pos pos) {
  if (!v.is_scalar()) fail_here(pos, "a single number expected");
  if (v.special != ExprValue::Special::None) return special_number(v.special, to, pos);
  const DType from = v.e->type.dtype;
  if (from == to) return v.e;
  if (v.rounds_to == to) return ctx_.cast(to, v.e);
  if (!v.soft)
    fail_here(pos, "an implicit conversion from " + std::string(name_of(from)) + " to " + std::string(name_of(to)) + "; write " +
                       std::string(name_of(to)) + "(...)");
  if (from == DType::Bool || to == DType::Bool)
    fail_here(pos, "a number is no truth value: compare it, or cast");
  if (v.e->is_const()) {
    if (is_float(to)) return ctx_.number(is_real(from) ? v.e->f : static_cast<double>(v.e->i), to);
    if (is_real(from)) {
      if (v.e->f != std::floor(v.e->f)) fail_here(pos, "the literal " + shown(v.e) + " is no " + std::string(name_of(to)));
      return ctx_.number(v.e->f, to);
    }
    return ctx_.integer(v.e->i, to);
  }
  if (v.e->op == ir::Op::Select)  // a choice between literals: each adapts
    return ctx_.select(v.e->args[0], adapt(scalar(v.e->args[1], true), to, pos), adapt(scalar(v.e->args[2], true), to, pos));
  if (is_real(from) && !is_float(to))
    fail_here(pos, "a real number does not adapt to " + std::string(name_of(to)) + ": round it, then write int(...)");
  if (!is_real(from) && to != DType::I64 && has_dim(v.e))
    fail_here(pos, "an index does not adapt to " + std::string(name_of(to)) + "; write " + std::string(name_of(to)) + "(...)");
  return ctx_.cast(to, v.e);
}

// Null: they do not meet. A small float widens where it meets what arithmetic has made of its kind.
std::optional<Expander::ElementType> Expander::common_type(ElementType a, ElementType b) {
  if (a.type == b.type) return ElementType{a.type, a.rounds_to == b.rounds_to ? a.rounds_to : DType::None};
  if (a.rounds_to == b.type) return a;
  if (b.rounds_to == a.type) return b;
  return {};
}

// Arithmetic on small floats is arithmetic on f32.
ExprValue Expander::widened(const ExprValue& v) {
  const DType t = v.e->type.dtype;
  return is_small_float(t) && !v.soft ? scalar(ctx_.cast(DType::F32, v.e), false, t) : v;
}

Ex Expander::adapted(const ExprValue& v, ElementType to, Pos pos) {
  const bool widens = v.is_scalar() && v.special == ExprValue::Special::None && to.rounds_to != DType::None && v.e->type.dtype == to.rounds_to;
  return adapt(widens ? widened(v) : v, to.type, pos);
}

// As an element of `array`, which rounds what was widened.
Ex Expander::stored(const ExprValue& v, const ArrayInfo& array, Pos pos) {
  return adapted(v, {array.dtype, array.rounds_to}, pos);
}

DType Expander::meet(ExprValue& a, ExprValue& b, Pos pos, Meeting meeting) {
  std::vector<ExprValue> both{a, b};
  const DType t = meet_all(both, pos, meeting);
  a = both[0];
  b = both[1];
  return t;
}

// One type for all; None if all are `lowest` and the like.
DType Expander::meet_all(std::vector<ExprValue>& vals, Pos pos, Meeting meeting) {
  ElementType elements;
  DType soft = DType::None;
  bool soft_constant = true;
  for (const ExprValue& v : vals) {
    if (!v.is_scalar()) fail_here(pos, v.is_list() ? "a list where a single number is expected" : "a number expected");
    if (v.special != ExprValue::Special::None) continue;
    const DType t = v.e->type.dtype;
    if (!v.soft) {
      const auto both = elements.type == DType::None ? ElementType{t, v.rounds_to} : common_type(elements, {t, v.rounds_to});
      if (!both)
        fail_here(pos, "element types " + std::string(name_of(elements.type)) + " and " + std::string(name_of(t)) + " meet: write the conversion");
      elements = *both;
    } else if (soft == DType::None) {
      soft = t;
      soft_constant = v.e->is_const();
    } else if (soft != t) {
      // Reals win over integers; of two reals, the one that is not a literal.
      const bool constant = v.e->is_const();
      if (is_real(t) && is_real(soft)) {
        if (soft_constant && !constant) soft = t;
        else if (!soft_constant && constant) {}
        else soft = DType::F32 == t || DType::F32 == soft ? DType::F32 : DType::F64;
      } else if (is_real(t)) {
        soft = t;
      } else if (!is_real(soft)) {
        fail_here(pos, "a number and a truth value meet");
      }
      soft_constant = soft_constant && constant;
    }
  }
  if (meeting == Meeting::Arithmetic && is_small_float(elements.type)) elements = {DType::F32, elements.type};
  const DType hard = elements.type, t = hard != DType::None ? hard : soft;
  if (t == DType::None) return t;
  for (ExprValue& v : vals) {
    Ex e;
    if (v.special == ExprValue::Special::None && v.soft && hard == DType::None && is_real(t) && !is_real(v.e->type.dtype) &&
        v.e->type.dtype != DType::Bool)
      e = ctx_.cast(t, v.e);  // an index meets a real while building: no element type is at stake
    else if (v.special == ExprValue::Special::None && v.soft && hard == DType::None && is_real(t) && is_real(v.e->type.dtype))
      e = ctx_.cast(t, v.e);
    else if (elements.rounds_to != DType::None && v.special != ExprValue::Special::None)
      e = ctx_.cast(t, special_number(v.special, elements.rounds_to, pos));
    else if (elements.rounds_to != DType::None && !v.soft && v.e->type.dtype == elements.rounds_to)
      e = ctx_.cast(t, v.e);
    else
      e = adapt(v, t, pos);
    v.special = ExprValue::Special::None;
    v.e = e;
    v.rounds_to = elements.rounds_to;
    v.soft = hard == DType::None;
    v.clamp_lo = v.clamp_hi = nullptr;
    v.flat = nullptr;
  }
  return t;
}

ExprValue Expander::binary(const std::string& op, const ExprValue& a, const ExprValue& b, Pos pos) {
  if (op == "+" || op == "-" || op == "*")
    if (auto r = on_numbers(op == "+" ? ir::Op::Add : op == "-" ? ir::Op::Sub : ir::Op::Mul, a, b)) return *std::move(r);
  if (a.is_list() || b.is_list())
    return lift({a, b}, pos, [&](const std::vector<ExprValue>& v) { return binary(op, v[0], v[1], pos); });
  ExprValue x = a, y = b;
  const DType t = meet(x, y, pos, Meeting::Arithmetic);
  if (t == DType::None) fail_here(pos, "the element type of lowest, highest or bottom does not follow here");
  if (t == DType::Bool || t == DType::Str) fail_here(pos, "'" + op + "' wants numbers");
  ir::Op o;
  if (op == "+") o = ir::Op::Add;
  else if (op == "-") o = ir::Op::Sub;
  else if (op == "*") o = ir::Op::Mul;
  else if (op == "//") o = ir::Op::FloorDiv;
  else if (op == "%") o = ir::Op::FloorMod;
  else {
    if (!is_float(t)) {
      if (!x.soft) fail_here(pos, "'/' is real division: integers are divided by '//' or tdiv(...)");
      if (x.e->is_const() && y.e->is_const() && y.e->i != 0 && x.e->i % y.e->i == 0) {
        return scalar(ctx_.number(static_cast<double>(x.e->i / y.e->i), DType::F64), true);
      }
      return scalar(ctx_.binary(ir::Op::Div, ctx_.cast(DType::F64, x.e), ctx_.cast(DType::F64, y.e)), true);
    }
    o = ir::Op::Div;
  }
  if ((o == ir::Op::FloorDiv || o == ir::Op::FloorMod) && x.soft && y.e->is_int(0)) fail_call(pos, "division by zero");
  return scalar(ctx_.binary(o, x.e, y.e), x.soft, x.rounds_to);
}

ExprValue Expander::eval_compare(const Node* n) {
  auto operand = [&](const Node* kid, const Node* other) -> ExprValue {
    // A case of an enumeration is a name only beside a value of that enumeration.
    if (kid->kind == NodeKind::Name && !find_local(kid->text)) {
      ExprValue o;
      if (other->kind == NodeKind::Name) {
        const ExprValue* local = find_local(other->text);
        if (local) o = *local;
        else if (const AttrDecl* a = op_.attr(other->text); a && a->kind == AttrDecl::Kind::Enum && !in_function()) o = attribute(*a);
      }
      if (o.kind == ExprValue::Kind::Enum && o.attr)
        for (const auto& e : o.attr->enumerators)
          if (e == kid->text) {
            ExprValue v;
            v.kind = ExprValue::Kind::Enum;
            v.text = e;
            v.attr = o.attr;
            return v;
          }
    }
    return eval(kid);
  };
  std::vector<ExprValue> vals;
  for (size_t k = 0; k < n->kids.size(); ++k) {
    const Node* other = n->kids[k == 0 ? 1 : k - 1];
    vals.push_back(operand(n->kids[k], other));
  }
  ExprValue r;
  for (size_t k = 0; k + 1 < vals.size(); ++k) {
    ExprValue c = compare(n->ops[k], vals[k], vals[k + 1], n->pos);
    r = k == 0 ? c : logic(true, r, c, n->pos);
  }
  return r;
}

ExprValue Expander::compare(const std::string& op, const ExprValue& a, const ExprValue& b, Pos pos) {
  using K = ExprValue::Kind;
  if (a.kind == K::Enum || b.kind == K::Enum || a.kind == K::String || b.kind == K::String) {
    const bool texts = (a.kind == K::Enum || a.kind == K::String) && (b.kind == K::Enum || b.kind == K::String);
    if (!texts || (op != "==" && op != "!=")) fail_here(pos, "a choice is compared with one of its cases, by '==' or '!='");
    if (a.attr && b.attr && a.attr != b.attr) {
      bool known = false;
      for (const auto& e : a.attr->enumerators) known = known || e == b.text;
      if (!known) fail_here(pos, "'" + b.text + "' is no case of " + a.attr->name);
    }
    return scalar(ctx_.boolean((a.text == b.text) == (op == "==")), true);
  }
  if (a.kind == K::Type && b.kind == K::Type) {
    if (op != "==" && op != "!=") fail_here(pos, "element types are compared by '==' or '!='");
    return scalar(ctx_.boolean((a.dtype == b.dtype) == (op == "==")), true);
  }
  if (a.is_list() || b.is_list()) {
    const bool turned = op == ">" || op == ">=";
    const ir::Op same = op == "==" ? ir::Op::Eq : op == "!=" ? ir::Op::Ne : op == "<" || op == ">" ? ir::Op::Lt : ir::Op::Le;
    if (auto r = on_numbers(same, turned ? b : a, turned ? a : b)) return *std::move(r);
    return lift({a, b}, pos, [&](const std::vector<ExprValue>& v) { return compare(op, v[0], v[1], pos); });
  }
  ExprValue x = a, y = b;
  const DType t = meet(x, y, pos);
  if (t == DType::None) fail_here(pos, "the element type of lowest, highest or bottom does not follow here");
  if (t == DType::Bool && op != "==" && op != "!=") fail_here(pos, "truth values have no order");
  Ex e;
  if (op == "<") e = ctx_.binary(ir::Op::Lt, x.e, y.e);
  else if (op == "<=") e = ctx_.binary(ir::Op::Le, x.e, y.e);
  else if (op == ">") e = ctx_.binary(ir::Op::Lt, y.e, x.e);
  else if (op == ">=") e = ctx_.binary(ir::Op::Le, y.e, x.e);
  else if (op == "==") e = ctx_.binary(ir::Op::Eq, x.e, y.e);
  else e = ctx_.binary(ir::Op::Ne, x.e, y.e);
  return scalar(e, x.soft);
}

Ex Expander::as_bool(const ExprValue& v, Pos pos) {
  if (!v.is_scalar() || v.special != ExprValue::Special::None || v.e->type.dtype != DType::Bool) fail_here(pos, "a condition expected");
  return v.e;
}

Ex Expander::conjunction(const ExprValue& v, Pos pos) {
  if (!v.is_list()) return as_bool(v, pos);
  if (v.numbers && v.numbers->dtype == DType::Bool) {
    const auto& values = v.numbers->values;
    return ctx_.boolean(std::all_of(values.begin(), values.end(), [](int64_t truth) { return truth != 0; }));
  }
  Ex all = ctx_.boolean(true);
  for (const ExprValue& part : as_list(v)) {
    Ex c = conjunction(part, pos);
    all = all->is_const() ? (all->i ? c : all) : c->is_const() ? (c->i ? all : c) : ctx_.binary(ir::Op::And, all, c);
  }
  return all;
}

ExprValue Expander::logic(bool is_and, const ExprValue& a, const ExprValue& b, Pos pos) {
  if (auto r = on_numbers(is_and ? ir::Op::And : ir::Op::Or, a, b)) return *std::move(r);
  if (a.is_list() || b.is_list())
    return lift({a, b}, pos, [&](const std::vector<ExprValue>& v) { return logic(is_and, v[0], v[1], pos); });
  Ex x = as_bool(a, pos), y = as_bool(b, pos);
  const bool soft = a.soft && b.soft;
  if (x->is_const()) return (x->i != 0) == is_and ? b : a;
  if (y->is_const()) return (y->i != 0) == is_and ? a : b;
  return scalar(ctx_.binary(is_and ? ir::Op::And : ir::Op::Or, x, y), soft);
}

Ex Expander::negated(Ex c) {
  switch (c->op) {
    case ir::Op::Const: return ctx_.boolean(c->i == 0);
    case ir::Op::Not: return c->args[0];
    case ir::Op::Eq: return ctx_.binary(ir::Op::Ne, c->args[0], c->args[1]);
    case ir::Op::Ne: return ctx_.binary(ir::Op::Eq, c->args[0], c->args[1]);
    case ir::Op::Lt:  // of integers only: not (a < nan) is no comparison
      if (!is_float(c->args[0]->type.dtype)) return ctx_.binary(ir::Op::Le, c->args[1], c->args[0]);
      break;
    case ir::Op::Le:
      if (!is_float(c->args[0]->type.dtype)) return ctx_.binary(ir::Op::Lt, c->args[1], c->args[0]);
      break;
    default: break;
  }
  return ctx_.unary(ir::Op::Not, c);
}

ExprValue Expander::negate(const ExprValue& a, Pos pos) {
  return lift({a}, pos, [&](const std::vector<ExprValue>& v) { return scalar(negated(as_bool(v[0], pos)), v[0].soft); });
}

std::optional<bool> Expander::settle(Ex c) {
  if (c->is_const()) return c->i != 0;
  if (ir::proves(ctx_, c, conditions_)) return true;
  if (ir::proves(ctx_, negated(c), conditions_)) return false;
  return {};
}

bool Expander::truth(const ExprValue& v, Pos pos, const char* what) {
  auto known = settle(conjunction(v, pos));
  if (!known) fail_call(pos, std::string(what) + " must be known while building");
  return *known;
}

ExprValue Expander::choose(const ExprValue& c, const ExprValue& a, const ExprValue& b, Pos pos) {
  if (c.is_list() || ((a.is_list() || b.is_list()) && c.is_scalar()))
    return lift({c, a, b}, pos, [&](const std::vector<ExprValue>& v) { return choose(v[0], v[1], v[2], pos); });
  Ex condition = as_bool(c, pos);
  if (auto known = settle(condition)) return *known ? a : b;
  if (a.kind == ExprValue::Kind::Tuple && b.kind == ExprValue::Kind::Tuple && a.items.size() == b.items.size()) {
    ExprValue r;
    r.kind = ExprValue::Kind::Tuple;
    for (size_t k = 0; k < a.items.size(); ++k) r.items.push_back(choose(c, a.items[k], b.items[k], pos));
    return r;
  }
  if (!a.is_scalar() || !b.is_scalar()) fail_here(pos, "a choice that is not settled while building is between numbers");
  ExprValue x = a, y = b;
  if (meet(x, y, pos) == DType::None) fail_here(pos, "the element type of lowest, highest or bottom does not follow here");
  return scalar(ctx_.select(condition, x.e, y.e), x.soft && y.soft, x.rounds_to);
}

}  // namespace mlc::lang
