// Reads: indices to slots, broadcasting, values known while building, and how an index is known to be in range.
#include <algorithm>

#include "packager/ir/numeric.h"
#include "packager/lang/expand/expander.h"
#include "packager/lang/expand/scopes.h"

namespace mlc::lang {

std::optional<size_t> Expander::const_extent(Ex e) const {
  if (!e->is_const() || e->i < 0) return {};
  return static_cast<size_t>(e->i);
}

// Elements of an array of the function that are known while building; empty if they are not (or there are none).
const std::vector<Ex>& Expander::known_elements(uint32_t array) const {
  static const std::vector<Ex> none;
  if (auto it = elements_.find(array); it != elements_.end()) return it->second;
  if (array >= function_.arrays.size()) return none;
  const nest::Array& a = function_.arrays[array];
  if (a.kind != nest::Array::Kind::Const || !a.data || a.dtype == DType::Str || a.dtype == DType::None) return none;
  size_t count = 1;
  for (Ex e : a.shape) {
    auto n = const_extent(e);
    if (!n || (*n && count > kMaxElements)) return none;
    count *= *n;
  }
  if (count > kMaxElements || count == 0 || a.data->bytes.size() < count * bytes_of(a.dtype)) return none;
  std::vector<Ex> r;
  for (size_t k = 0; k < count; ++k) {
    const ir::Scalar v = ir::load_element(a.dtype, a.data->bytes.data(), k);
    if (is_float(a.dtype)) r.push_back(ctx_.number(v.f, a.dtype));
    else r.push_back(ctx_.integer(v.i, a.dtype == DType::Bool ? DType::Bool : DType::I64));
  }
  return elements_[array] = std::move(r);
}

// Element k of a `sym` or `const` parameter.
ExprValue Expander::element(const ArrayInfo& array, size_t k) {
  const Param* param = array.param;
  const auto& known = known_elements(array.id);
  if (!known.empty()) {
    if (k >= known.size()) mismatch("input " + array.name + " has " + std::to_string(known.size()) + " elements, element " + std::to_string(k) + " is wanted");
    if (param && param->mode == ParamMode::Const && !known[k]->is_const())
      mismatch("input " + array.name + " must be a constant, it is " + shown(known[k]));
    return scalar(known[k], known[k]->type.dtype != DType::Bool);
  }
  if (!param || param->mode == ParamMode::Const)
    mismatch("input " + array.name + " must be known while building, it is computed at run time");
  const nest::Array& a = function_.arrays[array.id];
  size_t count = 1;
  for (Ex e : a.shape) {
    auto n = const_extent(e);
    if (!n) mismatch("input " + array.name + " is wanted as numbers, but its length is not known while building");
    count *= *n;
    if (count > kMaxElements)
      mismatch("input " + array.name + " is wanted as numbers, but it has more than " + std::to_string(kMaxElements) + " elements");
  }
  if (k >= count) mismatch("input " + array.name + " has " + std::to_string(count) + " elements, element " + std::to_string(k) + " is wanted");
  if (is_float(a.dtype)) {  // stays in memory; an extent made of it is computed there and read back
    std::vector<Ex> index(a.shape.size());
    for (size_t axis = a.shape.size(), rest = k; axis-- > 0;) {
      const size_t n = *const_extent(a.shape[axis]);
      index[axis] = ctx_.integer(static_cast<int64_t>(rest % n));
      rest /= n;
    }
    Ex value = ctx_.load(array.id, {a.dtype, 1}, index);
    run_time_numbers_.insert(value);
    return scalar(value, true);
  }
  const bool boolean = a.dtype == DType::Bool;
  if (!is_int(a.dtype) && !boolean) mismatch("input " + array.name + " is wanted as numbers, but it is " + std::string(name_of(a.dtype)));
  const auto symbols = read_back(array.id, count);
  std::vector<Ex>& elements = elements_[array.id];
  for (const ir::Sym* sym : symbols) elements.push_back(boolean ? ctx_.binary(ir::Op::Ne, ctx_.sym(sym), ctx_.integer(0)) : ctx_.sym(sym));
  return scalar(elements[k], !boolean);
}

// Each element of an array that the run computes becomes a symbol. The array is complete once: a second operator that
// asks gets the same ones, by name.
std::vector<const ir::Sym*> Expander::read_back(uint32_t array, size_t count) {
  const nest::Array& a = function_.arrays[array];
  const bool boolean = a.dtype == DType::Bool;
  auto read = std::make_unique<nest::Control>();
  read->inputs = {array};
  for (size_t j = 0; j < count; ++j)
    read->symbols.push_back(ctx_.declare_sym(a.name + "#" + function_.name + std::to_string(array) + "[" + std::to_string(j) + "]",
                                             boolean ? 0 : ir::lowest_int(a.dtype), boolean ? 1 : ir::highest_int(a.dtype)));
  const std::vector<const ir::Sym*> symbols = read->symbols;
  const bool there = std::any_of(function_.body.begin(), function_.body.end(), [&](const nest::Statement& s) {
    return s.control && s.control->symbols == read->symbols;
  });
  if (!there) {
    nest::Statement s;
    s.source = call_.source + " (" + op_.name + ")";
    s.control = std::move(read);
    function_.body.push_back(std::move(s));
  }
  return symbols;
}

// An integer or truth value made of numbers that the run computes, as a symbol: a statement computes it, and it is read
// back.
Ex Expander::computed(Ex value, const std::string& name) {
  const DType type = value->type.dtype;
  const uint32_t array = new_array((call_.source.empty() ? op_.name : call_.source) + "." + name, type, {});
  auto nest = std::make_unique<nest::Nest>();
  nest->writes.push_back({array, {}, value, false, ir::Join::Last});
  nest::Statement s;
  s.source = call_.source + " (" + op_.name + ")";
  s.nest = std::move(nest);
  function_.body.push_back(std::move(s));
  Ex symbol = ctx_.sym(read_back(array, 1)[0]);
  return type == DType::Bool ? ctx_.binary(ir::Op::Ne, symbol, ctx_.integer(0)) : symbol;
}

ir::Access Expander::prove_access(Ex index, const ExprValue* from, Ex extent) {
  if (index->op == ir::Op::Dim && known_equal(index->dim->extent, extent)) return ir::Access::Proved;
  if (safe_.count({index, extent})) return ir::Access::Proved;
  Ex zero = ctx_.integer(0);
  auto holds = [&](Ex c) { return ir::proves(ctx_, c, conditions_); };
  if (holds(ctx_.binary(ir::Op::Le, zero, index)) && holds(ctx_.binary(ir::Op::Lt, index, extent))) return ir::Access::Proved;
  if (from && from->clamp_lo && holds(ctx_.binary(ir::Op::Le, zero, from->clamp_lo)) &&
      holds(ctx_.binary(ir::Op::Lt, from->clamp_hi, extent)))
    return ir::Access::Clamped;
  return ir::Access::Checked;
}

// One expression per axis of the array. `items` are the values of the index, packs spread; `product` marks tuples.
std::vector<Ex> Expander::resolve_index(ArrayInfo& array, const std::vector<ExprValue>& items, const std::vector<bool>& product,
                                        Pos pos, ir::Access* access) {
  if (items.size() != array.slots.size())
    fail_here(pos, array.name + " has " + std::to_string(array.slots.size()) + " axes, the index has " + std::to_string(items.size()));
  std::vector<Ex> r;
  ir::Access worst = ir::Access::Proved;
  for (size_t k = 0; k < items.size(); ++k) {
    const Slot& slot = array.slots[k];
    ExprValue v = items[k];
    if (product[k]) {
      const std::vector<ExprValue> parts = v.is_list() ? as_list(v) : v.items;
      if (slot.factors.size() != parts.size()) fail_here(pos, "axis " + std::to_string(k) + " of " + array.name + " is no such product");
      Ex sum = ctx_.integer(0);
      bool safe = true;
      for (size_t f = 0; f < parts.size(); ++f) {
        Ex i = as_index(parts[f], pos);
        safe = safe && prove_access(i, &parts[f], slot.factors[f]) == ir::Access::Proved;
        sum = ctx_.add(ctx_.mul(sum, slot.factors[f]), i);
      }
      if (safe) mark_safe(sum, slot.extent);
      v = scalar(sum, true);
    }
    if (!slot.actual) continue;  // broadcast: the array does not have this axis
    Ex i = as_index(v, pos);
    if (slot.actual->is_int(1)) {
      // One element: reads index 0 where it broadcasts; a proved index can only be 0.
      if (slot.extent != slot.actual || prove_access(i, &v, slot.actual) == ir::Access::Proved) {
        r.push_back(ctx_.integer(0));
        continue;
      }
    }
    if (access) {
      const ir::Access a = prove_access(i, &v, slot.extent);
      if (a == ir::Access::Checked || worst == ir::Access::Checked) worst = ir::Access::Checked;
      else if (a == ir::Access::Clamped) worst = ir::Access::Clamped;
    }
    r.push_back(slot.step ? ctx_.mul(i, slot.step) : i);
  }
  if (access) *access = worst;
  return r;
}

std::optional<size_t> Expander::linear_const_index(const std::vector<Ex>& shape, const std::vector<Ex>& index) const {
  size_t at = 0;
  for (size_t k = 0; k < shape.size(); ++k) {
    auto n = const_extent(shape[k]);
    if (!n || !index[k]->is_const() || index[k]->i < 0 || static_cast<size_t>(index[k]->i) >= *n) return {};
    at = at * *n + static_cast<size_t>(index[k]->i);
  }
  return at;
}

ExprValue Expander::load(ArrayInfo& array, const std::vector<Ex>& index, ir::Access access) {
  if (!array.is_local && !proc_writes_.count(array.name)) {
    const auto& known = known_elements(array.id);
    if (!known.empty()) {
      const auto& shape = function_.arrays[array.id].shape;
      if (auto at = linear_const_index(shape, index); at && *at < known.size()) {
        Ex e = known[*at];
        // Symbols of narrow integers stay in memory: they would need a conversion for nothing.
        if (e->is_const() || e->type.dtype == array.dtype)
          return scalar(e->type.dtype == array.dtype || is_float(array.dtype) ? e : ctx_.integer(e->i, array.dtype), false, array.rounds_to);
      }
    }
  }
  return scalar(ctx_.load(array.id, {array.dtype, 1}, index, access), false, array.rounds_to);
}

// array[index...], the nodes of the index from `first` on.
// What an absent input reads as: its default, in the declared type where that is known.
ExprValue Expander::read_default(const ArrayInfo& array, const std::vector<const Node*>& index, size_t first, Pos pos) {
  const Param& param = *array.param;
  if (!param.fallback) fail_call(pos, "input " + array.name + " is absent and has no default");
  ExprValue v;
  {
    ScopedFrame frame(*this, /*barrier=*/true);
    v = eval(param.fallback);
  }
  const bool everything = index.size() == first + 1 && index[first]->kind == NodeKind::Star;
  if (v.is_list() && index.size() > first && !everything) {
    for (size_t k = first; k < index.size(); ++k) v = index_list(v, eval(index[k]), pos);
  } else if (everything && !v.is_list()) {
    // One default for all elements: as many as the dims say, where they say so; else it spreads by itself.
    auto it = dims_.find(param.type.dims.empty() ? "" : param.type.dims[0].name);
    if (it != dims_.end() && it->second.known) {
      auto n = extents_of(it->first, pos);
      if (n.size() == 1 && n[0]->is_const()) v = list(std::vector<ExprValue>(static_cast<size_t>(std::max<int64_t>(n[0]->i, 0)), v));
    }
  }
  const std::string& type = param.type.element;
  if (param.mode != ParamMode::Array || !v.is_scalar() || !(dtype_named(type) || types_.count(type))) return v;
  const DType t = element_type(type, pos);
  return scalar(v.special == ExprValue::Special::None ? adapt(v, t, pos) : special_number(v.special, t, pos), false);
}

// Of `sym` and `const` inputs: elements as numbers, at places known while building. None: the place is not.
std::optional<ExprValue> Expander::read_numbers(const ArrayInfo& array, const std::vector<const Node*>& index, size_t first, Pos pos) {
  const auto& shape = function_.arrays[array.id].shape;
  if (index.size() == first + 1 && index[first]->kind == NodeKind::Star) {
    size_t count = 1;
    for (Ex e : shape) {
      auto n = const_extent(e);
      if (!n) mismatch("input " + array.name + " is wanted as numbers, but its length is not known while building");
      count *= *n;
    }
    if (count > kMaxElements * 16) mismatch("input " + array.name + " has too many elements to be wanted as numbers");
    std::vector<ExprValue> items;
    for (size_t k = 0; k < count; ++k) items.push_back(element(array, k));
    return list(std::move(items));
  }
  if (index.size() == first) {
    for (Ex e : shape)
      if (!e->is_int(1)) fail_here(pos, array.name + " is an array: it needs an index");
    return element(array, 0);
  }
  std::vector<Ex> at;
  bool constant = true;
  for (size_t k = first; k < index.size(); ++k) {
    ExprValue v = eval(index[k]);
    for (const ExprValue& item : as_list(v)) {
      at.push_back(as_index(item, pos));
      constant = constant && at.back()->is_const();
    }
  }
  if (!constant || at.size() != shape.size()) return {};
  auto k = linear_const_index(shape, at);
  if (!k) mismatch("input " + array.name + " is read outside its extent");
  return element(array, *k);
}

// At its first use: the declared dims against the array, aligned to the right where they broadcast.
void Expander::match_declared_dims(ArrayInfo& array, Pos pos) {
  const auto& shape = function_.arrays[array.id].shape;
  array.slots = slots_of(array.param->type, pos);
  size_t first_group = 0, group = 0, at = 0;
  bool any = false;
  for (const auto& d : array.param->type.dims) {
    const size_t width = d.kind == DimSpec::Kind::Pack || d.kind == DimSpec::Kind::Dim ? extents_of(d.name, pos).size() : 1;
    if (d.broadcast) {
      if (!any) first_group = at;
      any = true;
      group += width;
    }
    at += width;
  }
  if (array.slots.size() < shape.size())
    mismatch("input " + array.name + " has rank " + std::to_string(shape.size()) + ", at most " + std::to_string(array.slots.size()) + " is possible");
  const size_t missing = array.slots.size() - shape.size();
  if (missing > group) mismatch("input " + array.name + " has rank " + std::to_string(shape.size()) + ", expected " + std::to_string(array.slots.size()));
  for (size_t k = 0; k < array.slots.size(); ++k) {
    Slot& s = array.slots[k];
    const bool broadcast = any && k >= first_group && k < first_group + group;
    if (broadcast && k < first_group + missing) {
      s.actual = nullptr;
      continue;
    }
    s.actual = shape[k < first_group || !any ? k : k - missing];
    const std::string axis = "axis " + std::to_string(k) + " of the array";
    s.extent = broadcast ? broadcast_to(s.extent, s.actual, "input " + array.name, "declared extent", axis, &s.step)
                         : unify(s.extent, s.actual, "input " + array.name, "declared extent", axis);
  }
}

// The places that an index names, one per axis; a tuple is the places in a product of dims.
Expander::IndexItems Expander::index_items(const std::vector<const Node*>& index, size_t first) {
  IndexItems r;
  auto add = [&](ExprValue v, bool is_product) {
    r.items.push_back(std::move(v));
    r.product.push_back(is_product);
  };
  for (size_t k = first; k < index.size(); ++k) {
    const Node* n = index[k];
    if (n->kind == NodeKind::Star) {
      if (r.star) fail_here(n->pos, "a second '*' in one index");
      r.star = r.items.size();
      add(soft_int(0), false);
      continue;
    }
    ExprValue v = eval(n);
    if (v.kind == ExprValue::Kind::Tuple) add(std::move(v), true);
    else
      for (ExprValue& item : as_list(v)) add(std::move(item), false);
  }
  return r;
}

ExprValue Expander::read(ArrayInfo& array, const std::vector<const Node*>& index, size_t first, Pos pos) {
  const Param* param = array.param;
  if (param && !array.present) return read_default(array, index, first, pos);
  if (param && param->many && !item_) fail_here(pos, param->name + " is many arrays: read it under 'for each' or as an item of a list");
  if (param && param->mode != ParamMode::Array)
    if (auto numbers = read_numbers(array, index, first, pos)) return *numbers;
  if (array.slots.empty() && array.scalar_like) {
    if (index.size() > first) fail_here(pos, array.name + " is a single number: it takes no index");
    return load(array, std::vector<Ex>(function_.arrays[array.id].shape.size(), ctx_.integer(0)), ir::Access::Proved);
  }
  if (array.slots.empty() && param) match_declared_dims(array, pos);
  IndexItems at = index_items(index, first);
  auto load_it = [&] {
    ir::Access access;
    const auto place = resolve_index(array, at.items, at.product, pos, &access);
    return load(array, place, access);
  };
  if (!at.star) return load_it();
  if (*at.star >= array.slots.size()) fail_here(pos, array.name + " has " + std::to_string(array.slots.size()) + " axes, the index has more");
  auto n = const_extent(array.slots[*at.star].extent);
  if (!n || *n > 1024) fail_here(pos, "'*' lists the elements along an axis whose extent is known while building");
  std::vector<ExprValue> r;
  for (size_t k = 0; k < *n; ++k) {
    at.items[*at.star] = soft_int(static_cast<int64_t>(k));
    r.push_back(load_it());
  }
  return list(std::move(r));
}

}  // namespace mlc::lang
