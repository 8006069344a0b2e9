// Attention on a device: a block has some queries and goes along the keys, some at a time, so scores never leave it (design:
// accelerators.md section 3.2):
//
//   for some keys
//     scores = queries * keys, a tile in registers; to shared memory, key by key
//     each lane takes a query and some of these keys: scores, their maximum, exponentials, their sum
//     what was summed before fades by exp(old maximum - new maximum)
//     sums += exponentials * values, a tile in registers
//   what becomes of the sums is written, once they have gone through shared memory
//
// Lanes of a query join what they have in a fixed order. Conditions on keys bound the loop for all queries of the block.
#include "packager/lower/device/attention/stages.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "packager/ir/typical.h"
#include "packager/lower/device/product/tile.h"
#include "packager/lower/flat/body.h"

namespace mlc::lower {

using ir::Expr;
using ir::Op;
using schedule::Bind;
using schedule::Family;

namespace {

constexpr int64_t kVectorOfLane = 4;
constexpr int64_t kMostValues = 256;          // elements of a value
constexpr double kLeastQueries = 8, kLeastKeys = 8;
constexpr double kBlocksForParts = 4;         // of a multiprocessor, of blocks of one query that share their keys
constexpr int64_t kMostClustered = 1 << 16;    // queries, batches and heads of tiles that share their keys: their blocks are one row of a grid (65,535)
constexpr double kMostLeftInCluster = 0.9;   // of the time, or blocks that have to run at once are not worth it
constexpr double kAsGood = 1.03;              // of the least time: fewer blocks that take so much longer read queries less often
constexpr double kMostFewQueries = 16;        // in blocks of their own: more fill half of the smallest tile of warps
constexpr int64_t kMostSums = 64;             // of a lane, for a good schedule
constexpr unsigned kCopies = 2, kMoreCopies = 8;  // of a step: SPIR-V is compiled where it runs
constexpr int64_t kCopiesOfLoads = 4;
constexpr int64_t kKeys = 32;                 // of a turn
constexpr double kMostRegisters = 240;        // of a lane: more are spilled
constexpr size_t kMostOfWarps = 4;            // schedules on tensor cores, the best ones
constexpr int64_t kLeastLanesOfKey = 4, kMostLanesOfKey = 32, kLoadsUnderWay = 16, kMostKeysOfLane = 4;  // of blocks of one query; of a lane, in a turn: more are spilled

// Elements of a value as lanes have them: in vectors, eight side by side.
int64_t padded(int64_t elements) {
  if (elements <= kTileSide) return kTileSide;
  return elements <= 2 * kTileSide ? 2 * kTileSide : (elements + kVectorOfLane * kTileSide - 1) / (kVectorOfLane * kTileSide) * (kVectorOfLane * kTileSide);
}

// A bound for all queries of the block; null: none is known.
const Expr* extreme_bound(Body& s, const Attention& a, const Expr* first, int64_t rows, const Expr* bound, bool largest) {
  ir::Context& ctx = s.ctx;
  const std::vector<const ir::Dim*>& dims = a.product.rows.dims;
  const auto knows = [&](const ir::Dim* d) { return s.facts.depends(bound, d); };
  if (rows == 1 || std::none_of(dims.begin(), dims.end(), knows)) return s.value(bound);
  if (dims.size() != 1) return nullptr;
  const Expr* leaf[] = {ctx.dim(dims[0])};
  const auto linear = ir::linear_in(ctx, bound, leaf);
  if (!linear || !linear->coefficients[0]->is_const()) return nullptr;
  const Expr* last = ctx.sub(ctx.min(ctx.add(first, ctx.integer(rows)), a.product.rows.points), ctx.integer(1));
  const Expr* query = (linear->coefficients[0]->i > 0) == largest ? last : first;
  return ctx.add(s.value(linear->rest), ctx.mul(linear->coefficients[0], query));
}

}  // namespace

std::pair<const Expr*, const Expr*> keys_of_block(Skeleton& k, Body& s, const Attention& a, const Expr* first, int64_t rows) {
  ir::Context& ctx = s.ctx;
  const Expr *begin = ctx.integer(0), *end = a.key->extent, *score = a.score;
  const bool is_masked = score->op == Op::Select && score->args[2]->is_const() && score->args[2]->f == -INFINITY;
  if (is_masked)
    for (const Expr* term : conjuncts(ctx, score->args[0])) {
      const auto bound = s.facts.needs_guard(term) ? std::nullopt : bound_of(ctx, term, a.key);
      if (!bound) continue;
      if (const Expr* b = bound->begin ? extreme_bound(s, a, first, rows, bound->begin, /*largest=*/false) : nullptr) begin = ctx.max(begin, b);
      if (const Expr* e = bound->end ? extreme_bound(s, a, first, rows, bound->end, /*largest=*/true) : nullptr) end = ctx.min(end, e);
    }
  return {k.b.let(begin), k.b.let(end)};
}

const Expr* runs_of(ir::Context& ctx, Facts& facts, const DeviceProduct::Side& side, const std::vector<const ir::Dim*>& dims, const Expr* points, int64_t length) {
  const nest::Operand& o = side.factor;
  if (dims.size() != 1 || !o.is_plain() || o.load->access == ir::Access::Checked || !side.terms.empty() || facts.needs_guard(o.load->args[0])) return nullptr;
  const Expr* leaf[] = {ctx.dim(dims[0])};
  const auto linear = ir::linear_in(ctx, o.load->args[0], leaf);
  const bool is_load = linear && linear->coefficients[0]->is_int(1) && ir::divisor_of(linear->rest) % length == 0 && ir::divisor_of(points) % length == 0;
  return is_load ? ctx.floordiv(linear->rest, ctx.integer(length)) : nullptr;
}

bool has_whole_turns(const Attention& a, int64_t keys) { return a.score->op != Op::Select && ir::divisor_of(a.key->extent) % keys == 0; }

const Expr* attention_work(const Job& job, const Attention& a, const DeviceProduct& walked, Skeleton& k) {
  const Expr* steps = job.ctx.add(walked.depth_points, a.values.points);
  for (const ir::Dim* d : walked.outer) steps = job.ctx.mul(steps, d->extent);
  std::vector<const Expr*> extents{walked.rows.points, a.key->extent, steps};
  for (const ir::Dim* d : walked.batch) extents.push_back(d->extent);
  return k.takes(job.operation_ns(), extents);
}

const Expr* exponential(Skeleton& k, Body& s, const Attention& a, const Expr* score, const Expr* top) {
  s.define(a.score, k.b.let(score));
  s.define(a.top, top);
  return k.b.let(s.value(a.part));
}

namespace {

class AttentionStage final : public TileStage {
 public:
  AttentionStage(const Job& job, const Attention& a, Skeleton& k, const schedule::Schedule& how)
      : TileStage(job, a.nest, k, a.product, how), a_(a), tile_(how.tile), lanes_of_query_(kTileLanes / tile_.rows) {
    queries_ = part_of(p_.rows, tile_.rows);
    keys_ = part_of(p_.columns, tile_.columns);
    elements_ = part_of(a_.values, padded(a_.values.points->i));
    grid.push_back(ctx_.ceildiv(p_.rows.points, ctx_.integer(tile_.rows)));
    weights_ = queries_;
    // Scores and what is made of them lie key by key, as a factor of the second product; sums go the same way, in pieces.
    weights_.memory = k_.shared("scores", DType::F32, tile_.rows * std::max(tile_.columns, width()));
    queries_.memory = keys_.memory = elements_.memory = k_.shared("tile", DType::F32, std::max((tile_.rows + tile_.columns) * tile_.depth, tile_.depth * elements_.size));
    keys_.memory_begin = tile_.rows * tile_.depth;
    rows_memory_ = k_.shared("rows", DType::F32, tile_.rows);
    if (lanes_of_query_ > 1) parts_memory_ = k_.shared("parts", DType::F32, kTileLanes);
    work = attention_work(job_, a_, p_, k_);
  }

