// The schedules of a contraction, and its blocks for the caches (design: kernels.md sections 6 to 8).
//
//   tile of the launch   batch point, range of rows, range of column groups, as the launch is cut
//     block of groups    where B is larger than L2 and rows are few: as many groups as stay there; else all
//       block of rows    as many as stay in L2 while all of these groups go by
//         column group   as many columns as a register tile is wide; B's panels of it stay in L1 or L2
//           outer row dim  (output rows of a convolution)
//             row tile   heights differ by one at most, so that there is never a one-row tail
//               taps, k  accumulators are locals; rows of a tile that a tap does not reach are left out
//               epilogue
//
// Rows outside the image: where sizes are constants, the tiles at the edge are code of their own that leaves the rows
// out; where they are symbols, a tap that does not reach all rows of a tile reads zeros for the others.
#include "packager/lower/product/gemm.h"

#include <algorithm>
#include <cmath>

namespace mlc::lower {

using ir::Expr;
using ir::Op;
using schedule::Bind;
using schedule::Family;
using schedule::Loop;

namespace {

constexpr size_t kMaxEdgeTiles = 6;
constexpr double kLongEpilogueOfTile = 14;  // operations: more than bias, residual, activation by min and max
constexpr int64_t kLateSteps = 4;     // of k, for each tap

Anchor anchor_of(const TiledProduct& c) {
  Facts facts;
  Anchor anchor{c.m, c.taps, {}, {}};
  for (const Expr* term : c.conditions)
    (c.outside() || (c.m && facts.depends(term, c.m)) ? anchor.row_terms : anchor.tap_terms).push_back(term);
  return anchor;
}

class Products {
 public:
  Products(const Job& job, const FlatNest& nest, TiledProduct c) : job_(job), n_(nest), ctx_(job.ctx), c_(std::move(c)), anchor_(anchor_of(c_)) {}

  Schedules run() {
    Schedules s;
    name_dims();
    find_space(s.space);
    const Expr* rows = c_.m ? c_.m->extent : ctx_.integer(1);
    const std::vector<RegisterTile> tiles =
        c_.along_k() ? std::vector{choose_tile_along_k(job_, estimate(rows), rows->is_const(), static_cast<unsigned>(c_.n->extent->i))}
                     : ranked_tiles(job_, c_.acc(), estimate(rows), rows->is_const(), estimate(c_.n->extent), bytes_of_column(), c_.padded_panels, c_.product.sum_of_a ? 1 : 0);
    if (bytes_of_tiles(job_, c_)) s.ranked.push_back(tiled_schedule());
    for (const RegisterTile& tile : tiles) s.ranked.push_back(schedule_of(tile));
    s.other_blocks = other_blocks(tiles.front(), s.ranked.front().blocks);
    s.build = [&job = job_, &nest = n_, c = c_, names = names_](Skeleton& k, const schedule::Schedule& how) -> StagePtr {
      return std::make_unique<Gemm>(job, nest, k, c, how, names);
    };
    return s;
  }

 private:
  void name_dims() {
    for (const ir::Dim* d : c_.batch) name_[d] = names_.add(d);
    for (const ir::Dim* d : {c_.m_outer, c_.m, c_.n})
      if (d) name_[d] = names_.add(d);
    for (const ir::Dim* d : c_.taps) name_[d] = names_.add(d);
    name_[c_.k] = names_.add(c_.k);
  }
  const std::string& name(const ir::Dim* d) const { return name_.at(d); }
  static int64_t constant(const Expr* e) { return e->is_const() ? e->i : -1; }

