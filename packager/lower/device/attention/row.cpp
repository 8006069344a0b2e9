// Attention of few queries (a token of a decoder): a block has one query, and its lanes have the keys. Some lanes side by side share a key,
// neighbours read neighbouring parts of it and of its value; such a group of lanes goes along every so-manieth key by itself, without a barrier:
//
//   for some keys
//     their parts, and those of their values, are all loaded at once
//     scores = query * keys, joined across the lanes of the key
//     their maximum and sum so far, exponentials; what was summed before fades by exp(old maximum - new maximum)
//     sums += exponentials * values, each lane its elements
//   groups fade to the maximum of all, and go through shared memory: a lane adds an element of all groups, in their order
//
// Blocks of a cluster (group.cpp) have every so-manieth turn each. What they have of an element, their maximum and their sum are read by the block that writes it,
// one after the other in the order of the blocks.
//
// A tile of queries (attention/tile.cpp) would wait at barriers in each turn for rows that do not exist.
#include <cmath>

#include "packager/lower/device/attention/stages.h"

namespace mlc::lower {

using ir::Expr;
using ir::Op;

namespace {

class AttentionRow final : public ProductStage {
 public:
  AttentionRow(const Job& job, const Attention& a, Skeleton& k, const schedule::Schedule& how)
      : ProductStage(job, a.nest, k, a.product, how),
        a_(a),
        tile_(how.tile),
        groups_(how.block / tile_.depth),
        lanes_(how.block),
        query_chunks_(chunks_in(p_.depth_points->i)),
        value_chunks_(chunks_in(a.values.points->i)) {
    grid.push_back(p_.rows.points);
    if (p_.cluster) {
      grid.push_back(p_.cluster->extent);
      of_block_ = k_.shared("block", DType::F32, a.values.points->i + 2);
    }
    results_ = k_.shared("results", DType::F32, groups_ * value_chunks_ * kChunk * tile_.depth);
    work = attention_work(job_, a_, p_, k_);
  }

 private:
  using Exprs = std::vector<const Expr*>;
  static constexpr int64_t kChunk = kNeighboursOfLoad;

  // Of a lane, if so many elements are shared by the lanes of a key.
  int64_t chunks_in(int64_t elements) const { return (elements + kChunk * tile_.depth - 1) / (kChunk * tile_.depth); }

  void part(const std::vector<Range>&) override {}

  void block(const std::vector<const Expr*>& at, const Expr* lane) override {
    bind_batch(at);
    bind_point(p_.rows, at[p_.batch.size()]);
    in_key_ = k_.b.let(ctx_.floormod(lane, number(tile_.depth))), group_ = k_.b.let(ctx_.floordiv(lane, number(tile_.depth)));
    key_fours_ = runs_of(ctx_, s_.facts, p_.columns, p_.depth, p_.depth_points, kNeighboursOfLoad), value_fours_ = runs_of(ctx_, s_.facts, a_.values, a_.values.dims, a_.values.points, kNeighboursOfLoad);
    query_ = factors(p_.rows, runs_of(ctx_, s_.facts, p_.rows, p_.depth, p_.depth_points, kNeighboursOfLoad));
    for (int64_t c = 0; c < value_chunks_; ++c) sums_.push_back(k_.b.local(zero(kChunk)));
    top_ = k_.b.local(lowest());
    all_ = k_.b.local(zero());
    const auto [begin, end] = keys_of_block(k_, s_, a_, at[p_.batch.size()], 1);
    keys_end_ = end;
    // All blocks of a cluster have as many turns, the last of which may have no keys.
    const Expr* mine = ctx_.mul(block_, number(tile_.columns));
    k_.b.with_rolled_for(begin, end, tile_.columns * blocks_, [&](const Expr* first) { s_.scoped([&] { turn(k_.b.let(ctx_.add(first, mine))); }); });
    write_results(lane);
  }

  const Expr* number(int64_t n) { return ctx_.integer(n); }
  const Expr* lowest() { return ctx_.number(-INFINITY, DType::F32); }
  const Expr* last(const Expr* points) { return ctx_.sub(points, number(1)); }
  const Expr* times(const Expr* vector, const Expr* factor) { return loop::vec_binary(ctx_, Op::Mul, vector, loop::splat(ctx_, factor, kChunk)); }