 private:
  // Neighbours among the elements of a value that lanes have at once.
  int64_t width() const { return elements_.vector * kTileSide; }

  void part(const std::vector<Range>&) override {}

  void block(const std::vector<const Expr*>& at, const Expr* lane) override {
    lane_ = lane;
    bind_batch(at);
    queries_.first = weights_.first = k_.b.let(ctx_.mul(at[p_.batch.size()], ctx_.integer(tile_.rows)));
    elements_.first = ctx_.integer(0);
    const Expr *quick = k_.b.let(ctx_.floormod(lane, ctx_.integer(kTileSide))), *slow = k_.b.let(ctx_.floordiv(lane, ctx_.integer(kTileSide)));
    queries_.lane = elements_.lane = quick;
    keys_.lane = weights_.lane = slow;
    share_bringing(queries_, lane);
    share_bringing(keys_, lane);
    // Of the softmax: a query and every so-manieth key.
    query_ = lanes_of_query_ == 1 ? lane : queries_.brought;
    share_ = lanes_of_query_ == 1 ? ctx_.integer(0) : k_.b.let(ctx_.floordiv(lane, ctx_.integer(tile_.rows)));
    sums_ = zeros(weights_, elements_);
    top_ = k_.b.local(ctx_.number(-INFINITY, DType::F32));
    all_ = k_.b.local(zero());
    const auto [begin, end] = keys_of_block(k_, s_, a_, queries_.first, tile_.rows);
    keys_end_ = end;
    k_.b.with_rolled_for(begin, end, tile_.columns, [&](const Expr* first) {
      keys_.first = first;
      s_.scoped([&] { add_scores(); });
      s_.scoped([&] { weigh(); });
      s_.scoped([&] { add_values(); });
    });
    write_results();
  }

