#include "packager/lower/product/contraction.h"

#include <algorithm>
#include <cmath>

#include "packager/nest/facts/contraction.h"

namespace mlc::lower {

using ir::Expr;
using ir::Op;

namespace {

// The only product in what is written, if a tile can sum it and it may be evaluated at every point; with it, for codes, the
// sums of one operand over the same points.
struct Product {
  nest::Contraction c;
  const Expr *sum_of_a = nullptr, *sum_of_b = nullptr;
};
std::optional<Product> the_product(ir::Context& ctx, Facts& facts, const FlatNest& nest) {
  const Expr* value = nest.writes[0].value;
  std::optional<Product> product;
  std::vector<const Expr*> folds;
  ir::walk(value, [&](const Expr* e) {
    if (e->op == Op::Fold) folds.push_back(e);
  });
  for (const Expr* fold : folds) {
    const auto c = nest::contraction_of(ctx, nest.dims, fold);
    if (!c) continue;
    if (product) return std::nullopt;
    product = Product{*c};
  }
  if (!product) return std::nullopt;
  const nest::Contraction& c = product->c;
  for (const Expr* fold : folds) {
    if (fold == c.fold) continue;
    const bool of_a = nest::is_sum_of_operand(fold, c, c.a);
    if (!of_a && !nest::is_sum_of_operand(fold, c, c.b)) return std::nullopt;
    (of_a ? product->sum_of_a : product->sum_of_b) = fold;
  }
  const bool codes = c.acc() == DType::I32 && c.a.is_code() && c.b.is_code();
  if (!codes && ((c.acc() != DType::F32 && c.acc() != DType::F64) || folds.size() != 1 || !c.is_plain())) return std::nullopt;
  for (const nest::Operand* o : {&c.a, &c.b})
    if (o->is_code() != codes || o->load->args.size() != 1 || (o->zero && !nest::is_signed_code(*o)) || o->scale) return std::nullopt;
  return nest.folds_anywhere || !facts.needs_guard(c.fold) || is_unconditional(value, c.fold) ? product : std::nullopt;
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

struct Columns {
  const Expr *rest, *panel, *lane;
};
// `address` with n = 16*panel + lane, as a linear form of panel and lane.
std::optional<Columns> split_columns(ir::Context& ctx, const Expr* address, const ir::Dim* n) {
  const ir::Dim* panel = ctx.declare_dim("panel", ctx.ceildiv(n->extent, ctx.integer(16)));
  const ir::Dim* lane = ctx.declare_dim("lane", ctx.integer(16));
  const Expr *p = ctx.dim(panel), *l = ctx.dim(lane);
  const Expr* at = ctx.substitute(address, {{ctx.dim(n), ctx.add(ctx.mul(ctx.integer(16), p), l)}});
  const Expr* leaves[] = {p, l};
  auto lin = ir::linear_in(ctx, at, leaves);
  if (!lin) return std::nullopt;
  return Columns{lin->rest, lin->coefficients[0], lin->coefficients[1]};
}

// Whether column 0 is the first of a panel, whatever stands in the rest of its address. Where columns are taken apart (column 3*p + q
// of 9), q begins somewhere inside, and sixteen of them would not all lie in this panel.
bool begins_at_panel(const Expr* rest, int64_t elements) { return rest->is_int(0) || ir::divisor_of(rest) % elements == 0; }

// `address` of codes with n = 16*panel + lane and k = group*outer + i, where these lie as instructions on groups want them.
struct Groups {
  const Expr *rest, *panel, *group;
};
std::optional<Groups> split_groups(ir::Context& ctx, const Expr* address, const ir::Dim* n, const ir::Dim* k, int64_t group) {
  const auto split = [&](const ir::Dim* d, int64_t size, std::vector<const Expr*>& parts) {
    const Expr* some = ctx.integer(size);
    parts.push_back(ctx.dim(ctx.declare_dim("outer", ctx.ceildiv(d->extent, some))));
    parts.push_back(ctx.dim(ctx.declare_dim("inner", some)));
    return ctx.add(ctx.mul(some, parts[parts.size() - 2]), parts.back());
  };
  std::vector<const Expr*> leaves;
  const Expr* at = ctx.substitute(address, {{ctx.dim(n), split(n, nest::kPanel, leaves)}});
  at = ctx.substitute(at, {{ctx.dim(k), split(k, group, leaves)}});
  auto lin = ir::linear_in(ctx, at, leaves);
  if (!lin || !lin->coefficients[1]->is_int(group) || !lin->coefficients[3]->is_int(1)) return std::nullopt;
  return Groups{lin->rest, lin->coefficients[0], lin->coefficients[2]};
}

// Rows: dims that only A knows and in which it is affine, the innermost in the output as tile rows; all others are batches.
void choose_rows(ir::Context& ctx, Facts& facts, const FlatNest& nest, Contraction& c) {
  std::vector<const ir::Dim*> rows;
  for (const ir::Dim* d : nest.dims)
    if (d != c.n && facts.depends(c.a, d) && !facts.depends(c.b, d)) {
      std::vector<const ir::Dim*> inner = c.fold->fold->dims;
      inner.insert(inner.end(), rows.begin(), rows.end());
      inner.push_back(d);
      if (affine(ctx, facts, c.a->args[0], inner)) rows.push_back(d);
    }
  auto stride = [&](const ir::Dim* d) {
    const Expr* s = coefficient(ctx, nest.writes[0].address, d);
    return s && facts.dims(s) == 0 && !has_load(s) ? std::abs(estimate(s)) : 1e18;
  };
  std::stable_sort(rows.begin(), rows.end(), [&](auto x, auto y) { return stride(x) < stride(y); });
  c.a_m = ctx.integer(0);
  if (!rows.empty()) {
    c.m = rows[0];
    c.a_m = coefficient(ctx, c.a->args[0], c.m);
  }
  if (rows.size() > 1) c.m_outer = rows[1];
  for (const ir::Dim* d : nest.dims)
    if (d != c.n && d != c.m && d != c.m_outer) c.batch.push_back(d);
}

// k: contiguous in A if there is such a dim, else the longest; never one that conditions cut short. All others are taps. Where
// conditions are about all of them (one input channel), k is a dim of its own with a single value.
void choose_k(ir::Context& ctx, Facts& facts, Contraction& c) {
  const ir::Fold& fold = *c.fold->fold;
  for (const ir::Dim* d : fold.dims) {
    if (fold.where && facts.depends(fold.where, d)) continue;
    bool unit = coefficient(ctx, c.a->args[0], d)->is_int(1);
    bool have_unit = c.k && coefficient(ctx, c.a->args[0], c.k)->is_int(1);
    if (!c.k || (unit && !have_unit) || (unit == have_unit && estimate(d->extent) > estimate(c.k->extent))) c.k = d;
  }
  if (!c.k) c.k = ctx.declare_dim("k", ctx.integer(1));
  for (const ir::Dim* d : fold.dims)
    if (d != c.k) c.taps.push_back(d);
  c.a_k = coefficient(ctx, c.a->args[0], c.k);
  c.b_k = coefficient(ctx, c.b_rest, c.k);
}

// Every condition must be affine in the dims that change within a tile.
bool conditions_fit(ir::Context& ctx, Facts& facts, const Contraction& c) {
  std::vector<const ir::Dim*> inner = c.fold->fold->dims;
  if (c.m) inner.push_back(c.m);
  return std::all_of(c.conditions.begin(), c.conditions.end(), [&](const Expr* term) {
    return (term->op == Op::Lt || term->op == Op::Le) && term->args[0]->type.dtype == DType::I64 &&
           affine(ctx, facts, ctx.sub(term->args[1], term->args[0]), inner);
  });
}

// The product with `a` as rows and `n`, a dim of `b`, as columns.
std::optional<Recognised> with_columns(ir::Context& ctx, Facts& facts, const FlatNest& nest, const nest::Contraction& p, const ir::Dim* n, unsigned lanes) {
  const Expr *sum = p.fold, *a = p.a.load, *b = p.b.load;
  if (sum->fold->where && facts.depends(sum->fold->where, n)) return std::nullopt;
  auto columns = split_columns(ctx, b->args[0], n);
  if (!columns || facts.dims(columns->panel) || facts.dims(columns->lane)) return std::nullopt;
  if (!affine(ctx, facts, columns->rest, sum->fold->dims)) return std::nullopt;
  Recognised r;
  Contraction& c = r.c;
  c.fold = sum;
  c.a = a;
  c.b = b;
  c.n = n;
  c.b_rest = columns->rest;
  c.b_panel = columns->panel;
  c.padded_panels = !columns->panel->is_int(16) && begins_at_panel(columns->rest, nest::kPanel);
  c.conditions = conjuncts(ctx, sum->fold->where);
  choose_k(ctx, facts, c);
  const bool side_by_side = columns->lane->is_int(1);
  const bool is_few = n->extent->is_const() && n->extent->i >= 1 && n->extent->i <= nest::kFewColumns && c.a_k->is_int(1);
  const unsigned k_lanes = is_few ? nest::lanes_along_k(c.k->extent, lanes) : 1;
  if (!side_by_side && c.b_k->is_int(1)) c.k_lanes = k_lanes;
  if (c.along_k()) c.b_n = columns->lane;
  // Along a fold whose length the run decides other families have vectors, where it lies so.
  const bool is_free = is_few && !c.k->extent->is_const() && n->extent->i < nest::kFewColumns;
  r.few = (k_lanes > 1 || is_free) && !c.b_k->is_int(1) && (!side_by_side || n->extent->i < nest::kFewColumns);
  r.needs_pack = r.few || (!side_by_side && !c.along_k());
  if (r.needs_pack && sum->fold->where && facts.needs_guard(b)) return std::nullopt;  // packing reads all of B
  choose_rows(ctx, facts, nest, c);
  if (!conditions_fit(ctx, facts, c)) return std::nullopt;
  // A row needs several columns: otherwise (a matrix times a vector) the generic template is as good.
  if (!c.along_k() && !r.few && n->extent->is_const() && n->extent->i < nest::kFewColumns) return std::nullopt;
  return r;
}

bool has_rows_worth_packing(ir::Context& ctx, const Contraction& c, int64_t least) {
  const Expr* rows = ctx.mul(c.m ? c.m->extent : ctx.integer(1), c.m_outer ? c.m_outer->extent : ctx.integer(1));
  return !rows->is_const() || rows->i >= least;
}

// The same of codes and of bf16, whose columns lie in groups along k. No group is cut short by a condition. Columns of bf16 that do not
// are packed for tiles alone: other instructions are no faster than products in f32, whose columns may stay as they are.
std::optional<Recognised> with_groups(const Job& job, Facts& facts, const FlatNest& nest, const nest::Contraction& p, const Expr* sum_of_a, const ir::Dim* n) {
  ir::Context& ctx = job.ctx;
  const ir::Fold& fold = *p.fold->fold;
  const Expr* where = fold.where ? fold.where : p.a.inside;
  const bool pairs = nest::is_product_of_pairs(p);
  if (p.b.inside || p.a.zero || (fold.where && p.a.inside) || !(pairs || nest::is_signed_code(p.b)) || (where && facts.depends(where, n))) return std::nullopt;
  Recognised r;
  Contraction& c = r.c;
  c.group = pairs ? nest::kPair : nest::kGroup;
  const auto restricted = [&](const ir::Dim* k) { return where && facts.depends(where, k); };
  for (const ir::Dim* k : fold.dims) {
    if (p.b.zero || restricted(k) || (k->extent->is_const() && k->extent->i < 1)) continue;
    const auto groups = split_groups(ctx, p.b.load->args[0], n, k, c.group);
    if (!groups || facts.dims(groups->panel) || facts.dims(groups->group) || !begins_at_panel(groups->rest, nest::kPanel * c.group)) continue;
    c.k = k;
    c.b_rest = groups->rest;
    c.b_panel = groups->panel;
    c.b_k = groups->group;
  }
  if (c.k && facts.has_fold(c.b_rest)) return std::nullopt;
  if (!c.k && pairs && (!job.target.has_tiles || job.vector_bytes() < kTileBytes)) return std::nullopt;
  r.needs_pack = !c.k;
  if (r.needs_pack) {  // all of B is read, whatever the conditions
    if (facts.needs_guard(p.b.load) && (where || !nest.folds_anywhere)) return std::nullopt;
    if (n->extent->is_const() && n->extent->i < nest::kFewColumns) return std::nullopt;
    for (const ir::Dim* k : fold.dims)
      if (!restricted(k) && (!c.k || estimate(k->extent) > estimate(c.k->extent))) c.k = k;
    if (!c.k || (c.k->extent->is_const() && c.k->extent->i < c.group)) return std::nullopt;
  }
  for (const ir::Dim* d : fold.dims)
    if (d != c.k) c.taps.push_back(d);
  if (!r.needs_pack && !affine(ctx, facts, c.b_rest, c.taps)) return std::nullopt;
  c.fold = p.fold;
  c.a = p.a.load;
  c.b = p.b.load;
  c.n = n;
  c.padded_panels = true;
  c.conditions = conjuncts(ctx, where);
  c.outside = p.a.inside ? p.a.outside : nullptr;
  c.sum_of_a = sum_of_a;
  c.a_k = coefficient(ctx, c.a->args[0], c.k);
  choose_rows(ctx, facts, nest, c);
  if (pairs && r.needs_pack && (!c.m || !c.a_k->is_int(1) || !c.conditions.empty() || !has_rows_worth_packing(ctx, c, nest::kRowsWorthPacking))) return std::nullopt;
  if (!conditions_fit(ctx, facts, c)) return std::nullopt;
  if (c.outside && (facts.has_fold(c.outside) || facts.dims(c.outside) || facts.needs_guard(c.outside))) return std::nullopt;
  return r;
}

// A single column is no dim of the nest: then B is a vector that no map dim knows.
const ir::Dim* single_column(ir::Context& ctx, Facts& facts, const FlatNest& nest, const Expr* b) {
  if (std::any_of(nest.dims.begin(), nest.dims.end(), [&](const ir::Dim* d) { return facts.depends(b, d); })) return nullptr;
  return ctx.declare_dim("column", ctx.integer(1));
}

}  // namespace

unsigned lanes_of_sums(const Job& job, DType acc) { return std::min(static_cast<unsigned>(nest::kPanel), job.lanes_of(acc)); }

std::optional<Recognised> recognise(const Job& job, const FlatNest& nest) {
  ir::Context& ctx = job.ctx;
  if (nest.writes.size() != 1 || nest.writes[0].push || nest.scan_dim || nest.where) return std::nullopt;
  Facts facts;
  const auto product = the_product(ctx, facts, nest);
  if (!product) return std::nullopt;
  const Expr* sum = product->c.fold;
  const bool codes = product->c.a.is_code();
  std::optional<Recognised> best;
  double best_rank = -1;
  for (const bool swap : {true, false}) {
    const nest::Contraction side = swap ? product->c.swapped() : product->c;
    const Expr *a = side.a.load, *b = side.b.load;
    const Expr *sum_of_a = swap ? product->sum_of_b : product->sum_of_a, *sum_of_b = swap ? product->sum_of_a : product->sum_of_b;
    if (sum_of_b) continue;
    if (!affine(ctx, facts, a->args[0], sum->fold->dims)) continue;
    std::vector<const ir::Dim*> columns = side.n;
    const ir::Dim* single = codes ? nullptr : single_column(ctx, facts, nest, b);
    if (single) columns.push_back(single);
    for (const ir::Dim* n : columns) {
      auto r = codes || nest::is_product_of_pairs(side) ? with_groups(job, facts, nest, side, sum_of_a, n) : std::nullopt;
      if (!r && !codes) r = with_columns(ctx, facts, nest, side, n, lanes_of_sums(job, side.acc()));
      if (!r || (n == single && !r->c.m)) continue;
      const Expr* step = coefficient(ctx, nest.writes[0].address, n);
      double rank = (!r->needs_pack ? 1e12 : r->few ? 1e11 : 0) + (step && step->is_int(1) ? 1e9 : 0) + std::min(estimate(n->extent), 1e6);
      if (rank > best_rank) {
        best_rank = rank;
        best = std::move(r);
      }
    }
  }
  return best;
}

Panels::Panels(const Job& job, const Contraction& c, const FlatNest& nest, bool columns_are_few)
    : columns(columns_are_few ? c.n->extent->i : nest::kPanel), few(columns_are_few), ctx_(job.ctx), c_(c) {
  ir::Context& ctx = job.ctx;
  Facts facts;
  for (const ir::Dim* d : c.batch)
    if (facts.depends(c.b, d)) outer.push_back(d);
    else if (!facts.depends(c.a, d) && !facts.depends(nest.writes[0].address, d)) conditions.push_back(d);
  count = ctx.ceildiv(c.n->extent, ctx.integer(columns));
  const int64_t padding = few ? 1 : depth_of_padding(job, c);
  groups = padding > 1 ? ctx.mul(ctx.ceildiv(c.k->extent, ctx.integer(padding)), ctx.integer(padding / c.group)) : ctx.ceildiv(c.k->extent, ctx.integer(c.group));
  std::vector<const Expr*> extents{count, groups, ctx.integer(columns * c.group)};
  for (const ir::Dim* d : outer) extents.push_back(d->extent);
  for (const ir::Dim* d : c.taps) extents.push_back(d->extent);
  workspace.name = "panels";
  workspace.dtype = c.codes() ? DType::I8 : c.group > 1 ? c.b->type.dtype : c.acc();
  workspace.role = loop::Role::Workspace;
  workspace.elements = ctx.product(extents);
  for (const loop::Param& param : nest.params) workspace.array += param.role == loop::Role::Workspace;
}

const Expr* Panels::at(const Expr* panel, const Expr* lane, const Expr* k) const {
  const Expr *group = ctx_.integer(c_.group), *at = ctx_.integer(0);
  for (const ir::Dim* d : outer) at = ctx_.add(ctx_.mul(at, d->extent), ctx_.dim(d));
  at = few ? ctx_.add(ctx_.mul(at, ctx_.integer(columns)), lane) : ctx_.add(ctx_.mul(at, count), panel);
  for (const ir::Dim* d : c_.taps) at = ctx_.add(ctx_.mul(at, d->extent), ctx_.dim(d));
  at = ctx_.add(ctx_.mul(at, groups), ctx_.floordiv(k, group));
  if (few) return at;
  at = ctx_.add(ctx_.mul(at, ctx_.integer(nest::kPanel)), lane);
  return ctx_.add(ctx_.mul(at, group), ctx_.floormod(k, group));
}

namespace {

// Groups that lie as such in B already, each a word: as a whole they are packed as numbers are. Nothing: it is not known that they do.
struct Words {
  const ir::Dim* number = nullptr;  // of a group along k
  const Expr* address = nullptr;    // of B, in words
};
std::optional<Words> words_of(ir::Context& ctx, const Contraction& c, const Panels& panels) {
  if (c.group == 1 || c.codes() || ir::divisor_of(c.k->extent) % c.group != 0 || ctx.sub(ctx.mul(panels.groups, ctx.integer(c.group)), c.k->extent) != ctx.integer(0)) return std::nullopt;
  Words words{ctx.declare_dim("word", panels.groups), nullptr};
  const Expr *leaves[] = {ctx.dim(c.n), ctx.dim(c.k)}, *group = ctx.integer(c.group);
  const auto lin = ir::linear_in(ctx, c.b->args[0], leaves);
  if (!lin || !lin->coefficients[1]->is_int(1) || ir::divisor_of(lin->coefficients[0]) % c.group != 0 || ir::divisor_of(lin->rest) % c.group != 0) return std::nullopt;
  const Expr* of_column = ctx.mul(ctx.floordiv(lin->coefficients[0], group), ctx.dim(c.n));
  words.address = ctx.add(ctx.add(ctx.floordiv(lin->rest, group), of_column), ctx.dim(words.number));
  return words;
}

// Whole panels read all of their columns and are a transposition; the last one, if it is not whole, has zeros behind them.
Result<loop::Kernel> pack_numbers(const Job& job, const Contraction& c, const Panels& panels, const loop::Param& source, bool last, const std::optional<Words>& words) {
  ir::Context& ctx = job.ctx;
  const Expr *sixteen = ctx.integer(nest::kPanel), *whole = ctx.floordiv(c.n->extent, sixteen);
  const ir::Dim *panel = ctx.declare_dim("panel", last ? ctx.sub(panels.count, whole) : whole), *lane = ctx.declare_dim("lane", ctx.integer(panels.columns));
  FlatNest pack;
  pack.dims = panels.outer;
  pack.dims.insert(pack.dims.begin(), panels.conditions.begin(), panels.conditions.end());
  pack.dims.push_back(panels.few ? lane : panel);
  pack.dims.insert(pack.dims.end(), c.taps.begin(), c.taps.end());
  const ir::Dim* depth = words ? words->number : c.k;
  pack.dims.push_back(depth);
  if (!panels.few) pack.dims.push_back(lane);
  const Expr* number = panels.few ? ctx.integer(0) : last ? ctx.add(whole, ctx.dim(panel)) : ctx.dim(panel);
  const Expr *column = ctx.add(ctx.mul(number, sixteen), ctx.dim(lane)), *group = ctx.integer(words ? c.group : 1);
  FlatWrite w;
  w.buffer = 1;
  w.dtype = words ? DType::U32 : c.acc();
  w.address = ctx.floordiv(panels.at(number, ctx.dim(lane), ctx.mul(ctx.dim(depth), group)), group);
  Expr load = *c.b;
  load.array = 0;
  if (words) load.type = {w.dtype, 1};
  if (last) load.access = ir::Access::Proved;
  const Expr* at = ctx.substitute(words ? words->address : c.b->args[0], {{ctx.dim(c.n), column}});
  w.value = ctx.cast(w.dtype, ctx.raw(load, {at}));
  if (last) w.value = ctx.select(ctx.binary(Op::Lt, column, c.n->extent), w.value, ctx.number(0, w.dtype));
  pack.writes.push_back(w);
  pack.params = {source, panels.workspace};
  pack.params[1].written = true;
  if (words) pack.params[0].dtype = pack.params[1].dtype = w.dtype;
  pack.params[1].elements = ctx.floordiv(panels.workspace.elements, group);
  return kernel_of(job, pack, /*tiles=*/!last);
}

Status pack_panels(const Job& job, const Contraction& c, const Panels& panels, const loop::Param& source, bool flip_sign, Kernels& kernels) {
  const std::optional<Words> words = words_of(job.ctx, c, panels);
  if (c.group > 1 && !words) {
    MLC_ASSIGN(loop::Kernel kernel, pack_groups(job, c, panels, source, flip_sign));
    kernels.push_back(std::move(kernel));
    return ok();
  }
  for (const bool last : {false, true}) {
    if (panels.few ? last : last ? ir::divisor_of(c.n->extent) % nest::kPanel == 0 : c.n->extent->is_const() && c.n->extent->i < nest::kPanel) continue;
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
  const auto r = recognise(job, nest);
  if (!r || !r->needs_pack) return ok();
  const Contraction& c = r->c;
  // What the kernel itself computes, a group before, is not there yet when panels are packed: local arrays, and others that are
  // read outside of the group as well.
  if (c.b->array >= nest.params.size() || nest.params[c.b->array].written) return ok();
  // Few columns take no more than a row of the other factor or two, and go without vectors if they stay as stored.
  if (!has_rows_worth_packing(ctx, c, r->few ? 2 : nest::kRowsWorthPacking)) return ok();

  const Panels panels(job, c, nest, r->few);
  const auto product = nest::contraction_of(ctx, nest.dims, c.fold);
  const nest::Operand& operand = product->b.load == c.b ? product->b : product->a;
  loop::Param source = nest.params[c.b->array];
  source.written = false;
  Job pack_job = job;
  pack_job.name = job.name + ".pack" + (panels.workspace.array ? std::to_string(panels.workspace.array) : "");
  MLC_RETURN_IF_ERROR(pack_panels(pack_job, c, panels, source, operand.zero != nullptr, kernels));

  // The product reads the workspace, which is one more parameter of the nest.
  Expr panel_load = *c.b;
  panel_load.array = static_cast<uint32_t>(nest.params.size());
  panel_load.type = {panels.workspace.dtype, 1};
  panel_load.access = ir::Access::Clamped;
  const Expr *n = ctx.dim(c.n), *width = ctx.integer(panels.columns);
  const Expr* from_panels = ctx.cast(c.fold->type.dtype, ctx.raw(panel_load, {panels.at(ctx.floordiv(n, width), ctx.floormod(n, width), ctx.dim(c.k))}));
  const Expr* factor = operand.factor;
  nest.writes[0].value = ctx.rewrite(nest.writes[0].value, [&](const Expr* e) { return e == factor ? from_panels : nullptr; });
  nest.params.push_back(panels.workspace);
  return ok();
}

}  // namespace mlc::lower
