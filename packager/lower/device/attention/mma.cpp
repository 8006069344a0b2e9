// Attention on tensor cores (loop::StmtKind::Mma; form: FlashAttention-2): a warp has 16 or 32 queries of the block, one or two tiles of 16, and goes along the
// keys with the others. Scores and weights never leave its registers:
//
//   chunks of the queries stay in registers
//   for some keys, which lie in shared memory with their values
//     barrier: they are there, and what lay where the next ones go is used
//     copies of the next ones begin, or loads of them
//     scores = queries * keys: each lane has two neighbours of 8 keys, of rows g and g + 8 of each tile
//     four lanes of a row have its maximum by shuffles, then their exponentials; what was summed before fades
//     sums = sums * fading + exponentials * values
//     what was loaded goes to memory
//   what becomes of the sums is written, once they have gone through shared memory
//
// What a warp reads of keys and values it multiplies by all of its queries. Where there are few queries, warps share the keys of a turn: each has a top and sums of
// its share. Behind the last turn they fade to the largest of the tops, and are added in the order of the shares: the schedule decides about bits, no device does.
// Where blocks are few as well, those of a cluster (group.cpp) have every so-manieth turn each, and do the same with what each has.
//
// Queries and keys are chunks of cells as product/mma.cpp has them. Where lanes hold scores, there they hold the first factor of the second
// product: of 16 bits keys 2t and 2t + 1 are one cell; of f32 they are the cells t and t + 4, so that values are read in that order. Values lie
// key by key as in memory, behind each row a pad with which lanes that read together meet in no bank. Of f32 a lane reads 16 bytes of a key. They are the
// same column of four instructions: four elements side by side belong to four tiles of sums. Of 16 bits rows of keys are read by columns
// (loop::StmtKind::LoadMatrices): 16 keys of 16 elements at once, which are the second factor of two tiles.
//
// Chunks that memory takes as they lie are copied beside the lane; others are loaded a turn ahead, and nothing is computed of them before they are stored.
//
// Weights are f32. With values of f32 these are three products of tf32; of f16 a weight is the sum of two numbers, of bf16 of three, each a
// product: what is left of a weight, which is 1 at most, is below 2^-24. Where the nest rounds them (mlpack build --precision) they are one number and one product. Products of a piece of f32 begin at zero, as in
// product/mma.cpp; then they join the sums by the multiply-add that lets these fade. Those of 16 bits join sums that have faded.
#include <algorithm>
#include <cmath>

#include "packager/lower/device/attention/stages.h"
#include "packager/lower/device/product/mma.h"

namespace mlc::lower {

using ir::Expr;
using ir::Op;

namespace {

constexpr int64_t kTilesOfWarp = kElementsOfWarp / kMmaColumns;  // of sums, whose columns are side by side
constexpr int64_t kPieceKeys = 16;                               // of f32, whose products begin at zero
constexpr int64_t kKeysOfStep = 16, kChunksOfGroup = 4;           // of 16 bits: keys of an instruction, chunks of the elements of kTilesOfWarp
constexpr int64_t kLanesOfRow = kRowChunks;                      // of a warp, that share a row of scores
constexpr int64_t kChunksOfBanks = 8;                            // side by side they are all banks
constexpr int64_t kRowsTogether = 2;                             // of a lane, that it loads of the blocks of a cluster before it writes the first of them
constexpr double kLeastSide = 32;
constexpr int64_t kMostDepth = 256;
constexpr double kLog2E = 1.4426950408889634;

class AttentionMma final : public MmaStage {
 public:
  AttentionMma(const Job& job, const Attention& a, Skeleton& k, const schedule::Schedule& how)
      : MmaStage(job, a.nest, k, a.product, how, attention_factors(a)),
        a_(a),
        values_side_(a.values),
        tile_(how.tile),
        lanes_(how.block),
        shares_(schedule::key_shares(how)),
        keys_of_warp_(tile_.columns / shares_),
        pieces_(tile_.depth / (kCellsOfChunk * kRowChunks * values_)),
        elements_(filled_up(a.values.points->i, kElementsOfWarp)) {
    if (factors_ != DType::F32) values_side_.factor.factor = values_side_.factor.load;
    query_is_short_ = is_short(a.product.rows.factor), key_is_short_ = is_short(a.product.columns.factor), value_is_short_ = is_short(a.values.factor);
    take_scale();
    key_chunks_ = chunks_of(p_.columns);
    value_chunks_ = runs_of(ctx_, s_.facts, values_side_, values_side_.dims, values_side_.points, kCellsOfChunk * values_);
    // Keys that are rounded to tf32 are, once for a block, where they are stored.
    rounds_keys_ = key_chunks_ && p_.columns.factor.factor->op == Op::Tf32;
    const bool copies = job_.target.copies_aside;
    copies_keys_ = copies && key_chunks_ && p_.columns.factor.factor == p_.columns.factor.load;
    copies_values_ = copies && value_chunks_ && values_side_.factor.factor == values_side_.factor.load;
    if (rounds_keys_) p_.columns.factor.factor = p_.columns.factor.load;
    grid.push_back(ctx_.ceildiv(p_.rows.points, number(tile_.rows)));
    if (p_.cluster) grid.push_back(p_.cluster->extent);
    values_begin_ = pieces_ * tile_.columns * kRowChunks;
    const MmaMemory memory = attention_mma_memory(a_, how);
    row_chunks_ = memory.row_chunks, turn_chunks_ = memory.turn_chunks;
    is_ahead_ = memory.turns == 2;
    width_of_results_ = memory.width_of_results, groups_at_once_ = memory.groups_at_once;
    high_bits_place_ = std::max(memory.turns * turn_chunks_ * kCellsOfChunk, results_of_group());
    takes_halves_ = factors_ == DType::F32 && !query_is_short_;
    memory_ = k_.shared("tile", DType::U32, high_bits_place_ + (takes_halves_ ? 1 : 0));
    rows_memory_ = k_.shared("rows", DType::F32, memory.rows);
    queries_.resize(2 * static_cast<size_t>(tile_.warp / kMmaRows));
    work = attention_work(job_, a_, p_, k_);
  }

 private:
  using Exprs = std::vector<const Expr*>;

