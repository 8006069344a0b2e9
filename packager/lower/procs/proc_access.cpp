#include "packager/lower/procs/proc_access.h"

#include "packager/lower/flat/body.h"

namespace mlc::lower {

using ir::Access;
using ir::Expr;
using ir::Op;

ProcAccess::ProcAccess(ir::Context& ctx, const nest::Function& f, const nest::Proc& p)
    : params(f), ctx_(ctx), f_(f), p_(p), dims_(static_cast<unsigned>(p.dims.size())) {
  for (uint32_t a : p.reads) params.of(a);
  for (uint32_t a : p.writes) params.of(a, true);
  std::vector<const std::vector<loop::StmtPtr>*> blocks{&p.body};
  while (!blocks.empty()) {
    const auto& block = *blocks.back();
    blocks.pop_back();
    for (const loop::StmtPtr& s : block) {
      if (s->kind == loop::StmtKind::Local) locals_that_change_.insert(s->var);
      blocks.push_back(&s->body);
      blocks.push_back(&s->orelse);
    }
  }
}

void ProcAccess::place_locals(const Expr* instances, Locals where) {
  uint32_t workspaces = 0;
  instances_ = where == Locals::Interleaved ? instances : nullptr;
  for (const loop::LocalArray& l : p_.locals) {
    Local place;
    place.elements = ctx_.product(l.shape);
    place.constant = where == Locals::Worker && place.elements->is_const() && place.elements->i <= kMaxScratchElements;
    if (place.constant) {
      place.buffer = static_cast<uint32_t>(scratch.size());
      loop::LocalArray local;
      local.name = l.name;
      local.dtype = l.dtype;
      local.count = place.elements;
      scratch.push_back(std::move(local));
    } else {
      place.buffer = static_cast<uint32_t>(params.list.size());
      loop::Param w;
      w.name = l.name;
      w.dtype = l.dtype;
      w.written = true;
      w.role = loop::Role::Workspace;
      w.array = workspaces++;
      w.elements = ctx_.mul(instances, place.elements);
      params.list.push_back(std::move(w));
    }
    locals_.push_back(place);
  }
  for (Local& l : locals_)
    if (l.constant) l.buffer += static_cast<uint32_t>(params.list.size());
}

const Expr* ProcAccess::address(uint32_t array, const std::vector<const Expr*>& index) const {
  if (array >= nest::kFirstLocal) return nest::address(ctx_, {}, p_.locals[array - nest::kFirstLocal].shape, index);
  return nest::address(ctx_, f_.arrays[array].layout, f_.arrays[array].shape, index);
}

const ir::Dim* ProcAccess::new_dim(std::string name, const Expr* extent) {
  ++dims_;
  return ctx_.declare_dim(std::move(name), extent);
}

ProcAccess::Loop ProcAccess::loop_of(const loop::Stmt& s) {
  Loop loop{nullptr, flat(s.begin), flat(s.end)};
  if (s.step != 1 || !ir::is_extent(loop.begin) || !ir::is_extent(loop.end)) return loop;
  auto known = dim_of_.find(&s);
  if (known == dim_of_.end()) {
    if (!room_for(1)) return loop;
    const Expr* extent = ctx_.sub(loop.end, loop.begin);
    if (ir::interval_of(extent).lo < 0) extent = ctx_.max(extent, ctx_.integer(0));
    known = dim_of_.emplace(&s, new_dim("i" + std::to_string(s.var->i), extent)).first;
  }
  loop.d = known->second;
  return loop;
}

void ProcAccess::within(const loop::Stmt& s, const Loop& loop, const Expr* var, const std::function<void()>& body) {
  loops_[s.var] = loop.d ? ctx_.add(loop.begin, ctx_.dim(loop.d)) : var;
  const size_t before = given_.size();
  if (!loop.d)
    for (const Expr* fact : {ctx_.binary(Op::Le, loop.begin, var), ctx_.binary(Op::Lt, var, loop.end)})
      if (usable(fact)) given_.push_back(fact);
  body();
  given_.resize(before);
  loops_.erase(s.var);
}

bool ProcAccess::usable(const Expr* condition) const {
  bool r = given_.size() < kMostFacts;
  ir::walk(condition, [&](const Expr* x) { r &= x->op != Op::Load && !locals_that_change_.contains(x); });
  return r;
}

void ProcAccess::where(const Expr* condition, const std::function<void()>& body) {
  const size_t before = given_.size();
  for (const Expr* term : conjuncts(ctx_, condition))
    if (usable(term)) given_.push_back(term);
  body();
  given_.resize(before);
}

const Expr* ProcAccess::unproved(const std::vector<const Expr*>& index, const std::vector<const Expr*>& shape, bool& always) {
  const Expr* check = nullptr;
  always = true;
  for (size_t k = 0; k < index.size(); ++k) {
    if (in_range(ctx_, {index[k]}, {shape[k]})) continue;
    always = false;
    for (const Expr* side : {ctx_.binary(Op::Le, ctx_.integer(0), index[k]), ctx_.binary(Op::Lt, index[k], shape[k])})
      if (!ir::proves(ctx_, side, given_)) check = ctx_.logical_and(check, side);
  }
  return check;
}

const Expr* ProcAccess::local_address(uint32_t local, const std::vector<const Expr*>& index) {
  const Expr* at = nest::address(ctx_, {}, p_.locals[local].shape, index);
  const Local& place = locals_[local];
  if (instances_) return ctx_.add(ctx_.mul(at, instances_), instance_);
  return place.constant ? at : ctx_.add(ctx_.mul(instance_, place.elements), at);
}

const Expr* ProcAccess::flat_load(const Expr* load) {
  std::vector<const Expr*> index;
  for (const Expr* a : load->args) index.push_back(flat(a));
  const bool local = load->array >= nest::kFirstLocal;
  if (!local && load->access != Access::Checked) return lower::flat_load(ctx_, f_, params, ctx_.raw(*load, std::move(index)));
  const uint32_t number = load->array - (local ? nest::kFirstLocal : 0);
  const nest::Array* array = local ? nullptr : &f_.arrays[number];
  bool always = false;
  const Expr* check = unproved(index, local ? p_.locals[number].shape : array->shape, always);
  Expr node = *load;
  node.array = local ? locals_[number].buffer : params.of(load->array);
  node.access = check ? Access::Checked : always ? Access::Clamped : Access::Proved;
  std::vector<const Expr*> args{local ? local_address(number, index) : nest::address(ctx_, array->layout, array->shape, index)};
  if (check) args.push_back(check);
  return ctx_.raw(node, std::move(args));
}

const Expr* ProcAccess::flat(const Expr* e) {
  return ctx_.rewrite(e, [&](const Expr* x) -> const Expr* {
    if (x->op == Op::Load) return flat_load(x);
    if (x->op != Op::Var) return nullptr;
    const auto it = loops_.find(x);
    return it == loops_.end() ? nullptr : it->second;
  });
}

FlatWrite ProcAccess::write(const loop::Stmt& s) {
  FlatWrite w;
  for (const Expr* i : s.index) w.index.push_back(flat(i));
  w.value = flat(s.value);
  bool always = false;
  if (s.array >= nest::kFirstLocal) {
    const uint32_t local = s.array - nest::kFirstLocal;
    w.buffer = locals_[local].buffer;
    w.dtype = p_.locals[local].dtype;
    w.address = local_address(local, w.index);
    w.in_range = unproved(w.index, p_.locals[local].shape, always);
  } else {
    const nest::Array& array = f_.arrays[s.array];
    w.buffer = params.of(s.array, true);
    w.dtype = array.dtype;
    w.address = nest::address(ctx_, array.layout, array.shape, w.index);
    w.in_range = unproved(w.index, array.shape, always);
  }
  return w;
}

}  // namespace mlc::lower
