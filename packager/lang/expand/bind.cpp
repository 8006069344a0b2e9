// Dims of a definition against the shapes of a call: how many a pack has, and that those of one name have one extent.
// Order: ranks, then dims; products divide exactly or fail.
#include <algorithm>

#include "packager/ir/broadcast.h"
#include "packager/ir/numeric.h"
#include "packager/lang/expand/expander.h"

namespace mlc::lang {

std::string axis_of(size_t axis, const std::string& param) { return "axis " + std::to_string(axis) + " of " + param; }
std::string item_name(const Param& p, size_t item) {
  return p.many ? p.name + "[" + std::to_string(item) + "]" : p.name;
}

std::optional<size_t> Expander::rank_of_pack(const std::string& name) {
  if (auto it = pack_ranks_.find(name); it != pack_ranks_.end()) return it->second;
  return {};
}

std::optional<int64_t> Expander::axis_value(const std::string& name, size_t rank, const std::string& what) {
  int64_t axis;
  if (const AttrDecl* a = op_.attr(name)) {
    ExprValue v = attribute(*a);
    if (v.kind == ExprValue::Kind::Absent) return {};
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

  std::vector<Given> given = given_shapes();
  // Ranks that are wrong whatever the packs have come first: extents of the wrong axes say nothing.
  for (const Given& g : given) {
    const auto& specs = g.param->type.dims;
    const auto packs = static_cast<size_t>(std::count_if(specs.begin(), specs.end(), [](const auto& d) { return d.kind == DimSpec::Kind::Pack; }));
    const size_t axes = specs.size() - packs, rank = g.shape->size();
    if (packs > 0 ? rank < axes : rank != axes) wrong_rank("input " + item_name(*g.param, g.item), rank, axes, packs > 0);
  }
  for (const Given& g : given) bind_outer_dims(g);
  while (!given.empty()) {
    std::vector<Given> later;
    for (const Given& g : given)
      if (bind_param_ranks(*g.param, *g.shape, g.item)) bind_axes(*g.param, *g.shape, g.item, 0, g.param->type.dims.size(), 0);
      else later.push_back(g);
    if (later.size() == given.size())
      mismatch("the ranks of input " + later[0].param->name + " do not follow from this call");
    given = std::move(later);
  }
  bind_broadcasts();
  bind_given_dims();
  solve_products(false);
}

// Inputs whose axes say what dims are; those that broadcast come later.
std::vector<Expander::Given> Expander::given_shapes() {
  std::vector<Given> given;
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
      given.push_back({&param, item, &shape});
    }
  }
  return given;
}

// Dims before the first pack and behind the last are bound first: a rank clause may ask for their extents.
void Expander::bind_outer_dims(const Given& g) {
  const auto& specs = g.param->type.dims;
  const std::string name = item_name(*g.param, g.item);
  auto plain = [&](const DimSpec& d) { return d.kind == DimSpec::Kind::Dim && !(g.param->many && !d.axis.empty()); };
  size_t k = 0;
  for (; k < specs.size() && k < g.shape->size() && specs[k].kind != DimSpec::Kind::Pack; ++k)
    if (plain(specs[k])) bind_extent(specs[k].name, 0, (*g.shape)[k], axis_of(k, name));
  if (k == specs.size()) return;
  for (size_t j = 1; j <= specs.size() && j <= g.shape->size() && specs[specs.size() - j].kind != DimSpec::Kind::Pack; ++j)
    if (plain(specs[specs.size() - j])) {
      const size_t axis = g.shape->size() - j;
      bind_extent(specs[specs.size() - j].name, 0, (*g.shape)[axis], axis_of(axis, name));
    }
}

// The declared dims from `from` to `to` against the axes that begin at `at`; the ranks of packs are known.
void Expander::bind_axes(const Param& param, const std::vector<Ex>& shape, size_t item, size_t from, size_t to, size_t at) {
  const std::string name = item_name(param, item);
  for (size_t k = from; k < to; ++k) {
    const DimSpec& d = param.type.dims[k];
    switch (d.kind) {
      case DimSpec::Kind::Pack: {
        const size_t rank = *rank_of_pack(d.name);
        DimInfo& info = dim_info(d.name);
        info.pack = true;
        if (!info.known) {
          info.known = true;
          info.extents.assign(rank, nullptr);
          info.origins.assign(rank, "");
        }
        for (size_t j = 0; j < rank; ++j, ++at) bind_extent(d.name, j, shape[at], axis_of(at, name));
        continue;
      }
      case DimSpec::Kind::Dim:
        if (param.many && !d.axis.empty()) {
          DimInfo& info = dim_info(d.name);
          info.per_item = true;
          info.known = true;
          if (info.item_extents.size() <= item) info.item_extents.resize(item + 1);
          info.item_extents[item] = shape[at];
        } else {
          bind_extent(d.name, 0, shape[at], axis_of(at, name));
        }
        break;
      case DimSpec::Kind::Literal: unify(ctx_.integer(d.literal), shape[at], name, "declaration", axis_of(at, name)); break;
      case DimSpec::Kind::Product: products_.push_back({d.factors, shape[at], axis_of(at, name)}); break;
    }
    ++at;
  }
}

// Dims that a clause sets to an attribute (`dim g = group`) are numbers of the call: known before any product is divided out. Divided
// out of an extent that only the run knows, such a dim, and all that follows from it, would be a quotient instead of a number.
void Expander::bind_given_dims() {
  for (const auto& s : op_.body) {
    if (s.kind != StmtKind::Dim || s.value->kind != NodeKind::Name) continue;
    const AttrDecl* given = op_.attr(s.value->text);
    if (given && attribute(*given).kind != ExprValue::Kind::Absent) set_dim(s.names[0], attribute(*given), s.pos);
  }
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
      ExprValue q = exact_quotient(scalar(p.extent, true), scalar(known, true));
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