  // One of the rows of scores of a lane.
  struct Query {
    const Expr* row = nullptr;         // of the block
    Exprs at, chunks;                  // along its dims; of its depth, piece by piece
    const Expr *top = nullptr, *all = nullptr;  // so far; `all`: of the lane's share
    const Expr* fading = nullptr;      // of this turn
    const Expr* top_of_block = nullptr;  // of all shares, behind the last turn
    Exprs scores;                      // of this turn: two of each 8 keys, then their weights
  };
  struct BroughtKey {
    const Expr *row = nullptr, *chunk = nullptr, *place = nullptr;  // of the turn; of a piece; in a piece, in chunks
  };
  struct BroughtValue {
    const Expr *row = nullptr, *element = nullptr, *place = nullptr;
  };

  // A positive factor of all scores is one of what they are below the top, where 2 instead of e takes a factor anyway.
  void take_scale() {
    unscaled_ = a_.score;
    const bool is_masked = unscaled_->op == Op::Select && unscaled_->args[2]->is_const() && unscaled_->args[2]->f == -INFINITY;
    const Expr* product = is_masked ? unscaled_->args[1] : unscaled_;
    for (size_t k = 0; product->op == Op::Mul && k < 2; ++k)
      if (const Expr* factor = product->args[k]; factor->is_const() && factor->f > 0 && std::isfinite(factor->f)) {
        scale_ = factor->f;
        unscaled_ = is_masked ? ctx_.select(unscaled_->args[0], product->args[1 - k], unscaled_->args[2]) : product->args[1 - k];
        return;
      }
  }

  void part(const std::vector<Range>&) override {}

  void block(const std::vector<const Expr*>& at, const Expr* lane) override {
    bind_batch(at);
    first_ = k_.b.let(ctx_.mul(at[p_.batch.size()], number(tile_.rows)));
    const Expr* warp = k_.b.let(ctx_.floordiv(lane, number(kWarpLanes)));
    const int64_t along_rows = tile_.rows / tile_.warp;
    warp_row_ = k_.b.let(ctx_.mul(shares_ == 1 ? warp : ctx_.floormod(warp, number(along_rows)), number(tile_.warp)));
    share_ = k_.b.let(shares_ == 1 ? number(0) : ctx_.floordiv(warp, number(along_rows)));
    const Expr* first_key = ctx_.mul(share_, number(keys_of_warp_));
    group_ = k_.b.let(ctx_.floordiv(ctx_.floormod(lane, number(kWarpLanes)), number(kLanesOfRow))), in_group_ = k_.b.let(ctx_.floormod(lane, number(kLanesOfRow)));
    key_place_ = k_.b.let(ctx_.add(ctx_.mul(first_key, number(kRowChunks)), at_chunk(group_, in_group_)));
    value_place_ = k_.b.let(ctx_.add(ctx_.add(ctx_.mul(first_key, number(row_chunks_)), place_of_values(lane)), number(values_begin_)));
    share_bringing(lane);
    for (size_t half = 0; half < queries_.size(); ++half) bring_query(queries_[half], static_cast<int64_t>(half));
    for (size_t k = 0; k < tiles() * static_cast<size_t>(elements_ / kMmaColumns); ++k) sums_.push_back(k_.b.local(zero(4)));
    const auto [begin, end] = keys_of_block(k_, s_, a_, first_, tile_.rows);
    keys_end_ = end;
    // A constant would be an invitation to keep the halves of all queries in registers from turn to turn.
    if (takes_halves_) k_.b.with_if(ctx_.binary(Op::Eq, lane, number(0)), [&] { k_.b.store(memory_, number(high_bits_place_), ctx_.integer(kHighBits, DType::U32)); });
    walk_keys(begin);
    write_results(lane);
  }

  // Of f32 the chunk of column g of key 2t. Of 16 bits the row that this lane names to LoadMatrices: of 16 keys, whose elements are two chunks.
  const Expr* place_of_values(const Expr* lane) {
    if (values_ == 1) return ctx_.add(ctx_.mul(in_group_, number(2 * row_chunks_)), group_);
    const Expr *key = ctx_.floormod(lane, number(kKeysOfStep)), *chunk = ctx_.floordiv(ctx_.floormod(lane, number(kWarpLanes)), number(kKeysOfStep));
    return ctx_.add(ctx_.mul(key, number(row_chunks_)), chunk);
  }

  // Blocks of a cluster have every so-manieth turn each, all as many: the last one may have no keys.
  void walk_keys(const Expr* begin) {
    const int64_t keys = tile_.columns * blocks_;
    const Expr* mine = ctx_.mul(block_, number(tile_.columns));
    if (!is_ahead_) {
      k_.b.with_rolled_for(begin, keys_end_, keys, [&](const Expr* first_of_all) {
        const Expr* first = p_.cluster ? k_.b.let(ctx_.add(first_of_all, mine)) : first_of_all;
        const Exprs loads = bring(first);
        k_.b.append(loop::StmtKind::Barrier);  // all lanes have read the turn before
        copy(first, number(0));
        store(loads, first, number(0));
        if (is_any_copied()) k_.b.wait_copies(0);
        k_.b.append(loop::StmtKind::Barrier);
        multiply(first, number(0));
      });
      return;
    }
    k_.b.with_if(ctx_.binary(Op::Lt, begin, keys_end_), [&] {
      const Expr* first_of_block = p_.cluster ? k_.b.let(ctx_.add(begin, mine)) : begin;
      copy(first_of_block, number(0));
      Exprs loads = bring(first_of_block);
      for (const Expr*& load : loads) load = k_.b.local(load);
      store(loads, first_of_block, number(0));
      const Expr* place = k_.b.local(number(0));  // of the turn in memory, in chunks
      k_.b.with_rolled_for(begin, keys_end_, keys, [&](const Expr* first_of_all) {
        const Expr *here = k_.b.let(ctx_.add(place, number(0))), *there = k_.b.let(ctx_.sub(number(turn_chunks_), here));
        const Expr* next_of_all = k_.b.let(ctx_.add(first_of_all, number(keys)));
        const Expr *first = p_.cluster ? k_.b.let(ctx_.add(first_of_all, mine)) : first_of_all, *next = p_.cluster ? k_.b.let(ctx_.add(next_of_all, mine)) : next_of_all;
        if (is_any_copied()) k_.b.wait_copies(0);
        k_.b.append(loop::StmtKind::Barrier);
        k_.b.with_if(ctx_.binary(Op::Lt, next_of_all, keys_end_), [&] {
          copy(next, there);
          const Exprs of_next = bring(next);
          for (size_t k = 0; k < loads.size(); ++k) k_.b.assign(loads[k], of_next[k]);
        });
        multiply(first, here);
        store(loads, next, there);  // behind the last turn: something, which is not read
        k_.b.assign(place, there);
      });
      if (is_any_copied()) k_.b.wait_copies(0);
    });
  }

