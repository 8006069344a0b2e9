#include "packager/lower/device/product/product.h"

#include <algorithm>
#include <cmath>

namespace mlc::lower {

using ir::Access;
using ir::Expr;
using ir::Op;

namespace {

// Lanes that wait for each other cannot stop at a fault.
bool may_fault(const FlatWrite& w) {
  bool faults = w.in_range != nullptr;
  ir::walk(w.value, [&](const Expr* e) { faults |= e->op == Op::Load && e->access == Access::Checked; });
  return faults;
}

bool knows_any(Facts& facts, const Expr* e, const std::vector<const ir::Dim*>& dims) {
  return std::any_of(dims.begin(), dims.end(), [&](const ir::Dim* d) { return facts.depends(e, d); });
}

}  // namespace

void order_as_written(ir::Context& ctx, const FlatNest& nest, std::vector<const ir::Dim*>& dims) {
  Facts facts;
  const auto stride = [&](const ir::Dim* d) {
    const Expr* leaf[] = {ctx.dim(d)};
    const auto linear = ir::linear_in(ctx, nest.writes[0].address, leaf);
    bool known = linear && facts.dims(linear->coefficients[0]) == 0;
    if (known) ir::walk(linear->coefficients[0], [&](const Expr* e) { known &= e->op != Op::Load; });
    return known ? std::abs(estimate(linear->coefficients[0])) : 0;
  };
  if (std::all_of(dims.begin(), dims.end(), [&](const ir::Dim* d) { return stride(d) > 0; }))
    std::stable_sort(dims.begin(), dims.end(), [&](const ir::Dim* a, const ir::Dim* b) { return stride(a) > stride(b); });
}

namespace {

const Expr* points_of(ir::Context& ctx, const std::vector<const ir::Dim*>& dims) {
  std::vector<const Expr*> extents;
  for (const ir::Dim* d : dims) extents.push_back(d->extent);
  return ctx.product(extents);
}

// Which factor each condition is about. One that only the fold knows is about both: what does not count is zero times zero.
bool share_terms(ir::Context& ctx, Facts& facts, DeviceProduct& p) {
  for (const Expr* term : conjuncts(ctx, p.fold->fold->where)) {
    const bool of_rows = knows_any(facts, term, p.rows.dims), of_columns = knows_any(facts, term, p.columns.dims);
    if ((of_rows && of_columns) || facts.has_fold(term)) return false;
    // An address may be in range because of any condition.
    if ((of_rows && facts.needs_guard(p.columns.factor.factor)) || (of_columns && facts.needs_guard(p.rows.factor.factor))) return false;
    if (!of_columns) p.rows.terms.push_back(term);
    if (!of_rows) p.columns.terms.push_back(term);
  }
  return true;
}

}  // namespace

std::optional<DeviceProduct> product_for_device(ir::Context& ctx, const FlatNest& nest) {
  const nest::Contraction* c = product_of(ctx, nest);
  if (!c || (c->acc() != DType::F32 && c->acc() != DType::I32) || c->sum_of_a || c->sum_of_b || may_fault(nest.writes[0])) return std::nullopt;
  Facts facts;
  if (facts.has_fold(c->a.factor) || facts.has_fold(c->b.factor)) return std::nullopt;
  DeviceProduct p;
  p.fold = c->fold;
  p.rows = {c->a, c->m, nullptr, {}};
  p.columns = {c->b, c->n, nullptr, {}};
  const ir::Dim* contiguous = contiguous_dim(ctx, nest);
  if (std::find(c->m.begin(), c->m.end(), contiguous) != c->m.end()) std::swap(p.rows, p.columns);
  // A factor may know a dim by its condition or its zero point alone.
  for (DeviceProduct::Side* side : {&p.rows, &p.columns})
    if (knows_any(facts, side->factor.factor, side == &p.rows ? p.columns.dims : p.rows.dims)) return std::nullopt;
  if (!share_terms(ctx, facts, p)) return std::nullopt;
  p.batch = c->batch;
  p.cluster = nest.cluster;
  std::erase(p.batch, p.cluster);
  for (DeviceProduct::Side* side : {&p.rows, &p.columns}) {
    // What has one point at most says whether there is anything to do.
    const auto is_case = [](const ir::Dim* d) { return ir::interval_of(d->extent).hi <= 1; };
    std::copy_if(side->dims.begin(), side->dims.end(), std::back_inserter(p.batch), is_case);
    std::erase_if(side->dims, is_case);
    order_as_written(ctx, nest, side->dims);
    side->points = points_of(ctx, side->dims);
  }
  p.depth = p.fold->fold->dims;
  p.depth_points = points_of(ctx, p.depth);
  return p;
}

void order_depth(DeviceProduct& p) {
  Facts facts;
  const auto restricts = [&](const Expr* where, const ir::Dim* d) { return where && facts.depends(where, d); };
  const ir::Dim* longest = nullptr;
  for (const ir::Dim* d : p.depth) {
    if (restricts(p.fold->fold->where, d) || restricts(p.rows.factor.inside, d) || restricts(p.columns.factor.inside, d)) continue;
    if (!longest || estimate(d->extent) > estimate(longest->extent)) longest = d;
  }
  if (longest) std::stable_partition(p.depth.begin(), p.depth.end(), [&](const ir::Dim* d) { return d != longest; });
}

const Expr* product_operations(ir::Context& ctx, const loop::Kernel& kernel, const targets::Target& target) {
  const std::string& how = kernel.schedule;
  const bool is_product = how.starts_with("tile ") || how.starts_with("slices ");
  return is_product && kernel.lanes && kernel.work ? ctx.mul(kernel.work, ctx.integer(static_cast<int64_t>(2 / targets::device_of(target.name).operation_ns))) : nullptr;
}

ProductStage::ProductStage(const Job& job, const FlatNest& nest, Skeleton& k, DeviceProduct p, const schedule::Schedule& how)
    : Stage(job, nest, k), how_(how), p_(std::move(p)) {
  schedule = schedule::print(how_);
  if (!how_.tile.flat) {
    p_.outer = p_.depth;
    p_.depth = {p_.outer.back()};
    p_.outer.pop_back();
    p_.depth_points = p_.depth[0]->extent;
  }
  if (p_.cluster) blocks_ = p_.cluster->extent->i, k_.kernel.cluster = static_cast<uint32_t>(blocks_);
  for (const ir::Dim* d : p_.batch) grid.push_back(d->extent);
  const Expr* folded = p_.depth_points;
  for (const ir::Dim* d : p_.outer) folded = ctx_.mul(folded, d->extent);
  std::vector<const Expr*> extents{p_.rows.points, p_.columns.points, folded};
  for (const ir::Dim* d : p_.batch) extents.push_back(d->extent);
  extents.push_back(ctx_.integer(blocks_));
  work = k_.takes(job_.operation_ns(), extents);
}

void ProductStage::bind_batch(const std::vector<const Expr*>& at) {
  for (size_t k = 0; k < p_.batch.size(); ++k) s_.bind(p_.batch[k], at[k]);
  block_ = p_.cluster ? at.back() : ctx_.integer(0);
  if (p_.cluster) s_.bind(p_.cluster, block_);
}

void ProductStage::meet_cluster() { k_.b.append(p_.cluster ? loop::StmtKind::ClusterBarrier : loop::StmtKind::Barrier); }

const Expr* ProductStage::sum_of_blocks(uint32_t memory, DType stored, const Expr* index) {
  const auto as_sum = [&](const Expr* e) { return stored == p_.sum() ? e : ctx_.convert(Op::Bitcast, {p_.sum(), 1}, e); };
  const Expr* mine = loop::vec_load(ctx_, memory, {stored, 1}, index);
  if (!p_.cluster) return k_.b.let(as_sum(mine));
  std::vector<const Expr*> all;
  for (int64_t block = 0; block < blocks_; ++block) all.push_back(k_.b.peer(mine, block));
  const Expr* sum = as_sum(all[0]);
  for (size_t k = 1; k < all.size(); ++k) sum = loop::vec_binary(ctx_, Op::Add, sum, as_sum(all[k]));
  return k_.b.let(sum);
}

void ProductStage::bind_point(const Side& side, const Expr* point) {
  std::vector<const Expr*> extents;
  for (const ir::Dim* d : side.dims) extents.push_back(d->extent);
  const std::vector<const Expr*> at = k_.decoded(point, extents);
  for (size_t k = 0; k < side.dims.size(); ++k) s_.bind(side.dims[k], at[k]);
}

const Expr* ProductStage::existing(const Side& side, const Expr* point, int64_t multiple, int64_t together) {
  if (ir::divisor_of(side.points) % multiple == 0) return k_.b.let(point);
  return k_.b.let(ctx_.min(point, ctx_.sub(side.points, ctx_.integer(together))));
}

void ProductStage::where_it_exists(const Side& side, const Expr* point, int64_t size, const std::function<void()>& body) {
  const auto there = [&] {
    s_.scoped([&] {
      bind_point(side, point);
      body();
    });
  };
  if (ir::divisor_of(side.points) % size == 0) there();
  else k_.b.with_if(ctx_.binary(Op::Lt, point, side.points), there);
}

void ProductStage::over_outer(const std::function<void()>& body, size_t level) {
  if (level == p_.outer.size()) return body();
  const ir::Dim* d = p_.outer[level];
  s_.with_for(d, ctx_.integer(0), d->extent, 1, [&] { over_outer(body, level + 1); });
}

ProductStage::Reached ProductStage::reach(const Side& side) {
  Reached at;
  if (side.outside) at.outside = k_.b.let(s_.value(side.outside));
  const auto knows_depth = [&](const Expr* e) { return knows_any(s_.facts, e, p_.depth); };
  if (!side.terms.empty()) {
    at.ask = std::any_of(side.terms.begin(), side.terms.end(), knows_depth);
    if (!at.ask) at.guard = asked(side);
  }
  const nest::Operand& o = side.factor;
  if (p_.depth.size() != 1 || !o.is_plain() || (at.ask && s_.facts.needs_guard(o.load))) return at;
  const Expr* leaf[] = {ctx_.dim(p_.depth[0])};
  const auto linear = ir::linear_in(ctx_, o.load->args[0], leaf);
  if (!linear || s_.facts.needs_guard(o.load->args[0])) return at;
  at.stride = k_.b.let(s_.value(linear->coefficients[0]));
  at.base = k_.b.let(s_.value(linear->rest));
  return at;
}

const Expr* ProductStage::asked(const Side& side) {
  const Expr* all = ctx_.boolean(true);
  for (const Expr* term : side.terms) all = ctx_.binary(Op::And, all, term);
  return k_.b.let(s_.value(all));
}

const Expr* ProductStage::element(const Side& side, const Reached& at, const Expr* k, const Expr* exists) {
  const Expr* value = nullptr;
  const Expr* guard = at.guard;
  s_.scoped([&] {
    if (exists) k = k_.b.let(ctx_.min(k, ctx_.sub(p_.depth_points, ctx_.integer(1))));
    if (!at.base || at.ask) {
      std::vector<const Expr*> extents;
      for (const ir::Dim* d : p_.depth) extents.push_back(d->extent);
      const std::vector<const Expr*> index = k_.decoded(k, extents);
      for (size_t d = 0; d < p_.depth.size(); ++d) s_.bind(p_.depth[d], index[d]);
    }
    if (at.ask) guard = asked(side);
    const nest::Operand& o = side.factor;
    if (at.base) {
      const Expr* mask = o.load->access == Access::Clamped ? nullptr : guard;
      s_.define(o.load, loop::vec_load(ctx_, o.load->array, o.load->type, ctx_.add(at.base, ctx_.mul(k, at.stride)), mask));
    }
    value = s_.value(o.factor, guard);
    const Expr* counts = s_.both(guard, exists);
    const Expr* none = at.outside ? at.outside : value->type.dtype == p_.sum() ? zero() : ctx_.number(0, value->type.dtype);
    value = k_.b.let(counts ? ctx_.select(counts, value, none) : value);
  });
  return value;
}

const Expr* ProductStage::zero(unsigned lanes) {
  const Expr* one = is_float(p_.sum()) ? ctx_.number(0, p_.sum()) : ctx_.integer(0, p_.sum());
  return loop::splat(ctx_, one, lanes);
}

const Expr* ProductStage::index_of_run(const Reached& at, const DepthRuns& runs, const Expr* number) {
  const Expr *base = at.base, *stride = at.stride, *length = ctx_.integer(runs.length);
  if (p_.depth.size() > 1) {
    std::vector<const Expr*> extents;
    for (const ir::Dim* d : p_.depth) extents.push_back(d == p_.depth.back() ? ctx_.floordiv(d->extent, length) : d->extent);
    const std::vector<const Expr*> index = k_.decoded(number, extents);
    for (size_t d = 0; d + 1 < index.size(); ++d) s_.bind(p_.depth[d], index[d]);
    base = s_.value(runs.base), stride = s_.value(runs.step), number = index.back();
  }
  return ctx_.mul(k_.b.let(ctx_.add(base, ctx_.mul(number, stride))), length);
}

const Expr* ProductStage::multiply_add(const Expr* sum, const Expr* a, const Expr* b) {
  if (is_float(p_.sum()) && job_.target.has_fma) return loop::vec_fma(ctx_, a, b, sum);
  return loop::vec_binary(ctx_, Op::Add, sum, loop::vec_binary(ctx_, Op::Mul, a, b));
}

void ProductStage::finish(const Expr* sum) {
  s_.scoped([&] {
    s_.define(p_.fold, sum);
    emit_writes(s_, k_.b, n_, nullptr);
  });
}

void ProductStage::load_for_column() {
  std::vector<const Expr*> loads;
  ir::walk(n_.writes[0].value, [&](const Expr* e) {
    if (e->op != Op::Load || e->access != Access::Clamped || s_.facts.needs_guard(e->args[0])) return;
    const bool of_fold = knows_any(s_.facts, e, p_.fold->fold->dims);
    if (!of_fold && !knows_any(s_.facts, e, p_.rows.dims)) loads.push_back(e);
  });
  for (const Expr* load : loads) s_.define(load, k_.b.let(s_.value(load)));
}

void ProductStage::unrolled(int64_t copies, const std::function<void(const Expr*)>& body) {
  loop::Stmt& loop = k_.b.append(loop::StmtKind::For);
  loop.for_kind = loop::ForKind::Unroll;
  loop.var = ctx_.fresh_var({DType::I64, 1});
  loop.begin = ctx_.integer(0);
  loop.end = ctx_.integer(copies);
  const Expr* u = loop.var;
  k_.b.within(loop.body, [&] { body(u); });
}

}  // namespace mlc::lower
