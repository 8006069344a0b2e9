// Expressions of a text on values of the build: numbers, lists, symbols and expressions of the Nest level.
#include <algorithm>
#include <cmath>

#include "packager/ir/text.h"
#include "packager/lang/expander.h"
#include "packager/lang/explain.h"
#include "packager/lang/scopes.h"

namespace mlc::lang {
namespace {

constexpr int kMaxEvalDepth = 600;  // trees are bounded by the parser; this bounds functions that call functions
constexpr size_t kMaxList = 4096;

struct Deeper {
  explicit Deeper(int& depth) : depth(depth) { ++depth; }
  ~Deeper() { --depth; }
  int& depth;
};

}  // namespace

void Expander::fail_here(Pos pos, std::string message) const {
  throw Failure{error_at(pos, where() + ": " + message), pos.file ? *pos.file : "", pos.line};
}

void Expander::fail_call(Pos pos, std::string message) const {
  Status status = error_at(pos, where() + ": " + message);
  throw Failure{std::move(status), pos.file ? *pos.file : "", pos.line, std::move(message)};
}

const std::string& Expander::domain() const {
  for (auto f = frames_.rbegin(); f != frames_.rend(); ++f)
    if (f->domain) return *f->domain;
  return op_.domain;
}

std::string Expander::shown(Ex e) {
  constexpr size_t kLongest = 240;
  ir::Names names;
  names.sym = [](const ir::Sym* sym) { return sym->name; };  // as in the interface of the model
  std::string text = ir::print(e, names);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + " ...";
  return text;
}

std::string Expander::where() const {
  std::string name = op_.domain + "." + op_.name + ", opset " + std::to_string(call_.opset);
  return call_.source.empty() ? name : call_.source + " (" + name + ")";
}

// "a 'scores' f32[2,K]" for each input, with the elements that are known of small ones.
std::vector<std::string> Expander::inputs_shown() const {
  std::vector<std::string> lines;
  for (size_t p = 0; p < op_.params.size() && p < inputs_.size(); ++p)
    for (size_t item = 0; item < inputs_[p].size(); ++item) {
      if (!inputs_[p][item].present) continue;
      const nest::Array& array = function_.arrays[inputs_[p][item].array];
      std::string line = item_name(op_.params[p], item) + " ";
      if (!array.name.empty() && array.name != op_.params[p].name) line += "'" + array.name + "' ";
      line += std::string(name_of(array.dtype)) + "[";
      for (size_t k = 0; k < array.shape.size(); ++k) line += (k ? "," : "") + shown(array.shape[k]);
      line += "]";
      constexpr size_t kMostElements = 8;
      static const std::vector<Ex> none;
      const std::vector<Ex>& elements = is_int(array.dtype) ? known_elements(inputs_[p][item].array) : none;
      for (size_t k = 0; k < elements.size() && elements.size() <= kMostElements; ++k)
        line += (k ? ", " : " = ") + (elements[k] ? shown(elements[k]) : "?");
      lines.push_back(line);
    }
  return lines;
}

Status Expander::refusal(const std::string& message) const {
  constexpr size_t kMostInputs = 8;
  Status s(Code::Malformed, where() + ": " + message);
  s.facts = inputs_shown();
  if (s.facts.size() > kMostInputs) s.facts.resize(kMostInputs);
  return std::move(s).fact("definition: " + op_.file + ":" + std::to_string(op_.pos.line));
}

void Expander::mismatch(std::string message) const { fail(refusal(message)); }

void Expander::wrong_rank(const std::string& what, size_t rank, size_t expected, bool or_more) const {
  throw Failure{.status = refusal(what + " has rank " + std::to_string(rank) + ", expected " + (or_more ? "at least " : "") + std::to_string(expected)), .is_other_case = true};
}

Val Expander::scalar(Ex e, bool soft) {
  Val v;
  v.kind = Val::Kind::Scalar;
  v.e = e;
  v.soft = soft;
  return v;
}
Val Expander::list(std::vector<Val> items) {
  Val v;
  v.kind = Val::Kind::List;
  v.items = std::move(items);
  return v;
}
Val Expander::list(Numbers numbers) {
  Val v;
  v.kind = Val::Kind::List;
  v.numbers = std::make_shared<const Numbers>(std::move(numbers));
  return v;
}

namespace {

Val number_at(ir::Context& ctx, const Numbers& numbers, size_t k) {
  const ir::Scalar value = numbers.at(k);
  Val v;
  v.kind = Val::Kind::Scalar;
  v.soft = true;
  v.e = numbers.dtype == DType::F64 ? ctx.number(value.f, DType::F64) : numbers.dtype == DType::Bool ? ctx.boolean(value.i != 0) : ctx.integer(value.i);
  return v;
}

bool is_plain_number(const Val& v) {
  if (!v.is_const() || !v.soft || v.clamp_lo || v.clamp_hi || v.flat) return false;
  const DType t = v.e->type.dtype;
  return t == DType::I64 || t == DType::F64 || t == DType::Bool;
}

}  // namespace

Val Expander::item(const Val& list, size_t k) { return list.numbers ? number_at(ctx_, *list.numbers, k) : list.items[k]; }

void ListBuilder::add(Val item) {
  if (items_.empty() && is_plain_number(item) && (numbers_.values.empty() || numbers_.dtype == item.e->type.dtype)) {
    numbers_.dtype = item.e->type.dtype;
    numbers_.values.push_back(numbers_.dtype == DType::F64 ? std::bit_cast<int64_t>(item.e->f) : item.e->i);
    return;
  }
  spread();
  items_.push_back(std::move(item));
}

void ListBuilder::spread() {
  for (size_t k = 0; k < numbers_.values.size(); ++k) items_.push_back(number_at(ctx_, numbers_, k));
  numbers_.values.clear();
}

Val ListBuilder::done() {
  Val v;
  v.kind = Val::Kind::List;
  if (numbers_.values.empty()) v.items = std::move(items_);
  else v.numbers = std::make_shared<const Numbers>(std::move(numbers_));
  return v;
}

Val Expander::soft_list(const std::vector<Ex>& es) {
  std::vector<Val> items;
  for (Ex e : es) items.push_back(scalar(e, true));
  return list(std::move(items));
}
std::vector<Val> Expander::as_list(const Val& v) {
  if (!v.is_list()) return {v};
  if (!v.numbers) return v.items;
  std::vector<Val> items;
  for (size_t k = 0; k < v.length(); ++k) items.push_back(item(v, k));
  return items;
}

bool Expander::has_dim(Ex e) {
  if (e->args.empty()) return e->op == ir::Op::Dim || e->op == ir::Op::Var;
  if (auto it = has_dim_.find(e); it != has_dim_.end()) return it->second;
  bool found = false;
  ir::walk(e, [&](Ex x) { found = found || x->op == ir::Op::Dim || x->op == ir::Op::Var; });
  has_dim_[e] = found;
  return found;
}

Val Expander::eval(const Node* n) {
  Deeper deeper(depth_);
  if (depth_ > kMaxEvalDepth) fail_here(n->pos, "functions call each other without end");
  switch (n->kind) {
    case NodeKind::Number:
      return n->is_real ? scalar(ctx_.number(n->real, DType::F64), true) : soft_int(n->integer);
    case NodeKind::String: {
      Val v;
      v.kind = Val::Kind::String;
      v.text = n->text;
      return v;
    }
    case NodeKind::Name: return eval_name(n);
    case NodeKind::Extent: return eval_extent(n);
    case NodeKind::Neg: {
      Val a = eval(n->kids[0]);
      return lift({a}, n->pos, [&](const std::vector<Val>& v) {
        if (v[0].special == Val::Special::Bottom || v[0].special == Val::Special::Top) {
          Val r = v[0];
          r.special = r.special == Val::Special::Bottom ? Val::Special::Top : Val::Special::Bottom;
          return r;
        }
        if (v[0].special != Val::Special::None || v[0].e->type.dtype == DType::Bool) fail_here(n->pos, "'-' wants a number");
        return scalar(ctx_.unary(ir::Op::Neg, v[0].e), v[0].soft);
      });
    }
    case NodeKind::Not: return negate(eval(n->kids[0]), n->pos);
    case NodeKind::Binary: {
      Val a = eval(n->kids[0]);
      Val b = eval(n->kids[1]);
      if (n->text == "//") {
        Val r = lift({a, b}, n->pos, [&](const std::vector<Val>& v) {
          if (v[0].is_scalar() && v[1].is_scalar() && v[0].special == Val::Special::None && v[1].special == Val::Special::None &&
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
      Val a = eval(n->kids[0]);
      if (a.is_scalar() && a.special == Val::Special::None && a.e->type.dtype == DType::Bool) {
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
        Val v = eval(n->kids[k]);
        frames_.back().names[n->names[k]] = std::move(v);
      }
      return eval(n->kids.back());
    }
    case NodeKind::Match: return eval_match(n);
    case NodeKind::Tuple: {
      Val v;
      v.kind = Val::Kind::Tuple;
      for (const Node* kid : n->kids) v.items.push_back(eval(kid));
      return v;
    }
    case NodeKind::List: {
      std::vector<Val> items;
      for (const Node* kid : n->kids)
        for (Val& v : as_list(eval(kid))) items.push_back(std::move(v));
      return list(std::move(items));
    }
    case NodeKind::Comprehension: return eval_comprehension(n, nullptr);
    case NodeKind::Call: return call(n);
    case NodeKind::SatCast:
    case NodeKind::BitCast: {
      const DType to = element_type(n->text, n->pos);
      Val a = eval(n->kids[0]);
      const ir::Op op = n->kind == NodeKind::SatCast ? ir::Op::SatCast : ir::Op::Bitcast;
      return lift({a}, n->pos, [&](const std::vector<Val>& v) {
        Ex e = v[0].special != Val::Special::None ? special_number(v[0].special, to, n->pos) : v[0].e;
        if (op == ir::Op::Bitcast && bits_of(e->type.dtype) != bits_of(to)) fail_here(n->pos, "bitcast between types of different width");
        if (e->type.dtype == to) return scalar(e, false);
        return scalar(ctx_.convert(op, {to, 1}, e), false);
      });
    }
    case NodeKind::Index: return eval_index(n);
    case NodeKind::Star: fail_here(n->pos, "'*' belongs into an index");
    case NodeKind::Member: {
      Val a = eval(n->kids[0]);
      if (a.kind != Val::Kind::Record) fail_here(n->pos, "only the operands of a combiner have fields");
      for (size_t k = 0; k < a.record->fields.size(); ++k)
        if (a.record->fields[k].first == n->text) return a.items[k];
      fail_here(n->pos, "the combiner " + a.record->name + " has no field '" + n->text + "'");
    }
    case NodeKind::Fold: return fold(n);
  }
  fail_here(n->pos, "not an expression");
}

const Val* Expander::find_local(const std::string& name) const {
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

Val Expander::eval_name(const Node* n) {
  const std::string& name = n->text;
  if (const Val* v = find_local(name)) return *v;
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
      auto index_of = [&](const std::string& base, size_t k) -> Val {
        auto b = bound_.find(base);
        if (b == bound_.end() || k >= b->second.size() || !b->second[k])
          fail_here(n->pos, "'" + name + "' is bound neither by the left side nor by a fold");
        return scalar(b->second[k], true);
      };
      std::vector<Val> items;
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
    Val v;
    v.kind = Val::Kind::Type;
    v.dtype = element_type(name, n->pos);
    return v;
  }
  auto special = [](Val::Special s) {
    Val v;
    v.kind = Val::Kind::Scalar;
    v.special = s;
    v.soft = true;
    return v;
  };
  if (name == "lowest") return special(Val::Special::Lowest);
  if (name == "highest") return special(Val::Special::Highest);
  if (name == "bottom") return special(Val::Special::Bottom);
  if (name == "top") return special(Val::Special::Top);
  if (name == "true" || name == "false") return scalar(ctx_.boolean(name == "true"), true);
  if (name == "pi") return scalar(ctx_.number(3.14159265358979323846, DType::F64), true);
  if (name == "nan") return scalar(ctx_.number(NAN, DType::F64), true);
  if (name == "inf") return scalar(ctx_.number(INFINITY, DType::F64), true);
  if (const ResultDecl* r = op_.result(name); r && !in_function()) fail_here(n->pos, "result " + name + " is read before it is written");
  if (!in_function())
    for (const auto& a : op_.attrs)
      for (const auto& e : a.enumerators)
        if (e == name) {  // the value of an enumeration as a name
          Val v;
          v.kind = Val::Kind::Enum;
          v.text = name;
          v.attr = &a;
          return v;
        }
  fail_here(n->pos, "unknown name '" + name + "'");
}

Val Expander::eval_let(const std::string& name) {
  LetInfo& let = lets_.at(name);
  if (let.cached && (let.ready || let.version == version_) && !(proc_ && !let.ready)) return *let.cached;
  ScopedFrame hide(*this, /*barrier=*/true);  // names of the place of use are not seen by the text of the let
  Val v = eval(let.value);
  if (let.part >= 0) {
    if ((v.kind != Val::Kind::Tuple && v.kind != Val::Kind::List) || static_cast<size_t>(let.part) >= v.length())
      fail_here(let.value->pos, "not as many values as names");
    Val part = item(v, static_cast<size_t>(let.part));
    v = std::move(part);
  }
  LetInfo& again = lets_.at(name);
  again.cached = v;
  again.version = version_;
  return v;
}

Val Expander::eval_extent(const Node* n) {
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
  if (const Val* v = find_local(n->text); v || lets_.count(n->text)) {
    Val value = v ? *v : eval_let(n->text);
    if (value.is_list()) return soft_int(static_cast<int64_t>(value.length()));
  }
  fail_here(n->pos, "there is no dim '" + n->text + "'");
}

Val Expander::eval_condition(const Node* n) {
  Val c = eval(n->kids[0]);
  if (c.is_list()) {
    bool all_true = true, all_false = true;
    for (size_t k = 0; k < c.length(); ++k) {
      const Val condition = item(c, k);
      if (!condition.is_scalar()) break;
      auto known = settle(as_bool(condition, n->pos));
      all_true = all_true && known && *known;
      all_false = all_false && known && !*known;
    }
    if (c.length() == 0) {
      // No axes: a list of the right length is what either side is; prefer the one that evaluates.
      return list(std::vector<Val>());
    }
    if (all_true || all_false) {
      Val r = eval(n->kids[all_true ? 1 : 2]);
      if (r.is_scalar()) r = list(std::vector<Val>(c.length(), r));
      if (!r.is_list()) fail_here(n->pos, "a list of conditions chooses between numbers");
      return r;
    }
    return choose(c, eval(n->kids[1]), eval(n->kids[2]), n->pos);
  }
  Ex condition = as_bool(c, n->pos);
  if (auto known = settle(condition)) return eval(n->kids[*known ? 1 : 2]);
  Val a, b;
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

Val Expander::eval_match(const Node* n) {
  Val v = eval(n->kids[0]);
  std::string text;
  if (v.kind == Val::Kind::Enum || v.kind == Val::Kind::String) text = v.text;
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

Val Expander::index_list(const Val& l, const Val& at, Pos pos) {
  if (!l.is_list()) fail_here(pos, "only arrays and lists take an index");
  if (at.is_list()) {
    std::vector<Val> r;
    for (const Val& a : as_list(at)) r.push_back(index_list(l, a, pos));
    return r.size() == 1 ? r[0] : list(std::move(r));
  }
  Ex i = as_index(at, pos);
  const int64_t n = static_cast<int64_t>(l.length());
  if (i->is_const()) {
    if (i->i < 0 || i->i >= n) fail_here(pos, "a list of " + std::to_string(n) + " has no item " + std::to_string(i->i));
    return item(l, static_cast<size_t>(i->i));
  }
  if (n == 0) return soft_int(0);  // an empty dim runs through no place
  // By a running index: a table if the numbers are constants, else a chain of choices.
  bool constant = true, equal = true, real = false;
  if (l.numbers) {
    const auto& values = l.numbers->values;
    real = l.numbers->dtype == DType::F64;
    constant = l.numbers->dtype != DType::Bool;
    equal = std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == values[0]; });
  }
  for (const Val& v : l.items) {
    if (!v.is_scalar() || v.special != Val::Special::None) fail_here(pos, "a list of numbers expected");
    const DType t = v.e->type.dtype;
    constant = constant && v.soft && v.e->is_const() && (t == DType::I64 || is_float(t));
    real = real || is_float(t);
    equal = equal && v.e == l.items[0].e;
  }
  if (equal) return item(l, 0);
  bool running = false;  // a place known before the kernels run picks by choices: what comes out may be an extent
  ir::walk(i,
           [&](Ex x) { running = running || x->op == ir::Op::Dim || x->op == ir::Op::Var || x->op == ir::Op::Load; });
  if (constant && running && (real || n > 4)) {
    if (l.numbers) return table_of(*l.numbers, at, i);
    Numbers numbers{real ? DType::F64 : DType::I64, {}};
    for (const Val& v : l.items) {
      const bool is_real = is_float(v.e->type.dtype);
      numbers.values.push_back(real ? std::bit_cast<int64_t>(is_real ? v.e->f : static_cast<double>(v.e->i)) : v.e->i);
    }
    return table_of(numbers, at, i);
  }
  Val r = item(l, l.length() - 1);
  for (size_t k = l.length() - 1; k-- > 0;)
    r = choose(scalar(ctx_.binary(ir::Op::Eq, i, ctx_.integer(static_cast<int64_t>(k))), true), item(l, k), r, pos);
  return r;
}

// An item by a running index: `index`, the number of `at`.
Val Expander::table_of(const Numbers& numbers, const Val& at, Ex index) {
  DType type = numbers.dtype;
  if (type == DType::F64) {  // reals that f32 holds exactly, as attributes are, need no wider table
    bool narrow = true;
    for (size_t k = 0; narrow && k < numbers.values.size(); ++k) {
      const double f = numbers.at(k).f;
      narrow = f != f || f == static_cast<double>(static_cast<float>(f));
    }
    if (narrow) type = DType::F32;
  }
  const Ex extent = ctx_.integer(static_cast<int64_t>(numbers.values.size()));
  return scalar(ctx_.load(new_table(type, numbers), {type, 1}, {index}, prove_access(index, &at, extent)), true);
}

Val Expander::eval_index(const Node* n) {
  const Node* base = n->kids[0];
  if (base->kind == NodeKind::Name && !find_local(base->text) && !in_function() && !lets_.count(base->text)) {
    if (ArrayInfo* a = find_array(base->text)) return read(*a, n->kids, 1, n->pos);
    if (const AttrDecl* a = op_.attr(base->text); a && a->kind == AttrDecl::Kind::Tensor) {
      Val t = attribute(*a);
      ArrayInfo array;
      array.name = a->name;
      array.present = true;
      array.id = static_cast<uint32_t>(t.items.at(0).e->i);
      array.dtype = t.dtype;
      for (const Val& e : t.items.at(1).items) array.slots.push_back({e.e, e.e, {}});
      return read(array, n->kids, 1, n->pos);
    }
    if (op_.result(base->text)) fail_here(n->pos, "result " + base->text + " is read before it is written");
  }
  Val v = eval(base);
  for (size_t k = 1; k < n->kids.size(); ++k) {
    if (n->kids[k]->kind == NodeKind::Star) {
      if (!v.is_list()) fail_here(n->pos, "only arrays and lists take '*'");
      continue;
    }
    v = index_list(v, eval(n->kids[k]), n->pos);
  }
  return v;
}

// `neutral`: what an item whose filter is not settled while building counts as otherwise (for prod and total).
Val Expander::eval_comprehension(const Node* n, const Val* neutral) {
  Val source;
  ListBuilder r(ctx_);
  if (!n->has_range && n->kids[1]->kind == NodeKind::Name) {
    const Param* p = op_.param(n->kids[1]->text);
    if (p && p->many && !in_function()) {  // over the items of a `many` parameter
      auto& arrays = arrays_[p->name];
      for (size_t k = 0; k < arrays.size(); ++k) {
        ScopedFrame frame(*this);
        frames_.back().arrays[n->text] = &arrays[k];
        const auto item = item_;
        const auto param = item_param_;
        item_ = k;
        item_param_ = p->name;
        r.add(eval(n->kids[0]));
        item_ = item;
        item_param_ = param;
      }
      return r.done();
    }
  }
  if (n->has_range) {
    const int64_t lo = as_number(eval(n->kids[1]), n->pos, "the start of a range");
    const int64_t hi = as_number(eval(n->kids[2]), n->pos, "the end of a range");
    if (hi > lo && static_cast<uint64_t>(hi) - static_cast<uint64_t>(lo) > kMaxList) fail_call(n->pos, "a list of more than 4096 items");
    Numbers range;
    for (int64_t v = lo; v < hi; ++v) range.values.push_back(v);
    source = list(std::move(range));
  } else {
    source = eval(n->kids[1]);
    if (!source.is_list()) fail_here(n->pos, "a list expected after 'in'");
  }
  for (size_t k = 0; k < source.length(); ++k) {
    ScopedFrame frame(*this);
    frames_.back().names[n->text] = item(source, k);
    if (n->has_filter) {
      Ex condition = conjunction(eval(n->kids.back()), n->pos);
      auto keep = settle(condition);
      if (keep && !*keep) continue;
      if (!keep) {
        if (!neutral) fail_here(n->pos, "whether an item belongs to this list is not known while building: " + shown(condition));
        r.add(choose(scalar(condition, true), eval(n->kids[0]), *neutral, n->pos));
        continue;
      }
    }
    Val v = eval(n->kids[0]);
    if (v.is_list()) for (size_t j = 0; j < v.length(); ++j) r.add(item(v, j));
    else r.add(std::move(v));
  }
  return r.done();
}

Ex Expander::as_index(const Val& v, Pos pos) {
  if (!v.is_scalar() || v.special != Val::Special::None) fail_here(pos, "a single index expected");
  const DType t = v.e->type.dtype;
  if (t == DType::I64) return v.e;
  if (is_int(t) && !v.soft) return ctx_.cast(DType::I64, v.e);  // loaded indices of any width
  if (is_float(t) && v.e->is_const() && v.e->f == std::floor(v.e->f)) return ctx_.number(v.e->f, DType::I64);
  fail_here(pos, "an index is an integer: write int(...)");
}

int64_t Expander::as_number(const Val& v, Pos pos, const char* what) {
  if (v.is_list() && v.length() == 1) return as_number(item(v, 0), pos, what);
  Ex e = as_index(v, pos);
  if (!e->is_const()) fail_call(pos, std::string(what) + " must be known while building, it is " + extent_text(e));
  return e->i;
}

Val Expander::cast(DType to, const Val& v, Pos pos) {
  return lift({v}, pos, [&](const std::vector<Val>& a) {
    if (!a[0].is_scalar()) fail_here(pos, "a cast wants a number");
    if (a[0].special != Val::Special::None) return scalar(special_number(a[0].special, to, pos), false);
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