  bool has_whole_turns() const { return lower::has_whole_turns(a_, tile_.columns); }
  const Expr* exponential(const Expr* score, const Expr* top) { return lower::exponential(k_, s_, a_, score, top); }

  // ---- one turn ----

  void add_scores() {
    const Sums products = zeros(keys_, queries_);
    s_.scoped([&] {
      bind_point(*queries_.side, existing(*queries_.side, ctx_.add(queries_.first, queries_.brought), queries_.size));
      bind_point(*keys_.side, k_.b.let(ctx_.min(ctx_.add(keys_.first, keys_.brought), ctx_.sub(a_.key->extent, ctx_.integer(1)))));
      over_outer([&] { TileStage::add_products(keys_, queries_, products); });
    });
    k_.b.append(loop::StmtKind::Barrier);  // weights of the turn before have been read
    const int64_t vectors = queries_.of_lane / queries_.vector;
    for (int64_t r = 0; r < keys_.of_lane; ++r)
      for (int64_t v = 0; v < vectors; ++v)
        k_.b.store(weights_.memory, score_place(point_at(keys_, r), vector_at(queries_, v)), products[static_cast<size_t>(r * vectors + v)]);
    k_.b.append(loop::StmtKind::Barrier);
  }

  const Expr* score_place(const Expr* key, const Expr* query) { return ctx_.add(ctx_.mul(key, ctx_.integer(tile_.rows)), query); }
  const Expr* score_at(const Expr* key) { return loop::vec_load(ctx_, weights_.memory, {DType::F32, 1}, score_place(key, query_)); }

  // What the lanes of a query have, joined in their order.
  const Expr* joined(Op op, const Expr* mine) {
    if (lanes_of_query_ == 1) return k_.b.let(mine);
    k_.b.store(parts_memory_, lane_, mine);
    k_.b.append(loop::StmtKind::Barrier);
    const Expr* all = nullptr;
    for (int64_t k = 0; k < lanes_of_query_; ++k) {
      const Expr* one = loop::vec_load(ctx_, parts_memory_, {DType::F32, 1}, ctx_.add(query_, ctx_.integer(k * tile_.rows)));
      all = k_.b.let(all ? loop::vec_binary(ctx_, op, all, one) : one);
    }
    return all;
  }

