// Imperative blocks become Loop trees over arrays of the function: one index per axis, locals numbered from kFirstLocal.
#include <algorithm>
#include <utility>

#include "packager/lang/expand/expander.h"
#include "packager/lang/expand/scopes.h"
#include "packager/nest/facts/uses.h"
#include "packager/nest/proc.h"

namespace mlc::lang {
namespace {

loop::StmtPtr make(loop::StmtKind kind) {
  auto s = std::make_unique<loop::Stmt>();
  s->kind = kind;
  return s;
}

}  // namespace

void Expander::proc_statement(const Stmt& s) {
  committed_ = true;
  any_proc_ = true;
  solve_products(false);
  for (const auto& r : op_.results) {
    auto& list = arrays_[r.name];
    if (!list.empty()) continue;
    ArrayInfo a;
    a.name = r.name;
    a.result = &r;
    list.push_back(a);
    declare_result(list[0]);
  }
  nest::Proc proc;
  ScopedDims dims(*this);
  for (const auto& name : s.names) dims.bind(name, s.pos);
  proc.dims = dims.dims;
  proc_ = &proc;
  {
    ScopedFrame frame(*this);
    proc_block(s.body, proc.body);
  }
  proc_ = nullptr;
  for (const auto& name : stored_here_) {
    auto it = arrays_.find(name);
    if (it == arrays_.end() || it->second.empty()) continue;
    if (it->second[0].is_local) {
      arrays_.erase(it);
      continue;
    }
    proc.writes.push_back(it->second[0].id);
    elements_.erase(it->second[0].id);
  }
  for (auto it = arrays_.begin(); it != arrays_.end();) {  // locals end with the block
    if (!it->second.empty() && it->second[0].is_local) it = arrays_.erase(it);
    else ++it;
  }
  stored_here_.clear();
  std::sort(proc.writes.begin(), proc.writes.end());
  // What it reads: every array that a load names.
  std::set<uint32_t> reads;
  auto note = [&](Ex e) {
    if (!e) return;
    ir::walk(e, [&](Ex x) {
      if (x->op == ir::Op::Load && x->array < nest::kFirstLocal) reads.insert(x->array);
    });
  };
  std::vector<const std::vector<loop::StmtPtr>*> todo{&proc.body};
  while (!todo.empty()) {
    const auto& block = *todo.back();
    todo.pop_back();
    for (const auto& one : block) {
      for (Ex e : {one->begin, one->end, one->cond, one->bound, one->value}) note(e);
      for (Ex e : one->index) note(e);
      todo.push_back(&one->body);
      todo.push_back(&one->orelse);
    }
  }
  proc.reads.assign(reads.begin(), reads.end());
  nest::Statement statement;
  statement.source = call_.source.empty() ? op_.name : call_.source + " (" + op_.name + ")";
  statement.proc = std::make_unique<nest::Proc>(std::move(proc));
  const bool yields = counts_ != nest::kNoArray && std::all_of(existential_.begin(), existential_.end(), [](const auto& e) { return e.second.yielded; });
  if (yields) return cut_to_yields(std::move(statement));
  function_.body.push_back(std::move(statement));
}

// The block works on arrays of the bounds' size and writes the extents to `counts_`; they are read back, and what is
// there is copied to arrays of that size.
void Expander::cut_to_yields(nest::Statement statement) {
  std::unordered_map<Ex, Ex> bounds;
  auto read = std::make_unique<nest::Control>();
  for (const std::string& name : existential_order_) {
    const Existential& e = existential_.at(name);
    bounds[ctx_.sym(e.sym)] = e.bound;
    read->symbols.push_back(e.sym);
  }
  std::map<uint32_t, uint32_t> bounded;  // result to the array that the block works on
  for (uint32_t id : statement.proc->writes) {
    std::vector<Ex> shape = function_.arrays[id].shape;
    for (Ex& extent : shape) extent = ctx_.substitute(extent, bounds);
    if (shape != function_.arrays[id].shape) bounded[id] = new_array(function_.arrays[id].name + ".bounded", function_.arrays[id].dtype, shape);
  }
  nest::renumber(ctx_, statement, [&](uint32_t id) { return bounded.count(id) ? bounded.at(id) : id; });
  statement.proc->writes.push_back(counts_);
  std::sort(statement.proc->writes.begin(), statement.proc->writes.end());
  std::sort(statement.proc->reads.begin(), statement.proc->reads.end());
  const std::string source = statement.source;
  function_.body.push_back(std::move(statement));
  read->inputs = {counts_};
  nest::Statement back;
  back.source = source;
  back.control = std::move(read);
  function_.body.push_back(std::move(back));
  for (const auto& [id, from] : bounded) {
    auto nest = std::make_unique<nest::Nest>();
    std::vector<Ex> index;
    for (Ex extent : function_.arrays[id].shape) {
      nest->dims.push_back(ctx_.declare_dim("d" + std::to_string(index.size()), extent));
      index.push_back(ctx_.dim(nest->dims.back()));
    }
    // No larger than the bound: that is a check of the function.
    nest->writes.push_back({id, index, ctx_.load(from, {in_memory(function_.arrays[from].dtype), 1}, index), false, ir::Join::Last});
    nest::Statement cut;
    cut.source = source;
    cut.nest = std::move(nest);
    function_.body.push_back(std::move(cut));
  }
}

// Free of variables and of memory, which later statements may change: usable as a fact.
bool Expander::stable(Ex e) const {
  bool r = true;
  ir::walk(e, [&](Ex x) { r = r && x->op != ir::Op::Load && !variables_.count(x); });
  return r;
}

void Expander::proc_block(const std::vector<Stmt>& body, std::vector<loop::StmtPtr>& out) {
  ScopedFrame frame(*this);
  blocks_.push_back(&out);
  for (const Stmt& s : body) proc_one(s);
  blocks_.pop_back();
}

void Expander::proc_one(const Stmt& s) {
  switch (s.kind) {
    case StmtKind::Let: return proc_let(s);
    case StmtKind::Var: return proc_var(s);
    case StmtKind::Assign: return proc_assign(s);
    case StmtKind::ForDims: return proc_for_dims(s);
    case StmtKind::ForRange: return proc_for_range(s);
    case StmtKind::While: return proc_while(s);
    case StmtKind::If: return proc_if(s);
    case StmtKind::Alloc: return proc_alloc(s);
    case StmtKind::Store: return proc_store(s);
    case StmtKind::Yield: return proc_yield(s);
    default: fail_here(s.pos, "this statement does not belong into a proc");
  }
}

ExprValue Expander::proc_number(const Node* n) {
  ExprValue v = eval(n);
  if (!v.is_scalar()) fail_here(n->pos, "a number expected");
  return v;
}

void Expander::proc_let(const Stmt& s) {
  ExprValue v = eval(s.value);
  if (v.is_scalar() && v.special == ExprValue::Special::None && !v.e->is_const()) v = scalar(named(v.e, *blocks_.back()), v.soft, v.rounds_to);
  frames_.back().names[s.names[0]] = v;
}

void Expander::proc_var(const Stmt& s) {
  ExprValue v = proc_number(s.value);
  if (v.special != ExprValue::Special::None) fail_here(s.pos, "the type of " + s.names[0] + " does not follow from its first value");
  auto local = make(loop::StmtKind::Local);
  local->var = ctx_.fresh_var(v.e->type);
  local->value = v.e;
  variables_.insert(local->var);
  ExprValue var = scalar(local->var, v.soft, v.rounds_to);
  var.text = "var";  // assignable
  blocks_.back()->push_back(std::move(local));
  frames_.back().names[s.names[0]] = var;
}

void Expander::proc_assign(const Stmt& s) {
  const ExprValue* known = find_local(s.names[0]);
  if (!known || known->text != "var") fail_here(s.pos, "'" + s.names[0] + "' is no variable of this proc");
  const ExprValue target = *known;
  ExprValue v = proc_number(s.value);
  auto assign = make(loop::StmtKind::Assign);
  assign->var = target.e;
  assign->value = in_order(adapted(v, {target.e->type.dtype, target.rounds_to}, s.pos), *blocks_.back());
  blocks_.back()->push_back(std::move(assign));
  version_ = next_version_++;
}

// Nested loops, outer first; a dim of extent one needs none.
void Expander::proc_for_dims(const Stmt& s) {
  auto saved = bound_;
  const auto saved_version = version_;
  const size_t conditions = conditions_.size();
  std::vector<loop::StmtPtr>* at = blocks_.back();
  for (const auto& name : s.names) {
    auto it = dims_.find(name);
    if (it == dims_.end()) fail_here(s.pos, "there is no dim '" + name + "'");
    if (it->second.alias) fail_here(s.pos, "'" + name + "' is made of other dims: loop over those");
    const auto extents = extents_of(name, s.pos);
    auto& places = bound_[name];
    places.assign(extents.size(), nullptr);
    for (size_t k = 0; k < extents.size(); ++k) {
      if (extents[k]->is_int(1)) {
        places[k] = ctx_.integer(0);
        continue;
      }
      auto loop_stmt = make(loop::StmtKind::For);
      loop_stmt->var = places[k] = ctx_.fresh_var({DType::I64, 1});
      loop_stmt->begin = ctx_.integer(0);
      loop_stmt->end = extents[k];
      conditions_.push_back(ctx_.binary(ir::Op::Le, loop_stmt->begin, loop_stmt->var));
      conditions_.push_back(ctx_.binary(ir::Op::Lt, loop_stmt->var, loop_stmt->end));
      mark_safe(places[k], extents[k]);
      auto* inner = &loop_stmt->body;
      at->push_back(std::move(loop_stmt));
      at = inner;
    }
  }
  version_ = next_version_++;
  proc_block(s.body, *at);
  bound_ = std::move(saved);
  conditions_.resize(conditions);
  version_ = saved_version;
}

void Expander::proc_for_range(const Stmt& s) {
  Ex lo = as_index(proc_number(s.value), s.pos), hi = as_index(proc_number(s.bound), s.pos);
  auto loop_stmt = make(loop::StmtKind::For);
  loop_stmt->var = ctx_.fresh_var({DType::I64, 1});
  loop_stmt->begin = lo;
  loop_stmt->end = hi;
  const size_t conditions = conditions_.size();
  if (stable(lo)) conditions_.push_back(ctx_.binary(ir::Op::Le, lo, loop_stmt->var));
  if (stable(hi)) conditions_.push_back(ctx_.binary(ir::Op::Lt, loop_stmt->var, hi));
  auto* inner = &loop_stmt->body;
  Ex var = loop_stmt->var;
  blocks_.back()->push_back(std::move(loop_stmt));
  {
    ScopedFrame frame(*this);
    frames_.back().names[s.names[0]] = scalar(var, true);
    proc_block(s.body, *inner);
  }
  conditions_.resize(conditions);
}

void Expander::proc_while(const Stmt& s) {
  const size_t before = blocks_.back()->size();
  ExprValue c = eval(s.value);
  if (blocks_.back()->size() != before) fail_here(s.pos, "the condition of a while cannot hold a fold over an unknown extent: use a variable");
  auto loop_stmt = make(loop::StmtKind::While);
  loop_stmt->cond = conjunction(c, s.pos);
  loop_stmt->bound = as_index(proc_number(s.bound), s.pos);
  auto* inner = &loop_stmt->body;
  blocks_.back()->push_back(std::move(loop_stmt));
  proc_block(s.body, *inner);  // the condition is no fact inside: variables change
}

void Expander::proc_if(const Stmt& s) {
  Ex c = conjunction(eval(s.value), s.pos);
  auto branch = make(loop::StmtKind::If);
  branch->cond = c;
  auto* then = &branch->body;
  auto* other = &branch->orelse;
  blocks_.back()->push_back(std::move(branch));
  {
    ScopedConditions scope(*this, stable(c) ? c : nullptr);
    proc_block(s.body, *then);
  }
  ScopedConditions scope(*this, stable(c) ? negated(c) : nullptr);
  proc_block(s.orelse, *other);
}

ArrayInfo Expander::allocated(const Stmt& s) {
  if (const auto it = arrays_.find(s.names[0]); it != arrays_.end() && !it->second.empty()) fail_here(s.pos, "a second array " + s.names[0]);
  ArrayInfo a;
  a.name = s.names[0];
  a.present = true;
  a.dtype = element_type(s.type.element, s.pos);
  if (s.wide && is_small_float(a.dtype)) a.rounds_to = std::exchange(a.dtype, DType::F32);
  a.slots = slots_of(s.type, s.pos);
  return a;
}

// A temporary array that procs write and read.
void Expander::alloc_statement(const Stmt& s) {
  committed_ = true;
  solve_products(false);
  ArrayInfo a = allocated(s);
  a.is_shared = true;
  std::vector<Ex> shape;
  for (const Slot& slot : a.slots) shape.push_back(slot.extent);
  a.id = new_array((call_.source.empty() ? op_.name : call_.source) + "." + a.name, a.dtype, std::move(shape));
  arrays_[a.name].push_back(std::move(a));
}

void Expander::proc_alloc(const Stmt& s) {
  ArrayInfo a = allocated(s);
  a.is_local = true;
  a.id = nest::kFirstLocal + static_cast<uint32_t>(proc_->locals.size());
  loop::LocalArray local;
  local.name = a.name;
  local.dtype = a.dtype;
  for (const Slot& slot : a.slots) local.shape.push_back(slot.extent);
  proc_->locals.push_back(std::move(local));
  arrays_[a.name].push_back(std::move(a));
}

void Expander::proc_store(const Stmt& s) {
  const Target& t = s.targets[0];
  ArrayInfo* a = find_array(t.array);
  if (!a || a->param || !(a->is_result || a->is_local || a->is_shared)) fail_here(t.pos, "a proc stores to results and to allocated arrays; " + t.array + " is neither");
  proc_writes_.insert(t.array);
  stored_here_.insert(t.array);
  const IndexItems at = index_items(t.index, 0);
  if (at.star) fail_here(t.pos, "'*' cannot stand on the left side");
  auto store = make(loop::StmtKind::Store);
  store->array = a->id;
  store->index = resolve_index(*a, at.items, at.product, t.pos, nullptr);
  store->value = adapt(proc_number(s.value), a->dtype, s.pos);
  blocks_.back()->push_back(std::move(store));
}

void Expander::proc_yield(const Stmt& s) {
  auto it = existential_.find(s.names[0]);
  if (it == existential_.end()) fail_here(s.pos, s.names[0] + " is no existential dim");
  if (blocks_.size() != 1 || !proc_->dims.empty()) fail_here(s.pos, "'yield' belongs to the end of a proc that has one instance");
  if (counts_ == nest::kNoArray)
    counts_ = new_array((call_.source.empty() ? op_.name : call_.source) + ".counts", DType::I64, {ctx_.integer(static_cast<int64_t>(existential_.size()))});
  const auto position = std::find(existential_order_.begin(), existential_order_.end(), s.names[0]) - existential_order_.begin();
  auto store = make(loop::StmtKind::Store);
  store->array = counts_;
  store->index = {ctx_.integer(position)};
  store->value = as_index(proc_number(s.value), s.pos);
  blocks_.back()->push_back(std::move(store));
  it->second.yielded = true;
}

// What a fold starts with.
Ex Expander::unit_of(const ir::Combiner& c, size_t k, DType t) {
  switch (c.join) {
    case ir::Join::Sum: case ir::Join::Last: return ctx_.integer(0, t);
    case ir::Join::Prod: return ctx_.integer(1, t);
    case ir::Join::Min: return special_number(ExprValue::Special::Top, t, {});
    case ir::Join::Max: return special_number(ExprValue::Special::Bottom, t, {});
    case ir::Join::Any: return ctx_.boolean(false);
    case ir::Join::All: return ctx_.boolean(true);
    case ir::Join::Custom: break;
  }
  return c.units[k];
}

// The k-th accumulator after one more element.
Ex Expander::join_of(const ir::Combiner& c, size_t k, const std::vector<Ex>& accumulators, const std::vector<Ex>& values) {
  Ex a = accumulators[k], v = values[k];
  switch (c.join) {
    case ir::Join::Sum: return ctx_.binary(ir::Op::Add, a, v);
    case ir::Join::Prod: return ctx_.binary(ir::Op::Mul, a, v);
    case ir::Join::Min: return ctx_.binary(ir::Op::Min, a, v);
    case ir::Join::Max: return ctx_.binary(ir::Op::Max, a, v);
    case ir::Join::Any: return ctx_.binary(ir::Op::Or, a, v);
    case ir::Join::All: return ctx_.binary(ir::Op::And, a, v);
    case ir::Join::Last: return v;
    case ir::Join::Custom: break;
  }
  std::unordered_map<Ex, Ex> map;
  for (size_t j = 0; j < values.size(); ++j) {
    map[c.left[j]] = accumulators[j];
    map[c.right[j]] = values[j];
  }
  return ctx_.substitute(c.joins[k], map);
}

// A variable that holds `value` from here on.
Ex Expander::named(Ex value, std::vector<loop::StmtPtr>& at) {
  auto let = make(loop::StmtKind::Let);
  let->var = ctx_.fresh_var(value->type);
  let->value = value;
  Ex var = let->var;
  at.push_back(std::move(let));
  return var;
}

// A sum of real numbers that goes by steps: lowering may change the order of what a variable is assigned at once
// (nest/facts/independent.h), not of what has a name.
Ex Expander::in_order(Ex value, std::vector<loop::StmtPtr>& at) {
  const bool rounds = is_float(value->type.dtype) && (value->op == ir::Op::Add || value->op == ir::Op::Mul);
  return rounds ? named(value, at) : value;
}

// A fold inside a proc: a variable and loops, before the statement that uses it.
ExprValue Expander::fold_in_proc(const ir::Combiner* c, const std::vector<const ir::Dim*>& dims, Ex where, std::vector<Ex> bodies) {
  std::unordered_map<Ex, Ex> rename;
  std::vector<loop::StmtPtr>* at = blocks_.back();
  std::vector<Ex> accumulators;
  for (size_t k = 0; k < bodies.size(); ++k) {
    const DType t = bodies[k]->type.dtype;
    auto local = make(loop::StmtKind::Local);
    local->var = ctx_.fresh_var({t, 1});
    local->value = unit_of(*c, k, t);
    accumulators.push_back(local->var);
    at->push_back(std::move(local));
  }
  for (const ir::Dim* d : dims) {
    auto loop_stmt = make(loop::StmtKind::For);
    loop_stmt->var = ctx_.fresh_var({DType::I64, 1});
    loop_stmt->begin = ctx_.integer(0);
    loop_stmt->end = d->extent;
    rename[ctx_.dim(d)] = loop_stmt->var;
    auto* inner = &loop_stmt->body;
    at->push_back(std::move(loop_stmt));
    at = inner;
  }
  if (where) {
    auto branch = make(loop::StmtKind::If);
    branch->cond = ctx_.substitute(where, rename);
    auto* inner = &branch->body;
    at->push_back(std::move(branch));
    at = inner;
  }
  std::vector<Ex> values;
  for (Ex b : bodies) {
    Ex v = ctx_.substitute(b, rename);
    if (bodies.size() > 1) v = named(v, *at);
    values.push_back(v);
  }
  std::vector<Ex> joined;
  for (size_t k = 0; k < values.size(); ++k) joined.push_back(join_of(*c, k, accumulators, values));
  for (Ex& j : joined) {
    if (joined.size() > 1) j = named(j, *at);  // all joined values are computed before the first is stored
    else if (!c->commutative) j = in_order(j, *at);
  }
  for (size_t k = 0; k < joined.size(); ++k) {
    auto assign = make(loop::StmtKind::Assign);
    assign->var = accumulators[k];
    assign->value = joined[k];
    at->push_back(std::move(assign));
  }
  if (accumulators.size() == 1) return scalar(accumulators[0], false);
  ExprValue v;
  v.kind = ExprValue::Kind::Tuple;
  for (Ex a : accumulators) v.items.push_back(scalar(a, false));
  return v;
}

}  // namespace mlc::lang
