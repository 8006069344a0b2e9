// Statements on arrays: maps, scans, pushes, and maps for each item of a `many`.
#include <algorithm>

#include "packager/lang/expand/expander.h"
#include "packager/lang/expand/scopes.h"

namespace mlc::lang {

void Expander::emit(nest::Nest n) {
  fold_elements(n);
  nest::Statement s;
  s.source = call_.source.empty() ? op_.name : call_.source + " (" + op_.name + ")";
  s.nest = std::make_unique<nest::Nest>(std::move(n));
  function_.body.push_back(std::move(s));
}

// A scan of what was widened adds up in an array of its own, which a map behind it rounds into `array`, at the same places.
uint32_t Expander::scanned(DType wide, const ArrayInfo& array, const std::vector<Ex>& index, const std::vector<const ir::Dim*>& dims,
                           std::vector<nest::Nest>& rounded) {
  const uint32_t id = new_array(function_.arrays[array.id].name + ".sum", wide, function_.arrays[array.id].shape);
  nest::Nest n;
  std::unordered_map<Ex, Ex> rename;
  for (const ir::Dim* d : dims) {
    n.dims.push_back(ctx_.declare_dim(d->name, d->extent));
    rename[ctx_.dim(d)] = ctx_.dim(n.dims.back());
  }
  std::vector<Ex> at;
  for (Ex i : index) at.push_back(ctx_.substitute(i, rename));
  n.writes.push_back({array.id, at, ctx_.cast(array.dtype, ctx_.load(id, {wide, 1}, at)), false, ir::Join::Last});
  rounded.push_back(std::move(n));
  return id;
}

void Expander::map_statement(const Stmt& s) {
  bool any = false;
  for (const Target& t : s.targets) any = any || wanted(t);
  if (!any) return;
  committed_ = true;
  solve_products(false);
  // Results first: the factors of their products are known by declaration.
  for (const Target& t : s.targets)
    if (op_.result(t.array) && wanted(t)) target_array(t, {}, {});
  ScopedDims dims(*this);
  std::set<std::string> running;
  for (const Target& t : s.targets)
    for (const auto& name : dims_in(t.index))
      if (running.insert(name).second) dims.bind(name, t.pos);
  nest::Nest n;
  n.dims = dims.dims;
  const Node* value = s.value;
  ExprValue v;
  if (value->kind == NodeKind::Fold && value->scan) {
    if (value->names.size() != 1) fail_here(value->pos, "a scan runs along one dim");
    const auto place = bound_.find(value->names[0]);
    if (place == bound_.end() || place->second.size() != 1 || !place->second[0]) fail_here(value->pos, "the left side must run along the dim of the scan");
    if (value->where) fail_here(value->pos, "a scan has no 'where'");
    Ex at = place->second[0];
    std::vector<ExprValue> args;
    for (const Node* kid : value->kids) args.push_back(eval(kid));
    n.scan_exclusive = value->exclusive && truth(eval(value->exclusive), value->pos, "'exclusive'");
    n.scan_reverse = value->reverse && truth(eval(value->reverse), value->pos, "'reverse'");
    std::vector<ElementType> types;
    n.scan_combiner = named_combiner(value->text);
    if (n.scan_combiner) {
      if (args.size() != 1 || !args[0].is_scalar() || args[0].special != ExprValue::Special::None) fail_here(value->pos, value->text + " scans one value");
    } else {
      const CombinerDef* def = module_.combiner(domain(), value->text);
      if (!def) fail_here(value->pos, "unknown combiner '" + value->text + "'");
      n.scan_combiner = combiner_for(*def, args, types, value->pos);
      for (size_t k = 0; k < args.size(); ++k) args[k] = scalar(adapted(args[k], types[k], value->pos), false, types[k].rounds_to);
    }
    const bool adds = n.scan_combiner->join == ir::Join::Sum || n.scan_combiner->join == ir::Join::Prod;
    if (adds) args[0] = widened(args[0]);
    if (at->op == ir::Op::Dim) {
      n.scan_dim = at->dim;
    } else {  // one place: the fold of one value, or of none
      if (n.scan_exclusive) {
        if (n.scan_combiner->join == ir::Join::Custom)
          for (size_t k = 0; k < args.size(); ++k) args[k] = scalar(n.scan_combiner->units[k], false, args[k].rounds_to);
        else
          args[0] = scalar(ctx_.integer(n.scan_combiner->join == ir::Join::Prod, args[0].e->type.dtype), false, args[0].rounds_to);
      }
      n.scan_combiner = nullptr;
      n.scan_exclusive = n.scan_reverse = false;
    }
    if (args.size() == 1) v = args[0];
    else {
      v.kind = ExprValue::Kind::Tuple;
      v.items = args;
    }
  } else {
    v = eval(value);
  }
  std::vector<ExprValue> values = s.targets.size() > 1 ? v.items : std::vector<ExprValue>{v};
  if (values.size() != s.targets.size() || (s.targets.size() > 1 && v.kind != ExprValue::Kind::Tuple))
    fail_here(s.pos, "as many values as places: " + std::to_string(s.targets.size()) + " are written");
  std::vector<nest::Nest> rounded;  // what follows a scan
  for (size_t k = 0; k < s.targets.size(); ++k) {
    const Target& t = s.targets[k];
    if (!wanted(t)) continue;
    if (!values[k].is_scalar()) fail_here(t.pos, "a list cannot be written to one element");
    std::vector<Slot> slots;
    std::vector<Ex> index = target_index(t, &slots);
    ElementType temporary;
    if (values[k].special == ExprValue::Special::None) {
      temporary = {values[k].e->type.dtype, values[k].rounds_to};
      if (!op_.result(t.array) && arrays_[t.array].empty())
        for (const Slot& slot : slots)
          if (!slot.extent) fail_here(t.pos, "the first statement that writes " + t.array + " names its dims");
    } else if (!op_.result(t.array) && arrays_[t.array].empty()) {
      fail_here(t.pos, "the element type of " + t.array + " does not follow from its value");
    }
    ArrayInfo* a = target_array(t, temporary, slots);
    if (index.size() != a->slots.size())
      fail_here(t.pos, a->name + " has " + std::to_string(a->slots.size()) + " axes, the left side " + std::to_string(index.size()));
    nest::Write w;
    w.array = a->id;
    w.index = std::move(index);
    if (n.scan_combiner && values[k].rounds_to == a->dtype) w.array = scanned(values[k].e->type.dtype, *a, w.index, n.dims, rounded);
    w.value = w.array == a->id ? stored(values[k], *a, t.pos) : values[k].e;
    record_region(*a, w.index, t.pos);
    n.writes.push_back(std::move(w));
  }
  // A dim on the right side only inside folds; one on the left that no target uses would write elements many times.
  emit(std::move(n));
  for (nest::Nest& r : rounded) emit(std::move(r));
}

void Expander::push_statement(const Stmt& s) {
  if (!wanted(s.targets[0])) return;
  committed_ = true;
  const Target& t = s.targets[0];
  auto known = arrays_.find(t.array);
  if (known == arrays_.end() || known->second.empty()) fail_here(t.pos, "a push combines into an array that a map has written");
  ArrayInfo& a = known->second[0];
  if (a.param) fail_here(t.pos, "input " + t.array + " cannot be written");
  std::string by;
  const Node* chosen = s.by;
  while (chosen->kind == NodeKind::Match) {
    ExprValue v = eval(chosen->kids[0]);
    const Node* arm = nullptr;
    for (size_t k = 0; k < chosen->names.size(); ++k)
      if (chosen->names[k] == v.text) arm = chosen->kids[k + 1];
    if (!arm) fail_here(chosen->pos, "'match' has no case for " + v.text);
    chosen = arm;
  }
  if (chosen->kind == NodeKind::Name) by = chosen->text;
  const ir::Combiner* c = named_combiner(by);
  if (!c) fail_here(s.by->pos, "a push combines by sum, prod, min, max, any, all or last");
  ScopedDims dims(*this);
  for (const auto& name : s.names) dims.bind(name, s.pos);
  nest::Nest n;
  n.dims = dims.dims;
  nest::Write w;
  w.array = a.id;
  w.push = true;
  w.join = c->join;
  w.index = target_index(t, nullptr);
  if (w.index.size() != a.slots.size())
    fail_here(t.pos, a.name + " has " + std::to_string(a.slots.size()) + " axes, the left side " + std::to_string(w.index.size()));
  w.value = stored(eval(s.value), a, s.pos);
  n.writes.push_back(std::move(w));
  emit(std::move(n));
}

void Expander::each_statement(const Stmt& s) {
  const Param* p = op_.param(s.text);
  const ResultDecl* r = op_.result(s.text);
  if (!(p && p->many) && !(r && r->many)) fail_here(s.pos, "'for each' runs over a 'many' input or output; " + s.text + " is none");
  const size_t count = p ? arrays_[p->name].size() : call_.outputs.size() - std::min<size_t>(call_.outputs.size(), static_cast<size_t>(r - op_.results.data()));
  Stmt one = s;
  one.kind = StmtKind::Map;
  std::map<std::string, Ex> before;
  for (auto& [name, info] : dims_)
    if (info.per_item) {
      before[name] = ctx_.integer(0);
      if (info.item_extents.size() != count)
        mismatch("there are " + std::to_string(count) + " arrays " + s.text + ", but " + std::to_string(info.item_extents.size()) + " extents " + name);
    }
  for (size_t k = 0; k < count; ++k) {
    item_ = k;
    item_param_ = s.text;
    before_ = before;
    version_ = next_version_++;
    map_statement(one);
    for (auto& [name, sum] : before) sum = ctx_.add(sum, dims_[name].item_extents.at(k));
  }
  item_.reset();
  item_param_.clear();
  before_.clear();
  version_ = next_version_++;
}

}  // namespace mlc::lang