  void find_space(schedule::Space& space) {
    space.family = c_.along_k() ? Family::Thin : Family::Product;
    const auto add = [&](const ir::Dim* d) -> schedule::Space::Dim& {
      schedule::Space::Dim& dim = space.dims.emplace_back();
      dim.name = name(d);
      dim.extent = constant(d->extent);
      return dim;
    };
    for (const ir::Dim* d : c_.batch) add(d).cut = true;
    if (c_.m_outer) add(c_.m_outer).cut = true;
    if (c_.m) {
      auto& m = add(c_.m);
      m.cut = m.rows = m.even_only = true;
      m.serial = false;
      m.peel = may_peel();
    }
    auto& n = add(c_.n);
    n.cut = n.masked = true;
    n.serial = false;
    n.lanes = c_.along_k() ? 1 : lanes_of_sums(job_, c_.acc());
    for (const ir::Dim* d : c_.taps) {
      auto& tap = add(d);
      tap.reduces = true;
      tap.unroll = d->extent->is_const() && d->extent->i >= 1 && d->extent->i <= kMostCopies;
      tap.peel = tap.unroll && may_peel_window(ctx_, facts_, anchor_, d);
    }
    auto& k = add(c_.k);
    k.reduces = k.part = true;
    k.step = c_.group;
    if (c_.along_k()) k.lanes = c_.k_lanes, k.serial = false, k.masked = true;
    space.needs_lanes = true;
    space.needs_rows = c_.m != nullptr;
    space.panel = c_.along_k() ? 0 : static_cast<unsigned>(nest::kPanel);
    space.most_vectors = 8;
    space.instructions = {instruction()};
    k.filled = c_.group > 1 && is_filled_up(ctx_, c_);
    if (bytes_of_tiles(job_, c_)) space.instructions.push_back(tiles_instruction());
    space.places = {"sums"};
    if (may_be_late()) space.places.push_back("late");
    space.fetch = lies_in_const_panels();
    if (space.fetch && c_.m && !c_.m_outer && c_.taps.empty() && !c_.codes()) space.depth = c_.k->extent->i;
  }
  std::string instruction() const {
    return c_.group > 1 ? "dot." + std::string(name_of(c_.a()->type.dtype)) : "fma." + std::string(name_of(c_.fold()->type.dtype));
  }

  bool may_peel() { return !c_.outside() && may_peel_rows(ctx_, facts_, anchor_); }

  schedule::Schedule schedule_of(const RegisterTile& tile) {
    schedule::Schedule s;
    s.family = c_.along_k() ? Family::Thin : Family::Product;
    const int64_t lanes = c_.along_k() ? 1 : lanes_of_sums(job_, c_.acc()), width = tile.vectors * lanes;
    for (const ir::Dim* d : c_.batch) s.loops.push_back({.dim = name(d), .bind = Bind::Cut});
    if (c_.m_outer) s.loops.push_back({.dim = name(c_.m_outer), .bind = Bind::Cut});
    else if (c_.m) s.loops.push_back({.dim = name(c_.m), .step = tile.rows, .bind = Bind::Cut});
    s.loops.push_back({.dim = name(c_.n), .step = width, .bind = Bind::Cut});
    s.loops.push_back({.dim = name(c_.n), .step = lanes, .bind = Bind::Lanes, .count = tile.vectors});
    if (c_.m_outer) s.loops.push_back({.dim = name(c_.m_outer)});
    if (c_.m) {
      Loop rows{.dim = name(c_.m), .step = tile.rows, .bind = Bind::Rows, .even = true};
      rows.peel = may_peel() && num_edges(ctx_, facts_, anchor_, tile.rows) <= kMaxEdgeTiles;
      s.loops.push_back(rows);
    }
    for (const ir::Dim* d : c_.taps) s.loops.push_back({.dim = name(d), .reduces = true});
    s.loops.push_back(along_k(tile));
    add_epilogue(tile, s);
    const targets::ProcessorRow& machine = job_.processor();
    s.blocks = {.steps = machine.block_steps, .bytes = machine.block_bytes, .rows = machine.least_block_rows, .passes = machine.row_passes, .shared = machine.shared_columns_bytes};
    choose_memory(tile, s.blocks);
    s.instruction = instruction();
    s.vector_bytes = job_.vector_bytes();
    return s;
  }

  // The epilogue of a tile beside the products of the next one, a part at each tap.
  bool may_be_late() const {
    return !c_.along_k() && c_.m && !c_.taps.empty() && std::all_of(c_.taps.begin(), c_.taps.end(), [](const ir::Dim* d) { return constant(d->extent) >= 1; });
  }