  // Scores, weights and sums of the turn whose keys and values lie from `place` on.
  void multiply(const Expr* first, const Expr* place) {
    keys_here_ = k_.b.let(ctx_.add(key_place_, place)), values_here_ = k_.b.let(ctx_.add(value_place_, place));
    if (takes_halves_) high_bits_ = k_.b.let(loop::vec_load(ctx_, memory_, {DType::U32, 1}, number(high_bits_place_)));
    add_scores();
    for (Query& q : queries_) weigh(q, shares_ == 1 ? first : k_.b.let(ctx_.add(first, ctx_.mul(share_, number(keys_of_warp_)))));
    add_values();
  }

  bool is_any_copied() const { return copies_keys_ || copies_values_; }

  // ---- what lanes bring ----

  // Neighbouring lanes bring what lies side by side in memory: chunks of a key, or keys of a chunk; elements of a value.
  void share_bringing(const Expr* lane) {
    const bool along_depth = is_along_depth(p_.columns);
    for (int64_t k = 0; k < tile_.columns * kRowChunks / lanes_; ++k) {
      const Expr* turn = ctx_.add(lane, number(k * lanes_));
      BroughtKey one;
      one.row = k_.b.let(along_depth ? ctx_.floordiv(turn, number(kRowChunks)) : ctx_.floormod(turn, number(tile_.columns)));
      one.chunk = k_.b.let(along_depth ? ctx_.floormod(turn, number(kRowChunks)) : ctx_.floordiv(turn, number(tile_.columns)));
      one.place = k_.b.let(at_chunk(one.row, one.chunk));
      keys_.push_back(one);
    }
    const int64_t values = kCellsOfChunk * values_, chunks = elements_ / values, whole = chunks / kChunksOfBanks * kChunksOfBanks;
    const auto add = [&](const Expr* row, const Expr* chunk) {
      BroughtValue one;
      one.row = k_.b.let(row);
      one.element = k_.b.let(ctx_.mul(chunk, number(values)));
      one.place = k_.b.let(ctx_.add(ctx_.add(ctx_.mul(one.row, number(row_chunks_)), chunk), number(values_begin_)));
      brought_.push_back(one);
    };
    for (int64_t first = 0; first < tile_.columns * whole; first += lanes_) {
      const Expr* turn = ctx_.add(lane, number(first));
      add(ctx_.floordiv(turn, number(whole)), k_.b.let(ctx_.floormod(turn, number(whole))));
    }
    // Half as many chunks of a row are those of two rows that are four apart: their banks are others.
    for (int64_t first = 0; first < tile_.columns * (chunks - whole); first += lanes_) {
      const Expr *turn = ctx_.add(lane, number(first)), *row = k_.b.let(ctx_.floordiv(turn, number(chunks - whole)));
      const auto bit = [&](int64_t from, int64_t to) { return ctx_.mul(ctx_.floormod(ctx_.floordiv(row, number(from)), number(2)), number(to)); };
      const Expr* turned = ctx_.add(ctx_.add(bit(1, 4), bit(2, 2)), bit(4, 1));
      add(ctx_.add(ctx_.mul(ctx_.floordiv(row, number(8)), number(8)), turned), k_.b.let(ctx_.add(ctx_.floormod(turn, number(chunks - whole)), number(whole))));
    }
  }

  // Chunk t of each piece of row g or g + 8 of a tile.
  void bring_query(Query& q, int64_t half) {
    const Expr* chunks = chunks_of(p_.rows);
    Exprs extents;
    for (const ir::Dim* d : p_.rows.dims) extents.push_back(d->extent);
    q.row = k_.b.let(ctx_.add(ctx_.add(warp_row_, group_), number(half * kMmaRows / 2)));
    q.at = k_.decoded(existing(p_.rows, ctx_.add(first_, q.row), tile_.rows), extents);
    with_query(q, [&] {
      const Reached reached = reach_chunks(p_.rows, chunks);
      for (int64_t p = 0; p < pieces_; ++p) q.chunks.push_back(k_.b.let(chunk_of(p_.rows, chunks != nullptr, reached, in_group_, piece(p))));
    });
    q.top = k_.b.local(ctx_.number(-INFINITY, DType::F32));
    q.all = k_.b.local(zero());
  }

  const Expr* piece(int64_t p) { return number(p * kCellsOfChunk * kRowChunks * values_); }

  void with_query(const Query& q, const std::function<void()>& body) {
    s_.scoped([&] {
      for (size_t d = 0; d < p_.rows.dims.size(); ++d) s_.bind(p_.rows.dims[d], q.at[d]);
      body();
    });
  }

  bool has_whole_turns() const { return lower::has_whole_turns(a_, tile_.columns * blocks_); }
  // The key, or the last one where there are not so many.
  const Expr* existing_key(const Expr* key) { return has_whole_turns() ? key : k_.b.let(ctx_.min(key, ctx_.sub(a_.key->extent, number(1)))); }

  // Copies of the turn that begins at `first`, to `turn` in memory.
  void copy(const Expr* first, const Expr* turn) {
    if (!is_any_copied()) return;
    const auto copy_to = [&](const Expr* place, const nest::Operand& o, const Place& from) {
      k_.b.copy(memory_, ctx_.mul(ctx_.add(place, turn), number(kCellsOfChunk)), loop::vec_load(ctx_, o.load->array, o.load->type, from.index), kBytesOfChunk, from.counts);
    };
    if (copies_keys_)
      each_key(first, [&](const BroughtKey& one, const Reached& reached) {
        for (int64_t p = 0; p < pieces_; ++p) copy_to(key_piece(one, p), p_.columns.factor, place_of_chunk(reached, one.chunk, piece(p)));
      });
    if (copies_values_)
      for (const BroughtValue& one : brought_) {
        const Expr* key = k_.b.let(ctx_.add(first, one.row));
        s_.scoped([&] {
          s_.bind(a_.key, existing_key(key));
          copy_to(one.place, values_side_.factor, {ctx_.mul(value_chunk(one.element), number(kCellsOfChunk * values_)), key_exists(key)});
        });
      }
    k_.b.close_copies();
  }

  void each_key(const Expr* first, const std::function<void(const BroughtKey&, const Reached&)>& body) {
    for (const BroughtKey& one : keys_)
      s_.scoped([&] {
        s_.bind(a_.key, existing_key(k_.b.let(ctx_.add(first, one.row))));
        body(one, reach_chunks(p_.columns, key_chunks_));
      });
  }
  const Expr* key_piece(const BroughtKey& one, int64_t p) { return ctx_.add(one.place, number(p * tile_.columns * kRowChunks)); }

