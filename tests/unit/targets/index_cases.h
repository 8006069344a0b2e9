// Index arithmetic around the limits of 32 bits, which devices compute in fewer bits than it is written in.
#pragma once

#include <random>

#include "tests/unit/targets/random_kernel.h"

namespace mlc::testing {

// Expressions of i64 over the element's number, with constants on both sides of what fits in 32 bits.
class Indices {
 public:
  Indices(Pool& pool, uint64_t seed) : p_(pool), random_(seed) {}
  std::vector<const Expr*> leaves;

  const Expr* value(int depth) {
    constexpr Type t{DType::I64, 1};
    if (depth == 0 || pick(6) == 0) return pick(3) ? leaves[pick(leaves.size())] : p_.integer(constant());
    const Expr *a = value(depth - 1), *b = value(depth - 1);
    constexpr Op arithmetic[] = {Op::Add, Op::Sub, Op::Mul, Op::Min, Op::Max};
    constexpr Op division[] = {Op::FloorDiv, Op::FloorMod, Op::TruncDiv, Op::TruncMod};
    switch (pick(8)) {
      case 0: case 1: return p_.make(division[pick(4)], t, {a, p_.integer(divisor())});
      case 2: return p_.make(Op::Select, t, {p_.make(pick(2) ? Op::Lt : Op::Eq, {DType::Bool, 1}, {a, b}), b, a});
      case 3:
        if (pick(3) == 0) return high_bits(a);
        return p_.make(Op::Cast, t, {p_.make(Op::Cast, {pick(2) ? DType::I32 : pick(2) ? DType::U8 : DType::U32, 1}, {a})});
      case 4: return p_.make(Op::Neg, t, {a});
      default: return p_.make(arithmetic[pick(5)], t, {a, b});
    }
  }

 private:
  uint64_t pick(uint64_t n) { return random_() % n; }
  // Of a u64, which a number below 0 makes a large one: up to 34 bits.
  const Expr* high_bits(const Expr* a) {
    constexpr Type u64{DType::U64, 1};
    const Expr* all = p_.make(Op::Cast, u64, {a});
    return p_.make(Op::Cast, {DType::I64, 1}, {p_.make(Op::FloorDiv, u64, {all, p_.integer(int64_t{1} << (30 + pick(4)), DType::U64)})});
  }
  int64_t divisor() { return pick(2) ? int64_t(1 + pick(9)) : pick(2) ? int64_t{1} << pick(34) : -int64_t(1 + pick(5)); }
  int64_t constant() {
    const int64_t sign = pick(2) ? 1 : -1;
    return sign * (pick(3) ? int64_t(pick(40)) : (int64_t{1} << (29 + pick(5))) - 2 + int64_t(pick(4)));
  }
  Pool& p_;
  std::mt19937_64 random_;
};

// for tile: lanes l of 8: sums of such expressions over the number of the lane, also divided by `size` if there is one, in a loop.
inline loop::Kernel index_kernel(Pool& p, uint64_t seed, const ir::Sym* size, const Expr* tiles) {
  constexpr int64_t kLanes = 8;
  constexpr ir::Type t{DType::I64, 1};
  loop::Kernel k = kernel(p, "indices", {{DType::I64, true}});
  k.lanes = kLanes;
  k.tiles = tiles;
  if (size) k.scalars.push_back(size);
  const Expr *tile = p.var(), *lane = p.var(), *i = p.var(), *let = p.var(), *sum = p.var();
  const Expr* at = p.add(p.mul(tile, p.integer(kLanes)), lane);
  Indices indices(p, seed);
  indices.leaves = {tile, lane, at};
  if (size) {
    const Expr* divisor = p.make(Op::Max, t, {p.sym(size), p.integer(1)});
    indices.leaves.push_back(p.make(Op::FloorMod, t, {at, divisor}));
    indices.leaves.push_back(p.make(Op::FloorDiv, t, {at, divisor}));
  }
  const Expr* bound = indices.value(3);
  indices.leaves.push_back(let);
  const Expr* begin = p.make(Op::FloorMod, t, {indices.value(2), p.integer(5)});
  indices.leaves.push_back(i);
  auto turn = seq(define(loop::StmtKind::Assign, sum, p.add(sum, indices.value(4))));
  auto body = seq(define(loop::StmtKind::Let, let, bound), define(loop::StmtKind::Local, sum, p.integer(0)),
                  for_(i, begin, p.add(begin, p.integer(4)), 1 + int64_t(seed % 3), std::move(turn)), store_(0, at, sum));
  k.body.push_back(for_(tile, k.tile_begin, k.tile_end, 1, seq(for_(lane, p.integer(0), p.integer(kLanes), 1, std::move(body), loop::ForKind::Lanes))));
  return k;
}

}  // namespace mlc::testing