  bool lies_in_const_panels() const {
    return !c_.along_k() && c_.padded_panels && constant(c_.n->extent) >= 1 && constant(c_.k->extent) >= 1 &&
           std::all_of(c_.taps.begin(), c_.taps.end(), [](const ir::Dim* d) { return constant(d->extent) >= 1; });
  }

  // Between two parts of it there should be products enough to hide them: the three channels of a picture are not. An interpreter has
  // nothing beside anything.
  bool is_better_late() const { return job_.target.machine != Machine::None && c_.codes() && may_be_late() && constant(c_.k->extent) >= kLateSteps * c_.step(); }

  double bytes_of_column() const {
    if (!lies_in_const_panels()) return 0;
    double bytes = static_cast<double>(c_.k->extent->i * bytes_of(c_.b()->type.dtype));
    for (const ir::Dim* d : c_.taps) bytes *= static_cast<double>(d->extent->i);
    return bytes;
  }

  // B that is larger than a part of L2 is fetched ahead; a group of it that is larger goes by in parts.
  void choose_memory(const RegisterTile& tile, schedule::Blocks& blocks) {
    const int64_t width = int64_t{tile.vectors} * lanes_of_sums(job_, c_.acc());
    if (!lies_in_const_panels() || width % nest::kPanel != 0) return;
    const int64_t bytes = bytes_of(c_.b()->type.dtype);
    double all = bytes_of_column() * static_cast<double>(c_.n->extent->i);
    for (const ir::Dim* d : c_.batch)
      if (facts_.depends(c_.b(), d)) all *= estimate(d->extent);
    blocks.fetch = all > job_.processor().fetch_bytes;
    if (!blocks.fetch || !c_.m || c_.m_outer || !c_.taps.empty() || c_.codes()) return;
    const int64_t k = c_.k->extent->i, least = static_cast<int64_t>(std::ceil(static_cast<double>(k * width * bytes) / job_.processor().part_bytes));
    if (least < 2) return;
    for (int64_t parts = least; parts <= 2 * least && blocks.depth == 0; ++parts)
      if (k % (2 * parts) == 0) blocks.depth = k / parts;
  }

  // For caches of other sizes, and cores that fetch better or worse by themselves. Depths that do not divide are left out later.
  std::vector<schedule::Blocks> other_blocks(const RegisterTile& tile, const schedule::Blocks& best) {
    std::vector<schedule::Blocks> others;
    for (const int64_t times : {2, 4}) {
      schedule::Blocks larger = best, smaller = best;
      larger.bytes *= times, smaller.bytes /= times;
      larger.steps *= times, smaller.steps /= times;
      others.insert(others.end(), {larger, smaller});
    }
    if (!lies_in_const_panels() || int64_t{tile.vectors} * lanes_of_sums(job_, c_.acc()) % nest::kPanel != 0) return others;
    schedule::Blocks fetching = best;
    fetching.fetch = !best.fetch;
    if (!fetching.fetch) fetching.depth = 0;
    others.push_back(fetching);
    if (best.depth > 0) {
      schedule::Blocks whole = best, deeper = best;
      whole.depth = 0, deeper.depth *= 2;
      others.insert(others.end(), {whole, deeper});
    }
    return others;
  }

  // Two blocks of rows by two panels: four factors for four products. Rows that are no whole block are brought first, which takes time.
  schedule::Schedule tiled_schedule() {
    const double rows = estimate(c_.m->extent), columns = estimate(c_.n->extent);
    const auto cost = [&](int64_t height) {
      const double tiles = std::ceil(rows / static_cast<double>(height)), each = std::ceil(rows / tiles), blocks = std::ceil(each / loop::kTileSide);
      const bool whole = anchor_.row_terms.empty() ? rows >= loop::kTileSide : each * tiles == rows && each == blocks * loop::kTileSide;
      // A row that is brought takes a cycle; so does a turn of half a block.
      return tiles * (blocks * 2 * job_.processor().unit_cycles + (whole ? 0 : each - (blocks - 1) * loop::kTileSide) + loop::kTileSide / 2);
    };
    const bool free = !c_.m->extent->is_const();
    const int64_t height = !free && cost(2 * loop::kTileSide) < cost(loop::kTileSide) ? 2 * loop::kTileSide : loop::kTileSide;
    const RegisterTile tile{static_cast<unsigned>(height), columns > nest::kPanel ? 2u : 1u};
    schedule::Schedule s = schedule_of(tile);
    Loop& k = s.loops.back();
    k.bind = Bind::Unroll, k.count = static_cast<unsigned>(bytes_of_tiles(job_, c_) / kGroupBytes), k.chains = 1;
    s.blocks.depth = 0;
    s.places = {{"sums"}};
    s.instruction = tiles_instruction();
    return s;
  }
  std::string tiles_instruction() const { return "tiles." + std::string(name_of(c_.a()->type.dtype)); }

