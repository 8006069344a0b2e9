#include "packager/lower/product/tiled_product.h"

#include <algorithm>
#include <cmath>

namespace mlc::lower {

using ir::Expr;
using ir::Op;

namespace {

// Whether a tile can sum it: numbers as they lie in memory, or codes whose second factor is signed once its first bit is flipped.
bool has_tiles(const nest::Contraction& c) {
  const bool codes = c.acc() == DType::I32 && c.a.is_code() && c.b.is_code();
  if (!codes && ((c.acc() != DType::F32 && c.acc() != DType::F64) || c.sum_of_a || c.sum_of_b || !c.is_plain())) return false;
  for (const nest::Operand* o : {&c.a, &c.b})
    if (o->is_code() != codes || (o->zero && !nest::is_signed_code(*o)) || o->scale) return false;
  return true;
}

const Expr* coefficient(ir::Context& ctx, const Expr* e, const ir::Dim* d) {
  const Expr* leaf[] = {ctx.dim(d)};
  auto lin = ir::linear_in(ctx, e, leaf);
  return lin ? lin->coefficients[0] : nullptr;
}

bool has_load(const Expr* e) {
  bool found = false;
  ir::walk(e, [&](const Expr* x) { found |= x->op == Op::Load; });
  return found;
}

// Linear in all of these dims together, with coefficients free of any dim and without loads. Other dims may stand in
// the rest in any form: they are constants while a tile runs.
bool affine(ir::Context& ctx, Facts& facts, const Expr* e, const std::vector<const ir::Dim*>& dims) {
  std::vector<const Expr*> leaves;
  for (const ir::Dim* d : dims) leaves.push_back(ctx.dim(d));
  auto lin = ir::linear_in(ctx, e, leaves);
  if (!lin || has_load(e)) return false;
  for (const Expr* c : lin->coefficients)
    if (facts.dims(c)) return false;
  return true;
}

// `address` with each of these dims as size*outer + inner, as a linear form of the pairs: columns are 16*panel + lane, codes along k
// group*outer + i.
using Sizes = std::initializer_list<std::pair<const ir::Dim*, int64_t>>;
std::optional<ir::Linear> taken_apart(ir::Context& ctx, const Expr* address, Sizes dims) {
  std::vector<const Expr*> leaves;
  for (const auto& [d, size] : dims) {
    const Expr* some = ctx.integer(size);
    leaves.push_back(ctx.dim(ctx.declare_dim("outer", ctx.ceildiv(d->extent, some))));
    leaves.push_back(ctx.dim(ctx.declare_dim("inner", some)));
    address = ctx.substitute(address, {{ctx.dim(d), ctx.add(ctx.mul(some, leaves[leaves.size() - 2]), leaves.back())}});
  }
  return ir::linear_in(ctx, address, leaves);
}

// Whether column 0 is the first of a panel, whatever stands in the rest of its address. Where columns are taken apart (column 3*p + q
// of 9), q begins somewhere inside, and sixteen of them would not all lie in this panel.
bool begins_at_panel(const Expr* rest, int64_t elements) { return rest->is_int(0) || ir::divisor_of(rest) % elements == 0; }

// Rows: dims that only A knows and in which it is affine, the innermost in the output as tile rows; all others are batches.
void choose_rows(ir::Context& ctx, Facts& facts, const FlatNest& nest, TiledProduct& c) {
  std::vector<const ir::Dim*> rows;
  for (const ir::Dim* d : nest.dims)
    if (d != c.n && facts.depends(c.a(), d) && !facts.depends(c.b(), d)) {
      std::vector<const ir::Dim*> inner = c.fold()->fold->dims;
      inner.insert(inner.end(), rows.begin(), rows.end());
      inner.push_back(d);
      if (affine(ctx, facts, c.a()->args[0], inner)) rows.push_back(d);
    }
  auto stride = [&](const ir::Dim* d) {
    const Expr* s = coefficient(ctx, nest.writes[0].address, d);
    return s && facts.dims(s) == 0 && !has_load(s) ? std::abs(estimate(s)) : 1e18;
  };
  std::stable_sort(rows.begin(), rows.end(), [&](auto x, auto y) { return stride(x) < stride(y); });
  c.a_m = ctx.integer(0);
  if (!rows.empty()) {
    c.m = rows[0];
    c.a_m = coefficient(ctx, c.a()->args[0], c.m);
  }
  if (rows.size() > 1) c.m_outer = rows[1];
  for (const ir::Dim* d : nest.dims)
    if (d != c.n && d != c.m && d != c.m_outer) c.batch.push_back(d);
}

// k: contiguous in A if there is such a dim, else the longest; never one that conditions cut short. All others are taps. Where
// conditions are about all of them (one input channel), k is a dim of its own with a single value.
void choose_k(ir::Context& ctx, Facts& facts, TiledProduct& c) {
  const ir::Fold& fold = *c.fold()->fold;
  for (const ir::Dim* d : fold.dims) {
    if (fold.where && facts.depends(fold.where, d)) continue;
    bool unit = coefficient(ctx, c.a()->args[0], d)->is_int(1);
    bool have_unit = c.k && coefficient(ctx, c.a()->args[0], c.k)->is_int(1);
    if (!c.k || (unit && !have_unit) || (unit == have_unit && estimate(d->extent) > estimate(c.k->extent))) c.k = d;
  }
  if (!c.k) c.k = ctx.declare_dim("k", ctx.integer(1));
  for (const ir::Dim* d : fold.dims)
    if (d != c.k) c.taps.push_back(d);
  c.a_k = coefficient(ctx, c.a()->args[0], c.k);
  c.b_k = coefficient(ctx, c.b_rest, c.k);
}

// Every condition must be affine in the dims that change within a tile.
bool conditions_fit(ir::Context& ctx, Facts& facts, const TiledProduct& c) {
  std::vector<const ir::Dim*> inner = c.fold()->fold->dims;
  if (c.m) inner.push_back(c.m);
  return std::all_of(c.conditions.begin(), c.conditions.end(), [&](const Expr* term) {
    return (term->op == Op::Lt || term->op == Op::Le) && term->args[0]->type.dtype == DType::I64 &&
           affine(ctx, facts, ctx.sub(term->args[1], term->args[0]), inner);
  });
}

// The product with `a` as rows and `n`, a dim of `b`, as columns.
std::optional<TiledProduct> with_columns(ir::Context& ctx, Facts& facts, const FlatNest& nest, const nest::Contraction& p, const ir::Dim* n, unsigned lanes) {
  const Expr *sum = p.fold, *b = p.b.load;
  if (sum->fold->where && facts.depends(sum->fold->where, n)) return std::nullopt;
  const auto columns = taken_apart(ctx, b->args[0], {{n, nest::kPanel}});
  if (!columns) return std::nullopt;
  const Expr *panel = columns->coefficients[0], *lane = columns->coefficients[1];
  if (facts.dims(panel) || facts.dims(lane)) return std::nullopt;
  if (!affine(ctx, facts, columns->rest, sum->fold->dims)) return std::nullopt;
  TiledProduct c;
  c.product = p;
  c.n = n;
  c.b_rest = columns->rest;
  c.b_panel = panel;
  c.padded_panels = !panel->is_int(16) && begins_at_panel(columns->rest, nest::kPanel);
  c.conditions = conjuncts(ctx, sum->fold->where);
  choose_k(ctx, facts, c);
  const bool side_by_side = lane->is_int(1);
  const bool is_few = n->extent->is_const() && n->extent->i >= 1 && n->extent->i <= nest::kFewColumns && c.a_k->is_int(1);
  const unsigned k_lanes = is_few ? nest::lanes_along_k(c.k->extent, lanes) : 1;
  if (!side_by_side && c.b_k->is_int(1)) c.k_lanes = k_lanes;
  if (c.along_k()) c.b_n = lane;
  // Along a fold whose length the run decides other families have vectors, where it lies so.
  const bool is_free = is_few && !c.k->extent->is_const() && n->extent->i < nest::kFewColumns;
  c.few = (k_lanes > 1 || is_free) && !c.b_k->is_int(1) && (!side_by_side || n->extent->i < nest::kFewColumns);
  c.needs_pack = c.few || (!side_by_side && !c.along_k());
  if (c.needs_pack && sum->fold->where && facts.needs_guard(b)) return std::nullopt;  // packing reads all of B
  choose_rows(ctx, facts, nest, c);
  if (!conditions_fit(ctx, facts, c)) return std::nullopt;
  // A row needs several columns: otherwise (a matrix times a vector) the generic template is as good.
  if (!c.along_k() && !c.few && n->extent->is_const() && n->extent->i < nest::kFewColumns) return std::nullopt;
  return c;
}

bool has_rows_worth_packing(ir::Context& ctx, const TiledProduct& c, int64_t least) {
  const Expr* rows = ctx.mul(c.m ? c.m->extent : ctx.integer(1), c.m_outer ? c.m_outer->extent : ctx.integer(1));
  return !rows->is_const() || rows->i >= least;
}

// The same of codes and of bf16, whose columns lie in groups along k. No group is cut short by a condition. Columns of bf16 that do not
// are packed for tiles alone: other instructions are no faster than products in f32, whose columns may stay as they are.
std::optional<TiledProduct> with_groups(const Job& job, Facts& facts, const FlatNest& nest, const nest::Contraction& p, const ir::Dim* n) {
  ir::Context& ctx = job.ctx;
  const ir::Fold& fold = *p.fold->fold;
  const Expr* where = fold.where ? fold.where : p.a.inside;
  const bool pairs = nest::is_product_of_pairs(p);
  if (p.b.inside || p.a.zero || (fold.where && p.a.inside) || !(pairs || nest::is_signed_code(p.b)) || (where && facts.depends(where, n))) return std::nullopt;
  TiledProduct c;
  c.product = p;
  c.n = n;
  c.group = pairs ? nest::kPair : nest::kGroup;
  const auto restricted = [&](const ir::Dim* k) { return where && facts.depends(where, k); };
  for (const ir::Dim* k : fold.dims) {
    if (p.b.zero || restricted(k) || (k->extent->is_const() && k->extent->i < 1)) continue;
    const auto groups = taken_apart(ctx, p.b.load->args[0], {{n, nest::kPanel}, {k, c.group}});
    if (!groups || !groups->coefficients[1]->is_int(c.group) || !groups->coefficients[3]->is_int(1)) continue;
    const Expr *panel = groups->coefficients[0], *group = groups->coefficients[2];
    if (facts.dims(panel) || facts.dims(group) || !begins_at_panel(groups->rest, nest::kPanel * c.group)) continue;
    c.k = k;
    c.b_rest = groups->rest;
    c.b_panel = panel;
    c.b_k = group;
  }
  if (c.k && facts.has_fold(c.b_rest)) return std::nullopt;
  if (!c.k && pairs && (!job.target.has_tiles || job.vector_bytes() < kTileBytes)) return std::nullopt;
  c.needs_pack = !c.k;
  if (c.needs_pack) {  // all of B is read, whatever the conditions
    if (facts.needs_guard(p.b.load) && (where || !nest.folds_anywhere)) return std::nullopt;
    if (n->extent->is_const() && n->extent->i < nest::kFewColumns) return std::nullopt;
    for (const ir::Dim* k : fold.dims)
      if (!restricted(k) && (!c.k || estimate(k->extent) > estimate(c.k->extent))) c.k = k;
    if (!c.k || (c.k->extent->is_const() && c.k->extent->i < c.group)) return std::nullopt;
  }
  for (const ir::Dim* d : fold.dims)
    if (d != c.k) c.taps.push_back(d);
  if (!c.needs_pack && !affine(ctx, facts, c.b_rest, c.taps)) return std::nullopt;
  c.padded_panels = true;
  c.conditions = conjuncts(ctx, where);
  c.a_k = coefficient(ctx, c.a()->args[0], c.k);
  choose_rows(ctx, facts, nest, c);
  // Of a single panel it could not be seen that its columns are filled up.
  const bool is_single = n->extent->is_const() && n->extent->i <= nest::kPanel;
  if (pairs && c.needs_pack && is_single && depth_of_padding(job, c) > 1) return std::nullopt;
  if (pairs && c.needs_pack && (!c.m || !c.a_k->is_int(1) || !c.conditions.empty() || !has_rows_worth_packing(ctx, c, nest::kRowsWorthPacking))) return std::nullopt;
  if (!conditions_fit(ctx, facts, c)) return std::nullopt;
  if (c.outside() && (facts.has_fold(c.outside()) || facts.dims(c.outside()) || facts.needs_guard(c.outside()))) return std::nullopt;
  return c;
}

// A single column is no dim of the nest: then B is a vector that no map dim knows.
const ir::Dim* single_column(ir::Context& ctx, Facts& facts, const FlatNest& nest, const Expr* b) {
  if (std::any_of(nest.dims.begin(), nest.dims.end(), [&](const ir::Dim* d) { return facts.depends(b, d); })) return nullptr;
  return ctx.declare_dim("column", ctx.integer(1));
}

}  // namespace

unsigned lanes_of_sums(const Job& job, DType acc) { return std::min(static_cast<unsigned>(nest::kPanel), job.lanes_of(acc)); }

namespace {

std::optional<TiledProduct> find_tiled(const Job& job, const FlatNest& nest, const nest::Contraction& product) {
  ir::Context& ctx = job.ctx;
  Facts facts;
  if (!has_tiles(product)) return std::nullopt;
  const bool codes = product.a.is_code();
  std::optional<TiledProduct> best;
  double best_rank = -1;
  for (const nest::Contraction& side : {product.swapped(), product}) {
    if (side.sum_of_b || !affine(ctx, facts, side.a.load->args[0], side.fold->fold->dims)) continue;
    std::vector<const ir::Dim*> columns = side.n;
    const ir::Dim* single = codes ? nullptr : single_column(ctx, facts, nest, side.b.load);
    if (single) columns.push_back(single);
    for (const ir::Dim* n : columns) {
      auto c = codes || nest::is_product_of_pairs(side) ? with_groups(job, facts, nest, side, n) : std::nullopt;
      if (!c && !codes) c = with_columns(ctx, facts, nest, side, n, lanes_of_sums(job, side.acc()));
      if (!c || (n == single && !c->m)) continue;
      const Expr* step = coefficient(ctx, nest.writes[0].address, n);
      double rank = (!c->needs_pack ? 1e12 : c->few ? 1e11 : 0) + (step && step->is_int(1) ? 1e9 : 0) + std::min(estimate(n->extent), 1e6);
      if (rank > best_rank) {
        best_rank = rank;
        best = std::move(c);
      }
    }
  }
  return best;
}

}  // namespace

std::shared_ptr<const TiledProduct> tiled_product(const Job& job, const FlatNest& nest) {
  const nest::Contraction* product = product_of(job.ctx, nest);
  if (!product) return nullptr;
  const auto [known, is_new] = nest.found->tiled.try_emplace(lanes_of_sums(job, product->acc()));
  if (is_new)
    if (auto c = find_tiled(job, nest, *product)) known->second = std::make_shared<const TiledProduct>(std::move(*c));
  return known->second;
}

Panels::Panels(const Job& job, const TiledProduct& c, const FlatNest& nest) : columns(c.few ? c.n->extent->i : nest::kPanel), ctx_(job.ctx), c_(c) {
  ir::Context& ctx = job.ctx;
  Facts facts;
  for (const ir::Dim* d : c.batch)
    if (facts.depends(c.b(), d)) outer.push_back(d);
    else if (!facts.depends(c.a(), d) && !facts.depends(nest.writes[0].address, d)) conditions.push_back(d);
  count = ctx.ceildiv(c.n->extent, ctx.integer(columns));
  const int64_t padding = c.few ? 1 : depth_of_padding(job, c);
  groups = padding > 1 ? ctx.mul(ctx.ceildiv(c.k->extent, ctx.integer(padding)), ctx.integer(padding / c.group)) : ctx.ceildiv(c.k->extent, ctx.integer(c.group));
  std::vector<const Expr*> extents{count, groups, ctx.integer(columns * c.group)};
  for (const ir::Dim* d : outer) extents.push_back(d->extent);
  for (const ir::Dim* d : c.taps) extents.push_back(d->extent);
  workspace.name = "panels";
  workspace.dtype = c.codes() ? DType::I8 : c.group > 1 ? c.b()->type.dtype : c.acc();
  workspace.role = loop::Role::Workspace;
  workspace.elements = ctx.product(extents);
  for (const loop::Param& param : nest.params) workspace.array += param.role == loop::Role::Workspace;
}

const Expr* Panels::at(const Expr* panel, const Expr* lane, const Expr* k) const {
  const Expr *group = ctx_.integer(c_.group), *at = ctx_.integer(0);
  for (const ir::Dim* d : outer) at = ctx_.add(ctx_.mul(at, d->extent), ctx_.dim(d));
  at = c_.few ? ctx_.add(ctx_.mul(at, ctx_.integer(columns)), lane) : ctx_.add(ctx_.mul(at, count), panel);
  for (const ir::Dim* d : c_.taps) at = ctx_.add(ctx_.mul(at, d->extent), ctx_.dim(d));
  at = ctx_.add(ctx_.mul(at, groups), ctx_.floordiv(k, group));
  if (c_.few) return at;
  at = ctx_.add(ctx_.mul(at, ctx_.integer(nest::kPanel)), lane);
  return ctx_.add(ctx_.mul(at, group), ctx_.floormod(k, group));
}

namespace {

// Groups that lie as such in B already, each a word: as a whole they are packed as numbers are. Nothing: it is not known that they do.
struct Words {
  const ir::Dim* number = nullptr;  // of a group along k
  const Expr* address = nullptr;    // of B, in words
};
std::optional<Words> words_of(ir::Context& ctx, const TiledProduct& c, const Panels& panels) {
  if (c.group == 1 || c.codes() || ir::divisor_of(c.k->extent) % c.group != 0 || ctx.sub(ctx.mul(panels.groups, ctx.integer(c.group)), c.k->extent) != ctx.integer(0)) return std::nullopt;
  Words words{ctx.declare_dim("word", panels.groups), nullptr};
  const Expr *leaves[] = {ctx.dim(c.n), ctx.dim(c.k)}, *group = ctx.integer(c.group);
  const auto lin = ir::linear_in(ctx, c.b()->args[0], leaves);
  if (!lin || !lin->coefficients[1]->is_int(1) || ir::divisor_of(lin->coefficients[0]) % c.group != 0 || ir::divisor_of(lin->rest) % c.group != 0) return std::nullopt;
  const Expr* of_column = ctx.mul(ctx.floordiv(lin->coefficients[0], group), ctx.dim(c.n));
  words.address = ctx.add(ctx.add(ctx.floordiv(lin->rest, group), of_column), ctx.dim(words.number));
  return words;
}

// Whole panels read all of their columns and are a transposition; the last one, if it is not whole, has zeros behind them.
Result<loop::Kernel> pack_numbers(const Job& job, const TiledProduct& c, const Panels& panels, const loop::Param& source, bool last, const std::optional<Words>& words) {
  ir::Context& ctx = job.ctx;
  const Expr *sixteen = ctx.integer(nest::kPanel), *whole = ctx.floordiv(c.n->extent, sixteen);
  const ir::Dim *panel = ctx.declare_dim("panel", last ? ctx.sub(panels.count, whole) : whole), *lane = ctx.declare_dim("lane", ctx.integer(panels.columns));
  FlatNest pack;
  pack.dims = panels.outer;
  pack.dims.insert(pack.dims.begin(), panels.conditions.begin(), panels.conditions.end());
  pack.dims.push_back(c.few ? lane : panel);
  pack.dims.insert(pack.dims.end(), c.taps.begin(), c.taps.end());
  const ir::Dim* depth = words ? words->number : c.k;
  pack.dims.push_back(depth);
  if (!c.few) pack.dims.push_back(lane);
  const Expr* number = c.few ? ctx.integer(0) : last ? ctx.add(whole, ctx.dim(panel)) : ctx.dim(panel);
  const Expr *column = ctx.add(ctx.mul(number, sixteen), ctx.dim(lane)), *group = ctx.integer(words ? c.group : 1);
  FlatWrite w;
  w.buffer = 1;
  w.dtype = words ? DType::U32 : c.acc();
  w.address = ctx.floordiv(panels.at(number, ctx.dim(lane), ctx.mul(ctx.dim(depth), group)), group);
  Expr load = *c.b();
  load.array = 0;
  if (words) load.type = {w.dtype, 1};
  if (last) load.access = ir::Access::Proved;
  const Expr* at = ctx.substitute(words ? words->address : c.b()->args[0], {{ctx.dim(c.n), column}});
  w.value = ctx.cast(w.dtype, ctx.raw(load, {at}));
  if (last) w.value = ctx.select(ctx.binary(Op::Lt, column, c.n->extent), w.value, ctx.number(0, w.dtype));
  pack.writes.push_back(w);
  pack.params = {source, panels.workspace};
  pack.params[1].written = true;
  if (words) pack.params[0].dtype = pack.params[1].dtype = w.dtype;
  pack.params[1].elements = ctx.floordiv(panels.workspace.elements, group);
  return kernel_of(job, pack, /*tiles=*/!last);
}

Status pack_panels(const Job& job, const TiledProduct& c, const Panels& panels, const loop::Param& source, bool flip_sign, Kernels& kernels) {
  const std::optional<Words> words = words_of(job.ctx, c, panels);
  if (c.group > 1 && !words) {
    MLC_ASSIGN(loop::Kernel kernel, pack_groups(job, c, panels, source, flip_sign));
    kernels.push_back(std::move(kernel));
    return ok();
  }
  for (const bool last : {false, true}) {
    if (c.few ? last : last ? ir::divisor_of(c.n->extent) % nest::kPanel == 0 : c.n->extent->is_const() && c.n->extent->i < nest::kPanel) continue;
    Job part = job;
    if (last) part.name += ".last";
    MLC_ASSIGN(loop::Kernel kernel, pack_numbers(part, c, panels, source, last, words));
    kernels.push_back(std::move(kernel));
  }
  return ok();
}

}  // namespace

Status pack_columns(const Job& job, FlatNest& nest, Kernels& kernels) {
  ir::Context& ctx = job.ctx;
  const auto tiled = tiled_product(job, nest);
  if (!tiled || !tiled->needs_pack) return ok();
  const TiledProduct& c = *tiled;
  // What the kernel itself computes, a group before, is not there yet when panels are packed: local arrays, and others that are
  // read outside of the group as well.
  if (c.b()->array >= nest.params.size() || nest.params[c.b()->array].written) return ok();
  // Few columns take no more than a row of the other factor or two, and go without vectors if they stay as stored.
  if (!has_rows_worth_packing(ctx, c, c.few ? 2 : nest::kRowsWorthPacking)) return ok();

  const Panels panels(job, c, nest);
  loop::Param source = nest.params[c.b()->array];
  source.written = false;
  Job pack_job = job;
  pack_job.name = job.name + ".pack" + (panels.workspace.array ? std::to_string(panels.workspace.array) : "");
  MLC_RETURN_IF_ERROR(pack_panels(pack_job, c, panels, source, c.product.b.zero != nullptr, kernels));

  // The product reads the workspace, which is one more parameter of the nest.
  Expr panel_load = *c.b();
  panel_load.array = static_cast<uint32_t>(nest.params.size());
  panel_load.type = {panels.workspace.dtype, 1};
  panel_load.access = ir::Access::Clamped;
  const Expr *n = ctx.dim(c.n), *width = ctx.integer(panels.columns);
  const Expr* from_panels = ctx.cast(c.fold()->type.dtype, ctx.raw(panel_load, {panels.at(ctx.floordiv(n, width), ctx.floormod(n, width), ctx.dim(c.k))}));
  nest.writes[0].value = ctx.rewrite(nest.writes[0].value, [&](const Expr* e) { return e == c.product.b.factor ? from_panels : nullptr; });
  nest.params.push_back(panels.workspace);
  return ok();
}

}  // namespace mlc::lower