  // ---- what a lane loads ----

  // Four neighbours at once, as the factor makes numbers of them.
  const Expr* four(const nest::Operand& o, const Expr* at) {
    const Expr* together = k_.b.let(loop::vec_load(ctx_, o.load->array, {o.load->type.dtype, kChunk}, ctx_.mul(at, number(kChunk))));
    if (o.factor == o.load) return together;
    Exprs values;
    for (unsigned c = 0; c < kChunk; ++c)
      s_.scoped([&] {
        s_.define(o.load, loop::extract(ctx_, together, c));
        values.push_back(k_.b.let(s_.value(o.factor)));
      });
    return loop::widen(ctx_, std::move(values));
  }

  // The lane's chunks along the depth of the query or the key that is bound; zero behind the end.
  Exprs factors(const Side& side, const Expr* fours) {
    const bool is_whole = p_.depth_points->i % (kChunk * tile_.depth) == 0;
    const Expr* base = fours ? k_.b.let(s_.value(fours)) : nullptr;
    const Reached reached = fours ? Reached{} : reach(side);
    Exprs chunks;
    for (int64_t c = 0; c < query_chunks_; ++c) {
      const Expr* chunk = k_.b.let(ctx_.add(in_key_, number(c * tile_.depth)));
      if (fours) {
        const Expr *all = number(p_.depth_points->i / kChunk), *here = four(side.factor, ctx_.add(base, is_whole ? chunk : ctx_.min(chunk, last(all))));
        chunks.push_back(is_whole ? here : k_.b.let(loop::vec_select(ctx_, ctx_.binary(Op::Lt, chunk, all), here, zero(kChunk))));
        continue;
      }
      Exprs values;
      for (int64_t u = 0; u < kChunk; ++u) {
        const Expr* k = k_.b.let(ctx_.add(ctx_.mul(chunk, number(kChunk)), number(u)));
        values.push_back(element(side, reached, k, is_whole ? nullptr : ctx_.binary(Op::Lt, k, p_.depth_points)));
      }
      chunks.push_back(k_.b.let(loop::widen(ctx_, std::move(values))));
    }
    return chunks;
  }

  // The lane's chunks of the value of the key that is bound: zero where there is none, its weight is zero as well. Elements that do not exist
  // are not written.
  Exprs values(const Expr* exists) {
    const Expr* base = value_fours_ ? k_.b.let(s_.value(value_fours_)) : nullptr;
    Exprs chunks;
    for (int64_t c = 0; c < value_chunks_; ++c) {
      const Expr *chunk = ctx_.add(in_key_, number(c * tile_.depth)), *here = nullptr;
      if (value_fours_) {
        here = four(a_.values.factor, ctx_.add(base, ctx_.min(chunk, number(a_.values.points->i / kChunk - 1))));
      } else {
        Exprs values;
        for (int64_t u = 0; u < kChunk; ++u)
          s_.scoped([&] {
            bind_point(a_.values, existing(a_.values, ctx_.add(ctx_.mul(chunk, number(kChunk)), number(u)), kChunk * tile_.depth));
            values.push_back(k_.b.let(s_.value(a_.values.factor.factor)));
          });
        here = loop::widen(ctx_, std::move(values));
      }
      chunks.push_back(k_.b.let(exists ? loop::vec_select(ctx_, exists, here, zero(kChunk)) : here));
    }
    return chunks;
  }

  // ---- one turn ----

  struct Key {
    const Expr *place = nullptr, *exists = nullptr;  // the number of the key, or of the last one; null: it exists
    Exprs factors, values;                           // the lane's chunks
    const Expr* score = nullptr;                     // its weight, then
  };