  void weigh() {
    bind_point(p_.rows, existing(p_.rows, ctx_.add(queries_.first, query_), tile_.rows));
    const Expr* here = k_.b.let(ctx_.min(ctx_.integer(tile_.columns), ctx_.sub(keys_end_, keys_.first)));
    const Expr* top = k_.b.let(loop::vec_binary(ctx_, Op::Max, top_, largest_score(here)));
    const Expr* lowest = ctx_.number(-INFINITY, DType::F32);
    // By what earlier exponentials are too large; before there was a score they were zero.
    const Expr *before = k_.b.let(top_), *fading = nullptr;
    s_.scoped([&] { fading = k_.b.let(ctx_.select(ctx_.binary(Op::Eq, before, lowest), zero(), exponential(before, top))); });
    k_.b.assign(all_, loop::vec_binary(ctx_, Op::Mul, all_, fading));
    // Where all scores are -inf so far they are not numbers, which a score to come would not wash away.
    const Expr* is_open = k_.b.let(ctx_.logical_not(ctx_.binary(Op::Eq, top, lowest)));
    const auto write = [&](const Expr* k, const Expr* value) { k_.b.store(weights_.memory, score_place(k, query_), value); };
    k_.b.with_for(share_, ctx_.integer(tile_.columns), lanes_of_query_, [&](const Expr* k) {
      const auto weight = [&] {
        s_.scoped([&] {
          const Expr* part = k_.b.let(ctx_.select(is_open, exponential(score_at(k), top), zero()));
          k_.b.assign(all_, loop::vec_binary(ctx_, Op::Add, all_, part));
          write(k, part);
        });
      };
      if (has_whole_turns()) weight();
      else k_.b.with_if(ctx_.binary(Op::Lt, k, here), weight, [&] { write(k, zero()); });
    });
    tell_row(fading);
    k_.b.assign(top_, top);
    k_.b.append(loop::StmtKind::Barrier);
  }

  // Of the query, among the keys of the turn. What was a product in memory is a score then.
  const Expr* largest_score(const Expr* here) {
    const Expr* best = k_.b.local(ctx_.number(-INFINITY, DType::F32));
    k_.b.with_for(share_, here, lanes_of_query_, [&](const Expr* k) {
      s_.scoped([&] {
        s_.bind(a_.key, k_.b.let(ctx_.add(keys_.first, k)));
        for (const Expr* condition : a_.in_range) k_.b.fault(ctx_.logical_not(s_.value(condition)), kIndexFault);
        s_.define(p_.fold, k_.b.let(score_at(k)));
        const Expr* score = k_.b.let(s_.value(a_.score));
        k_.b.store(weights_.memory, score_place(k, query_), score);
        k_.b.assign(best, loop::vec_binary(ctx_, Op::Max, best, score));
      });
    });
    return joined(Op::Max, best);
  }

  // Tells all lanes what the query's have.
  void tell_row(const Expr* value) {
    const auto tell = [&] { k_.b.store(rows_memory_, query_, value); };
    if (lanes_of_query_ == 1) tell();
    else k_.b.with_if(ctx_.binary(Op::Eq, share_, ctx_.integer(0)), tell);
  }

  int64_t vectors_of_value() const { return elements_.of_lane / elements_.vector; }

  void add_values() {
    for (int64_t v = 0; v < weights_.of_lane / weights_.vector; ++v) {
      const Expr* of_rows = k_.b.let(loop::vec_load(ctx_, rows_memory_, {DType::F32, static_cast<uint16_t>(weights_.vector)}, vector_at(weights_, v)));
      for (int64_t r = 0; r < weights_.vector; ++r) {
        const Expr* fading = loop::splat(ctx_, loop::extract(ctx_, of_rows, static_cast<unsigned>(r)), static_cast<unsigned>(elements_.vector));
        for (int64_t c = 0; c < vectors_of_value(); ++c) {
          const Expr* sum = sums_[static_cast<size_t>((v * weights_.vector + r) * vectors_of_value() + c)];
          k_.b.assign(sum, loop::vec_binary(ctx_, Op::Mul, sum, fading));
        }
      }
    }
    k_.b.with_rolled_for(ctx_.integer(0), ctx_.integer(tile_.columns), tile_.depth, [&](const Expr* piece) {
      k_.b.append(loop::StmtKind::Barrier);  // all lanes have read the piece before
      bring_values(piece);
      k_.b.append(loop::StmtKind::Barrier);
      over_steps([&](const Expr* k) { add_step(weights_, k_.b.let(ctx_.add(piece, k)), elements_, k, sums_); });
    });
  }

