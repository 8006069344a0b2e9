#include "tests/support/nests/lowered.h"
#include "tests/support/nests/nests.h"

using namespace mlc;
using ir::Access;
using ir::Expr;
using ir::Op;
using test::NestMaker;

namespace {

enum class Kind { Edge, Once, Mirror, Wrap };

template <class F>
void on_targets(F f) {
  for (const char* name : {"x86-64-v2", "x86-64-v4", "rv64gc", "portable"}) {
    const targets::Target* t = targets::find_target(name);
    REQUIRE(t);
    f(*t);
  }
}

const Expr* index_of(NestMaker& m, Kind kind, const Expr* at, const Expr* n) {
  ir::Context& ctx = m.ctx;
  const Expr *last = ctx.sub(n, m.n(1)), *k = at;
  if (kind == Kind::Wrap) return ctx.floormod(at, ctx.max(n, m.n(1)));
  if (kind == Kind::Once) k = ctx.max(at, ctx.sub(m.n(0), at));
  if (kind == Kind::Mirror) k = ctx.floormod(at, ctx.max(ctx.mul(m.n(2), last), m.n(1)));
  if (kind == Kind::Once) k = ctx.min(k, ctx.sub(ctx.mul(m.n(2), last), k));
  if (kind == Kind::Mirror) k = ctx.min(k, ctx.sub(ctx.max(ctx.mul(m.n(2), last), m.n(1)), k));
  return ctx.max(ctx.min(k, last), m.n(0));
}

// y[r, o] = x[r, index of o - lo], and with `both` the same again from the other side.
void padded(NestMaker& m, Kind kind, DType type, const Expr* n, int64_t lo, int64_t hi, bool both = false) {
  const Expr *rows = m.n(3), *out = m.ctx.add(n, m.n(lo + hi));
  uint32_t x = m.array("x", type, {rows, n}), y = m.output("y", type, {rows, out});
  const ir::Dim *r = m.dim("r", rows), *o = m.dim("o", out);
  const auto read = [&](int64_t before) {
    return m.load(x, {m.at(r), index_of(m, kind, m.ctx.sub(m.at(o), m.n(before)), n)}, Access::Checked);
  };
  const Expr* v = read(lo);
  if (both) v = m.ctx.binary(Op::Sub, v, read(hi));
  m.map({r, o}, y, {m.at(r), m.at(o)}, v);
}

}  // namespace

TEST_CASE("indices in pieces: clamped, mirrored, repeated, whatever the borders") {
  on_targets([](const targets::Target& t) {
    for (Kind kind : {Kind::Edge, Kind::Once, Kind::Mirror, Kind::Wrap})
      for (DType type : {DType::F32, DType::U8})
        for (int64_t n : {1, 5, 33, 70})
          for (auto [lo, hi] : {std::pair{0, 0}, {1, 2}, {3, 0}, {0, 40}, {90, 17}, {-2, 3}}) {
            if (n + lo + hi < 1) continue;
            ir::Context ctx;
            NestMaker m(ctx);
            padded(m, kind, type, m.n(n), lo, hi, /*both=*/n == 33);
            CAPTURE(n);
            CAPTURE(lo);
            CAPTURE(hi);
            test::check_lowering(ctx, m.f, t);
          }
  });
}

TEST_CASE("indices in pieces of extents that the run tells") {
  on_targets([](const targets::Target& t) {
    for (Kind kind : {Kind::Edge, Kind::Once, Kind::Mirror, Kind::Wrap})
      for (auto [lo, hi] : {std::pair{0, 0}, {1, 2}, {9, 40}, {-2, 3}}) {
        ir::Context ctx;
        NestMaker m(ctx);
        const ir::Sym* N = ctx.declare_sym("N", 0, 4096);
        padded(m, kind, DType::F32, ctx.sym(N), lo, hi, /*both=*/lo == 9);
        test::check_free_lowering(ctx, m.f, t, {{{N, 2}}, {{N, 3}}, {{N, 16}}, {{N, 31}}, {{N, 100}}});
      }
  });
}

TEST_CASE("between the borders vectors are loads of neighbours") {
  const targets::Target* t = targets::find_target("x86-64-v4");
  for (Kind kind : {Kind::Edge, Kind::Once, Kind::Mirror, Kind::Wrap})
    for (bool symbolic : {false, true}) {
      ir::Context ctx;
      NestMaker m(ctx);
      padded(m, kind, DType::F32, symbolic ? ctx.sym(ctx.declare_sym("N", 1, 4096)) : m.n(100), 3, 3);
      auto kernels = lower::lower(ctx, m.f, m.f.body[0], *t, {});
      REQUIRE(kernels.ok());
      const std::string text = loop::to_string(kernels->back());
      CAPTURE(text);
      const bool at_a_scalar = text.find("(load.f32x16 0 (add ") != std::string::npos || text.find("(load.f32x16 0 (sub ") != std::string::npos;
      CHECK(at_a_scalar);
    }
}