  // What the lane loads for the turn that begins at `first`: chunks of keys, four values at once. Nothing is computed of it here, since that would wait for it.
  Exprs bring(const Expr* first) {
    Exprs loads;
    if (!copies_keys_)
      each_key(first, [&](const BroughtKey& one, const Reached& reached) {
        for (int64_t p = 0; p < pieces_; ++p) loads.push_back(k_.b.let(chunk_of(p_.columns, key_chunks_ != nullptr, reached, one.chunk, piece(p))));
      });
    for (const BroughtValue& one : brought_)
      for (int64_t v = 0; v < values_ && !copies_values_; ++v) loads.push_back(four_values(k_.b.let(ctx_.add(first, one.row)), one.element, v * kCellsOfChunk));
    return loads;
  }

  // Chunks of what was loaded for the turn that begins at `first` go to `turn` in memory.
  void store(const Exprs& loads, const Expr* first, const Expr* turn) {
    size_t n = 0;
    const auto store_to = [&](const Expr* place, const Expr* chunk) { k_.b.store(memory_, ctx_.mul(ctx_.add(place, turn), number(kCellsOfChunk)), chunk); };
    if (!copies_keys_)
      for (const BroughtKey& one : keys_)
        for (int64_t p = 0; p < pieces_; ++p) store_to(key_piece(one, p), rounds_keys_ ? rounded_chunk(loads[n++]) : loads[n++]);
    for (const BroughtValue& one : brought_) {
      if (copies_values_) break;
      Exprs factors, cells;
      for (int64_t v = 0; v < values_; ++v)
        for (const Expr* factor : factors_of_four(loads[n++], k_.b.let(ctx_.add(first, one.row)))) factors.push_back(factor);
      for (size_t c = 0; c < kCellsOfChunk; ++c) cells.push_back(cell([&](int64_t k) { return factors[static_cast<size_t>(k)]; }, static_cast<int64_t>(c)));
      store_to(one.place, loop::widen(ctx_, std::move(cells)));
    }
  }

  const Expr* rounded_chunk(const Expr* chunk) {
    Exprs cells;
    for (unsigned c = 0; c < kCellsOfChunk; ++c) cells.push_back(rounded_bits(as(DType::F32, of(chunk, c))));
    return loop::widen(ctx_, std::move(cells));
  }

  // The chunk of an element, or the last one, of the key that is bound.
  const Expr* value_chunk(const Expr* element) {
    const int64_t values = kCellsOfChunk * values_;
    const Expr* chunk = ctx_.min(ctx_.floordiv(element, number(values)), number(values_side_.points->i / values - 1));
    return k_.b.let(ctx_.add(k_.b.let(s_.value(value_chunks_)), chunk));
  }
  const Expr* key_exists(const Expr* key) { return has_whole_turns() ? nullptr : k_.b.let(ctx_.binary(Op::Lt, key, keys_end_)); }

  // Four side by side, from `more` behind the element on, of the key or of the last one. Sums of elements that do not exist are not written.
  const Expr* four_values(const Expr* key, const Expr* element, int64_t more) {
    const nest::Operand& o = values_side_.factor;
    const Expr* four = nullptr;
    s_.scoped([&] {
      s_.bind(a_.key, existing_key(key));
      if (value_chunks_) {
        four = loop::vec_load(ctx_, o.load->array, {o.load->type.dtype, kCellsOfChunk}, ctx_.add(ctx_.mul(value_chunk(element), number(kCellsOfChunk * values_)), number(more)));
        return;
      }
      Exprs values;
      for (unsigned c = 0; c < kCellsOfChunk; ++c)
        s_.scoped([&] {
          bind_point(values_side_, existing(values_side_, ctx_.add(element, number(more + c)), elements_));
          values.push_back(k_.b.let(s_.value(o.factor)));
        });
      four = loop::widen(ctx_, std::move(values));
    });
    return k_.b.let(four);
  }

  // Zero where there is no such key: its weight is zero as well.
  Exprs factors_of_four(const Expr* four, const Expr* key) {
    const nest::Operand& o = values_side_.factor;
    if (const Expr* exists = key_exists(key)) four = k_.b.let(loop::vec_select(ctx_, exists, four, loop::splat(ctx_, ctx_.number(0, four->type.dtype), kCellsOfChunk)));
    Exprs factors;
    for (unsigned c = 0; c < kCellsOfChunk; ++c)
      s_.scoped([&] {
        if (value_chunks_) s_.define(o.load, of(four, c));
        factors.push_back(k_.b.let(value_chunks_ ? s_.value(o.factor) : of(four, c)));
      });
    return factors;
  }

  // ---- one turn ----

  const Expr* chunk_at(const Expr* place) { return k_.b.let(loop::vec_load(ctx_, memory_, {DType::U32, kCellsOfChunk}, ctx_.mul(place, number(kCellsOfChunk)))); }

  size_t tiles() const { return queries_.size() / 2; }

  void add_scores() {
    const int64_t columns = keys_of_warp_ / kMmaColumns;
    std::vector<Exprs> sums(tiles(), Exprs(static_cast<size_t>(columns), zero(4)));
    for (int64_t p = 0; p < pieces_; ++p) {
      std::vector<Halves> keys;
      for (int64_t n = 0; n < columns; ++n)
        keys.push_back(halves(chunk_at(ctx_.add(keys_here_, number((p * tile_.columns + n * kMmaColumns) * kRowChunks))), key_is_short_));
      const auto of_row = [&](const Query& q) { return halves(q.chunks[static_cast<size_t>(p)], query_is_short_, high_bits_); };
      const bool apart = factors_ == DType::F32 && p > 0;
      for (size_t m = 0; m < tiles(); ++m) {
        Exprs products = apart ? Exprs(sums[m].size(), zero(4)) : sums[m];
        add_piece(of_row(queries_[2 * m]), of_row(queries_[2 * m + 1]), keys, products);
        for (size_t n = 0; n < products.size(); ++n) sums[m][n] = apart ? k_.b.let(loop::vec_binary(ctx_, Op::Add, sums[m][n], products[n])) : products[n];
      }
    }
    for (size_t q = 0; q < queries_.size(); ++q) {
      queries_[q].scores.clear();
      for (const Expr* four : sums[q / 2])
        for (unsigned k = 0; k < 2; ++k) queries_[q].scores.push_back(k_.b.let(of(four, static_cast<unsigned>(q % 2) * 2 + k)));
    }
  }