  // The values of so many keys, from `piece` of the turn on.
  void bring_values(const Expr* piece) {
    const int64_t count = tile_.depth * elements_.size / kTileLanes, copies = std::gcd(count, kCopiesOfLoads);
    k_.b.with_rolled_for(ctx_.integer(0), ctx_.integer(count), copies, [&](const Expr* i) {
      std::vector<std::pair<const Expr*, const Expr*>> stores;  // where and what
      for (int64_t u = 0; u < copies; ++u) {
        const Expr* place = k_.b.let(ctx_.add(ctx_.mul(ctx_.add(i, ctx_.integer(u)), ctx_.integer(kTileLanes)), lane_));
        const Expr *key = ctx_.floordiv(place, ctx_.integer(elements_.size)), *element = ctx_.floormod(place, ctx_.integer(elements_.size));
        stores.emplace_back(place, value_at(k_.b.let(ctx_.add(ctx_.add(keys_.first, piece), key)), k_.b.let(element)));
      }
      for (const auto& [where, what] : stores) k_.b.store(elements_.memory, where, what);
    });
  }

  // Zero where there is no such key: its weight is zero as well. Sums of elements that do not exist are not written.
  const Expr* value_at(const Expr* key, const Expr* element) {
    const Expr* value = nullptr;
    s_.scoped([&] {
      s_.bind(a_.key, has_whole_turns() ? key : k_.b.let(ctx_.min(key, ctx_.sub(a_.key->extent, ctx_.integer(1)))));
      bind_point(a_.values, existing(a_.values, element, elements_.size));
      value = k_.b.let(s_.value(a_.values.factor.factor));
      if (!has_whole_turns()) value = k_.b.let(ctx_.select(ctx_.binary(Op::Lt, key, keys_end_), value, zero()));
    });
    return value;
  }

  // ---- behind the last turn ----

  // Sums go through memory in pieces, so that neighbouring lanes write neighbours and the epilogue is code once for each.
  void write_results() {
    tell_row(joined(Op::Add, all_));
    const Expr* width = ctx_.integer(elements_.vector * kTileSide);
    for (int64_t v = 0; v < vectors_of_value(); ++v) {
      k_.b.append(loop::StmtKind::Barrier);
      for (int64_t r = 0; r < weights_.of_lane; ++r) {
        const Expr* at = ctx_.add(ctx_.mul(point_at(weights_, r), width), ctx_.mul(elements_.lane, ctx_.integer(elements_.vector)));
        k_.b.store(weights_.memory, at, sums_[static_cast<size_t>(r * vectors_of_value() + v)]);
      }
      k_.b.append(loop::StmtKind::Barrier);
      const Expr *column = k_.b.let(ctx_.floormod(lane_, width)), *first_row = k_.b.let(ctx_.floordiv(lane_, width));
      at_point(elements_, ctx_.add(column, ctx_.mul(width, ctx_.integer(v))), [&] {
        k_.b.with_for(first_row, ctx_.integer(tile_.rows), kTileLanes / width->i, [&](const Expr* row) {
          at_point(weights_, row, [&] {
            const auto load = [&](uint32_t memory, const Expr* at) { return k_.b.let(loop::vec_load(ctx_, memory, {DType::F32, 1}, at)); };
            s_.define(a_.all, load(rows_memory_, row));
            s_.define(a_.parted, load(weights_.memory, ctx_.add(ctx_.mul(row, width), column)));
            s_.define(a_.mixed, k_.b.let(s_.value(a_.weight)));
            emit_writes(s_, k_.b, n_, nullptr);
          });
        });
      });
    }
  }

  const Attention& a_;
  const schedule::Tile tile_;
  const int64_t lanes_of_query_;
  Part queries_, keys_, weights_, elements_;
  uint32_t rows_memory_ = 0, parts_memory_ = 0;
  const Expr *lane_ = nullptr, *query_ = nullptr, *share_ = nullptr, *keys_end_ = nullptr;
  const Expr *top_ = nullptr, *all_ = nullptr;  // of the query, so far; `all_`: of the lane's share
  Sums sums_;
};

// Which schedules there are, and which are good.
class Attentions {
 public:
  Attentions(const Job& job, const Attention& a) : job_(job), a_(a) {}

