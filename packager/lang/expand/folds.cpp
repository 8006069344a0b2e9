// Folds over dims, with built-in and declared combiners. In a proc a fold becomes loops before the statement.
#include <algorithm>

#include "packager/lang/expand/expander.h"
#include "packager/lang/expand/scopes.h"

namespace mlc::lang {
namespace {

std::optional<ir::Join> join_named(const std::string& name) {
  if (name == "sum") return ir::Join::Sum;
  if (name == "prod") return ir::Join::Prod;
  if (name == "min") return ir::Join::Min;
  if (name == "max") return ir::Join::Max;
  if (name == "any") return ir::Join::Any;
  if (name == "all") return ir::Join::All;
  if (name == "last") return ir::Join::Last;
  return {};
}

}  // namespace

const ir::Combiner* Expander::named_combiner(const std::string& name) {
  auto join = join_named(name);
  return join ? ctx_.builtin(*join) : nullptr;
}

// The joins of a declared combiner, of fields of these types.
Expander::Joining Expander::join_texts(const CombinerDef& def, const std::vector<DType>& types) {
  ScopedFrame frame(*this, def.domain);
  ir::Combiner c;
  c.name = def.name;
  c.join = ir::Join::Custom;
  c.commutative = !def.ordered;
  ExprValue left, right;
  left.kind = right.kind = ExprValue::Kind::Record;
  left.record = right.record = &def;
  for (size_t k = 0; k < types.size(); ++k) {
    c.left.push_back(ctx_.fresh_var({types[k], 1}));
    c.right.push_back(ctx_.fresh_var({types[k], 1}));
    left.items.push_back(scalar(c.left.back(), false));
    right.items.push_back(scalar(c.right.back(), false));
    c.units.push_back(adapt(eval(def.units[k]), types[k], def.pos));
  }
  frames_.back().names[def.left] = left;
  frames_.back().names[def.right] = right;
  ExprValue joined = eval(def.joins[0]);
  std::vector<ExprValue> parts = joined.kind == ExprValue::Kind::Tuple ? joined.items : std::vector<ExprValue>{joined};
  if (parts.size() != types.size()) fail_here(def.pos, "the join of " + def.name + " has one value per field");
  for (const ExprValue& part : parts)
    if (part.rounds_to != DType::None) return {nullptr, true};
  for (size_t k = 0; k < types.size(); ++k) c.joins.push_back(adapt(parts[k], types[k], def.pos));
  return {ctx_.declare_combiner(std::move(c)), false};
}

// Instantiates a declared combiner for the element types of its arguments; literals take the type of their field. Small
// floats are folded in f32 where a join computes with them, else as they are.
const ir::Combiner* Expander::combiner_for(const CombinerDef& def, const std::vector<ExprValue>& args, std::vector<ElementType>& types, Pos pos) {
  if (args.size() != def.fields.size())
    fail_here(pos, def.name + " folds " + std::to_string(def.fields.size()) + " values, not " + std::to_string(args.size()));
  std::map<std::string, ElementType> bound;
  for (size_t k = 0; k < args.size(); ++k) {
    const std::string& element = def.fields[k].second;
    if (dtype_named(element) || !args[k].is_scalar() || args[k].special != ExprValue::Special::None || args[k].soft) continue;
    const ElementType t{args[k].e->type.dtype, args[k].rounds_to};
    auto [it, fresh] = bound.try_emplace(element, t);
    if (fresh) continue;
    const auto both = common_type(it->second, t);
    if (!both) fail_here(pos, def.name + ": " + element + " is both " + std::string(name_of(it->second.type)) + " and " + std::string(name_of(t.type)));
    it->second = *both;
  }
  types.clear();
  for (const auto& [field, element] : def.fields) {
    if (auto fixed = dtype_named(element)) { types.push_back({*fixed, DType::None}); continue; }
    auto it = bound.find(element);
    if (it == bound.end()) fail_here(pos, def.name + ": the element type " + element + " does not follow here");
    for (const auto& v : def.type_variables)
      if (v.name == element && std::none_of(v.classes.begin(), v.classes.end(), [&](const auto& c) { return class_admits(c, it->second.type); }))
        fail_here(pos, def.name + " does not fold " + std::string(name_of(it->second.type)));
    types.push_back(it->second);
  }
  const auto plain = [&] {
    std::vector<DType> r;
    for (const ElementType& t : types) r.push_back(t.type);
    return r;
  };
  Joining& joining = joinings_[{def.name, plain()}];
  if (!joining.combiner && !joining.rounds) joining = join_texts(def, plain());
  if (!joining.rounds) return joining.combiner;
  for (ElementType& t : types)
    if (is_small_float(t.type)) t = {DType::F32, t.type};
  Joining& wide = joinings_[{def.name, plain()}];
  if (!wide.combiner) wide = join_texts(def, plain());
  return wide.combiner;
}

// The condition of a fold without what always holds; null if nothing is left.
Ex Expander::where_of(const Node* n) {
  if (!n->where) return nullptr;
  std::vector<Ex> todo{conjunction(eval(n->where), n->where->pos)}, parts;
  while (!todo.empty()) {
    Ex c = todo.back();
    todo.pop_back();
    if (c->op == ir::Op::And) {
      todo.push_back(c->args[1]);
      todo.push_back(c->args[0]);
    } else if (!(c->is_const() && c->i) && !ir::proves(ctx_, c, conditions_) && std::find(parts.begin(), parts.end(), c) == parts.end()) {
      parts.push_back(c);
    }
  }
  if (parts.empty()) return nullptr;
  Ex all = parts[0];
  for (size_t k = 1; k < parts.size(); ++k) all = ctx_.binary(ir::Op::And, all, parts[k]);
  return all;
}

bool Expander::folds_numbers(const Node* n) {
  const auto join = join_named(n->text);
  if (n->scan || proc_ || !join || *join == ir::Join::Last || n->kids.size() != 1) return false;
  bool reads = false;
  std::vector<const Node*> todo{n->kids[0]};
  while (!todo.empty()) {
    const Node* k = todo.back();
    todo.pop_back();
    if (k->kind == NodeKind::Index && k->kids[0]->kind == NodeKind::Name && !find_local(k->kids[0]->text)) {
      const Param* p = op_.param(k->kids[0]->text);
      reads = reads || (p && p->mode == ParamMode::Sym);
    }
    todo.insert(todo.end(), k->kids.begin(), k->kids.end());
  }
  if (!reads) return false;
  for (const auto& name : n->names)
    if (dims_[name].alias || dims_[name].per_item) return false;
  number_dims_.insert(number_dims_.end(), n->names.begin(), n->names.end());
  const bool free = build_time(n->kids[0]) && (!n->where || build_time(n->where));
  number_dims_.resize(number_dims_.size() - n->names.size());
  return free;
}

// A fold over elements of `sym` inputs is a number like they are: worked out here over extents that are known, else
// computed by the run and read back.
std::optional<ExprValue> Expander::fold_of_numbers(const Node* n) {
  if (!folds_numbers(n)) return {};
  const ir::Join join = *join_named(n->text);
  struct Axis { std::string name; size_t at; int64_t extent; };
  std::vector<Axis> axes;
  std::map<std::string, std::vector<Ex>> places;
  uint64_t points = 1;
  for (const auto& name : n->names) {
    const auto extents = extents_of(name, n->pos);
    places[name].resize(extents.size(), nullptr);
    for (size_t k = 0; k < extents.size(); ++k) {
      if (!extents[k]->is_const()) points = UINT64_MAX;
      axes.push_back({name, k, extents[k]->i});
      if (points <= kMaxElements) points *= static_cast<uint64_t>(std::max<int64_t>(extents[k]->i, 0));
    }
  }
  const bool logical = join == ir::Join::Any || join == ir::Join::All;
  if (points > kMaxElements) {
    ScopedDims dims(*this);
    for (const auto& name : n->names) dims.bind(name, n->pos);
    Ex where = where_of(n);
    ExprValue body;
    {
      ScopedConditions scope(*this, where);
      body = eval(n->kids[0]);
    }
    if (!body.is_scalar() || body.special != ExprValue::Special::None || is_float(body.e->type.dtype)) return {};
    Ex value = logical ? as_bool(body, n->pos) : as_index(body, n->pos);
    return scalar(computed(ctx_.fold({named_combiner(n->text), dims.dims, where}, {value}), n->text), true);
  }
  std::optional<ExprValue> result;
  ScopedDims scope(*this);  // for what it puts back
  for (uint64_t point = 0; point < points; ++point) {
    uint64_t rest = point;
    for (size_t k = axes.size(); k-- > 0;) {
      const uint64_t extent = static_cast<uint64_t>(axes[k].extent);
      places[axes[k].name][axes[k].at] = ctx_.integer(static_cast<int64_t>(rest % extent));
      rest /= extent;
    }
    for (const auto& [name, at] : places) bound_[name] = at;
    version_ = next_version_++;
    ExprValue body = eval(n->kids[0]);
    if (n->where) {
      ExprValue keep = scalar(conjunction(eval(n->where), n->pos), true);
      if (join == ir::Join::Min || join == ir::Join::Max) {
        if (!truth(keep, n->pos, "'where'")) continue;
      } else {
        const ExprValue unit = logical ? scalar(ctx_.boolean(join == ir::Join::All), true) : soft_int(join == ir::Join::Prod);
        body = choose(keep, body, unit, n->pos);
      }
    }
    if (!result) result = body;
    else if (logical) result = logic(join == ir::Join::All, *result, body, n->pos);
    else if (join == ir::Join::Sum || join == ir::Join::Prod)
      result = binary(join == ir::Join::Sum ? "+" : "*", *result, body, n->pos);
    else result = call_scalar_function(n->text, {*result, body}, n->pos);
  }
  if (result) return result;
  if (logical) return scalar(ctx_.boolean(join == ir::Join::All), true);
  if (join == ir::Join::Sum || join == ir::Join::Prod) return soft_int(join == ir::Join::Prod);
  fail_here(n->pos, n->text + " of no number");
}

ExprValue Expander::fold(const Node* n) {
  if (in_function()) fail_here(n->pos, "a function is an expression of its parameters: it does not fold");
  if (auto number = fold_of_numbers(n)) return *number;
  ScopedDims dims(*this);
  for (const auto& name : n->names) dims.bind(name, n->pos);
  Ex where = where_of(n);
  std::vector<ExprValue> args;
  {
    ScopedConditions scope(*this, where);
    for (const Node* kid : n->kids) args.push_back(eval(kid));
  }
  for (const ExprValue& a : args)
    if (!a.is_scalar()) fail_here(n->pos, "a fold combines numbers");
  const ir::Combiner* combiner = named_combiner(n->text);
  std::vector<Ex> bodies;
  std::vector<ElementType> types;
  bool soft = false;
  if (combiner) {
    if (args.size() != 1) fail_here(n->pos, n->text + " folds one value");
    if (args[0].special != ExprValue::Special::None) fail_here(n->pos, "the element type of lowest, highest or bottom does not follow here");
    const DType t = args[0].e->type.dtype;
    const bool logical = combiner->join == ir::Join::Any || combiner->join == ir::Join::All;
    if (logical != (t == DType::Bool) && combiner->join != ir::Join::Last)
      fail_here(n->pos, logical ? n->text + " folds truth values" : n->text + " folds numbers");
    soft = args[0].soft;
    const bool computes = combiner->join == ir::Join::Sum || combiner->join == ir::Join::Prod;
    const ExprValue body = computes ? widened(args[0]) : args[0];
    types = {{body.e->type.dtype, body.rounds_to}};
    bodies = {body.e};
  } else {
    const CombinerDef* def = module_.combiner(domain(), n->text);
    if (!def) fail_here(n->pos, "unknown combiner '" + n->text + "'");
    combiner = combiner_for(*def, args, types, n->pos);
    for (size_t k = 0; k < args.size(); ++k) bodies.push_back(adapted(args[k], types[k], n->pos));
  }
  auto unit = [&](size_t k) -> Ex {
    const DType t = types[k].type;
    switch (combiner->join) {
      case ir::Join::Sum: return ctx_.integer(0, t);
      case ir::Join::Prod: return ctx_.integer(1, t);
      case ir::Join::Min: return special_number(ExprValue::Special::Top, t, n->pos);
      case ir::Join::Max: return special_number(ExprValue::Special::Bottom, t, n->pos);
      case ir::Join::Any: return ctx_.boolean(false);
      case ir::Join::All: return ctx_.boolean(true);
      case ir::Join::Last: return ctx_.integer(0, t);
      case ir::Join::Custom: return combiner->units[k];
    }
    return nullptr;
  };
  auto finish = [&](Ex e) { return scalar(e, soft, types[0].rounds_to); };
  auto tuple = [&](const std::vector<Ex>& es) {
    if (es.size() == 1) return finish(es[0]);
    ExprValue v;
    v.kind = ExprValue::Kind::Tuple;
    for (size_t k = 0; k < es.size(); ++k) v.items.push_back(scalar(es[k], false, types[k].rounds_to));
    return v;
  };
  if (dims.dims.empty()) {  // one point, or none
    if (!where) return tuple(bodies);
    std::vector<Ex> r;
    for (size_t k = 0; k < bodies.size(); ++k) r.push_back(ctx_.select(where, bodies[k], unit(k)));
    return tuple(r);
  }
  for (const ir::Dim* d : dims.dims)
    if (d->extent->is_int(0)) {
      std::vector<Ex> r;
      for (size_t k = 0; k < bodies.size(); ++k) r.push_back(unit(k));
      return tuple(r);
    }
  if (combiner->join == ir::Join::Sum && !where && bodies[0]->is_const() && soft) {  // a count of points
    Ex count = ctx_.integer(1);
    for (const ir::Dim* d : dims.dims) count = ctx_.mul(count, d->extent);
    if (types[0].type == DType::I64) return scalar(ctx_.mul(bodies[0], count), true);
  }
  if (proc_) {
    ExprValue v = fold_in_proc(combiner, dims.dims, where, bodies);
    if (v.is_scalar()) return finish(v.e);
    for (size_t k = 0; k < v.items.size(); ++k) v.items[k].rounds_to = types[k].rounds_to;
    return v;
  }
  Ex f = ctx_.fold({combiner, dims.dims, where}, bodies);
  if (bodies.size() == 1) return finish(f);
  ExprValue v;
  v.kind = ExprValue::Kind::Tuple;
  for (size_t k = 0; k < bodies.size(); ++k) v.items.push_back(scalar(ctx_.field(f, static_cast<unsigned>(k)), false, types[k].rounds_to));
  return v;
}

}  // namespace mlc::lang
