// Clauses and statements of a definition, top down. Each array statement becomes a Nest with dims of its own.
#include <algorithm>

#include "packager/ir/numeric.h"
#include "packager/lang/expander.h"
#include "packager/lang/explain.h"
#include "packager/lang/scopes.h"
#include "packager/nest/names.h"

namespace mlc::lang {

Expander::Expander(const Module& module, ir::Context& ctx, nest::Function& function, const Call& call, const OpDef& op)
    : ctx_(ctx), module_(module), function_(function), call_(call), op_(op) {}

Expander::Applies Expander::run() {
  collect_inputs();
  bind_types();
  bind_attributes();
  make_param_arrays();
  // Lets that a rank clause or an axis refers to must be findable before the dims are known: they are evaluated lazily.
  for (const auto& s : op_.body)
    if (s.kind == StmtKind::Let)
      for (size_t k = 0; k < s.names.size(); ++k) {
        LetInfo let;
        let.value = s.value;
        let.part = s.names.size() > 1 ? static_cast<int>(k) : -1;
        lets_[s.names[k]] = let;
      }
  bind_dims();
  for (auto& [name, let] : lets_) let.cached.reset();
  for (const auto& s : op_.body) {
    if (s.kind == StmtKind::When) {
      auto known = settle(conjunction(eval(s.value), s.pos));
      if (!known) mismatch("'when' at line " + std::to_string(s.pos.line) + " cannot be settled while building");
      if (!*known) {
        why_not = not_covered(function_, call_, *s.pos.file, s.pos.line);
        return Applies::No;
      }
      continue;
    }
    execute(s);
  }
  committed_ = true;
  solve_products(true);
  check_coverage();
  return Applies::Yes;
}

std::vector<Value> Expander::outputs() const {
  std::vector<Value> r(call_.outputs.size());
  for (auto& v : r) v.array = Library::kNoArray;
  for (size_t k = 0; k < op_.results.size(); ++k) {
    auto it = arrays_.find(op_.results[k].name);
    if (it == arrays_.end()) continue;
    for (size_t item = 0; item < it->second.size() && k + item < r.size(); ++item) {
      const ArrayInfo& a = it->second[item];
      if (!a.present || !call_.outputs[k + item]) continue;
      Value& v = r[k + item];
      v.array = a.id;
      if (auto e = elements_.find(a.id); e != elements_.end()) v.elements = e->second;
    }
  }
  return r;
}

void Expander::execute(const Stmt& s) {
  switch (s.kind) {
    case StmtKind::Let: return let_clause(s);
    case StmtKind::Dim: case StmtKind::Dims: return dim_clause(s);
    case StmtKind::Rank: case StmtKind::When: return;
    case StmtKind::Exists: {
      Ex bound = as_index(eval(s.value), s.pos);
      const auto interval = ir::interval_of(bound);
      // Unique in the Context, which several functions may share: labels of nodes need not be.
      std::string name = (call_.source.empty() ? op_.name : call_.source) + "." + s.names[0] + "#" + function_.name + std::to_string(function_.arrays.size());
      const ir::Sym* sym = ctx_.declare_sym(name, 0, std::max<int64_t>(interval.hi, 0));
      existential_[s.names[0]] = {sym, bound};
      existential_order_.push_back(s.names[0]);
      DimInfo& d = dim_info(s.names[0]);
      d.known = true;
      d.extents = {ctx_.sym(sym)};
      d.origins = {"known after the run"};
      function_.checks.push_back({ctx_.binary(ir::Op::Le, ctx_.sym(sym), bound), where() + ": more results than the bound of " + s.names[0]});
      return;
    }
    case StmtKind::Check: {
      Val v = eval(s.value);
      for (const Val& item : as_list(v)) {
        Ex c = conjunction(item, s.pos);
        // On symbols the condition says which extents do not fit; where all is known nothing but false is left of it.
        require(c, !s.text.empty() ? s.text : "expected " + (c->is_const() ? s.source + sides_of(s.value) : shown(c)));
      }
      return;
    }
    case StmtKind::Map: return map_statement(s);
    case StmtKind::Push: return push_statement(s);
    case StmtKind::Each: return each_statement(s);
    case StmtKind::Graph: return graph_statement(s);
    case StmtKind::Proc: return proc_statement(s);
    default: fail_here(s.pos, "this statement belongs into a proc");
  }
}

// ", found 49 and 192": the numbers that a comparison compares, where they are known.
std::string Expander::sides_of(const Node* compare) {
  std::string found;
  if (compare->kind != NodeKind::Compare) return found;
  for (const Node* side : compare->kids) {
    const Val v = eval(side);
    if (!v.is_scalar() || !v.e || !v.e->is_const()) return {};
    found += (found.empty() ? ", found " : " and ") + shown(v.e);
  }
  return found;
}

void Expander::let_clause(const Stmt& s) {
  // A name hides nothing and is evaluated here if it can be: errors then point at the right line.
  if (!build_time(s.value)) return;
  for (const auto& name : s.names) {
    LetInfo& let = lets_.at(name);
    if (let.value != s.value) continue;  // a later let of the same name
    (void)eval_let(name);
    lets_.at(name).ready = true;
  }
}

void Expander::set_dim(const std::string& name, const Val& v, Pos pos) {
  auto to_extent = [&](const Val& item) {
    Val x = item;
    if (x.is_scalar() && x.special == Val::Special::None && is_float(x.e->type.dtype) && x.soft) {
      // floor(|i| * scale): a rounded real is an extent.
      const ir::Op op = x.e->op;
      if (x.e->is_const() || op == ir::Op::Floor || op == ir::Op::Ceil || op == ir::Op::Trunc || op == ir::Op::Rint)
        x = scalar(x.e->is_const() ? ctx_.number(x.e->f, DType::I64) : ctx_.cast(DType::I64, x.e), true);
    }
    Ex e = as_index(x, pos);
    if (has_dim(e)) fail_here(pos, "the extent of " + name + " depends on a running index");
    bool of_the_run = false;
    ir::walk(e, [&](Ex x) {
      if (x->op != ir::Op::Load) return;
      if (!run_time_numbers_.count(x)) fail_here(pos, "the extent of " + name + " depends on elements: declare the input 'sym', or use 'exists'");
      of_the_run = true;
    });
    if (of_the_run) e = computed(e, name);
    if (e->is_const() && e->i < 0) mismatch("the extent of " + name + " comes out as " + std::to_string(e->i));
    if (!e->is_const() && ir::interval_of(e).lo < 0)
      require(ctx_.binary(ir::Op::Le, ctx_.integer(0), e), "the extent of " + name + " comes out negative");
    return e;
  };
  DimInfo& info = dim_info(name);
  bool of_many = false;
  for (const auto& r : op_.results)
    if (r.many)
      for (const auto& d : r.type.dims) of_many = of_many || (d.kind == DimSpec::Kind::Dim && d.name == name);
  if (of_many && v.is_list()) {
    info.per_item = info.known = true;
    info.item_extents.clear();
    for (const Val& item : as_list(v)) info.item_extents.push_back(to_extent(item));
    return;
  }
  std::vector<Ex> extents;
  for (const Val& item : as_list(v)) extents.push_back(to_extent(item));
  if (v.is_list() && !info.known) info.pack = true;
  if (!v.is_list() && extents.size() != 1) fail_here(pos, name + " is one dim");
  if (info.pack) {
    if (auto r = rank_of_pack(name); r && *r != extents.size())
      mismatch("the rank of " + name + " is " + std::to_string(*r) + " by the inputs and " + std::to_string(extents.size()) + " by its definition");
    pack_ranks_[name] = extents.size();
  }
  if (!info.known) {
    info.known = true;
    info.extents = extents;
    info.origins.assign(extents.size(), "definition of " + name);
  } else {
    if (info.extents.size() != extents.size())
      mismatch(name + " has " + std::to_string(info.extents.size()) + " dims by the inputs and " + std::to_string(extents.size()) + " by its definition");
    for (size_t k = 0; k < extents.size(); ++k)
      info.extents[k] = info.extents[k] ? unify(info.extents[k], extents[k], "dim " + name, info.origins[k], "definition of " + name) : extents[k];
  }
  solve_products(false);
  version_ = next_version_++;
}

void Expander::dim_clause(const Stmt& s) {
  const std::string& name = s.names[0];
  if (s.kind == StmtKind::Dims) {
    DimInfo info;
    info.pack = info.alias = info.known = true;
    info.refs = dim_refs(s.value);
    pack_ranks_[name] = info.refs.size();
    dims_[name] = info;
    version_ = next_version_++;
    return;
  }
  set_dim(name, eval(s.value), s.pos);
}

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
ArrayInfo* Expander::target_array(const Target& t, DType temporary, const std::vector<Slot>& slots) {
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
    a.dtype = temporary;
    a.slots = slots;
    std::vector<Ex> shape;
    for (const Slot& s : slots) shape.push_back(s.extent);
    a.id = new_array((call_.source.empty() ? op_.name : call_.source) + "." + t.array, temporary, std::move(shape));
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
    Val v = eval(n);
    if (v.kind == Val::Kind::Tuple) {
      Slot s;
      s.extent = ctx_.integer(1);
      std::vector<Ex> parts;
      for (const Val& item : v.items) parts.push_back(as_index(item, n->pos));
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
    for (const Val& item : as_list(v)) {
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

void Expander::emit(nest::Nest n) {
  fold_elements(n);
  nest::Statement s;
  s.source = call_.source.empty() ? op_.name : call_.source + " (" + op_.name + ")";
  s.nest = std::make_unique<nest::Nest>(std::move(n));
  function_.body.push_back(std::move(s));
}

void Expander::map_statement(const Stmt& s) {
  bool any = false;
  for (const Target& t : s.targets) any = any || wanted(t);
  if (!any) return;
  committed_ = true;
  solve_products(false);
  // Results first: the factors of their products are known by declaration.
  for (const Target& t : s.targets)
    if (op_.result(t.array) && wanted(t)) target_array(t, DType::None, {});
  ScopedDims dims(*this);
  std::set<std::string> running;
  for (const Target& t : s.targets)
    for (const auto& name : dims_in(t.index))
      if (running.insert(name).second) dims.bind(name, t.pos);
  nest::Nest n;
  n.dims = dims.dims;
  const Node* value = s.value;
  Val v;
  if (value->kind == NodeKind::Fold && value->scan) {
    if (value->names.size() != 1) fail_here(value->pos, "a scan runs along one dim");
    const auto place = bound_.find(value->names[0]);
    if (place == bound_.end() || place->second.size() != 1 || !place->second[0]) fail_here(value->pos, "the left side must run along the dim of the scan");
    if (value->where) fail_here(value->pos, "a scan has no 'where'");
    Ex at = place->second[0];
    std::vector<Val> args;
    for (const Node* kid : value->kids) args.push_back(eval(kid));
    n.scan_exclusive = value->exclusive && truth(eval(value->exclusive), value->pos, "'exclusive'");
    n.scan_reverse = value->reverse && truth(eval(value->reverse), value->pos, "'reverse'");
    std::vector<DType> types;
    n.scan_combiner = named_combiner(value->text);
    if (n.scan_combiner) {
      if (args.size() != 1 || !args[0].is_scalar() || args[0].special != Val::Special::None) fail_here(value->pos, value->text + " scans one value");
    } else {
      const CombinerDef* def = module_.combiner(domain(), value->text);
      if (!def) fail_here(value->pos, "unknown combiner '" + value->text + "'");
      n.scan_combiner = combiner_for(*def, args, types, value->pos);
      for (size_t k = 0; k < args.size(); ++k) args[k] = scalar(adapt(args[k], types[k], value->pos), false);
    }
    if (at->op == ir::Op::Dim) {
      n.scan_dim = at->dim;
    } else {  // one place: the fold of one value, or of none
      if (n.scan_exclusive) {
        if (n.scan_combiner->join == ir::Join::Custom)
          for (size_t k = 0; k < args.size(); ++k) args[k] = scalar(n.scan_combiner->units[k], false);
        else
          args[0] = scalar(ctx_.integer(n.scan_combiner->join == ir::Join::Prod, args[0].e->type.dtype), false);
      }
      n.scan_combiner = nullptr;
      n.scan_exclusive = n.scan_reverse = false;
    }
    if (args.size() == 1) v = args[0];
    else {
      v.kind = Val::Kind::Tuple;
      v.items = args;
    }
  } else {
    v = eval(value);
  }
  std::vector<Val> values = s.targets.size() > 1 ? v.items : std::vector<Val>{v};
  if (values.size() != s.targets.size() || (s.targets.size() > 1 && v.kind != Val::Kind::Tuple))
    fail_here(s.pos, "as many values as places: " + std::to_string(s.targets.size()) + " are written");
  for (size_t k = 0; k < s.targets.size(); ++k) {
    const Target& t = s.targets[k];
    if (!wanted(t)) continue;
    if (!values[k].is_scalar()) fail_here(t.pos, "a list cannot be written to one element");
    std::vector<Slot> slots;
    std::vector<Ex> index = target_index(t, &slots);
    DType temporary = DType::None;
    if (values[k].special == Val::Special::None) {
      temporary = values[k].e->type.dtype;
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
    w.value = adapt(values[k], a->dtype, t.pos);
    record_region(*a, w.index, t.pos);
    n.writes.push_back(std::move(w));
  }
  // A dim on the right side only inside folds; one on the left that no target uses would write elements many times.
  emit(std::move(n));
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
    Val v = eval(chosen->kids[0]);
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
  w.value = adapt(eval(s.value), a.dtype, s.pos);
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
