// Index arithmetic that fits in 32 bits is computed there, and no other.
#include "tests/unit/spirv/statement_cases.h"
#include "tests/unit/targets/index_cases.h"

namespace mlc {
namespace {

using namespace testing;
namespace sp = testing::spirv;

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