  std::optional<Schedules> run() const {
    const DeviceProduct& p = a_.product;
    const Expr* elements = a_.values.points;
    const unsigned most = job_.target.most_buffers();
    if (!a_.all || (most && a_.nest.params.size() > most)) return std::nullopt;
    if (!elements->is_const() || elements->i < 1 || elements->i > kMostValues) return std::nullopt;
    if (estimate(a_.key->extent) < kLeastKeys || p.depth.empty()) return std::nullopt;
    const bool has_tiles = queries() >= kLeastQueries, has_queries = by_query() && (!has_tiles || prefers_queries());
    if (!has_tiles && !has_queries) return std::nullopt;
    Schedules s;
    s.space.family = Family::Attention;
    s.space.block = kTileLanes;
    s.space.shared_bytes = kDeviceShared;
    s.space.tile_columns = padded(elements->i);
    const std::string instruction = job_.target.has_fma ? "fma.f32" : "mul.f32";
    s.space.instructions = {instruction};
    if (by_query()) s.space.query_depth = p.depth_points->i;
    const std::string mma = has_tiles ? attention_mma_instruction(job_, a_) : std::string();
    if (!mma.empty()) s.space.instructions.push_back(mma), s.space.mma_depth = attention_mma_depth(a_);
    schedule::Schedule best{.family = Family::Attention, .instruction = instruction, .block = kTileLanes, .vector_bytes = job_.vector_bytes()};
    DimNames names;
    const auto add = [&](const ir::Dim* d, bool is_grid, bool reduces) {
      schedule::Space::Dim& dim = s.space.dims.emplace_back();
      dim.name = names.add(d);
      dim.extent = d->extent->is_const() ? d->extent->i : -1;
      dim.cut = is_grid;
      dim.serial = !is_grid;
      dim.reduces = reduces;
      best.loops.push_back({.dim = dim.name, .bind = is_grid ? Bind::Grid : Bind::Serial, .reduces = reduces});
    };
    for (const auto* dims : {&p.batch, &p.rows.dims})
      for (const ir::Dim* d : *dims) add(d, true, false);
    if (p.cluster) {
      add(p.cluster, false, false);
      s.space.dims.back().serial = false, s.space.dims.back().cluster = true;
      best.loops.back().bind = Bind::Cluster;
    }
    for (const ir::Dim* d : a_.values.dims) add(d, false, false);
    add(a_.key, false, true);
    for (const ir::Dim* d : p.depth) add(d, false, true);
    if (has_queries) rank_queries(best, s.space, s.ranked);
    if (!mma.empty()) rank_mma(best, mma, s.space, s.ranked);
    if (has_tiles && !p.cluster) rank(best, s.space, s.ranked);
    if (s.ranked.empty()) return std::nullopt;
    s.build = [&job = job_, &a = a_](Skeleton& k, const schedule::Schedule& how) -> StagePtr {
      if (schedule::is_mma(how)) return attention_mma_stage(job, a, k, how);
      if (schedule::has_one_query(how)) return attention_row_stage(job, a, k, how);
      return std::make_unique<AttentionStage>(job, a, k, how);
    };
    return s;
  }

  KeyParts key_parts() const {
    const targets::DeviceRow& machine = job_.device();
    const auto all = job_.target.most_cluster_blocks > 1 ? run() : std::nullopt;
    if (!all) return {};
    if (!schedule::has_one_query(all->ranked.front())) return schedule::is_mma(all->ranked.front()) ? key_parts_of_tiles(all->ranked.front()) : KeyParts{};
    const double most = kBlocksForParts * machine.multiprocessors;
    int64_t blocks = job_.target.most_cluster_blocks;
    while (blocks > 1 && blocks_of(1) * static_cast<double>(blocks) > most) blocks /= 2;
    if (blocks < 2) return {};
    // A turn waits for its keys; blocks that add up what they have wait as well.
    int64_t turns = 2;
    while (static_cast<double>(turns - (turns + blocks - 1) / blocks) * machine.latency_cycles <= machine.cluster_cycles) ++turns;
    return {blocks, turns * all->ranked.front().tile.columns, static_cast<int64_t>(most) / blocks};
  }