  // Scores become weights, the row's top and sum those of all keys so far.
  void weigh(Query& q, const Expr* first) {
    with_query(q, [&] {
      for (size_t k = 0; k < q.scores.size(); ++k) q.scores[k] = score(q.scores[k], ctx_.add(first, key_of(k)));
    });
    Exprs best = q.scores;
    for (; best.size() > 1; best.resize(best.size() / 2))
      for (size_t k = 0; k < best.size() / 2; ++k) best[k] = k_.b.let(loop::vec_binary(ctx_, Op::Max, best[2 * k], best[2 * k + 1]));
    const Expr* top = k_.b.let(loop::vec_binary(ctx_, Op::Max, q.top, k_.b.fold_lanes(Op::Max, best[0], kLanesOfRow)));
    const Expr* least = least_of(top);
    q.fading = power(q.top, least);
    for (const Expr*& score : q.scores) score = power(score, least);
    Exprs all = q.scores;
    for (; all.size() > 1; all.resize(all.size() / 2))
      for (size_t k = 0; k < all.size() / 2; ++k) all[k] = k_.b.let(loop::vec_binary(ctx_, Op::Add, all[2 * k], all[2 * k + 1]));
    k_.b.assign(q.all, multiply_add(all[0], q.all, q.fading));
    k_.b.assign(q.top, top);
  }

  // Where all scores are -inf so far, their difference would be no number: a score to come would not wash that away.
  const Expr* least_of(const Expr* top) { return k_.b.let(ctx_.select(ctx_.binary(Op::Eq, top, ctx_.number(-INFINITY, DType::F32)), zero(), top)); }
  // Scores are at most the top: nothing overflows, however large they are, and the largest weight is 1.
  const Expr* power(const Expr* score, const Expr* least) {
    const Expr* below = loop::vec_binary(ctx_, Op::Mul, loop::vec_binary(ctx_, Op::Sub, score, least), ctx_.number(scale_ * kLog2E, DType::F32));
    return k_.b.let(ctx_.unary(Op::Exp2, below));
  }

  const Expr* key_of(size_t score) {
    return ctx_.add(ctx_.mul(in_group_, number(2)), number(static_cast<int64_t>(score / 2) * kMmaColumns + static_cast<int64_t>(score % 2)));
  }

  // Of the query that is bound and a key, which may not exist: then nothing is as large.
  const Expr* score(const Expr* product, const Expr* key) {
    const Expr* result = nullptr;
    s_.scoped([&] {
      key = k_.b.let(key);
      s_.bind(a_.key, existing_key(key));
      for (const Expr* condition : a_.in_range) k_.b.fault(ctx_.logical_not(s_.value(condition)), kIndexFault);
      s_.define(p_.fold, product);
      result = k_.b.let(s_.value(unscaled_));
      if (!has_whole_turns()) result = k_.b.let(ctx_.select(ctx_.binary(Op::Lt, key, keys_end_), result, ctx_.number(-INFINITY, DType::F32)));
    });
    return result;
  }

  // The weights of a tile and the keys of one step as the first factor: numbers whose sum they are, the largest first.
  Exprs weights(size_t tile, size_t step) {
    const auto of_row = [&](size_t half, size_t k) { return queries_[2 * tile + half].scores[k]; };
    if (factors_ == DType::F32 && a_.rounding == DType::F32) {
      Exprs four;
      for (const size_t k : {2 * step, 2 * step + 1})
        for (const size_t half : {0, 1}) four.push_back(rounded_bits(of_row(half, k)));
      return {k_.b.let(loop::widen(ctx_, std::move(four)))};
    }
    if (factors_ == DType::F32) {
      const Expr* four = loop::widen(ctx_, {of_row(0, 2 * step), of_row(1, 2 * step), of_row(0, 2 * step + 1), of_row(1, 2 * step + 1)});
      const Halves both = halves(k_.b.let(loop::vec_convert(ctx_, Op::Bitcast, DType::U32, four)), false);
      return {both.high, both.low};
    }
    Exprs cells[3];
    const bool is_rounded = a_.rounding == factors_;
    for (const size_t pair_of_keys : {0, 1})
      for (const size_t half : {0, 1}) {
        const size_t k = 4 * step + 2 * pair_of_keys;
        const Exprs pairs = is_rounded ? Exprs{pair_of_rounded(of_row(half, k), of_row(half, k + 1))} : terms_of(of_row(half, k), of_row(half, k + 1));
        for (size_t n = 0; n < pairs.size(); ++n) cells[n].push_back(pairs[n]);
      }
    Exprs all;
    for (Exprs& four : cells)
      if (!four.empty()) all.push_back(k_.b.let(loop::widen(ctx_, std::move(four))));
    return all;
  }

  const Expr* rounded_bits(const Expr* number) { return as(DType::U32, ctx_.unary(Op::Tf32, number)); }

  // Of two weights. Of f16 a rounded number and what is left, rounded. Of bf16 three times eight bits: all that an f32 has, as f32.
  Exprs terms_of(const Expr* first, const Expr* second) {
    const auto less = [&](const Expr* a, const Expr* b) { return k_.b.let(ctx_.binary(Op::Sub, a, b)); };
    if (factors_ == DType::F16) {
      const Expr* rounded = pair_of_rounded(first, second);
      const auto half = [&](const Expr* word) { return ctx_.cast(DType::F32, as(DType::F16, ctx_.cast(DType::U16, word))); };
      return {rounded, pair_of_rounded(less(first, half(rounded)), less(second, half(ctx_.binary(Op::Shr, rounded, ctx_.integer(16, DType::U32)))))};
    }
    const auto rest = [&](const Expr* v) { return less(v, as(DType::F32, ctx_.binary(Op::BitAnd, as(DType::U32, v), upper_half()))); };
    Exprs pairs{pair_of_high(first, second)};
    while (pairs.size() < 3) {
      first = rest(first), second = rest(second);
      pairs.push_back(pair_of_high(first, second));
    }
    return pairs;
  }
  // An instruction converts both at once where it has them in one expression.
  const Expr* pair_of_rounded(const Expr* first, const Expr* second) { return k_.b.let(pair(ctx_.cast(factors_, first), ctx_.cast(factors_, second))); }
  const Expr* as(DType t, const Expr* v) { return ctx_.convert(Op::Bitcast, {t, 1}, v); }
  const Expr* upper_half() { return ctx_.integer(0xffff0000, DType::U32); }
  // The first bits of two numbers of f32 as a cell of bf16.
  const Expr* pair_of_high(const Expr* first, const Expr* second) {
    return ctx_.binary(Op::BitOr, ctx_.binary(Op::Shr, as(DType::U32, first), ctx_.integer(16, DType::U32)), ctx_.binary(Op::BitAnd, as(DType::U32, second), upper_half()));
  }

