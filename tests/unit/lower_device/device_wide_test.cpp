// Neighbours that lanes of CUDA read and write at once: fewer accesses, the same bits as the interpreter's.
#include "tests/support/nests/device_run.h"
#include "tests/support/nests/nests.h"

using namespace mlc;
using ir::Expr;
using ir::Join;
using ir::Op;
using test::NestMaker;

namespace {

const targets::Target& device(const char* name) {
  const targets::Target* t = targets::find_target(name);
  REQUIRE(t);
  return *t;
}

// y[n, c] = (x - largest of the row) / sum of the row's distances
void line(NestMaker& m, DType t, int64_t rows, int64_t points) {
  ir::Context& ctx = m.ctx;
  const Expr *N = m.n(rows), *C = m.n(points);
  uint32_t x = m.array("x", t, {N, C}), y = m.output("y", t, {N, C});
  auto n = m.dim("n", N), c = m.dim("c", C), k = m.dim("k", C), j = m.dim("j", C);
  const Expr* largest = m.fold(Join::Max, {j}, m.load(x, {m.at(n), m.at(j)}));
  const auto apart = [&](const ir::Dim* d) { return ctx.binary(Op::Sub, largest, m.load(x, {m.at(n), m.at(d)})); };
  m.map({n, c}, y, {m.at(n), m.at(c)}, ctx.binary(Op::Div, apart(c), m.fold(Join::Sum, {k}, apart(k))));
}

// y[a, b] = x[a, b + first] + z[b]
void sum(NestMaker& m, DType t, int64_t rows, int64_t points, int64_t first) {
  ir::Context& ctx = m.ctx;
  uint32_t x = m.array("x", t, {m.n(rows), m.n(points + first)}), z = m.array("z", t, {m.n(points)}), y = m.output("y", t, {m.n(rows), m.n(points)});
  auto a = m.dim("a", m.n(rows)), b = m.dim("b", m.n(points));
  const Expr* shifted = ctx.add(m.at(b), ctx.integer(first));
  m.map({a, b}, y, {m.at(a), m.at(b)}, ctx.binary(Op::Add, m.load(x, {m.at(a), shifted}), m.load(z, {m.at(b)})));
}

}  // namespace

TEST_CASE("lines of whole fours are read and written by fours, and folded by shuffles without a barrier within a warp") {
  for (const auto& [type, at_once] : {std::pair{DType::F32, 4}, {DType::F16, 8}, {DType::F64, 2}})
    for (const auto& [rows, points] : {std::pair{3, 1024}, {8, 128}, {2, 520}}) {
      CAPTURE(points);
      ir::Context ctx;
      NestMaker m(ctx);
      line(m, type, rows, points);
      const auto counts = test::check_emitted(ctx, m.f, device("cuda-sm80"));
      const uint64_t accesses = uint64_t(rows * points / at_once);  // turns that all lanes take are read once for both folds and the write
      CHECK(counts.global_loads >= accesses);
      CHECK(counts.global_loads <= (points == 1024 ? 1 : 3) * accesses);
      CHECK(counts.global_stores == unsigned(rows * points / at_once));
    }
  ir::Context ctx;
  NestMaker m(ctx);
  line(m, DType::F32, 8, 96);  // a warp for each row
  CHECK(test::check_emitted(ctx, m.f, device("cuda-sm80")).shared_stores == 0);
}

TEST_CASE("lines of odd lengths, and whatever Vulkan reads, go element by element") {
  for (const auto& [name, points] : {std::pair{"cuda-sm80", 1023}, {"vulkan-base", 1024}}) {
    ir::Context ctx;
    NestMaker m(ctx);
    line(m, DType::F32, 2, points);
    CHECK(test::check_emitted(ctx, m.f, device(name)).global_loads == 3u * 2 * unsigned(points));
  }
}

TEST_CASE("maps of many points are read and written by fours, where all that is read begins at a multiple of four") {
  for (const auto& [first, at_once] : {std::pair{0, 4}, {4, 4}, {2, 2}, {1, 1}}) {
    CAPTURE(first);
    ir::Context ctx;
    NestMaker m(ctx);
    sum(m, DType::F32, 64, 1028, first);
    const auto counts = test::check_emitted(ctx, m.f, device("cuda-sm75"));
    CHECK(counts.global_stores == 64u * 1028 / unsigned(at_once));
  }
  ir::Context ctx;
  NestMaker few(ctx);
  sum(few, DType::F32, 4, 64, 0);
  CHECK(test::check_emitted(ctx, few.f, device("cuda-sm80")).global_stores == 4u * 64);
}
