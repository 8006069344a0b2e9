// Expressions of a text on values of the build: numbers, lists, symbols and expressions of the Nest level.
#include <algorithm>
#include <cmath>

#include "packager/lang/expand/expander.h"
#include "packager/lang/expand/explain.h"
#include "packager/lang/expand/scopes.h"

namespace mlc::lang {
namespace {

constexpr int kMaxEvalDepth = 600;  // trees are bounded by the parser; this bounds functions that call functions

struct Deeper {
  explicit Deeper(int& depth) : depth(depth) { ++depth; }
  ~Deeper() { --depth; }
  int& depth;
};

ExprValue text_value(const std::string& text) {
  ExprValue v;
  v.kind = ExprValue::Kind::String;
  v.text = text;
  return v;
}

}  // namespace

const std::string& Expander::domain() const {
  for (auto f = frames_.rbegin(); f != frames_.rend(); ++f)
    if (f->domain) return *f->domain;
  return op_.domain;
}

ExprValue Expander::scalar(Ex e, bool soft, DType rounds_to) {
  ExprValue v;
  v.kind = ExprValue::Kind::Scalar;
  v.e = e;
  v.soft = soft;
  v.rounds_to = rounds_to;
  return v;
}

bool Expander::has_dim(Ex e) {
  if (e->args.empty()) return e->op == ir::Op::Dim || e->op == ir::Op::Var;
  if (auto it = has_dim_.find(e); it != has_dim_.end()) return it->second;
  bool found = false;
  ir::walk(e, [&](Ex x) { found = found || x->op == ir::Op::Dim || x->op == ir::Op::Var; });
  has_dim_[e] = found;
  return found;
}

void Expander::spend(size_t steps) {
  if (steps > steps_left_)
    fail_call(op_.pos, (expanding_ ? "function '" + expanding_->name + "' takes" : std::string("its lists and expressions take")) + " more than " +
                           std::to_string(most_steps_) + " steps while building");
  steps_left_ -= steps;
}

ExprValue Expander::eval(const Node* n) {
  Deeper deeper(depth_);
  if (depth_ > kMaxEvalDepth) fail_here(n->pos, "functions call each other without end");
  ExprValue v = eval_node(n);
  const bool is_open = v.is_scalar() && v.e && !v.e->is_const();
  spend((is_open ? kStepsOfOpen : 1) + v.items.size());
  return v;
}

ExprValue Expander::eval_bits(const Node* n) {
  const DType to = element_type(n->text, n->pos);
  ExprValue a = eval(n->kids[0]);
  const ir::Op op = n->kind == NodeKind::SatCast ? ir::Op::SatCast : ir::Op::Bitcast;
  return lift({a}, n->pos, [&](const std::vector<ExprValue>& v) {
    Ex e = v[0].special != ExprValue::Special::None ? special_number(v[0].special, to, n->pos) : v[0].e;
    if (op == ir::Op::Bitcast && v[0].rounds_to != DType::None) e = ctx_.cast(v[0].rounds_to, e);
    if (op == ir::Op::Bitcast && bits_of(e->type.dtype) != bits_of(to)) fail_here(n->pos, "bitcast between types of different width");
    if (e->type.dtype == to) return scalar(e, false);
    return scalar(ctx_.convert(op, {to, 1}, e), false);
  });
}

ExprValue Expander::eval_node(const Node* n) {
  switch (n->kind) {
    case NodeKind::Number:
      return n->is_real ? scalar(ctx_.number(n->real, DType::F64), true) : soft_int(n->integer);
    case NodeKind::String: return text_value(n->text);
    case NodeKind::Name: return eval_name(n);
    case NodeKind::Extent: return eval_extent(n);
    case NodeKind::Neg: {
      ExprValue a = eval(n->kids[0]);
      return lift({a}, n->pos, [&](const std::vector<ExprValue>& v) {
        if (v[0].special == ExprValue::Special::Bottom || v[0].special == ExprValue::Special::Top) {
          ExprValue r = v[0];
          r.special = r.special == ExprValue::Special::Bottom ? ExprValue::Special::Top : ExprValue::Special::Bottom;
          return r;
        }
        if (v[0].special != ExprValue::Special::None || v[0].e->type.dtype == DType::Bool) fail_here(n->pos, "'-' wants a number");
        return scalar(ctx_.unary(ir::Op::Neg, v[0].e), v[0].soft, v[0].rounds_to);
      });
    }
    case NodeKind::Not: return negate(eval(n->kids[0]), n->pos);
    case NodeKind::Binary: {
      ExprValue a = eval(n->kids[0]);
      ExprValue b = eval(n->kids[1]);
      if (n->text == "//") {
        ExprValue r = lift({a, b}, n->pos, [&](const std::vector<ExprValue>& v) {
          if (v[0].is_scalar() && v[1].is_scalar() && v[0].special == ExprValue::Special::None && v[1].special == ExprValue::Special::None &&
              v[0].soft && v[1].soft && v[0].e->type.dtype == DType::I64 && v[1].e->type.dtype == DType::I64)
            return exact_quotient(v[0], v[1]);
          return binary("//", v[0], v[1], n->pos);
        });
        return r;
      }
      return binary(n->text, a, b, n->pos);
    }
    case NodeKind::Compare: return eval_compare(n);
    case NodeKind::And:
    case NodeKind::Or: {
      const bool is_and = n->kind == NodeKind::And;
      ExprValue a = eval(n->kids[0]);
      if (a.is_scalar() && a.special == ExprValue::Special::None && a.e->type.dtype == DType::Bool) {
        if (auto known = settle(a.e)) return *known == is_and ? eval(n->kids[1]) : scalar(ctx_.boolean(*known), true);
        ScopedConditions scope(*this, is_and ? a.e : negated(a.e));
        return logic(is_and, a, eval(n->kids[1]), n->pos);
      }
      return logic(is_and, a, eval(n->kids[1]), n->pos);
    }
    case NodeKind::Cond: return eval_condition(n);
    case NodeKind::Let: {
      ScopedFrame frame(*this);
      for (size_t k = 0; k < n->names.size(); ++k) {
        ExprValue v = eval(n->kids[k]);
        frames_.back().names[n->names[k]] = std::move(v);
      }
      return eval(n->kids.back());
    }
    case NodeKind::Match: return eval_match(n);
    case NodeKind::Tuple: {
      ExprValue v;
      v.kind = ExprValue::Kind::Tuple;
      for (const Node* kid : n->kids) v.items.push_back(eval(kid));
      return v;
    }
    case NodeKind::List: {
      std::vector<ExprValue> items;
      for (const Node* kid : n->kids)
        for (ExprValue& v : as_list(eval(kid))) items.push_back(std::move(v));
      return list(std::move(items));
    }
    case NodeKind::Comprehension: return eval_comprehension(n, nullptr);
    case NodeKind::Call: return call(n);
    case NodeKind::SatCast:
    case NodeKind::BitCast: return eval_bits(n);
    case NodeKind::WideCast: {
      const DType to = element_type(n->text, n->pos);
      ExprValue v = cast(is_small_float(to) ? DType::F32 : to, eval(n->kids[0]), n->pos);
      if (!is_small_float(to)) return v;
      return lift({v}, n->pos, [&](const std::vector<ExprValue>& each) { return scalar(each[0].e, false, to); });
    }
    case NodeKind::Index: return eval_index(n);
    case NodeKind::Star: fail_here(n->pos, "'*' belongs into an index");
    case NodeKind::Member: {
      ExprValue a = eval(n->kids[0]);
      if (a.kind != ExprValue::Kind::Record) fail_here(n->pos, "only the operands of a combiner have fields");
      for (size_t k = 0; k < a.record->fields.size(); ++k)
        if (a.record->fields[k].first == n->text) return a.items[k];
      fail_here(n->pos, "the combiner " + a.record->name + " has no field '" + n->text + "'");
    }
    case NodeKind::Fold: return fold(n);
  }
  fail_here(n->pos, "not an expression");
}

const ExprValue* Expander::find_local(const std::string& name) const {
  for (auto f = frames_.rbegin(); f != frames_.rend(); ++f) {
    if (auto it = f->names.find(name); it != f->names.end()) return &it->second;
    if (f->barrier) break;
  }
  return nullptr;
}

bool Expander::in_function() const {
  for (const auto& f : frames_)
    if (f.domain) return true;
  return false;
}

ArrayInfo* Expander::find_array(const std::string& name) {
  for (auto f = frames_.rbegin(); f != frames_.rend(); ++f) {
    if (auto it = f->arrays.find(name); it != f->arrays.end()) return it->second;
    if (f->barrier) break;
  }
  auto it = arrays_.find(name);
  if (it == arrays_.end()) return nullptr;
  auto many = [&](const std::string& n) { const Param* p = op_.param(n); return p && p->many; };
  if (item_ && (item_param_ == name || (many(item_param_) && many(name))))  // parameters that take turns share the item
    return *item_ < it->second.size() ? &it->second[*item_] : nullptr;
  return it->second.empty() ? nullptr : &it->second[0];
}

ExprValue Expander::eval_name(const Node* n) {
  const std::string& name = n->text;
  if (const ExprValue* v = find_local(name)) return *v;
  if (!in_function()) {
    if (lets_.count(name)) return eval_let(name);
    if (const AttrDecl* a = op_.attr(name)) return attribute(*a);
    if (ArrayInfo* a = find_array(name)) {
      static const std::vector<const Node*> no_index;
      if (a->is_result || a->is_local || a->param == nullptr || a->param->mode != ParamMode::Array || a->param->type.dims.empty() || !a->present)
        return read(*a, no_index, 0, n->pos);
      fail_here(n->pos, name + " is an array: it needs an index");
    }
    if (auto it = dims_.find(name); it != dims_.end()) {
      DimInfo& info = it->second;
      auto index_of = [&](const std::string& base, size_t k) -> ExprValue {
        auto b = bound_.find(base);
        if (b == bound_.end() || k >= b->second.size() || !b->second[k])
          fail_here(n->pos, "'" + name + "' is bound neither by the left side nor by a fold");
        return scalar(b->second[k], true);
      };
      std::vector<ExprValue> items;
      if (info.alias) {
        for (const auto& ref : info.refs) items.push_back(ref.one ? soft_int(0) : index_of(ref.base, ref.index));
        return list(std::move(items));
      }
      const size_t count = extents_of(name, n->pos).size();
      for (size_t k = 0; k < count; ++k) items.push_back(index_of(name, k));
      if (info.pack) return list(std::move(items));
      return items.at(0);
    }
  }
  if (types_.count(name) || dtype_named(name)) {
    ExprValue v;
    v.kind = ExprValue::Kind::Type;
    v.dtype = element_type(name, n->pos);
    return v;
  }
  auto special = [](ExprValue::Special s) {
    ExprValue v;
    v.kind = ExprValue::Kind::Scalar;
    v.special = s;
    v.soft = true;
    return v;
  };
  if (name == "lowest") return special(ExprValue::Special::Lowest);
  if (name == "highest") return special(ExprValue::Special::Highest);
  if (name == "bottom") return special(ExprValue::Special::Bottom);
  if (name == "top") return special(ExprValue::Special::Top);
  if (name == "true" || name == "false") return scalar(ctx_.boolean(name == "true"), true);
  if (name == "pi") return scalar(ctx_.number(3.14159265358979323846, DType::F64), true);
  if (name == "nan") return scalar(ctx_.number(NAN, DType::F64), true);
  if (name == "inf") return scalar(ctx_.number(INFINITY, DType::F64), true);
  if (const ResultDecl* r = op_.result(name); r && !in_function()) fail_here(n->pos, "result " + name + " is read before it is written");
  if (!in_function())
    for (const auto& a : op_.attrs)
      for (const auto& e : a.enumerators)
        if (e == name) {  // the value of an enumeration as a name
          ExprValue v;
          v.kind = ExprValue::Kind::Enum;
          v.text = name;
          v.attr = &a;
          return v;
        }
  fail_here(n->pos, "unknown name '" + name + "'");
}

ExprValue Expander::eval_let(const std::string& name) {
  LetInfo& let = lets_.at(name);
  if (let.cached && (let.ready || let.version == version_) && !(proc_ && !let.ready)) return *let.cached;
  ScopedFrame hide(*this, /*barrier=*/true);  // names of the place of use are not seen by the text of the let
  ExprValue v = eval(let.value);
  if (let.part >= 0) {
    if ((v.kind != ExprValue::Kind::Tuple && v.kind != ExprValue::Kind::List) || static_cast<size_t>(let.part) >= v.length())
      fail_here(let.value->pos, "not as many values as names");
    ExprValue part = item(v, static_cast<size_t>(let.part));
    v = std::move(part);
  }
  LetInfo& again = lets_.at(name);
  again.cached = v;
  again.version = version_;
  return v;
}

ExprValue Expander::eval_extent(const Node* n) {
  if (in_function()) fail_here(n->pos, "functions see only their parameters");
  auto it = dims_.find(n->text);
  if (it != dims_.end()) {
    auto e = extents_of(n->text, n->pos);
    if (it->second.pack || it->second.alias || (it->second.per_item && !item_)) return soft_list(e);
    return scalar(e.at(0), true);
  }
  if (ArrayInfo* a = find_array(n->text)) {
    if (a->param && !a->present) fail_call(n->pos, "input " + n->text + " is absent");
    if (a->is_local) fail_here(n->pos, "the shape of a local array is that of its dims");
    return soft_list(function_.arrays[a->id].shape);
  }
  if (const AttrDecl* a = op_.attr(n->text); a && a->kind == AttrDecl::Kind::Tensor) return attribute(*a).items.at(1);
  if (const ExprValue* v = find_local(n->text); v || lets_.count(n->text)) {
    ExprValue value = v ? *v : eval_let(n->text);
    if (value.is_list()) return soft_int(static_cast<int64_t>(value.length()));
  }
  fail_here(n->pos, "there is no dim '" + n->text + "'");
}

ExprValue Expander::eval_condition(const Node* n) {
  ExprValue c = eval(n->kids[0]);
  if (c.is_list()) {
    bool all_true = true, all_false = true;
    for (size_t k = 0; k < c.length(); ++k) {
      const ExprValue condition = item(c, k);
      if (!condition.is_scalar()) break;
      auto known = settle(as_bool(condition, n->pos));
      all_true = all_true && known && *known;
      all_false = all_false && known && !*known;
    }
    if (c.length() == 0) {
      // No axes: a list of the right length is what either side is; prefer the one that evaluates.
      return list(std::vector<ExprValue>());
    }
    if (all_true || all_false) {
      ExprValue r = eval(n->kids[all_true ? 1 : 2]);
      if (r.is_scalar()) r = list(std::vector<ExprValue>(c.length(), r));
      if (!r.is_list()) fail_here(n->pos, "a list of conditions chooses between numbers");
      return r;
    }
    return choose(c, eval(n->kids[1]), eval(n->kids[2]), n->pos);
  }
  Ex condition = as_bool(c, n->pos);
  if (auto known = settle(condition)) return eval(n->kids[*known ? 1 : 2]);
  ExprValue a, b;
  {
    ScopedConditions scope(*this, condition);
    a = eval(n->kids[1]);
  }
  {
    ScopedConditions scope(*this, negated(condition));
    b = eval(n->kids[2]);
  }
  return choose(c, a, b, n->pos);
}

ExprValue Expander::eval_match(const Node* n) {
  ExprValue v = eval(n->kids[0]);
  std::string text;
  if (v.kind == ExprValue::Kind::Enum || v.kind == ExprValue::Kind::String) text = v.text;
  else if (v.is_const() && v.soft && v.e->type.dtype == DType::I64) text = std::to_string(v.e->i);
  else fail_here(n->pos, "'match' wants an attribute");
  for (size_t k = 0; k < n->names.size(); ++k)
    if (n->names[k] == text) {
      const Node* arm = n->kids[k + 1];
      // In `by match ...` the arm names a combiner.
      return eval(arm);
    }
  fail_call(n->pos, "'match' has no case for " + text);
}

Ex Expander::as_index(const ExprValue& v, Pos pos) {
  if (!v.is_scalar() || v.special != ExprValue::Special::None) fail_here(pos, "a single index expected");
  const DType t = v.e->type.dtype;
  if (t == DType::I64) return v.e;
  if (is_int(t) && !v.soft) return ctx_.cast(DType::I64, v.e);  // loaded indices of any width
  if (is_float(t) && v.e->is_const() && v.e->f == std::floor(v.e->f)) return ctx_.number(v.e->f, DType::I64);
  fail_here(pos, "an index is an integer: write int(...)");
}

int64_t Expander::as_number(const ExprValue& v, Pos pos, const char* what) {
  if (v.is_list() && v.length() == 1) return as_number(item(v, 0), pos, what);
  Ex e = as_index(v, pos);
  if (!e->is_const()) fail_call(pos, std::string(what) + " must be known while building, it is " + extent_text(e));
  return e->i;
}

ExprValue Expander::cast(DType to, const ExprValue& v, Pos pos) {
  return lift({v}, pos, [&](const std::vector<ExprValue>& a) {
    if (!a[0].is_scalar()) fail_here(pos, "a cast wants a number");
    if (a[0].special != ExprValue::Special::None) return scalar(special_number(a[0].special, to, pos), false);
    return scalar(a[0].e->type.dtype == to ? a[0].e : ctx_.cast(to, a[0].e), false);
  });
}

// Free of running indices and of elements: can be evaluated once, where the let stands.
bool Expander::build_time(const Node* n) {
  switch (n->kind) {
    case NodeKind::Name: {
      if (auto it = lets_.find(n->text); it != lets_.end()) return it->second.ready;
      if (op_.attr(n->text)) return true;
      if (const Param* p = op_.param(n->text)) return p->mode != ParamMode::Array;
      if (op_.result(n->text) || arrays_.count(n->text)) return false;
      return dims_.count(n->text) == 0 ||
             std::find(number_dims_.begin(), number_dims_.end(), n->text) != number_dims_.end();
    }
    case NodeKind::Call:
      if (n->text == "present" || n->text == "rank" || n->text == "count" || n->text == "len") return true;
      if (n->text == "before") return false;
      break;
    case NodeKind::Fold: return folds_numbers(n);
    default: break;
  }
  for (const Node* kid : n->kids)
    if (!build_time(kid)) return false;
  return true;
}

}  // namespace mlc::lang
