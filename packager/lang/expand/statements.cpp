// Clauses and statements of a definition, top down. Each array statement becomes a Nest with dims of its own.
#include <algorithm>

#include "packager/ir/numeric.h"
#include "packager/lang/expand/expander.h"
#include "packager/lang/expand/explain.h"
#include "packager/lang/expand/scopes.h"
#include "packager/nest/text/names.h"

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
      ExprValue v = eval(s.value);
      for (const ExprValue& item : as_list(v)) {
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
    case StmtKind::Alloc: return alloc_statement(s);
    default: fail_here(s.pos, "this statement belongs into a proc");
  }
}

// ", found 49 and 192": the numbers that a comparison compares, where they are known.
std::string Expander::sides_of(const Node* compare) {
  std::string found;
  if (compare->kind != NodeKind::Compare) return found;
  for (const Node* side : compare->kids) {
    const ExprValue v = eval(side);
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

void Expander::set_dim(const std::string& name, const ExprValue& v, Pos pos) {
  auto to_extent = [&](const ExprValue& item) {
    ExprValue x = item;
    if (x.is_scalar() && x.special == ExprValue::Special::None && is_float(x.e->type.dtype) && x.soft) {
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
    for (const ExprValue& item : as_list(v)) info.item_extents.push_back(to_extent(item));
    return;
  }
  std::vector<Ex> extents;
  for (const ExprValue& item : as_list(v)) extents.push_back(to_extent(item));
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

}  // namespace mlc::lang