  // Of a tile: the weights of each step, and what its sums fade by.
  struct Weighed {
    std::vector<Exprs> steps;
    const Expr* fading = nullptr;
  };

  void add_values() {
    std::vector<Weighed> all;
    for (size_t m = 0; m < tiles(); ++m) {
      Weighed& one = all.emplace_back();
      for (int64_t k = 0; k < keys_of_warp_ / (kMmaColumns * values_); ++k) one.steps.push_back(weights(m, static_cast<size_t>(k)));
      const Expr *upper = queries_[2 * m].fading, *lower = queries_[2 * m + 1].fading;
      one.fading = k_.b.let(loop::widen(ctx_, {upper, upper, lower, lower}));
    }
    if (values_ == 1) add_pieces(all);
    else add_short_values(all);
  }

  // 32 elements of all values after the other, whose sums have few products under way.
  void add_pieces(const std::vector<Weighed>& tiles) {
    constexpr size_t kStepsOfPiece = kPieceKeys / kMmaColumns;
    for (int64_t group = 0; group < elements_ / kElementsOfWarp; ++group)
      for (size_t begin = 0; begin < tiles[0].steps.size(); begin += kStepsOfPiece) {
        std::vector<Exprs> products(tiles.size(), Exprs(kTilesOfWarp, zero(4)));
        for (size_t step = begin; step < begin + kStepsOfPiece; ++step) add_step(group, step, tiles, products);
        for (size_t m = 0; m < tiles.size(); ++m)
          for (size_t n = 0; n < kTilesOfWarp; ++n) {
            const Expr *sum = sum_at(m, group, n), *product = products[m][n];
            k_.b.assign(sum, begin == 0 ? loop::vec_fma(ctx_, sum, tiles[m].fading, product) : loop::vec_binary(ctx_, Op::Add, sum, product));
          }
      }
  }

  const Expr*& sum_at(size_t tile, int64_t group, size_t n) { return sums_[(tile * static_cast<size_t>(elements_ / kElementsOfWarp) + static_cast<size_t>(group)) * kTilesOfWarp + n]; }

  // Products of the keys of one step, the smallest first.
  void add_step(int64_t group, size_t step, const std::vector<Weighed>& tiles, std::vector<Exprs>& products) {
    const int64_t place = static_cast<int64_t>(step) * kMmaColumns * row_chunks_ + group * kElementsOfWarp / kCellsOfChunk;
    const auto values_at = [&](int64_t at) { return halves(chunk_at(ctx_.add(values_here_, number(at))), value_is_short_); };
    const Halves upper = values_at(place), lower = values_at(place + row_chunks_);
    for (size_t m = 0; m < tiles.size(); ++m) {
      const auto add = [&](const Expr* weights, const Expr* Halves::*half) {
        if (!(upper.*half)) return;
        for (unsigned n = 0; n < kTilesOfWarp; ++n) products[m][n] = k_.b.mma(factors_, products[m][n], weights, loop::widen(ctx_, {of(upper.*half, n), of(lower.*half, n)}));
      };
      const Exprs& weights = tiles[m].steps[step];
      for (size_t k = weights.size(); k-- > 1;) add(weights[k], &Halves::high);
      add(weights[0], &Halves::low);
      add(weights[0], &Halves::high);
    }
  }

  // Values of 16 bits: sums fade, then products join them, as those of other products of 16 bits do.
  void add_short_values(const std::vector<Weighed>& tiles) {
    for (int64_t group = 0; group < elements_ / kElementsOfWarp; ++group) {
      std::vector<Exprs> sums(tiles.size());
      for (size_t m = 0; m < tiles.size(); ++m)
        for (size_t n = 0; n < kTilesOfWarp; ++n) sums[m].push_back(k_.b.let(loop::vec_binary(ctx_, Op::Mul, sum_at(m, group, n), tiles[m].fading)));
      for (size_t step = 0; step < tiles[0].steps.size(); ++step) {
        const Exprs values = columns_of_values(static_cast<int64_t>(step), group);
        for (size_t m = 0; m < tiles.size(); ++m)
          for (size_t k = tiles[m].steps[step].size(); k-- > 0;)
            for (size_t n = 0; n < kTilesOfWarp; ++n) sums[m][n] = k_.b.mma(factors_, sums[m][n], tiles[m].steps[step][k], values[n]);
      }
      for (size_t m = 0; m < tiles.size(); ++m)
        for (size_t n = 0; n < kTilesOfWarp; ++n) k_.b.assign(sum_at(m, group, n), sums[m][n]);
    }
  }

  // The 16 keys of a step by the elements of a group, tile by tile.
  Exprs columns_of_values(int64_t step, int64_t group) {
    Exprs tiles;
    for (int64_t n = 0; n < kTilesOfWarp; n += 2) {
      const int64_t place = step * kKeysOfStep * row_chunks_ + group * kChunksOfGroup + n;
      const Expr* at = ctx_.mul(ctx_.add(values_here_, number(place)), number(kCellsOfChunk));
      const Expr* cells = k_.b.load_matrices(loop::vec_load(ctx_, memory_, {DType::U32, kCellsOfChunk}, at), true);
      for (const unsigned c : {0u, 2u}) tiles.push_back(loop::widen(ctx_, {of(cells, c), of(cells, c + 1)}));
    }
    return tiles;
  }

  // ---- behind the last turn ----

