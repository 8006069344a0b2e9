// Index arithmetic that fits in 32 bits is computed there, and no other.
#include "tests/unit/spirv/statement_cases.h"

namespace mlc {
namespace {

using namespace testing;
namespace sp = testing::spirv;

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
      case 3: return p_.make(Op::Cast, t, {p_.make(Op::Cast, {pick(2) ? DType::I32 : pick(2) ? DType::U8 : DType::U32, 1}, {a})});
      case 4: return p_.make(Op::Neg, t, {a});
      default: return p_.make(arithmetic[pick(5)], t, {a, b});
    }
  }

 private:
  uint64_t pick(uint64_t n) { return random_() % n; }
  int64_t divisor() { return pick(2) ? int64_t(1 + pick(9)) : pick(2) ? int64_t{1} << pick(34) : -int64_t(1 + pick(5)); }
  int64_t constant() {
    const int64_t sign = pick(2) ? 1 : -1;
    return sign * (pick(3) ? int64_t(pick(40)) : (int64_t{1} << (29 + pick(5))) - 2 + int64_t(pick(4)));
  }
  Pool& p_;
  std::mt19937_64 random_;
};

TEST_CASE("indices near the limits of 32 bits are what they are in 64") {
  for (uint64_t seed = 0; seed < 600; ++seed) {
    CAPTURE(seed);
    Pool pool;
    Indices indices(pool, seed);
    StatementCase c;
    c.kernel = lanes_kernel(pool, "narrow", [&](loop::Kernel& k, const Expr* tile, const Expr* lane, const Expr* at) {
      k.tiles = pool.integer(3);
      const Expr *i = pool.var(), *let = pool.var(), *sum = pool.var();
      indices.leaves = {tile, lane, at};
      const Expr* bound = indices.value(3);
      indices.leaves.push_back(let);
      const Expr* begin = pool.make(Op::FloorMod, {DType::I64, 1}, {indices.value(2), pool.integer(5)});
      indices.leaves.push_back(i);
      auto body = seq(define(loop::StmtKind::Assign, sum, pool.add(sum, indices.value(4))));
      return seq(define(loop::StmtKind::Let, let, bound), define(loop::StmtKind::Local, sum, pool.integer(0)),
                 for_(i, begin, pool.add(begin, pool.integer(4)), 1 + int64_t(seed % 3), std::move(body)), store_(4, at, sum));
    });
    std::vector<AlignedBytes> got, expected;
    for (auto* all : {&got, &expected})
      for (const loop::Param& q : c.kernel.params) all->emplace_back((c.tiles + 1) * kBlock * bytes_of(q.dtype));
    Reference reference(c.kernel, true);
    std::vector<Reference::Buffer> views;
    for (AlignedBytes& b : expected) views.push_back({b.data.get(), b.size});
    reference.run(views, {}, 0, c.tiles);
    const auto emitted = targets::spirv::emit_kernel(c.kernel, {});
    REQUIRE_MESSAGE(emitted.ok(), emitted.status().text());
    sp::Launch l;
    for (AlignedBytes& b : got) l.buffers.push_back({b.data.get(), b.size});
    l.tiles = c.tiles;
    const sp::Outcome out = sp::run(emitted->words, emitted->entry, l);
    REQUIRE_MESSAGE(out.error.empty(), out.error);
    CHECK(std::memcmp(got[4].data.get(), expected[4].data.get(), got[4].size) == 0);
  }
}

// Instructions that give 64 bits.
size_t wide_results(const std::vector<uint32_t>& words) {
  const sp::Executor e(words);
  size_t n = 0;
  for (const sp::Instruction& i : e.image().code) n += i.result && e.image().types.at(i.type).width == 64;
  return n;
}

TEST_CASE("a kernel whose extents are known computes its addresses without 64 bits") {
  Pool pool;
  const auto kernel_of = [&](bool known) {
    return lanes_kernel(pool, "transpose", [&](loop::Kernel& k, const Expr*, const Expr*, const Expr* at) {
      if (known) k.tiles = pool.integer(3);
      const Expr *i = pool.var(), *sum = pool.var({DType::F32, 1});
      const Expr* row = pool.make(Op::FloorDiv, {DType::I64, 1}, {at, pool.integer(6)});
      const Expr* column = pool.make(Op::FloorMod, {DType::I64, 1}, {at, pool.integer(6)});
      const Expr* from = pool.add(pool.add(pool.mul(column, pool.integer(4)), row), i);
      return seq(define(loop::StmtKind::Local, sum, pool.number(0)),
                 for_(i, pool.integer(0), pool.integer(3), 1, seq(define(loop::StmtKind::Assign, sum, pool.add(sum, pool.load(0, {DType::F32, 1}, from))))),
                 if_(less(pool, at, pool.integer(20)), seq(store_(3, at, sum))));
    });
  };
  CHECK(wide_results(targets::spirv::emit_kernel(kernel_of(true), {})->words) == 0);
  CHECK(wide_results(targets::spirv::emit_kernel(kernel_of(false), {})->words) > 0);
}

}  // namespace
}  // namespace mlc
