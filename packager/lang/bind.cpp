// The header of a definition against the arguments of a call: which input is which parameter, what T is, how many dims
// a pack has, and that dims of one name have one extent. Order: ranks, then dims; products divide exactly or fail.
#include <algorithm>

#include "packager/ir/broadcast.h"
#include "packager/ir/numeric.h"
#include "packager/lang/expander.h"

namespace mlc::lang {
namespace {

std::string axis_of(size_t axis, const std::string& param) { return "axis " + std::to_string(axis) + " of " + param; }

}  // namespace

std::string item_name(const Param& p, size_t item) {
  return p.many ? p.name + "[" + std::to_string(item) + "]" : p.name;
}

void Expander::collect_inputs() {
  inputs_.resize(op_.params.size());
  size_t next = 0;
  auto take = [&](const Param& p, const std::optional<Value>& v) {
    Input in;
    if (!v) return in;
    if (v->array >= function_.arrays.size())
      mismatch("input " + p.name + " names array " + std::to_string(v->array) + ", which the function does not have");
    const nest::Array& a = function_.arrays[v->array];
    in.present = true;
    in.array = v->array;
    if (p.optional && !p.many)
      for (Ex e : a.shape)
        if (e->is_int(0)) in.present = false;  // of length zero reads as absent
    if (!v->elements.empty()) {
      size_t count = 1;
      for (Ex e : a.shape) {
        auto n = const_extent(e);
        if (!n) { count = SIZE_MAX; break; }
        count *= *n;
      }
      if (count == v->elements.size() && count <= kMaxElements) in.elements = v->elements;
    }
    return in;
  };
  for (size_t p = 0; p < op_.params.size(); ++p) {
    const Param& param = op_.params[p];
    if (param.many) {
      // Several in a row take turns: the remaining inputs are groups of one of each.
      size_t group = 1;
      while (p + group < op_.params.size() && op_.params[p + group].many) ++group;
      const size_t after = op_.params.size() - p - group;
      for (size_t turn = 0; next + after < call_.inputs.size(); turn = (turn + 1) % group) {
        const Param& one = op_.params[p + turn];
        if (!call_.inputs[next]) mismatch("input " + std::to_string(next) + " is absent, but each of " + one.name + " is needed");
        inputs_[p + turn].push_back(take(one, call_.inputs[next++]));
      }
      if (inputs_[p].empty() && !param.optional) mismatch("at least one input " + param.name + " is needed");
      for (size_t turn = 1; turn < group; ++turn)
        if (inputs_[p + turn].size() != inputs_[p].size())
          mismatch("has " + std::to_string(inputs_[p].size()) + " inputs " + param.name + ", but " + std::to_string(inputs_[p + turn].size()) +
                   " inputs " + op_.params[p + turn].name);
      p += group - 1;
      continue;
    }
    Input in;
    if (next < call_.inputs.size()) in = take(param, call_.inputs[next++]);
    if (!in.present && !param.optional) mismatch("input " + param.name + " is missing");
    inputs_[p].push_back(std::move(in));
  }
  for (; next < call_.inputs.size(); ++next)
    if (call_.inputs[next])
      mismatch("has " + std::to_string(call_.inputs.size()) + " inputs, the operator takes at most " +
               std::to_string(op_.params.size()));
  const size_t results = op_.results.size();
  const bool many = std::any_of(op_.results.begin(), op_.results.end(), [](const auto& r) { return r.many; });
  if (!many)
    for (size_t k = results; k < call_.outputs.size(); ++k)
      if (call_.outputs[k])
        mismatch("has " + std::to_string(call_.outputs.size()) + " outputs, the operator has " + std::to_string(results));
  // Elements of every input array, for reads at places known while building.
  for (auto& items : inputs_)
    for (auto& in : items)
      if (in.present && !in.elements.empty()) elements_[in.array] = in.elements;
}

bool Expander::class_admits(const std::string& cls, DType t) const {
  if (cls == "any") return true;
  if (cls == "num") return is_float(t) || is_int(t);
  if (cls == "float") return is_float(t);
  if (cls == "int") return is_int(t);
  if (cls == "signed") return is_signed_int(t);
  if (cls == "unsigned") return is_unsigned_int(t);
  return dtype_named(cls) == t;
}

void Expander::bind_type(const std::string& element, DType actual, const std::string& what) {
  if (auto fixed = dtype_named(element)) {
    if (*fixed != actual)
      mismatch(what + " has element type " + std::string(name_of(actual)) + ", expected " + element);
    return;
  }
  auto [it, fresh] = types_.try_emplace(element, actual);
  if (!fresh && it->second != actual)
    mismatch(what + " has element type " + std::string(name_of(actual)) + ", but " + element + " is " +
             std::string(name_of(it->second)) + " by an earlier input");
  for (const auto& v : op_.type_variables) {
    if (v.name != element) continue;
    bool admitted = false;
    std::string classes;
    for (const auto& c : v.classes) {
      admitted = admitted || class_admits(c, actual);
      classes += (classes.empty() ? "" : " or ") + c;
    }
    if (!admitted) mismatch(what + " has element type " + std::string(name_of(actual)) + ", expected " + classes);
  }
}

DType Expander::element_type(const std::string& element, Pos pos) const {
  if (auto fixed = dtype_named(element)) return *fixed;
  if (auto it = types_.find(element); it != types_.end()) return in_memory(it->second);
  fail_here(pos, "the element type " + element + " does not follow from the inputs of this call");
}

void Expander::bind_types() {
  for (size_t p = 0; p < op_.params.size(); ++p)
    for (size_t item = 0; item < inputs_[p].size(); ++item)
      if (inputs_[p][item].present)
        bind_type(op_.params[p].type.element, function_.arrays[inputs_[p][item].array].dtype,
                  "input " + item_name(op_.params[p], item));
  for (const auto& v : op_.type_variables) {
    if (v.fallback.empty() || types_.count(v.name)) continue;
    const auto other = types_.find(v.fallback);
    const auto fixed = other == types_.end() ? dtype_named(v.fallback) : other->second;
    if (fixed) bind_type(v.name, *fixed, v.name + ", which no input says,");
  }
}

std::optional<size_t> Expander::rank_of_pack(const std::string& name) {
  if (auto it = pack_ranks_.find(name); it != pack_ranks_.end()) return it->second;
  return {};
}

std::optional<int64_t> Expander::axis_value(const std::string& name, size_t rank, const std::string& what) {
  int64_t axis;
  if (const AttrDecl* a = op_.attr(name)) {
    Val v = attribute(*a);
    if (v.kind == Val::Kind::Absent) return {};
    axis = as_number(v, a->pos, "an axis");
  } else if (const Param* p = op_.param(name)) {
    const auto& in = inputs_[static_cast<size_t>(p - op_.params.data())][0];
    if (!in.present) {
      if (!p->fallback) return {};
      axis = as_number(eval(p->fallback), p->pos, "an axis");
    } else {
      const auto& elements = known_elements(in.array);
      if (elements.size() != 1 || !elements[0]->is_const())
        mismatch("input " + name + " must be known while building: it is an axis");
      axis = elements[0]->i;
    }
  } else {
    auto it = lets_.find(name);
    if (it == lets_.end()) fail_here(op_.pos, "'" + name + "' is no attribute that could hold an axis");
    axis = as_number(eval_let(name), op_.pos, "an axis");
  }
  const int64_t n = static_cast<int64_t>(rank);
  if (axis < -n || axis >= n)
    mismatch(name + " is " + std::to_string(axis) + ", but " + what + " has rank " + std::to_string(n) + " (" +
             std::to_string(-n) + " to " + std::to_string(n - 1) + " are possible)");
  return axis < 0 ? axis + n : axis;
}

// Settles the ranks of the packs of one parameter and binds its dims. False: more than one rank is unknown so far.
bool Expander::bind_param_ranks(const Param& param, const std::vector<Ex>& shape, size_t item) {
  const auto& specs = param.type.dims;
  const size_t rank = shape.size();
  const std::string what = "input " + item_name(param, item);
  auto ranked = [&](const DimSpec& d) -> std::optional<size_t> {
    if (d.kind != DimSpec::Kind::Pack) return 1;
    return rank_of_pack(d.name);
  };
  for (const auto& d : specs)
    if (d.kind == DimSpec::Kind::Pack && !rank_of_pack(d.name))
      if (auto it = rank_clauses_.find(d.name); it != rank_clauses_.end()) {
        const Node* clause = it->second;
        rank_clauses_.erase(it);  // not twice, should it depend on itself
        const int64_t r = as_number(eval(clause), clause->pos, "a rank");
        if (r < 0 || r > 64) mismatch("the rank of " + d.name + " comes out as " + std::to_string(r));
        pack_ranks_[d.name] = static_cast<size_t>(r);
      }
  for (size_t k = 0; k < specs.size(); ++k) {
    if (specs[k].axis.empty()) continue;
    // At an axis counted before a pack of unknown length on the left.
    std::vector<size_t> unknown;
    size_t fixed = 0;
    for (size_t j = 0; j < k; ++j) {
      if (auto r = ranked(specs[j])) fixed += *r;
      else unknown.push_back(j);
    }
    // A pack may start one past the last axis, when it is empty.
    auto axis = axis_value(specs[k].axis, rank + (specs[k].kind == DimSpec::Kind::Pack ? 1 : 0), what);
    if (specs[k].kind == DimSpec::Kind::Pack && axis) {
      // Negative values count from the end of the array, not from the place behind it.
      int64_t raw = *axis;
      const AttrDecl* a = op_.attr(specs[k].axis);
      if (a) {
        int64_t given = as_number(attribute(*a), a->pos, "an axis");
        if (given < 0) raw = given + static_cast<int64_t>(rank);
        if (raw < 0) mismatch(specs[k].axis + " is " + std::to_string(given) + ", but " + what + " has rank " + std::to_string(rank));
      }
      axis = raw;
    }
    if (!axis) continue;
    if (unknown.size() == 1) {
      if (static_cast<size_t>(*axis) < fixed) mismatch(specs[k].axis + " lies before the axes in front of it");
      pack_ranks_[specs[unknown[0]].name] = static_cast<size_t>(*axis) - fixed;
    } else if (unknown.empty() && fixed != static_cast<size_t>(*axis)) {
      mismatch(specs[k].axis + " is " + std::to_string(*axis) + " for " + what + ", but " + std::to_string(fixed) + " was expected");
    }
  }
  std::vector<const DimSpec*> unknown;
  size_t known = 0;
  for (const auto& d : specs) {
    if (auto r = ranked(d)) known += *r;
    else if (std::none_of(unknown.begin(), unknown.end(), [&](const DimSpec* u) { return u->name == d.name; })) unknown.push_back(&d);
  }
  if (unknown.size() > 1) return false;
  if (unknown.size() == 1) {
    if (known > rank) wrong_rank(what, rank, known, true);
    pack_ranks_[unknown[0]->name] = rank - known;
  } else if (known != rank) {
    wrong_rank(what, rank, known, false);
  }
  return true;
}

void Expander::bind_dims() {
  for (const auto& s : op_.body) {
    if (s.kind == StmtKind::Rank) rank_clauses_[s.names[0]] = s.value;
    if (s.kind == StmtKind::Dim || s.kind == StmtKind::Dims || s.kind == StmtKind::Exists) clause_dims_.insert(s.names[0]);
  }
  // Packs are known by their dots, wherever they are declared.
  auto declare = [&](const TypeSpec& t) {
    for (const auto& d : t.dims)
      if (d.kind == DimSpec::Kind::Pack) dim_info(d.name).pack = true;
      else if (d.kind == DimSpec::Kind::Dim) dim_info(d.name);
      else for (const auto& f : d.factors) dim_info(f);
  };
  for (const auto& p : op_.params) declare(p.type);
  for (const auto& r : op_.results) declare(r.type);

  struct Todo { const Param* param; size_t item; const std::vector<Ex>* shape; };
  std::vector<Todo> todo;
  for (size_t p = 0; p < op_.params.size(); ++p) {
    const Param& param = op_.params[p];
    const bool broadcasts = std::any_of(param.type.dims.begin(), param.type.dims.end(), [](const auto& d) { return d.broadcast; });
    for (size_t item = 0; item < inputs_[p].size(); ++item) {
      const Input& in = inputs_[p][item];
      if (!in.present || broadcasts) continue;
      const auto& shape = function_.arrays[in.array].shape;
      if (param.type.dims.empty()) {  // T[]: any array of one element
        for (size_t k = 0; k < shape.size(); ++k)
          unify(ctx_.integer(1), shape[k], "input " + item_name(param, item) + " is a single number", "declaration", axis_of(k, param.name));
        continue;
      }
      todo.push_back({&param, item, &shape});
    }
  }
  // Ranks that are wrong whatever the packs have come first: extents of the wrong axes say nothing.
  for (const Todo& t : todo) {
    const auto& specs = t.param->type.dims;
    const auto packs = static_cast<size_t>(std::count_if(specs.begin(), specs.end(), [](const auto& d) { return d.kind == DimSpec::Kind::Pack; }));
    const size_t axes = specs.size() - packs, rank = t.shape->size();
    if (packs > 0 ? rank < axes : rank != axes) wrong_rank("input " + item_name(*t.param, t.item), rank, axes, packs > 0);
  }
  // Dims before the first pack and behind the last are bound first: a rank clause may ask for their extents.
  for (const Todo& t : todo) {
    const auto& specs = t.param->type.dims;
    const std::string name = item_name(*t.param, t.item);
    auto plain = [&](const DimSpec& d) { return d.kind == DimSpec::Kind::Dim && !(t.param->many && !d.axis.empty()); };
    size_t k = 0;
    for (; k < specs.size() && k < t.shape->size() && specs[k].kind != DimSpec::Kind::Pack; ++k)
      if (plain(specs[k])) bind_extent(specs[k].name, 0, (*t.shape)[k], axis_of(k, name));
    if (k == specs.size()) continue;
    for (size_t j = 1; j <= specs.size() && j <= t.shape->size() && specs[specs.size() - j].kind != DimSpec::Kind::Pack; ++j)
      if (plain(specs[specs.size() - j])) {
        const size_t axis = t.shape->size() - j;
        bind_extent(specs[specs.size() - j].name, 0, (*t.shape)[axis], axis_of(axis, name));
      }
  }
  while (!todo.empty()) {
    std::vector<Todo> later;
    for (const Todo& t : todo) {
      if (!bind_param_ranks(*t.param, *t.shape, t.item)) {
        later.push_back(t);
        continue;
      }
      size_t at = 0;
      const std::string name = item_name(*t.param, t.item);
      for (const auto& d : t.param->type.dims) {
        switch (d.kind) {
          case DimSpec::Kind::Pack: {
            DimInfo& info = dim_info(d.name);
            const size_t n = pack_ranks_[d.name];
            info.pack = true;
            if (!info.known) {
              info.known = true;
              info.extents.assign(n, nullptr);
              info.origins.assign(n, "");
            }
            for (size_t k = 0; k < n; ++k, ++at) bind_extent(d.name, k, (*t.shape)[at], axis_of(at, name));
            break;
          }
          case DimSpec::Kind::Dim:
            if (t.param->many && !d.axis.empty()) {
              DimInfo& info = dim_info(d.name);
              info.per_item = true;
              info.known = true;
              if (info.item_extents.size() <= t.item) info.item_extents.resize(t.item + 1);
              info.item_extents[t.item] = (*t.shape)[at];
            } else {
              bind_extent(d.name, 0, (*t.shape)[at], axis_of(at, name));
            }
            ++at;
            break;
          case DimSpec::Kind::Literal:
            unify(ctx_.integer(d.literal), (*t.shape)[at], name, "declaration", axis_of(at, name));
            ++at;
            break;
          case DimSpec::Kind::Product:
            products_.push_back({d.factors, (*t.shape)[at], axis_of(at, name)});
            ++at;
            break;
        }
      }
    }
    if (later.size() == todo.size())
      mismatch("the ranks of input " + later[0].param->name + " do not follow from this call");
    todo = std::move(later);
  }
  bind_broadcasts();
  bind_given_dims();
  solve_products(false);
}

// Dims that a clause sets to an attribute (`dim g = group`) are numbers of the call: known before any product is divided out. Divided
// out of an extent that only the run knows, such a dim, and all that follows from it, would be a quotient instead of a number.
void Expander::bind_given_dims() {
  for (const auto& s : op_.body) {
    if (s.kind != StmtKind::Dim || s.value->kind != NodeKind::Name) continue;
    const AttrDecl* given = op_.attr(s.value->text);
    if (given && attribute(*given).kind != Val::Kind::Absent) set_dim(s.names[0], attribute(*given), s.pos);
  }
}

// Parameters with ~: a run of broadcasting dims between ordinary ones. Extents meet from the right.
void Expander::bind_broadcasts() {
  struct Group { const Param* param; std::string name; std::vector<const DimSpec*> dims; std::vector<Ex> actual; size_t first; };
  std::vector<Group> groups;
  for (size_t p = 0; p < op_.params.size(); ++p) {
    const Param& param = op_.params[p];
    const auto& specs = param.type.dims;
    size_t begin = 0;
    while (begin < specs.size() && !specs[begin].broadcast) ++begin;
    if (begin == specs.size()) continue;
    size_t end = begin;
    while (end < specs.size() && specs[end].broadcast) ++end;
    for (size_t item = 0; item < inputs_[p].size(); ++item) {
      if (!inputs_[p][item].present) continue;
      const auto& shape = function_.arrays[inputs_[p][item].array].shape;
      const std::string name = item_name(param, item);
      // The ordinary dims around the group: packs among them must be known by now.
      auto width = [&](size_t from, size_t to) {
        size_t w = 0;
        for (size_t k = from; k < to; ++k) {
          if (specs[k].kind != DimSpec::Kind::Pack) { ++w; continue; }
          auto r = rank_of_pack(specs[k].name);
          if (!r) fail_here(specs[k].pos, "the rank of " + specs[k].name + " does not follow from this call");
          w += *r;
        }
        return w;
      };
      const size_t left = width(0, begin), right = width(end, specs.size());
      if (left + right > shape.size()) wrong_rank("input " + name, shape.size(), left + right, true);
      auto bind_plain = [&](size_t from, size_t to, size_t at) {
        for (size_t k = from; k < to; ++k) {
          const auto& d = specs[k];
          if (d.kind == DimSpec::Kind::Pack) {
            const size_t n = *rank_of_pack(d.name);
            for (size_t j = 0; j < n; ++j, ++at) bind_extent(d.name, j, shape[at], axis_of(at, name));
          } else if (d.kind == DimSpec::Kind::Dim) {
            bind_extent(d.name, 0, shape[at], axis_of(at, name));
            ++at;
          } else if (d.kind == DimSpec::Kind::Literal) {
            unify(ctx_.integer(d.literal), shape[at], name, "declaration", axis_of(at, name));
            ++at;
          } else {
            products_.push_back({d.factors, shape[at], axis_of(at, name)});
            ++at;
          }
        }
      };
      bind_plain(0, begin, 0);
      bind_plain(end, specs.size(), shape.size() - right);
      Group g{&param, name, {}, {shape.begin() + static_cast<long>(left), shape.end() - static_cast<long>(right)}, left};
      for (size_t k = begin; k < end; ++k) g.dims.push_back(&specs[k]);
      groups.push_back(std::move(g));
    }
  }
  // A pack that only broadcasting parameters mention is as long as the longest of them.
  std::set<std::string> ordinary = clause_dims_;
  for (const auto& p : op_.params)
    for (const auto& d : p.type.dims)
      if (!d.broadcast) ordinary.insert(d.name);
  for (const auto& g : groups) {
    if (g.dims.size() != 1 || g.dims[0]->kind != DimSpec::Kind::Pack) continue;
    const std::string& name = g.dims[0]->name;
    if (ordinary.count(name)) continue;
    DimInfo& info = dim_info(name);
    info.pack = info.known = true;
    if (g.actual.size() > info.extents.size()) {
      const size_t grow = g.actual.size() - info.extents.size();
      info.extents.insert(info.extents.begin(), grow, ctx_.integer(1));
      info.origins.insert(info.origins.begin(), grow, g.name);
    }
    pack_ranks_[name] = info.extents.size();
    for (size_t k = 0; k < g.actual.size(); ++k) {
      const size_t at = info.extents.size() - g.actual.size() + k;
      const std::string origin = axis_of(g.first + k, g.name);
      const Ex both = broadcast(info.extents[at], g.actual[k], "broadcast of " + name, info.origins[at], origin);
      if (both == g.actual[k] && both != info.extents[at]) info.origins[at] = origin;
      info.extents[at] = both;
    }
  }
  // Where the dims were known before, check against them; those that a clause sets are checked when arrays are made.
  for (const auto& g : groups) {
    std::vector<Ex> full;
    bool all_known = true;
    for (const DimSpec* d : g.dims) {
      const DimInfo& info = dim_info(d->name);
      if (clause_dims_.count(d->name)) { all_known = false; break; }
      if (!info.known) {
        if (d->kind == DimSpec::Kind::Dim && g.dims.size() == 1 && g.actual.size() <= 1) {
          bind_extent(d->name, 0, g.actual.empty() ? ctx_.integer(1) : g.actual[0], axis_of(g.first, g.name));
        } else {
          fail_here(d->pos, "the extent of " + d->name + " does not follow from this call");
        }
      }
      for (Ex e : dim_info(d->name).extents) full.push_back(e);
    }
    if (!all_known) continue;
    if (g.actual.size() > full.size())
      mismatch("input " + g.name + " has " + std::to_string(g.actual.size()) + " axes that broadcast, at most " +
               std::to_string(full.size()) + " are possible");
    const size_t shift = full.size() - g.actual.size();
    for (size_t k = 0; k < g.actual.size(); ++k)
      broadcast_to(full[shift + k], g.actual[k], "input " + g.name + " does not broadcast", "extent of the result", axis_of(g.first + k, g.name));
  }
}

Ex Expander::known_equal(Ex a, Ex b) const {
  if (a == b) return a;
  const Ex equal = ctx_.binary(ir::Op::Eq, a, b);
  for (const auto& c : function_.checks)
    if (c.condition == equal) return a->is_const() || (!b->is_const() && a->id < b->id) ? a : b;
  return nullptr;
}

Ex Expander::broadcast(Ex a, Ex b, const std::string& what, const std::string& origin_a, const std::string& origin_b) {
  if (a == b || b->is_int(1)) return a;
  if (a->is_int(1)) return b;
  if (Ex one = known_equal(a, b)) return one;
  if ((!ir::can_be_one(ctx_, a) && !ir::can_be_one(ctx_, b)) || !ir::may_differ_by_one(a, b)) return unify(a, b, what, origin_a, origin_b);
  require(ir::broadcast_condition(ctx_, a, b),
          what + ": " + shown(a) + " (" + origin_a + ") and " + shown(b) + " (" + origin_b + ") differ and neither is 1");
  const Ex both = ir::broadcast_extent(ctx_, a, b);
  for (Ex e : {a, b})
    if (known_equal(both, e)) return e;
  return both;
}

Ex Expander::broadcast_to(Ex full, Ex actual, const std::string& what, const std::string& origin_full, const std::string& origin_actual,
                          Ex* step) {
  if (actual == full || actual->is_int(1) || known_equal(full, actual)) return full;
  const bool is_term = ir::broadcast_extent(ctx_, full, actual) == full && ir::broadcast_condition(ctx_, full, actual)->is_int(1);
  if (!is_term && (!ir::can_be_one(ctx_, actual) || !ir::may_differ_by_one(full, actual)))
    return unify(full, actual, what, origin_full, origin_actual);
  if (step) *step = ir::broadcast_step(ctx_, actual);
  if (!is_term)
    require(ctx_.binary(ir::Op::Or, ctx_.binary(ir::Op::Eq, full, actual), ctx_.binary(ir::Op::Eq, actual, ctx_.integer(1))),
            what + ": " + shown(actual) + " (" + origin_actual + ") is neither 1 nor " + shown(full) + " (" + origin_full + ")");
  return full;
}

void Expander::bind_extent(const std::string& dim, size_t index, Ex extent, const std::string& origin) {
  DimInfo& info = dim_info(dim);
  if (!info.known) {
    info.known = true;
    info.extents.assign(1, nullptr);
    info.origins.assign(1, "");
  }
  if (index >= info.extents.size()) fail_here(op_.pos, "the rank of " + dim + " is used in two ways");
  if (!info.extents[index]) {
    info.extents[index] = extent;
    info.origins[index] = origin;
    return;
  }
  info.extents[index] = unify(info.extents[index], extent, "dim " + dim, info.origins[index], origin);
}

Ex Expander::unify(Ex a, Ex b, const std::string& what, const std::string& origin_a, const std::string& origin_b) {
  if (a == b) return a;
  const std::string text = what + ": " + shown(a) + " (" + origin_a + ") and " + shown(b) + " (" + origin_b + ") differ";
  if (a->is_const() && b->is_const()) mismatch(text);
  require(ctx_.binary(ir::Op::Eq, a, b), text);
  // Of a broadcast of two symbols and one of them, the latter says the same in fewer words.
  const bool simpler = a->op == ir::Op::Select && b->op != ir::Op::Select && ir::broadcast_extent(ctx_, a, b) == a;
  return b->is_const() || simpler ? b : a;
}

void Expander::require(Ex condition, const std::string& message) {
  auto known = settle(condition);
  if (known && *known) return;
  if (known) mismatch(message);
  for (const auto& c : function_.checks)
    if (c.condition == condition) return;
  constexpr size_t kLongest = 200;  // the plan keeps it
  std::string inputs;
  for (const std::string& input : inputs_shown()) inputs += (inputs.empty() ? "" : ", ") + input;
  if (inputs.size() > kLongest) inputs = inputs.substr(0, kLongest) + " ...";
  function_.checks.push_back({condition, where() + ": " + message + (inputs.empty() ? "" : "; inputs " + inputs)});
}

void Expander::solve_products(bool final) {
  bool progress = true;
  while (progress && !products_.empty()) {
    progress = false;
    std::vector<PendingProduct> rest;
    for (auto& p : products_) {
      std::string unknown;
      size_t unknowns = 0;
      Ex known = ctx_.integer(1);
      for (const auto& f : p.factors) {
        DimInfo& info = dim_info(f);
        if (info.known && info.extents.size() == 1 && info.extents[0]) {
          known = ctx_.mul(known, info.extents[0]);
        } else {
          ++unknowns;
          unknown = f;
        }
      }
      if (unknowns > 1) {
        rest.push_back(std::move(p));
        continue;
      }
      progress = true;
      std::string factors;
      for (const auto& f : p.factors) factors += (factors.empty() ? "" : ", ") + f;
      if (unknowns == 0) {
        unify(known, p.extent, "product (" + factors + ")", "product of its factors", p.what);
        continue;
      }
      if (known->is_int(0)) mismatch("product (" + factors + "): a factor is 0");
      if (known->is_const() && p.extent->is_const() && p.extent->i % known->i != 0)
        mismatch(p.what + " has extent " + std::to_string(p.extent->i) + ", which is no multiple of " + std::to_string(known->i) +
                 ", the other factors of (" + factors + ")");
      Val q = exact_quotient(scalar(p.extent, true), scalar(known, true));
      require(ctx_.binary(ir::Op::Eq, ctx_.mul(q.e, known), p.extent), p.what + " must be a multiple of " + shown(known));
      bind_extent(unknown, 0, q.e, p.what + " by the other factors of (" + factors + ")");
    }
    products_ = std::move(rest);
  }
  if (final && !products_.empty()) {
    std::string factors;
    for (const auto& f : products_[0].factors) factors += (factors.empty() ? "" : ", ") + f;
    fail_here(op_.pos, "the factors (" + factors + ") of " + products_[0].what + " do not follow from this call");
  }
}

std::vector<Ex> Expander::extents_of(const std::string& name, Pos pos) {
  auto it = dims_.find(name);
  if (it == dims_.end()) fail_here(pos, "there is no dim '" + name + "'");
  DimInfo& info = it->second;
  if (info.alias) {
    std::vector<Ex> r;
    for (const auto& ref : info.refs) r.push_back(ref.one ? ctx_.integer(1) : extents_of(ref.base, pos)[ref.index]);
    return r;
  }
  if (info.per_item) {
    if (item_) return {info.item_extents.at(*item_)};
    return info.item_extents;
  }
  if (!info.known || std::any_of(info.extents.begin(), info.extents.end(), [](Ex e) { return !e; }))
    fail_here(pos, "the extent of " + name + " is not known here");
  return info.extents;
}

std::vector<Slot> Expander::slots_of(const TypeSpec& type, Pos pos, std::optional<size_t> item) {
  auto saved = item_;
  if (item) item_ = item;
  std::vector<Slot> slots;
  for (const auto& d : type.dims) {
    switch (d.kind) {
      case DimSpec::Kind::Literal: slots.push_back({ctx_.integer(d.literal), ctx_.integer(d.literal), {}}); break;
      case DimSpec::Kind::Product: {
        Slot s;
        s.extent = ctx_.integer(1);
        for (const auto& f : d.factors) {
          auto e = extents_of(f, pos);
          if (e.size() != 1) fail_here(d.pos, "the factor " + f + " of a product is a pack");
          s.factors.push_back(e[0]);
          s.extent = ctx_.mul(s.extent, e[0]);
        }
        s.actual = s.extent;
        slots.push_back(std::move(s));
        break;
      }
      case DimSpec::Kind::Dim:
      case DimSpec::Kind::Pack:
        for (Ex e : extents_of(d.name, pos)) slots.push_back({e, e, {}});
        break;
    }
  }
  item_ = saved;
  return slots;
}

// Arrays of parameters, once their dims are known. Those whose dims are set by clauses are made on first use.
void Expander::make_param_arrays() {
  for (size_t p = 0; p < op_.params.size(); ++p) {
    const Param& param = op_.params[p];
    auto& list = arrays_[param.name];
    if (!list.empty()) continue;
    for (size_t item = 0; item < inputs_[p].size(); ++item) {
      ArrayInfo a;
      a.name = item_name(param, item);
      a.param = &param;
      a.present = inputs_[p][item].present;
      if (a.present) {
        a.id = inputs_[p][item].array;
        a.dtype = in_memory(function_.arrays[a.id].dtype);
        a.scalar_like = param.type.dims.empty();
      }
      list.push_back(std::move(a));
    }
  }
  for (const auto& r : op_.results) arrays_[r.name];
}

}  // namespace mlc::lang