  // Sums go through memory, as many groups of elements at once as it has room for, so that neighbouring lanes write neighbours and the epilogue is code once for each.
  void write_results(const Expr* lane) {
    if (shares_ > 1) join_tops();
    for (const Query& q : queries_) {
      const Expr* all = faded(q, k_.b.fold_lanes(Op::Add, q.all, kLanesOfRow));
      store_of_row(q, alls_place(), all);
      if (p_.cluster) store_of_row(q, top_place(), shares_ == 1 ? q.top : q.top_of_block, /*of_block=*/true);
    }
    const int64_t groups = elements_ / kElementsOfWarp;
    for (int64_t first = 0; first < groups; first += groups_at_once_) {
      const int64_t end = std::min(groups, first + groups_at_once_);
      if (first == 0) k_.b.append(loop::StmtKind::Barrier);
      else meet_cluster();  // all have read the groups before
      for (int64_t group = first; group < end; ++group)
        for (size_t q = 0; q < queries_.size(); ++q) store_sums(group, q, (group - first) * results_of_group());
      meet_cluster();
      p_.cluster ? write_in_turns(first, end, lane) : write_all(first, end, lane);
    }
    if (p_.cluster) meet_cluster();  // no block ends while others read what it has
  }
  int64_t results_of_group() const { return shares_ * tile_.rows * width_of_results_; }
  int64_t alls_place() const { return shares_ == 1 ? 0 : shares_; }
  int64_t top_place() const { return alls_place() + shares_; }

  // Where a number of a row of the block lies that a share has: `first` shares of other numbers lie before.
  const Expr* place_of_row(const Expr* row, int64_t first, const Expr* share) { return ctx_.add(ctx_.add(row, number(first * tile_.rows)), ctx_.mul(share, number(tile_.rows))); }
  void store_of_row(const Query& q, int64_t first, const Expr* value, bool of_block = false) {
    const Expr *is_first = ctx_.binary(Op::Eq, in_group_, number(0)), *is_mine = of_block && shares_ > 1 ? ctx_.logical_and(is_first, ctx_.binary(Op::Eq, share_, number(0))) : is_first;
    k_.b.with_if(is_mine, [&] { k_.b.store(rows_memory_, place_of_row(q.row, first, of_block ? number(0) : share_), value); });
  }

  // What each share has fades to the largest of all tops, as it does from turn to turn.
  void join_tops() {
    for (const Query& q : queries_) store_of_row(q, 0, q.top);
    k_.b.append(loop::StmtKind::Barrier);
    for (Query& q : queries_) {
      const Expr* top = nullptr;
      for (int64_t share = 0; share < shares_; ++share) {
        const Expr* one = k_.b.let(loop::vec_load(ctx_, rows_memory_, {DType::F32, 1}, place_of_row(q.row, 0, number(share))));
        top = k_.b.let(top ? loop::vec_binary(ctx_, Op::Max, top, one) : one);
      }
      q.top_of_block = top;
      q.fading = power(q.top, least_of(top));
    }
  }
  const Expr* faded(const Query& q, const Expr* sums) {
    return shares_ == 1 ? sums : k_.b.let(loop::vec_binary(ctx_, Op::Mul, sums, loop::splat(ctx_, q.fading, sums->type.lanes)));
  }

  // Of row g or g + 8 of a tile.
  void store_sums(int64_t group, size_t query, int64_t begin) {
    const Query& q = queries_[query];
    const Expr* row = place_of_row(q.row, 0, share_);
    const auto store = [&](int64_t column, Exprs sums) {
      const auto count = static_cast<int64_t>(sums.size());
      const Expr* place = ctx_.add(ctx_.mul(row, number(width_of_results_ / count)), ctx_.add(ctx_.mul(in_group_, number(values_ == 1 ? 2 : 1)), number(column)));
      k_.b.store(memory_, ctx_.add(ctx_.mul(place, number(count)), number(begin)), loop::vec_convert(ctx_, Op::Bitcast, DType::U32, faded(q, loop::widen(ctx_, std::move(sums)))));
    };
    const auto sum = [&](size_t n, unsigned column) { return of(sum_at(query / 2, group, n), static_cast<unsigned>(query % 2) * 2 + column); };
    // Of f32 four tiles are four elements side by side.
    for (unsigned column = 0; column < 2 && values_ == 1; ++column) store(column, {sum(0, column), sum(1, column), sum(2, column), sum(3, column)});
    for (size_t n = 0; n < kTilesOfWarp && values_ != 1; ++n) store(static_cast<int64_t>(n) * kMmaColumns / 2, {sum(n, 0), sum(n, 1)});
  }

  // Groups of elements from `first` on, which are in memory.
  void write_all(int64_t first, int64_t end, const Expr* lane) {
    const Expr *column = column_of(lane), *first_row = row_of(lane);
    for (int64_t group = first; group < end; ++group)
      at_element(group, column, [&] {
        k_.b.with_for(first_row, number(tile_.rows), rows_at_once(), [&](const Expr* row) {
          at_row(row, [&] { write(of_shares(all_of(row, 0)), of_shares(sum_of(row, column, group - first, 0))); });
        });
      });
  }
  const Expr* column_of(const Expr* lane) { return k_.b.let(ctx_.floormod(lane, number(kElementsOfWarp))); }
  const Expr* row_of(const Expr* lane) { return k_.b.let(ctx_.floordiv(lane, number(kElementsOfWarp))); }
  int64_t rows_at_once() const { return lanes_ / kElementsOfWarp; }
  void at_element(int64_t group, const Expr* column, const std::function<void()>& body) { where_it_exists(values_side_, k_.b.let(ctx_.add(column, number(group * kElementsOfWarp))), elements_, body); }
  void at_row(const Expr* row, const std::function<void()>& body) { where_it_exists(p_.rows, k_.b.let(ctx_.add(first_, row)), tile_.rows, body); }

  // Every so-manieth of the rows is this block's. All that others have of some of them is loaded first: it comes from far.
  void write_in_turns(int64_t first, int64_t end, const Expr* lane) {
    const int64_t turn = rows_at_once() * blocks_, together = std::min(kRowsTogether * turn, std::max(turn, tile_.rows));
    const Expr *column = column_of(lane), *mine = k_.b.let(ctx_.add(ctx_.mul(block_, number(rows_at_once())), row_of(lane)));
    k_.b.with_for(number(0), number(tile_.rows), together, [&](const Expr* begin) {
      std::vector<RowOfBlocks> rows;
      for (int64_t more = 0; more < together; more += turn) rows.push_back(row_of_blocks(k_.b.let(ctx_.add(ctx_.add(begin, mine), number(more))), column, end - first));
      for (RowOfBlocks& one : rows) {
        const auto write_row = [&] { at_row(one.row, [&] { write_joined(one, first, column); }); };
        if (turn <= tile_.rows) write_row();
        else k_.b.with_if(ctx_.binary(Op::Lt, one.row, number(tile_.rows)), write_row);
      }
    });
  }