  void turn(const Expr* first) {
    std::vector<Key> keys(tile_.copies);
    for (size_t u = 0; u < keys.size(); ++u) {
      Key& key = keys[u];
      const Expr* place = k_.b.let(ctx_.add(ctx_.add(first, group_), number(static_cast<int64_t>(u) * groups_)));
      const bool is_whole = has_whole_turns(a_, tile_.columns * blocks_);
      key.place = is_whole ? place : k_.b.let(ctx_.min(place, last(a_.key->extent)));
      if (!is_whole) key.exists = k_.b.let(ctx_.binary(Op::Lt, place, keys_end_));
      with_key(key, [&] { key.factors = factors(p_.columns, key_fours_), key.values = values(key.exists); });
    }
    for (Key& key : keys) with_key(key, [&] { add_score(key); });
    weigh(keys);
  }

  void with_key(const Key& key, const std::function<void()>& body) {
    s_.scoped([&] {
      s_.bind(a_.key, key.place);
      body();
    });
  }

  void add_score(Key& key) {
    const Expr* products = zero(kChunk);
    for (size_t c = 0; c < key.factors.size(); ++c) products = k_.b.let(multiply_add(products, query_[c], key.factors[c]));
    Exprs sums;
    for (unsigned u = 0; u < kChunk; ++u) sums.push_back(loop::extract(ctx_, products, u));
    const auto add = [&](const Expr* a, const Expr* b) { return loop::vec_binary(ctx_, Op::Add, a, b); };
    const Expr* product = k_.b.fold_lanes(Op::Add, k_.b.let(add(add(sums[0], sums[1]), add(sums[2], sums[3]))), tile_.depth);
    for (const Expr* condition : a_.in_range) k_.b.fault(ctx_.logical_not(s_.value(condition)), kIndexFault);
    s_.define(p_.fold, product);
    const Expr* score = k_.b.let(s_.value(a_.score));
    key.score = key.exists ? k_.b.let(ctx_.select(key.exists, score, lowest())) : score;
  }

  // Of a score, where the largest one is -inf no difference: that would be no number, which a score to come would not wash away.
  const Expr* power(const Expr* score, const Expr* top) {
    const Expr* least = k_.b.let(ctx_.select(ctx_.binary(Op::Eq, top, lowest()), zero(), top));
    const Expr* e = nullptr;
    s_.scoped([&] { e = exponential(k_, s_, a_, score, least); });
    return e;
  }

  void weigh(std::vector<Key>& keys) {
    const Expr* top = top_;
    for (const Key& key : keys) top = k_.b.let(loop::vec_binary(ctx_, Op::Max, top, key.score));
    const Expr* fading = power(top_, top);
    const Expr* all = k_.b.let(ctx_.binary(Op::Mul, all_, fading));
    for (Key& key : keys) {
      key.score = power(key.score, top);
      all = k_.b.let(ctx_.binary(Op::Add, all, key.score));
    }
    k_.b.assign(all_, all);
    k_.b.assign(top_, top);
    for (size_t c = 0; c < sums_.size(); ++c) {
      const Expr* sum = k_.b.let(times(sums_[c], fading));
      for (const Key& key : keys) sum = k_.b.let(multiply_add(sum, loop::splat(ctx_, key.score, kChunk), key.values[c]));
      k_.b.assign(sums_[c], sum);
    }
  }

  // ---- behind the last turn ----

  void write_results(const Expr* lane) {
    const Expr *top = k_.b.let(k_.b.fold_lanes(Op::Max, top_, lanes_)), *fading = power(top_, top);
    for (size_t c = 0; c < sums_.size(); ++c) {
      const Expr* chunk = ctx_.add(in_key_, number(static_cast<int64_t>(c) * tile_.depth));
      k_.b.store(results_, ctx_.add(ctx_.mul(group_, number(width())), ctx_.mul(chunk, number(kChunk))), times(sums_[c], fading));
    }
    const Expr* mine = ctx_.select(ctx_.binary(Op::Eq, in_key_, number(0)), ctx_.binary(Op::Mul, all_, fading), zero());
    const Expr* all = k_.b.fold_lanes(Op::Add, k_.b.let(mine), lanes_);
    k_.b.append(loop::StmtKind::Barrier);
    if (p_.cluster) return write_of_blocks(lane, top, all);
    k_.b.with_for(lane, a_.values.points, lanes_, [&](const Expr* element) { write(element, all, [&] { return sum_of_groups(element); }); });
  }

