// What statements write: arrays of results and temporaries, the places on the left side, and that each element is written once.
#include <algorithm>

#include "packager/ir/numeric.h"
#include "packager/lang/expand/expander.h"
#include "packager/nest/text/names.h"

namespace mlc::lang {

// Names of the dims that run on the left side, in order of appearance.
std::vector<std::string> Expander::dims_in(const std::vector<const Node*>& index) {
  std::vector<std::string> r;
  std::vector<const Node*> todo(index.rbegin(), index.rend());
  while (!todo.empty()) {
    const Node* n = todo.back();
    todo.pop_back();
    if (n->kind == NodeKind::Name && dims_.count(n->text) && !lets_.count(n->text) && !op_.attr(n->text) && !find_local(n->text)) {
      if (std::find(r.begin(), r.end(), n->text) == r.end()) r.push_back(n->text);
      continue;
    }
    if (n->kind == NodeKind::Call && n->text == "before") continue;
    for (auto k = n->kids.rbegin(); k != n->kids.rend(); ++k) todo.push_back(*k);
  }
  return r;
}

uint32_t Expander::new_array(const std::string& name, DType dtype, std::vector<Ex> shape) {
  nest::Array a;
  a.name = nest::unique_name(function_, name, "array");
  a.dtype = dtype;
  a.shape = std::move(shape);
  function_.arrays.push_back(std::move(a));
  return static_cast<uint32_t>(function_.arrays.size() - 1);
}

// A constant one-dimensional array of these numbers.
uint32_t Expander::new_table(DType t, const Numbers& numbers) {
  const size_t count = numbers.values.size();
  auto bytes = std::make_shared<std::vector<std::byte>>(count * bytes_of(t));
  for (size_t k = 0; k < count; ++k) ir::store_element(t, bytes->data(), k, numbers.at(k));
  auto data = std::make_shared<nest::ConstData>();
  data->bytes = *bytes;
  data->owner = bytes;
  const uint32_t id = new_array((call_.source.empty() ? op_.name : call_.source) + ".table", t, {ctx_.integer(static_cast<int64_t>(count))});
  function_.arrays[id].kind = nest::Array::Kind::Const;
  function_.arrays[id].data = data;
  return id;
}

bool Expander::wanted(const Target& t) {
  const ResultDecl* r = op_.result(t.array);
  if (!r) return true;
  if (r->many) return true;
  const size_t k = static_cast<size_t>(r - op_.results.data());
  if (!r->optional) return true;  // later statements may read it
  return k < call_.outputs.size() && call_.outputs[k];
}

// Makes the array of a result, or of one item of a `many` result.
void Expander::declare_result(ArrayInfo& array, std::optional<size_t> item) {
  const ResultDecl& r = *array.result;
  const size_t place = static_cast<size_t>(&r - op_.results.data()) + item.value_or(0);
  array.slots = slots_of(r.type, r.pos, item);
  std::vector<Ex> shape;
  for (const Slot& s : array.slots) shape.push_back(s.extent);
  array.dtype = element_type(r.type.element, r.pos);
  std::string name = place < call_.output_names.size() ? call_.output_names[place] : "";
  if (name.empty()) name = (call_.source.empty() ? op_.name : call_.source) + "." + r.name;
  const auto bound = types_.find(r.type.element);
  const bool is_text = bound != types_.end() && bound->second == DType::Str;
  array.id = new_array(name, is_text ? DType::Str : array.dtype, std::move(shape));
  array.present = array.is_result = true;
}

// The array of a target: a result (made on first use) or a temporary (made by its first statement).
ArrayInfo* Expander::target_array(const Target& t, ElementType temporary, const std::vector<Slot>& slots) {
  auto& list = arrays_[t.array];
  if (const ResultDecl* r = op_.result(t.array)) {
    if (r->many) {
      if (!item_) fail_here(t.pos, t.array + " is many arrays: write it under 'for each'");
      if (list.size() <= *item_) list.resize(*item_ + 1);
      ArrayInfo& a = list[*item_];
      if (!a.present) {
        a.name = t.array + "[" + std::to_string(*item_) + "]";
        a.result = r;
        declare_result(a, item_);
      }
      return &a;
    }
    if (list.empty()) {
      ArrayInfo a;
      a.name = t.array;
      a.result = r;
      list.push_back(a);
      declare_result(list[0]);
    }
    return &list[0];
  }
  if (op_.param(t.array)) fail_here(t.pos, "input " + t.array + " cannot be written");
  if (list.empty()) {
    ArrayInfo a;
    a.name = t.array;
    a.present = true;
    a.dtype = temporary.type;
    a.rounds_to = temporary.rounds_to;
    a.slots = slots;
    std::vector<Ex> shape;
    for (const Slot& s : slots) shape.push_back(s.extent);
    a.id = new_array((call_.source.empty() ? op_.name : call_.source) + "." + t.array, temporary.type, std::move(shape));
    list.push_back(std::move(a));
  }
  return &list[0];
}

// Index of a target, one expression per axis; with the slots that a temporary of this index would have.
std::vector<Ex> Expander::target_index(const Target& t, std::vector<Slot>* slots) {
  std::vector<Ex> r;
  auto extent_of_index = [&](Ex i) -> Ex {
    if (i->op == ir::Op::Dim) return i->dim->extent;
    if (i->is_int(0)) return ctx_.integer(1);
    return nullptr;
  };
  for (const Node* n : t.index) {
    if (n->kind == NodeKind::Star) fail_here(n->pos, "'*' cannot stand on the left side");
    ExprValue v = eval(n);
    if (v.kind == ExprValue::Kind::Tuple) {
      Slot s;
      s.extent = ctx_.integer(1);
      std::vector<Ex> parts;
      for (const ExprValue& item : v.items) parts.push_back(as_index(item, n->pos));
      // Factors come from the declared result, or from the indices themselves.
      auto known = arrays_.find(t.array);
      const bool declared = known != arrays_.end() && !known->second.empty() && r.size() < known->second[0].slots.size() &&
                            known->second[0].slots[r.size()].factors.size() == parts.size();
      for (size_t k = 0; k < parts.size(); ++k) {
        Ex e = declared ? known->second[0].slots[r.size()].factors[k] : nullptr;
        if (!e && n->kids[k]->kind == NodeKind::Name && dims_.count(n->kids[k]->text)) e = extents_of(n->kids[k]->text, n->pos).at(0);
        if (!e) e = extent_of_index(parts[k]);
        if (!e) fail_here(n->pos, "the factors of a product on the left side are dims");
        s.factors.push_back(e);
        s.extent = ctx_.mul(s.extent, e);
      }
      Ex sum = ctx_.integer(0);
      for (size_t k = 0; k < parts.size(); ++k) sum = ctx_.add(ctx_.mul(sum, s.factors[k]), parts[k]);
      s.actual = s.extent;
      r.push_back(sum);
      if (slots) slots->push_back(s);
      continue;
    }
    for (const ExprValue& item : as_list(v)) {
      Ex i = as_index(item, n->pos);
      r.push_back(i);
      if (slots) {
        Ex e = extent_of_index(i);
        if (!e) e = nullptr;
        slots->push_back({e, e, {}});
      }
    }
  }
  return r;
}

// Where a map writes: per axis an offset and an extent. Anything that is no dim, product of dims, or dim with offset is
// refused: two points could write one element.
void Expander::record_region(ArrayInfo& array, const std::vector<Ex>& index, Pos pos) {
  Region region;
  region.pos = pos;
  std::vector<const ir::Dim*> used;
  for (size_t axis = 0; axis < index.size(); ++axis) {
    // offset + sum of dims whose coefficients are the extents of those further in: a mixed-radix number.
    std::vector<const ir::Dim*> dims;
    std::vector<Ex> leaves;
    ir::walk(index[axis], [&](Ex x) {
      if (x->op == ir::Op::Dim) {
        dims.push_back(x->dim);
        leaves.push_back(x);
      }
    });
    Ex extent = ctx_.integer(1), offset = index[axis];
    if (!dims.empty()) {
      auto linear = ir::linear_in(ctx_, index[axis], leaves);
      if (!linear) fail_here(pos, "axis " + std::to_string(axis) + " of " + array.name + " on the left side is no dim, product or offset: write a push");
      offset = linear->rest;
      std::vector<bool> done(dims.size(), false);
      for (size_t round = 0; round < dims.size(); ++round) {
        bool found = false;
        for (size_t k = 0; k < dims.size(); ++k)
          if (!done[k] && linear->coefficients[k] == extent) {
            done[k] = found = true;
            if (std::find(used.begin(), used.end(), dims[k]) != used.end()) fail_here(pos, "the left side runs along a diagonal of " + array.name + ": not every element is written");
            used.push_back(dims[k]);
            extent = ctx_.mul(extent, dims[k]->extent);
            break;
          }
        if (!found) fail_here(pos, "axis " + std::to_string(axis) + " of " + array.name + " is written with gaps or more than once: write a push");
      }
    }
    region.offset.push_back(offset);
    region.extent.push_back(extent);
  }
  regions_[array.name].push_back(std::move(region));
}

// Every element of every result is written exactly once by maps (or by a proc).
void Expander::check_coverage() {
  for (const auto& r : op_.results) {
    auto it = arrays_.find(r.name);
    const size_t place = static_cast<size_t>(&r - op_.results.data());
    const bool requested = place < call_.outputs.size() && call_.outputs[place];
    if (it == arrays_.end() || it->second.empty()) {
      if (requested) fail_here(r.pos, "result " + r.name + " is never written");
      continue;
    }
    if (any_proc_) continue;
    for (ArrayInfo& a : it->second) {
      if (!a.present) continue;
      auto list = regions_.find(a.name);
      if (list == regions_.end()) fail_here(r.pos, "result " + a.name + " is written by pushes only: a map must write each element first");
      auto& regions = list->second;
      auto no = [&](Pos pos, const std::string& why) { fail_here(pos, "result " + a.name + " is not written exactly once: " + why); };
      for (auto& region : regions)
        if (region.offset.size() != a.slots.size())
          no(region.pos, "it has " + std::to_string(a.slots.size()) + " axes, the left side " + std::to_string(region.offset.size()));
      // The regions tile one axis; all others they cover.
      std::optional<size_t> tiled;
      for (size_t axis = 0; axis < a.slots.size(); ++axis) {
        bool whole = std::all_of(regions.begin(), regions.end(), [&](const Region& region) { return region.offset[axis]->is_int(0); });
        for (auto& region : regions) whole = whole && settle(ctx_.binary(ir::Op::Eq, region.extent[axis], a.slots[axis].extent)) == true;
        if (whole) continue;
        if (regions.size() == 1) {
          Ex offset = regions[0].offset[axis];
          if (offset->is_int(0)) {
            unify(a.slots[axis].extent, regions[0].extent[axis], "result " + a.name + " is not written exactly once: axis " + std::to_string(axis), "declared", "left side");
            continue;
          }
          no(regions[0].pos, "axis " + std::to_string(axis) + " is written from " + shown(offset) + " on");
        }
        if (tiled) no(regions[0].pos, "the statements do not tile one axis");
        tiled = axis;
      }
      if (regions.size() == 1) continue;
      if (!tiled) no(regions[1].pos, "two statements write the same elements");
      std::vector<const Region*> rest;
      for (auto& region : regions) rest.push_back(&region);
      Ex next = ctx_.integer(0);
      while (!rest.empty()) {
        auto found = std::find_if(rest.begin(), rest.end(), [&](const Region* g) { return g->offset[*tiled] == next; });
        if (found == rest.end()) no(rest[0]->pos, "the statements leave a gap or overlap at " + shown(next) + " of axis " + std::to_string(*tiled));
        next = ctx_.add(next, (*found)->extent[*tiled]);
        rest.erase(found);
      }
      unify(a.slots[*tiled].extent, next, "result " + a.name + " is not written exactly once: axis " + std::to_string(*tiled), "declared", "end of the last statement");
    }
  }
}

}  // namespace mlc::lang