  // The most queries that are better off in blocks of their own, of numbers that the run may have; 0: none are.
  int64_t few_queries() {
    const Expr* points = a_.product.rows.points;
    const int64_t unit = std::max({int64_t{1}, ir::divisor_of(points), ir::interval_of(points).lo});
    int64_t few = 0;
    if (!by_query() || points->is_const() || about_ > 0 || prefers_queries()) return 0;
    for (int64_t k = 1; k <= kFewFreeRows; ++k) {
      about_ = static_cast<double>(unit * k);
      if (prefers_queries()) few = unit * k;
    }
    about_ = 0;
    return few < ir::interval_of(points).hi ? few : 0;
  }

 private:
  // Of queries and keys that are known: the fewest blocks that the model has as fast as any, of a typical batch, for as many of it as they are faster for.
  KeyParts key_parts_of_tiles(const schedule::Schedule& alone) const {
    const Expr *queries = a_.product.rows.points, *keys = a_.key->extent;
    if (!queries->is_const() || !keys->is_const()) return {};
    const bool is_free = std::any_of(a_.product.batch.begin(), a_.product.batch.end(), [](const ir::Dim* d) { return !d->extent->is_const(); });
    const AttentionSize typical = size();
    if (typical.batch * typical.queries > static_cast<double>(kMostClustered)) return {};
    const auto points = static_cast<int64_t>(typical.batch * typical.queries);
    std::vector<std::pair<KeyParts, double>> all{{KeyParts{}, cycles_of_attention(job_, a_, typical, alone)}};
    double least = all.front().second;
    for (int64_t blocks = 2; blocks <= job_.target.most_cluster_blocks; blocks *= 2) {
      const Attention shared = attention_in_cluster(job_.ctx, a_, blocks);
      const auto schedules = Attentions(job_, shared).run();
      if (!schedules || !schedule::is_mma(schedules->ranked.front())) continue;
      const auto gains = [&](int64_t times) {
        const AttentionSize more{typical.batch * static_cast<double>(times), typical.queries, typical.keys};
        return cycles_of_attention(job_, shared, more, schedules->ranked.front()) < cycles_of_attention(job_, a_, more, alone);
      };
      int64_t times = 1;
      while (is_free && points * (times + 1) <= kMostClustered && gains(times + 1)) ++times;
      all.emplace_back(KeyParts{blocks, keys->i, points * times}, cycles_of_attention(job_, shared, typical, schedules->ranked.front()));
      least = std::min(least, all.back().second);
    }
    if (least > kMostLeftInCluster * all.front().second) return {};
    return std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.second <= kAsGood * least; })->first;
  }

  // Lanes load several elements at once, fold what they have of a score by instructions, and keep all of a query.
  bool by_query() const {
    const Expr* depth = a_.product.depth_points;
    return job_.target.folds_lanes && job_.target.access_bytes > 0 && depth->is_const() && depth->i >= 1 && depth->i <= kMostValues;
  }

  double queries() const { return about_ > 0 ? about_ : estimate(a_.product.rows.points); }

  // Whether blocks of one query take less than tiles: each reads all keys, as a tile of many does.
  bool prefers_queries() const {
    return queries() <= kMostFewQueries && cost(1) < std::min({cost(64), cost(32), attention_mma_instruction(job_, a_).empty() ? cost(16) : cost(32)});
  }

  using Costs = std::vector<std::pair<double, schedule::Schedule>>;

  // Many queries share what is read of keys and values; few leave registers to long values, and blocks to more of a device. Of extents
  // that only the run knows it is one sentence: an idle device costs more than keys that are read twice.
  void rank(schedule::Schedule how, const schedule::Space& space, std::vector<schedule::Schedule>& ranked) const {
    const targets::DeviceRow& machine = job_.device();
    Costs costs;
    const bool is_compiled_late = job_.target.llvm_triple.empty();
    for (const int64_t rows : {64, 32, 16})
      for (const int64_t depth : {16, 8}) {
        const int64_t sums = rows / kTileSide * (space.tile_columns / kTileSide);
        how.tile = {rows, kKeys, depth, is_compiled_late ? kCopies : kMoreCopies, false};
        if (sums > kMostSums || !schedule::verify(how, space).ok()) continue;
        costs.emplace_back(cost(rows) * (depth == 16 ? 1 : machine.short_piece), how);
      }
    append(std::move(costs), ranked);
  }