  int64_t width() const { return value_chunks_ * kChunk * tile_.depth; }

  const Expr* sum_of_groups(const Expr* element) {
    const Expr* sum = k_.b.local(zero());
    unrolled(groups_, [&](const Expr* group) {
      k_.b.assign(sum, ctx_.binary(Op::Add, sum, loop::vec_load(ctx_, results_, {DType::F32, 1}, ctx_.add(ctx_.mul(group, number(width())), element))));
    });
    return sum;
  }

  // The element of the result, whose weighted sum of values is `sum()`, and whose weights are `all` together.
  void write(const Expr* element, const Expr* all, const std::function<const Expr*()>& sum) {
    s_.scoped([&] {
      const Expr* parted = k_.b.let(sum());
      bind_point(a_.values, element);
      s_.define(a_.all, all);
      s_.define(a_.parted, parted);
      s_.define(a_.mixed, k_.b.let(s_.value(a_.weight)));
      emit_writes(s_, k_.b, n_, nullptr);
    });
  }

  // Each block of the cluster writes some elements.
  void write_of_blocks(const Expr* lane, const Expr* top, const Expr* all) {
    const Expr *at_top = a_.values.points, *at_all = number(a_.values.points->i + 1);
    k_.b.with_for(lane, a_.values.points, lanes_, [&](const Expr* element) { k_.b.store(of_block_, element, sum_of_groups(element)); });
    k_.b.with_if(ctx_.binary(Op::Eq, lane, number(0)), [&] {
      k_.b.store(of_block_, at_top, top);
      k_.b.store(of_block_, at_all, all);
    });
    meet_cluster();
    const Exprs tops = of_blocks(at_top), sums = of_blocks(at_all);
    const Expr *highest = tops[0], *whole = nullptr;
    for (size_t b = 1; b < tops.size(); ++b) highest = k_.b.let(loop::vec_binary(ctx_, Op::Max, highest, tops[b]));
    Exprs fadings;
    for (size_t b = 0; b < tops.size(); ++b) {
      fadings.push_back(power(tops[b], highest));
      const Expr* part = ctx_.binary(Op::Mul, sums[b], fadings[b]);
      whole = k_.b.let(whole ? ctx_.binary(Op::Add, whole, part) : part);
    }
    const Expr* first = k_.b.let(ctx_.add(ctx_.mul(lane, number(blocks_)), block_));
    k_.b.with_for(first, a_.values.points, lanes_ * blocks_, [&](const Expr* element) {
      write(element, whole, [&] {
        const Exprs parts = of_blocks(element);
        const Expr* sum = zero();
        for (size_t b = 0; b < parts.size(); ++b) sum = k_.b.let(multiply_add(sum, parts[b], fadings[b]));
        return sum;
      });
    });
    meet_cluster();  // no block ends while others read what it has
  }

  // What each block has there.
  Exprs of_blocks(const Expr* place) {
    Exprs all;
    for (int64_t block = 0; block < blocks_; ++block) all.push_back(k_.b.let(k_.b.peer(loop::vec_load(ctx_, of_block_, {DType::F32, 1}, place), block)));
    return all;
  }

  const Attention& a_;
  const schedule::Tile tile_;
  const int64_t groups_, lanes_;                  // of the block
  const int64_t query_chunks_, value_chunks_;     // of a lane
  uint32_t results_ = 0, of_block_ = 0;           // of the groups; of all, with their maximum and the sum of their weights
  const Expr *in_key_ = nullptr, *group_ = nullptr, *keys_end_ = nullptr;
  const Expr *key_fours_ = nullptr, *value_fours_ = nullptr;  // runs_of
  Exprs query_;
  const Expr *top_ = nullptr, *all_ = nullptr;    // of the group's keys so far
  Exprs sums_;
};

}  // namespace

StagePtr attention_row_stage(const Job& job, const Attention& a, Skeleton& k, const schedule::Schedule& how) { return std::make_unique<AttentionRow>(job, a, k, how); }

}  // namespace mlc::lower
