// Several nests in one kernel, block of rows by block of rows. The oracle is the interpreter, which runs them one after the other.
#include "packager/nest/group.h"
#include "packager/nest/print.h"
#include "tests/support/lowered.h"
#include "tests/support/nests.h"

using namespace mlc;
using ir::Expr;
using ir::Join;
using ir::Op;
using test::NestMaker;

namespace {

const char* const kTargets[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4", "rv64gc", "portable"};

void join_all(nest::Function& f, size_t from = 1) {
  for (size_t k = from; k < f.body.size(); ++k) f.body[k].joins = true;
}

std::optional<nest::Group> group(const nest::Function& f) { return nest::group_of(f, nest::Lifetimes(f), 0, f.body.size()); }

// y = (x - mean) / mean of x's squares, in three nests; `kept`: the mean is an output as well.
void norm(NestMaker& m, const Expr* B, const Expr* R, const Expr* C, bool kept = false) {
  uint32_t x = m.array("x", DType::F32, {B, R, C});
  uint32_t mean = kept ? m.output("mean", DType::F32, {B, R}) : m.array("mean", DType::F32, {B, R}, nest::Array::Kind::Temp);
  uint32_t power = m.array("power", DType::F32, {B, R}, nest::Array::Kind::Temp);
  uint32_t y = m.output("y", DType::F32, {B, R, C});
  const auto row = [&] { return test::Dims{m.dim("b", B), m.dim("r", R), m.dim("c", C)}; };
  const auto at = [&](const test::Dims& d) { return m.load(x, {m.at(d[0]), m.at(d[1]), m.at(d[2])}); };
  auto d = row();
  m.map({d[0], d[1]}, mean, {m.at(d[0]), m.at(d[1])}, m.fold(Join::Sum, {d[2]}, m.ctx.binary(Op::Mul, at(d), m.ctx.number(0.125, DType::F32))));
  d = row();
  const Expr* off = m.ctx.binary(Op::Sub, at(d), m.load(mean, {m.at(d[0]), m.at(d[1])}));
  m.map({d[0], d[1]}, power, {m.at(d[0]), m.at(d[1])}, m.fold(Join::Max, {d[2]}, m.ctx.binary(Op::Mul, off, off)));
  d = row();
  off = m.ctx.binary(Op::Sub, at(d), m.load(mean, {m.at(d[0]), m.at(d[1])}));
  const Expr* scale = m.ctx.binary(Op::Add, m.load(power, {m.at(d[0]), m.at(d[1])}), m.ctx.number(1, DType::F32));
  m.map(d, y, {m.at(d[0]), m.at(d[1]), m.at(d[2])}, m.ctx.binary(Op::Div, off, scale));
  join_all(m.f);
}

}  // namespace

TEST_CASE("nests that share their rows are a group with local arrays") {
  ir::Context ctx;
  NestMaker m(ctx);
  m.attention(4, 2, m.n(50), m.n(33), 8);
  const auto g = group(m.f);
  REQUIRE(g);
  REQUIRE(g->rows.size() == 2);
  CHECK(g->rows[0].dims[0]->name == "h");
  CHECK(g->rows[1].dims[5]->name == "i");
  CHECK(g->locals.size() == 5);
}

TEST_CASE("what others read, or what is an output, is no local array") {
  ir::Context ctx;
  NestMaker m(ctx);
  norm(m, m.n(2), m.n(5), m.n(9), /*kept=*/true);
  const auto g = group(m.f);
  REQUIRE(g);
  CHECK(g->locals.size() == 1);
}

TEST_CASE("a reader at another row, or at two rows, is no member") {
  for (const bool shifted : {true, false}) {
    ir::Context ctx;
    NestMaker m(ctx);
    auto R = m.n(8), C = m.n(4);
    uint32_t x = m.array("x", DType::F32, {R, C}), t = m.array("t", DType::F32, {R, C}, nest::Array::Kind::Temp), y = m.output("y", DType::F32, {R, C});
    auto r = m.dim("r", R), c = m.dim("c", C), a = m.dim("a", R), b = m.dim("b", C), k = m.dim("k", C);
    m.map({r, c}, t, {m.at(r), m.at(c)}, m.fold(Join::Sum, {k}, m.load(x, {m.at(r), m.at(k)})));
    const Expr* other = ctx.sub(m.n(7), m.at(a));
    const Expr* here = m.load(t, {shifted ? other : m.at(a), m.at(b)});
    const Expr* value = shifted ? here : ctx.binary(Op::Add, here, m.load(t, {other, m.at(b)}));
    m.map({a, b}, y, {m.at(a), m.at(b)}, value);
    join_all(m.f);
    const auto g = group(m.f);
    CHECK((!g || std::none_of(g->rows.begin(), g->rows.end(), [&](const nest::Group::Row& row) { return row.dims[0] == r; })));
    for (const char* target : kTargets) test::check_lowering(ctx, m.f, *targets::find_target(target));
  }
}

TEST_CASE("the mark survives printing and parsing") {
  ir::Context ctx;
  NestMaker m(ctx);
  norm(m, m.n(2), m.n(5), m.n(9));
  const std::string text = nest::print(m.f);
  ir::Context other;
  auto again = nest::parse(other, text);
  REQUIRE_MESSAGE(again.ok(), (again.ok() ? "" : again.status().text()));
  CHECK(!again->body[0].joins);
  CHECK(again->body[1].joins);
  CHECK(nest::print(*again) == text);
}

TEST_CASE("norms of any extents equal their nests one by one") {
  for (const char* target : kTargets)
    for (int64_t rows : {0, 1, 7, 8, 29})
      for (int64_t columns : {1, 16, 37})
        for (bool kept : {false, true}) {
          ir::Context ctx;
          NestMaker m(ctx);
          norm(m, m.n(2), m.n(rows), m.n(columns), kept);
          const auto schedules = test::check_lowering(ctx, m.f, *targets::find_target(target));
          CHECK(schedules.size() == 1);
        }
}

TEST_CASE("attention of any extents equals its nests one by one") {
  for (const char* target : {"x86-64-v3", "x86-64-v4", "portable"})
    for (int64_t queries : {1, 13, 48, 97})
      for (int64_t keys : {1, 16, 53}) {
        CAPTURE(queries);
        CAPTURE(keys);
        ir::Context ctx;
        NestMaker m(ctx);
        m.attention(4, 2, m.n(queries), m.n(keys), 8);
        join_all(m.f);
        const auto schedules = test::check_lowering(ctx, m.f, *targets::find_target(target));
        CHECK(schedules.size() <= 3);  // keys may be packed by kernels of their own: whole panels, the last one
      }
}

TEST_CASE("extents that the run decides, down to none at all") {
  for (const char* target : {"x86-64-v3", "x86-64-v4", "portable"})
    for (auto [queries, keys] : {std::pair{0, 5}, {5, 0}, {1, 1}, {1, 100}, {50, 7}, {61, 64}}) {
      CAPTURE(queries);
      CAPTURE(keys);
      ir::Context ctx;
      NestMaker m(ctx);
      const ir::Sym *L = ctx.declare_sym("L", 0, 1 << 20, 1), *U = ctx.declare_sym("U", 0, 1 << 20, 1);
      m.attention(2, 1, ctx.sym(L), ctx.sym(U), 16);
      join_all(m.f);
      test::check_lowering(ctx, m.f, *targets::find_target(target), {{L, queries}, {U, keys}});
    }
}

TEST_CASE("a row that needs more than the cache still has a block") {
  ir::Context ctx;
  NestMaker m(ctx);
  const ir::Sym* U = ctx.declare_sym("U", 0, 1 << 20, 1);
  m.attention(1, 1, m.n(9), ctx.sym(U), 4);
  join_all(m.f);
  test::check_lowering(ctx, m.f, *targets::find_target("x86-64-v4"), {{U, 20000}}, 1, 1e-4);
}