  // Blocks of one query. A lane has two loads of each key and of each value, and all of a turn on their way at once.
  void rank_queries(schedule::Schedule how, const schedule::Space& space, std::vector<schedule::Schedule>& ranked) const {
    how.block = schedule::kQueryLanes;
    const int64_t longest = std::max(space.query_depth, a_.values.points->i);
    for (const int64_t loads : {2, 1, 4}) {
      const auto lanes = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>((longest + kNeighboursOfLoad * loads - 1) / (kNeighboursOfLoad * loads))));
      const int64_t depth = std::clamp<int64_t>(lanes, kLeastLanesOfKey, kMostLanesOfKey), piece = depth * kNeighboursOfLoad;
      const int64_t of_key = (space.query_depth + piece - 1) / piece + (a_.values.points->i + piece - 1) / piece, copies = std::clamp<int64_t>(kLoadsUnderWay / of_key, 1, kMostKeysOfLane);
      how.tile = {1, schedule::kQueryLanes / depth * copies, depth, static_cast<unsigned>(copies), true};
      if (std::find(ranked.begin(), ranked.end(), how) == ranked.end() && schedule::verify(how, space).ok()) ranked.push_back(how);
    }
  }

  // The same of warps. Those of 32 queries read keys and values half as often; few queries leave less of a device idle where warps share the keys.
  void rank_mma(schedule::Schedule how, const std::string& instruction, const schedule::Space& space, std::vector<schedule::Schedule>& ranked) const {
    Costs costs;
    how.instruction = instruction;
    for (const int64_t warp : {16, 32})
      for (const int64_t along_rows : {4, 2, 1})
        for (const int64_t shares : {1, 2, 4})
          for (const int64_t keys : {kKeys, 2 * kKeys, 4 * kKeys}) {
            how.tile = {along_rows * warp, keys, space.mma_depth, 1, true, 0, static_cast<unsigned>(warp)};
            how.block = static_cast<unsigned>(loop::kMmaLanes * along_rows * shares);
            if (!schedule::verify(how, space).ok()) continue;
            if (attention_mma_registers(a_, how) <= kMostRegisters) costs.emplace_back(cycles_of_attention(job_, a_, size(), how), how);
          }
    std::vector<schedule::Schedule> all;
    append(std::move(costs), all);
    all.resize(std::min(all.size(), kMostOfWarps));
    ranked.insert(ranked.end(), all.begin(), all.end());
  }

  static void append(Costs costs, std::vector<schedule::Schedule>& ranked) {
    std::stable_sort(costs.begin(), costs.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (auto& [cost, s] : costs) ranked.push_back(std::move(s));
  }

  AttentionSize size() const { return {blocks_of(1) / queries_of_run(), queries_of_run(), typical(a_.key->extent, ir::Guess::Sentence)}; }
  double queries_of_run() const { return about_ > 0 ? about_ : typical(a_.product.rows.points, ir::Guess::Sentence); }

  static double typical(const Expr* e, ir::Guess most) { return e->is_const() ? estimate(e) : std::min(estimate(e), static_cast<double>(most)); }

  // With so many queries each.
  double blocks_of(int64_t rows) const {
    double others = 1;
    for (const ir::Dim* d : a_.product.batch) others *= typical(d->extent, ir::Guess::Batch);
    return others * std::ceil(queries_of_run() / static_cast<double>(rows));
  }

  // Of blocks with so many queries.
  double cost(int64_t rows) const {
    const targets::DeviceRow& machine = job_.device();
    return std::max(blocks_of(rows), machine.multiprocessors) * (static_cast<double>(rows) + machine.query_rows);
  }

  const Job& job_;
  const Attention& a_;
  double about_ = a_.nest.product.about;  // of the queries of a run, as far as they are free; 0: of all runs
};

}  // namespace

int64_t few_queries(const Job& job, const Attention& attention) { return Attentions(job, attention).few_queries(); }

KeyParts key_parts(const Job& job, const Attention& attention) { return Attentions(job, attention).key_parts(); }

std::optional<Schedules> device_attention(const Job& job, const Attention& attention) { return Attentions(job, attention).run(); }

}  // namespace mlc::lower