  Loop along_k(const RegisterTile& tile) {
    const int64_t step = c_.step();
    const Expr* count = ctx_.floordiv(c_.k->extent, ctx_.integer(step));
    unsigned unroll = 2;
    if (count->is_const() && count->i <= 8) unroll = static_cast<unsigned>(std::max<int64_t>(count->i, 1));
    else if (a_lies_along_k(job_, c_)) unroll = job_.lanes_of(c_.acc());
    else if (tile.rows * tile.vectors >= 28 || job_.target.vector_registers <= 16) unroll = 1;  // no register to spare
    Loop k{.dim = name(c_.k), .step = step, .count = unroll, .chains = job_.processor().sums_in_flight(), .reduces = true};
    k.bind = c_.along_k() ? Bind::Lanes : unroll > 1 ? Bind::Unroll : Bind::Serial;
    return k;
  }

  // Sums across lanes are scalars: the epilogue takes several rows at once, where they are written side by side or it is long.
  // A long one is code only once: the sums go through memory.
  void add_epilogue(const RegisterTile& tile, schedule::Schedule& s) {
    const bool is_long = facts_.cost(n_.writes[0].value) - facts_.cost(c_.fold()) > kLongEpilogueOfTile && job_.vector_bytes() > 4;
    unsigned lanes = 1;
    if (c_.along_k() && c_.m) {
      const Expr* leaf[] = {ctx_.dim(c_.m)};
      const auto lin = ir::linear_in(ctx_, n_.writes[0].address, leaf);
      if (is_long || (lin && lin->coefficients[0]->is_int(1))) {
        lanes = natural_lanes(job_, n_);
        while (lanes / 2 >= tile.rows) lanes /= 2;
      }
    }
    if (is_long || lanes > 1) s.places.push_back({is_long && is_better_late() ? "late" : "sums", lanes});
  }