  struct RowOfBlocks {
    const Expr* row = nullptr;
    Exprs tops, alls;          // of each block
    std::vector<Exprs> sums;   // the same, of each group of elements
  };
  RowOfBlocks row_of_blocks(const Expr* row, const Expr* column, int64_t groups) {
    RowOfBlocks one{.row = row, .sums = std::vector<Exprs>(static_cast<size_t>(groups))};
    const Expr* there = rows_at_once() * blocks_ <= tile_.rows ? row : k_.b.let(ctx_.min(row, number(tile_.rows - 1)));
    for (int64_t block = 0; block < blocks_; ++block) {
      one.tops.push_back(at_block(rows_memory_, DType::F32, place_of_row(there, top_place(), number(0)), block));
      one.alls.push_back(of_shares(all_of(there, block)));
      for (int64_t group = 0; group < groups; ++group) one.sums[static_cast<size_t>(group)].push_back(of_shares(sum_of(there, column, group, block)));
    }
    return one;
  }

  // What each block has fades to the largest of the tops, and is added in the order of the blocks.
  void write_joined(const RowOfBlocks& one, int64_t first, const Expr* column) {
    const Expr* top = one.tops[0];
    for (size_t b = 1; b < one.tops.size(); ++b) top = k_.b.let(loop::vec_binary(ctx_, Op::Max, top, one.tops[b]));
    const Expr* least = least_of(top);
    Exprs fadings;
    for (const Expr* t : one.tops) fadings.push_back(power(t, least));
    const auto joined = [&](const Exprs& of_blocks) {
      const Expr* sum = k_.b.let(ctx_.binary(Op::Mul, of_blocks[0], fadings[0]));
      for (size_t b = 1; b < of_blocks.size(); ++b) sum = k_.b.let(multiply_add(sum, of_blocks[b], fadings[b]));
      return sum;
    };
    const Expr* all = joined(one.alls);
    for (size_t group = 0; group < one.sums.size(); ++group) at_element(first + static_cast<int64_t>(group), column, [&] { write(all, joined(one.sums[group])); });
  }

  // What becomes of the sum of all weights and of weighted values, at the row and the element that are bound.
  void write(const Expr* all, const Expr* sum) {
    s_.define(a_.all, all);
    s_.define(a_.parted, sum);
    s_.define(a_.mixed, k_.b.let(s_.value(a_.weight)));
    emit_writes(s_, k_.b, n_, nullptr);
  }

  // What a share has, of this block or of one of the cluster.
  using OfShare = std::function<const Expr*(int64_t share)>;
  OfShare all_of(const Expr* row, int64_t block) {
    return [this, row, block](int64_t share) { return at_block(rows_memory_, DType::F32, place_of_row(row, alls_place(), number(share)), block); };
  }
  OfShare sum_of(const Expr* row, const Expr* column, int64_t group, int64_t block) {
    return [=, this](int64_t share) {
      const Expr* place = ctx_.add(ctx_.mul(place_of_row(row, 0, number(share)), number(width_of_results_)), number(group * results_of_group()));
      return as(DType::F32, at_block(memory_, DType::U32, ctx_.add(place, column), block));
    };
  }
  const Expr* at_block(uint32_t memory, DType type, const Expr* place, int64_t block) {
    const Expr* load = loop::vec_load(ctx_, memory, {type, 1}, place);
    return k_.b.let(p_.cluster ? k_.b.peer(load, block) : load);
  }
  // In their order.
  const Expr* of_shares(const OfShare& one) {
    Exprs parts;
    for (int64_t share = 0; share < shares_; ++share) parts.push_back(one(share));
    const Expr* all = parts[0];
    for (size_t share = 1; share < parts.size(); ++share) all = k_.b.let(ctx_.binary(Op::Add, all, parts[share]));
    return all;
  }

  const Attention& a_;
  Side values_side_;
  const schedule::Tile tile_;
  const int64_t lanes_;                        // of the block
  const int64_t shares_, keys_of_warp_;        // of a turn: warps that have some of its keys each; how many
  const int64_t pieces_;                       // of the depth
  const int64_t elements_;                     // of a value, filled up
  int64_t row_chunks_ = 0, turn_chunks_ = 0;   // from one row of values in memory to the next; of keys and values in memory
  int64_t width_of_results_ = 0, groups_at_once_ = 1;  // from one row of sums on their way out to the next, in cells; groups of elements that are in memory then
  bool is_ahead_ = false, copies_keys_ = false, copies_values_ = false;  // keys and values come a turn before they are multiplied; beside the lanes
  bool rounds_keys_ = false;
  const Expr *keys_here_ = nullptr, *values_here_ = nullptr;  // of this lane, in the turn at hand
  const Expr* unscaled_ = nullptr;             // what becomes of a product: scores without their scale
  double scale_ = 1;
  int64_t values_begin_ = 0, high_bits_place_ = 0;  // in memory: in chunks; in cells
  bool takes_halves_ = false;                  // queries are two numbers of tf32
  const Expr* high_bits_ = nullptr;            // that tf32 has
  bool query_is_short_ = false, key_is_short_ = false, value_is_short_ = false;
  const Expr *key_chunks_ = nullptr, *value_chunks_ = nullptr;
  uint32_t memory_ = 0, rows_memory_ = 0;
  const Expr *first_ = nullptr, *warp_row_ = nullptr, *share_ = nullptr, *group_ = nullptr, *in_group_ = nullptr, *key_place_ = nullptr, *value_place_ = nullptr, *keys_end_ = nullptr;
  std::vector<BroughtKey> keys_;
  std::vector<BroughtValue> brought_;
  std::vector<Query> queries_;                 // of a lane: rows g and g + 8 of each tile of its warp
  Exprs sums_;                                 // of a lane, four at once: of each tile of queries, tile by tile of the elements
};

}  // namespace

std::string attention_mma_instruction(const Job& job, const Attention& a) {
  const DeviceProduct& p = a.product;
  if (!job.target.has_mma || !job.target.has_exp2 || !p.depth_points->is_const() || p.depth_points->i < 1 || p.depth_points->i > kMostDepth) return {};
  if (estimate(p.rows.points) < kLeastSide || estimate(a.key->extent) < kLeastSide) return {};
  return "mma." + std::string(name_of(attention_factors(a)));
}

int64_t attention_mma_depth(const Attention& a) { return filled_up(a.product.depth_points->i, kCellsOfChunk * kRowChunks * cell_values(attention_factors(a))); }

StagePtr attention_mma_stage(const Job& job, const Attention& a, Skeleton& k, const schedule::Schedule& how) { return std::make_unique<AttentionMma>(job, a, k, how); }

}  // namespace mlc::lower
