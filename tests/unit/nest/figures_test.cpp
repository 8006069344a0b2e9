#include "packager/nest/facts/figures.h"

#include <doctest/doctest.h>

#include "tests/support/nests/nest_builder.h"

using namespace mlc;
using namespace mlc::ir;
using namespace mlc::nest;
using mlc::test::NestBuilder;

namespace {

struct Rows : NestBuilder {
  const Sym* n = ctx.declare_sym("N", 0, 1000000);
  const Dim *i = ctx.declare_dim("i", ctx.sym(n)), *j = dim("j", 48), *c = dim("c", 64);

  // For N rows.
  static int64_t at(const Expr* e, int64_t rows) {
    REQUIRE(e);
    return ir::evaluate_extent(e, [&](const Sym*) { return std::optional<int64_t>(rows); }).value_or(-1);
  }
  void map(uint32_t to, const Expr* value) { nest("y", {i, j}, {{to, {d(i), d(j)}, value}}); }
  Figures of_last() {
    const Nest* nest = fn.body.back().nest.get();
    return figures_of(ctx, fn, {&nest, 1});
  }
};

}  // namespace

TEST_CASE_FIXTURE(Rows, "a product does two operations for each point, and reads its operands once") {
  const auto x = input("x", DType::F32, {ctx.sym(n), k(64)}), w = input("w", DType::F32, {k(64), k(48)}), y = array("y", DType::F32, {ctx.sym(n), k(48)});
  const Expr* product = ctx.binary(Op::Mul, load(x, {d(i), d(c)}), load(w, {d(c), d(j)}));
  const Expr* sum = ctx.fold({ctx.builtin(Join::Sum), {c}, nullptr}, {product});
  map(y, ctx.binary(Op::Max, sum, ctx.number(0, DType::F32)));
  const Figures got = of_last();
  for (int64_t rows : {0, 1, 7, 100000}) {
    CHECK(at(got.operations, rows) == 2 * rows * 48 * 64 + rows * 48);
    CHECK(at(got.read, rows) == 4 * (rows * 64 + 64 * 48));  // the second operand whatever the rows are
    CHECK(at(got.written, rows) == 4 * rows * 48);
  }
  CHECK(!got.of_bytes);
}

TEST_CASE_FIXTURE(Rows, "what a loop need not repeat counts once, a gather what it touches") {
  const auto x = input("x", DType::F32, {ctx.sym(n), k(64)}), table = input("table", DType::F32, {k(5000), k(48)}), ids = input("ids", DType::I64, {ctx.sym(n)}),
             y = array("y", DType::F32, {ctx.sym(n), k(48)});
  const Expr* most = ctx.fold({ctx.builtin(Join::Max), {c}, nullptr}, {load(x, {d(i), d(c)})});  // of a row
  map(y, ctx.binary(Op::Add, most, load(table, {load(ids, {d(i)}), d(j)})));
  const Figures got = of_last();
  CHECK(at(got.operations, 10) == 10 * 64 + 10 * 48);
  CHECK(at(got.read, 10) == 4 * 10 * 64 + 8 * 10 + 4 * 10 * 48);
  CHECK(at(got.read, 100000) == 4 * 100000 * 64 + 8 * 100000 + 4 * 5000 * 48);  // not more than all of it
}

TEST_CASE_FIXTURE(Rows, "products of bytes are told from others, figures that would be too large are not") {
  const auto x = input("x", DType::U8, {k(10), k(64)}), w = input("w", DType::I8, {k(64), k(48)}), y = array("y", DType::I32, {ctx.sym(n), k(48)});
  const auto wide = [&](const Expr* e) { return ctx.cast(DType::I32, e); };
  const Dim* far = dim("far", int64_t{1} << 62);
  const Expr* sum = ctx.fold({ctx.builtin(Join::Sum), {c, far}, nullptr}, {ctx.binary(Op::Mul, wide(load(x, {k(0), d(c)})), wide(load(w, {d(c), d(j)})))});
  map(y, sum);
  const Figures got = of_last();
  CHECK(got.of_bytes);
  CHECK(at(got.operations, 1000) > int64_t{1} << 61);
}
