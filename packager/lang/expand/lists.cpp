// Lists of the build: of numbers side by side where all are plain, else of values; comprehensions, and items by an index.
#include <algorithm>
#include <bit>

#include "packager/lang/expand/expander.h"
#include "packager/lang/expand/scopes.h"

namespace mlc::lang {
namespace {

constexpr size_t kStepsPerItem = 8;  // of more than a number: some hundred bytes
constexpr size_t kMaxList = size_t{1} << 20;  // of a range; what is made of ranges is counted (Expander::spend)

ExprValue number_at(ir::Context& ctx, const Numbers& numbers, size_t k) {
  const ir::Scalar value = numbers.at(k);
  ExprValue v;
  v.kind = ExprValue::Kind::Scalar;
  v.soft = true;
  v.e = numbers.dtype == DType::F64 ? ctx.number(value.f, DType::F64) : numbers.dtype == DType::Bool ? ctx.boolean(value.i != 0) : ctx.integer(value.i);
  return v;
}

bool is_plain_number(const ExprValue& v) {
  if (!v.is_const() || !v.soft || v.clamp_lo || v.clamp_hi || v.flat) return false;
  const DType t = v.e->type.dtype;
  return t == DType::I64 || t == DType::F64 || t == DType::Bool;
}

}  // namespace

ExprValue Expander::list(std::vector<ExprValue> items) {
  ExprValue v;
  v.kind = ExprValue::Kind::List;
  v.items = std::move(items);
  return v;
}
ExprValue Expander::list(Numbers numbers) {
  ExprValue v;
  v.kind = ExprValue::Kind::List;
  v.numbers = std::make_shared<const Numbers>(std::move(numbers));
  return v;
}

ExprValue Expander::item(const ExprValue& list, size_t k) { return list.numbers ? number_at(ctx_, *list.numbers, k) : list.items[k]; }

void ListBuilder::add(ExprValue item) {
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

ExprValue ListBuilder::done() {
  ExprValue v;
  v.kind = ExprValue::Kind::List;
  if (numbers_.values.empty()) v.items = std::move(items_);
  else v.numbers = std::make_shared<const Numbers>(std::move(numbers_));
  return v;
}

ExprValue Expander::soft_list(const std::vector<Ex>& es) {
  std::vector<ExprValue> items;
  for (Ex e : es) items.push_back(scalar(e, true));
  return list(std::move(items));
}
std::vector<ExprValue> Expander::as_list(const ExprValue& v) {
  if (!v.is_list()) return {v};
  spend(v.length());
  if (!v.numbers) return v.items;
  std::vector<ExprValue> items;
  for (size_t k = 0; k < v.length(); ++k) items.push_back(item(v, k));
  return items;
}

ExprValue Expander::index_list(const ExprValue& l, const ExprValue& at, Pos pos) {
  if (!l.is_list()) fail_here(pos, "only arrays and lists take an index");
  if (at.is_list()) {
    std::vector<ExprValue> r;
    for (const ExprValue& a : as_list(at)) r.push_back(index_list(l, a, pos));
    return r.size() == 1 ? r[0] : list(std::move(r));
  }
  Ex i = as_index(at, pos);
  const int64_t n = static_cast<int64_t>(l.length());
  if (i->is_const()) {
    if (i->i < 0 || i->i >= n) fail_here(pos, "a list of " + std::to_string(n) + " has no item " + std::to_string(i->i));
    return item(l, static_cast<size_t>(i->i));
  }
  if (n == 0) return soft_int(0);  // an empty dim runs through no place
  spend(l.length());
  // By a running index: a table if the numbers are constants, else a chain of choices.
  bool constant = true, equal = true, real = false;
  if (l.numbers) {
    const auto& values = l.numbers->values;
    real = l.numbers->dtype == DType::F64;
    constant = l.numbers->dtype != DType::Bool;
    equal = std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == values[0]; });
  }
  for (const ExprValue& v : l.items) {
    if (!v.is_scalar() || v.special != ExprValue::Special::None) fail_here(pos, "a list of numbers expected");
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
    for (const ExprValue& v : l.items) {
      const bool is_real = is_float(v.e->type.dtype);
      numbers.values.push_back(real ? std::bit_cast<int64_t>(is_real ? v.e->f : static_cast<double>(v.e->i)) : v.e->i);
    }
    return table_of(numbers, at, i);
  }
  ExprValue r = item(l, l.length() - 1);
  for (size_t k = l.length() - 1; k-- > 0;)
    r = choose(scalar(ctx_.binary(ir::Op::Eq, i, ctx_.integer(static_cast<int64_t>(k))), true), item(l, k), r, pos);
  return r;
}

// An item by a running index: `index`, the number of `at`.
ExprValue Expander::table_of(const Numbers& numbers, const ExprValue& at, Ex index) {
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

ExprValue Expander::eval_index(const Node* n) {
  const Node* base = n->kids[0];
  if (base->kind == NodeKind::Name && !find_local(base->text) && !in_function() && !lets_.count(base->text)) {
    if (ArrayInfo* a = find_array(base->text)) return read(*a, n->kids, 1, n->pos);
    if (const AttrDecl* a = op_.attr(base->text); a && a->kind == AttrDecl::Kind::Tensor) {
      ExprValue t = attribute(*a);
      ArrayInfo array;
      array.name = a->name;
      array.present = true;
      array.id = static_cast<uint32_t>(t.items.at(0).e->i);
      array.dtype = t.dtype;
      for (const ExprValue& e : t.items.at(1).items) array.slots.push_back({e.e, e.e, {}});
      return read(array, n->kids, 1, n->pos);
    }
    if (op_.result(base->text)) fail_here(n->pos, "result " + base->text + " is read before it is written");
  }
  ExprValue v = eval(base);
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
ExprValue Expander::eval_comprehension(const Node* n, const ExprValue* neutral) {
  ExprValue source;
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
    if (hi > lo && static_cast<uint64_t>(hi) - static_cast<uint64_t>(lo) > kMaxList) fail_call(n->pos, "a list of more than " + std::to_string(kMaxList) + " items");
    spend(static_cast<size_t>(std::max<int64_t>(hi - lo, 0)));
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
    ExprValue v = eval(n->kids[0]);
    if (v.is_list()) spend(v.length());
    if (v.is_list()) for (size_t j = 0; j < v.length(); ++j) r.add(item(v, j));
    else {
      if (!is_plain_number(v)) spend(kStepsPerItem);
      r.add(std::move(v));
    }
  }
  return r.done();
}

}  // namespace mlc::lang
