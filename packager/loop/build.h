// Writes Loop statements: a cursor into a nested block. `with_for` and `with_if` run a callback with the cursor inside.
//
//   loop::Builder b(ctx, kernel.body);
//   b.with_for(ctx.integer(0), n, 1, [&](const ir::Expr* i) { b.store(0, i, ctx.load(1, type, {i})); });
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "packager/ir/context.h"
#include "packager/loop/loop.h"

namespace mlc::loop {

using Block = std::vector<StmtPtr>;

class Builder {
 public:
  // The block must outlive the builder.
  Builder(ir::Context& ctx, Block& block) : ctx_(ctx), block_(&block) {}

  ir::Context& ctx() { return ctx_; }
  Block& block() { return *block_; }

  const ir::Expr* let(const ir::Expr* value);    // leaves are returned as they are
  const ir::Expr* local(const ir::Expr* value);  // a variable that `assign` may change
  void assign(const ir::Expr* var, const ir::Expr* value);
  void store(uint32_t array, const ir::Expr* index, const ir::Expr* value, const ir::Expr* mask = nullptr);
  // Of `lanes` side by side; 1: of all of the block.
  const ir::Expr* fold_lanes(ir::Op combine, const ir::Expr* value, int64_t lanes = 1);
  // sums + a*b of a tile, by 32 lanes together (StmtKind::Mma). Codes of a and of b have a type each.
  const ir::Expr* mma(DType factors, const ir::Expr* sums, const ir::Expr* a, const ir::Expr* b, DType b_factors = DType::None);
  // Products by the tiles of a processor (StmtKind::Tiles). `bytes`: of a row; `a`, `b`: loads of the first elements.
  void begin_tiles(int64_t bytes);
  void tile_dot(unsigned tile, int64_t bytes, const ir::Expr* a, const ir::Expr* stride, const ir::Expr* b);
  void store_tile(unsigned tile, uint32_t array, const ir::Expr* index);
  void fault(const ir::Expr* cond, int32_t code);
  void prefetch(uint32_t array, const ir::Expr* index);
  // `bytes` from the load `from` on go to array[index] while the lane goes on (StmtKind::Copy); zeros where `cond` does not hold, null: it does.
  void copy(uint32_t array, const ir::Expr* index, const ir::Expr* from, int64_t bytes, const ir::Expr* cond);
  void close_copies();
  void wait_copies(int64_t groups);  // until so many are under way
  // sums += a*b of a tile, by 128 lanes together (StmtKind::GroupMma): a factor, where it is in `array` in units of kGroupCells, and its type.
  struct GroupFactor {
    const ir::Expr* place = nullptr;
    bool transposed = false;
    DType type = DType::None;
  };
  void group_mma(std::vector<const ir::Expr*> sums, uint32_t array, const GroupFactor& a, const GroupFactor& b);
  // Sums of a team's matrices (StmtKind::Matrix): all zero; a*b more, whose rows and columns begin in `array` at a place and so far apart; a row of them to `array`.
  struct Strided {
    const ir::Expr *place = nullptr, *stride = nullptr;
  };
  void begin_matrices();
  void add_matrices(DType factors, uint32_t array, const Strided& a, const Strided& b);
  void store_matrices(int64_t row, uint32_t array, const Strided& to);
  // The load `row` of what lanes share, among those of a warp (StmtKind::LoadMatrices).
  const ir::Expr* load_matrices(const ir::Expr* row, bool transposed);
  // The load `value` of what lanes share, as a block of the cluster has it (StmtKind::Peer).
  const ir::Expr* peer(const ir::Expr* value, int64_t block);

  void with_for(const ir::Expr* begin, const ir::Expr* end, int64_t step,
                const std::function<void(const ir::Expr* var)>& body);
  // A loop that an assembler must not unroll: what is in it is unrolled already.
  void with_rolled_for(const ir::Expr* begin, const ir::Expr* end, int64_t step, const std::function<void(const ir::Expr* var)>& body);
  // As with_for, over a variable made before (so that expressions may mention it already).
  void with_for_var(const ir::Expr* var, const ir::Expr* begin, const ir::Expr* end, int64_t step,
                    const std::function<void()>& body);
  void with_if(const ir::Expr* cond, const std::function<void()>& then, const std::function<void()>& otherwise = {});
  void with_while(const ir::Expr* cond, const ir::Expr* bound, const std::function<void()>& body);
  Stmt& append(StmtKind kind);  // any statement, to be filled in
  // Runs `body` with the cursor in `block`.
  void within(Block& block, const std::function<void()>& body);

 private:
  ir::Context& ctx_;
  Block* block_;
};

// Vector forms of expressions. They are built with Context::raw: nothing is simplified.
const ir::Expr* vec_unary(ir::Context& ctx, ir::Op op, const ir::Expr* a);
const ir::Expr* vec_binary(ir::Context& ctx, ir::Op op, const ir::Expr* a,
                           const ir::Expr* b);  // comparisons: Bool lanes
const ir::Expr* vec_select(ir::Context& ctx, const ir::Expr* c, const ir::Expr* a, const ir::Expr* b);
const ir::Expr* vec_fma(ir::Context& ctx, const ir::Expr* a, const ir::Expr* b, const ir::Expr* c);
const ir::Expr* vec_convert(ir::Context& ctx, ir::Op op, DType to, const ir::Expr* a);
const ir::Expr* splat(ir::Context& ctx, const ir::Expr* a, unsigned lanes);  // `a` itself if it has these lanes
const ir::Expr* ramp(ir::Context& ctx, const ir::Expr* base, unsigned lanes, int64_t stride = 1);
// A group of neighbouring lanes, as one load brings it, over and over: what a Dot multiplies with each group of another vector.
const ir::Expr* splat_group(ir::Context& ctx, const ir::Expr* group, unsigned lanes);
const ir::Expr* vec_dot(ir::Context& ctx, const ir::Expr* acc, const ir::Expr* a, const ir::Expr* b);
// Words of 32 bits as four codes each, and codes as such words.
const ir::Expr* codes_of(ir::Context& ctx, DType code, const ir::Expr* words);
const ir::Expr* words_of(ir::Context& ctx, DType word, const ir::Expr* codes);
const ir::Expr* extract(ir::Context& ctx, const ir::Expr* a, unsigned lane);
const ir::Expr* widen(ir::Context& ctx, std::vector<const ir::Expr*> parts);
const ir::Expr* vec_load(ir::Context& ctx, uint32_t array, ir::Type type, const ir::Expr* index,
                         const ir::Expr* mask = nullptr);
const ir::Expr* lanes_fold(ir::Context& ctx, ir::Op op, const ir::Expr* a);  // SumLanes ...; `a` itself if it is scalar

}  // namespace mlc::loop