  const Job& job_;
  const FlatNest& n_;
  ir::Context& ctx_;
  const TiledProduct c_;
  Facts facts_;
  const Anchor anchor_;
  DimNames names_;
  std::unordered_map<const ir::Dim*, std::string> name_;
};

}  // namespace

std::optional<Schedules> products(const Job& job, const FlatNest& nest) {
  const auto c = tiled_product(job, nest);
  return c && !c->needs_pack ? std::optional(Products(job, nest, *c).run()) : std::nullopt;
}

Gemm::Gemm(const Job& job, const FlatNest& nest, Skeleton& k, TiledProduct c, const schedule::Schedule& how, const DimNames& names)
    : Walk(job, nest, k, how, names, anchor_of(c)), c_(std::move(c)) {
  const Loop& columns = *loop_of(c_.n, Bind::Lanes);
  const Loop& depth = *last_loop_of(c_.k);
  lanes_ = static_cast<unsigned>(columns.step);
  width_ = lanes_ * columns.count;
  unroll_ = depth.count;
  most_chains_ = depth.chains;
  if (c_.along_k()) c_.k_lanes = static_cast<unsigned>(depth.step);
  if (c_.m) most_rows_ = loop_of(c_.m, Bind::Rows)->step;
  for (const schedule::Place& place : how_.places) {
    epilogue_lanes_ = c_.m ? place.lanes : 1;
    through_memory_ = true;
    is_late_ |= place.what == "late";
  }
  is_tiled_ = schedule::is_tiled(how_);
  if (is_tiled_) scratch_of_rows_ = k_.scratch("rows", c_.a()->type.dtype, ctx_.integer(2 * loop::kTileSide * int64_t{unroll_} * c_.group));
  rows_of_sums_ = is_tiled_ ? ((most_rows_ + loop::kTileSide - 1) / loop::kTileSide + 1) * loop::kTileSide : most_rows_;
  if (through_memory_) scratch_ = k_.scratch("tile", c_.fold()->type.dtype, ctx_.integer(rows_of_sums_ * width_));
  if (through_memory_ && c_.product.sum_of_a) scratch_of_sums_ = k_.scratch("sums", DType::I32, ctx_.integer(most_rows_));

  for (size_t l = 0, behind = 0; l < steps_.size(); ++l) {
    if (steps_[l].dim == c_.n) behind = 1;
    outer_inside_ |= behind && c_.m_outer && steps_[l].dim == c_.m_outer;
  }
  if (how_.blocks.depth > 0) {
    const int64_t tiles = std::max<int64_t>(1, how_.blocks.bytes / int64_t{bytes_of(c_.acc())} / (how_.blocks.depth * most_rows_));  // of a block, at most
    scratch_of_parts_ = k_.scratch("parts", c_.fold()->type.dtype, ctx_.integer(tiles * sums_of_tile()));
  }

  std::vector<const Expr*> depths;
  for (const ir::Dim* d : c_.fold()->fold->dims) depths.push_back(d->extent);
  k_total_ = ctx_.product(depths);
  find_beside();
  find_mask();
  weights_ = reads_weights();
  const Expr* bytes = ctx_.integer(bytes_of_b());
  for (size_t k = 0; k < axes.size(); ++k) {
    const ir::Dim* d = axis_dims_[k];
    const Expr* step = ctx_.integer(loop_of(d, Bind::Cut)->step);
    if (d == c_.n) axes[k].bytes = product({bytes, k_total_, step});
    else if (d == c_.m) axes[k].bytes = product({bytes, c_.k->extent, step});
    else if (d == c_.m_outer) axes[k].bytes = product({bytes, c_.k->extent, c_.m->extent});
  }
  std::vector<const Expr*> extents{c_.m ? c_.m->extent : ctx_.integer(1), c_.n->extent, k_total_};
  for (const ir::Dim* d : c_.batch) extents.push_back(d->extent);
  if (c_.m_outer) extents.push_back(c_.m_outer->extent);
  const targets::ProcessorRow& machine = job_.processor();
  const double step = is_tiled_ ? machine.unit_step_ns : machine.step_ns;
  work = k_.takes(step / std::max(lanes_, c_.k_lanes) / static_cast<double>(c_.group), extents);
}

void Gemm::around(const std::function<void()>& loops) {
  if (how_.blocks == schedule::Blocks{}) return loops();
  // Rows in steps of the outer row dim, or of row tiles.
  const auto is_walked = [&](const ir::Dim* d) { return d && std::any_of(steps_.begin(), steps_.end(), [&](const Step& s) { return s.dim == d; }); };
  const ir::Dim* outer = is_walked(c_.m_outer) ? c_.m_outer : c_.m;
  const Expr* unit_rows = outer == c_.m ? ctx_.integer(most_rows_) : c_.m->extent;
  const auto in_steps = [&](const ir::Dim* d, int64_t step) {
    return parts_.contains(d) ? parts_.at(d) : Part{{ctx_.integer(0), ctx_.ceildiv(d->extent, ctx_.integer(step))}, step, step};
  };
  const Part rows = outer ? in_steps(outer, outer == c_.m ? most_rows_ : 1) : Part{{ctx_.integer(0), ctx_.integer(1)}, 1, 0};
  const Part groups = in_steps(c_.n, width_);
  const auto& [steps, bytes, least_rows, passes, shared, depth, fetches] = how_.blocks;
  const int64_t width_of_sum = bytes_of(c_.acc());
  end_of_columns_ = ctx_.min(ctx_.mul(groups.range.end, ctx_.integer(groups.quantum)), c_.n->extent);

  const Expr* step = product({k_total_, c_.n->extent, unit_rows});
  const Expr* wanted = ctx_.max(about(steps, step), about(least_rows, unit_rows));
  const Expr* block = k_.b.let(ctx_.min(wanted, at_most(bytes / width_of_sum, product({depth > 0 ? ctx_.integer(depth) : c_.k->extent, unit_rows}))));
  const Expr* span = k_.b.let(ctx_.sub(rows.range.end, rows.range.begin));
  const Expr *all_of_b = ctx_.mul(k_total_, c_.n->extent), *few_rows = ctx_.binary(Op::Le, span, ctx_.mul(block, ctx_.integer(passes)));
  if (shared > 0) few_rows = ctx_.binary(Op::Or, few_rows, ctx_.binary(Op::Lt, ctx_.integer(shared / width_of_sum), all_of_b));
  const Expr* groups_outside = ctx_.binary(Op::And, ctx_.binary(Op::Lt, ctx_.integer(bytes / width_of_sum), all_of_b), few_rows);
  const Expr* rows_at_once = ctx_.mul(unit_rows, ctx_.min(block, span));
  const Expr* few_groups = at_most(steps, product({k_total_, ctx_.integer(groups.quantum), rows_at_once}));
  const Expr* num_groups = ctx_.ceildiv(c_.n->extent, ctx_.integer(groups.quantum));
  const Expr* group_block = k_.b.let(ctx_.select(groups_outside, few_groups, num_groups));
  even_parts(groups.range, group_block, [&](const Range& some_groups) {
    even_parts(rows.range, block, [&](const Range& some_rows) {
      parts_[c_.n] = {some_groups, groups.quantum, groups.align};
      if (outer) parts_[outer] = {some_rows, rows.quantum, rows.align};
      loops();
    });
  });
}

const Expr* Gemm::product(std::initializer_list<const Expr*> factors) { return ctx_.product(std::vector<const Expr*>(factors)); }

const Expr* Gemm::about(int64_t all, const Expr* each) {
  const Expr* n = ctx_.max(each, ctx_.integer(1));
  return ctx_.max(ctx_.floordiv(ctx_.add(ctx_.integer(all), ctx_.floordiv(n, ctx_.integer(2))), n), ctx_.integer(1));
}

const Expr* Gemm::at_most(int64_t all, const Expr* each) {
  return ctx_.max(ctx_.floordiv(ctx_.integer(all), ctx_.max(each, ctx_.integer(1))), ctx_.integer(1));
}

void Gemm::even_parts(const Range& range, const Expr* most, const std::function<void(const Range&)>& body) {
  const Expr* length = ctx_.sub(range.end, range.begin);
  const Expr* parts = k_.b.let(ctx_.ceildiv(length, ctx_.max(most, ctx_.integer(1))));
  if (parts->is_int(1)) return body(range);
  const auto begin_of = [&](const Expr* part) {
    return ctx_.add(range.begin, ctx_.floordiv(ctx_.mul(part, length), ctx_.max(parts, ctx_.integer(1))));
  };
  k_.b.with_for(ctx_.integer(0), parts, 1, [&](const Expr* part) {
    s_.scoped([&] { body({k_.b.let(begin_of(part)), k_.b.let(begin_of(ctx_.add(part, ctx_.integer(1))))}); });
  });
}

// The lanes of the vector at this column of the group that exist; null: all.
const Expr* Gemm::column_mask(const Group& g, const Expr* column) {
  if (!g.limit) return nullptr;
  const Expr* at = ctx_.add(g.first, column);
  if (at->is_const() && g.limit->is_const() && at->i + int64_t{lanes_} <= g.limit->i) return nullptr;
  if (lanes_ == 1) return ctx_.binary(Op::Lt, at, g.limit);
  return loop::vec_binary(ctx_, Op::Lt, loop::ramp(ctx_, at, lanes_), loop::splat(ctx_, g.limit, lanes_));
}

}  // namespace mlc::lower
