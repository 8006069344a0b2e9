// Folds over whole arrays, cut into pieces: the interpreter before and after, and what is lowered at any number of workers.
#include "packager/passes/passes.h"
#include "tests/support/nests/lowered.h"
#include "tests/support/nests/nests.h"

using namespace mlc;
using ir::Expr;
using ir::Join;
using ir::Op;
using test::NestMaker;

namespace {

const Expr* f32(ir::Context& ctx, double v) { return ctx.number(v, DType::F32); }

void split(NestMaker& m) {
  const Status s = passes::run(m.ctx, m.f, {.pipeline = {"split-folds", "group", "prologues"}, .check = true});
  REQUIRE_MESSAGE(s.ok(), s.text());
}

// lo, hi, scale and zero point of all of x, and its codes: as ops/quant.mlop has DynamicQuantizeLinear.
struct Range {
  uint32_t scale = 0, zero = 0, codes = 0;
};
Range quantise(NestMaker& m, uint32_t x, const std::vector<const Expr*>& shape) {
  ir::Context& ctx = m.ctx;
  const auto number = [&](const char* name, DType t, const Expr* value, bool kept) {
    const uint32_t a = kept ? m.output(name, t, {}) : m.array(name, t, {}, nest::Array::Kind::Temp);
    m.map({}, a, {}, value, name);
    return a;
  };
  const auto all = [&](Join join) {
    std::vector<const ir::Dim*> dims;
    std::vector<const Expr*> at;
    for (const Expr* n : shape) dims.push_back(m.dim("d", n)), at.push_back(m.at(dims.back()));
    return m.fold(join, dims, m.load(x, at));
  };
  const Expr *none = f32(ctx, 0), *most = f32(ctx, 255);
  const uint32_t lo = number("lo", DType::F32, ctx.binary(Op::Min, all(Join::Min), none), false);
  const uint32_t hi = number("hi", DType::F32, ctx.binary(Op::Max, all(Join::Max), none), false);
  const Expr *low = m.load(lo, {}), *high = m.load(hi, {});
  Range r;
  r.scale = number("scale", DType::F32,
                   ctx.select(ctx.binary(Op::Eq, high, low), f32(ctx, 1), ctx.binary(Op::Div, ctx.binary(Op::Sub, high, low), most)), true);
  const Expr* shift = ctx.binary(Op::Min, ctx.binary(Op::Max, ctx.binary(Op::Div, ctx.unary(Op::Neg, low), m.load(r.scale, {})), none), most);
  r.zero = number("zero", DType::U8, ctx.convert(Op::SatCast, {DType::U8, 1}, ctx.unary(Op::Rint, shift)), true);
  std::vector<const ir::Dim*> dims;
  std::vector<const Expr*> at;
  for (const Expr* n : shape) dims.push_back(m.dim("d", n)), at.push_back(m.at(dims.back()));
  r.codes = m.output("codes", DType::U8, shape);
  const Expr* code = ctx.binary(Op::Add, ctx.unary(Op::Rint, ctx.binary(Op::Div, m.load(x, at), m.load(r.scale, {}))), ctx.cast(DType::F32, m.load(r.zero, {})));
  m.map(dims, r.codes, at, ctx.convert(Op::SatCast, {DType::U8, 1}, code), "codes");
  return r;
}

}  // namespace

TEST_CASE("the range of a tensor is that of its rows, and who quantises it waits for nobody else") {
  for (const char* name : {"x86-64-v4", "x86-64-v2", "portable"})
    for (const int64_t rows : {150, 700}) {
      ir::Context ctx;
      NestMaker m(ctx);
      const std::vector<const Expr*> shape{m.n(1), m.n(rows), m.n(288)};
      quantise(m, m.array("x", DType::F32, shape), shape);
      split(m);
      // Both folds of all rows; scale and zero point; codes.
      REQUIRE(m.f.body.size() == 3);
      CHECK(m.f.body[0].nest->writes.size() == 2);
      CHECK(m.f.body[1].nest->writes.size() == 2);
      CHECK(m.f.body[1].nest->dims.empty());
      ir::walk(m.f.body[2].nest->writes[0].value, [&](const Expr* e) {
        if (e->op == Op::Load) CHECK(m.f.arrays[e->array].name != "scale");
      });
      test::check_lowering(ctx, m.f, *targets::find_target(name));
    }
}

TEST_CASE("rows of the range are folded beside the statement that writes them") {
  ir::Context ctx;
  NestMaker m(ctx);
  auto R = m.n(200), C = m.n(256);
  const uint32_t x = m.array("x", DType::F32, {R, C}), norm = m.array("norm", DType::F32, {R}, nest::Array::Kind::Temp),
                 y = m.array("y", DType::F32, {R, C}, nest::Array::Kind::Temp);
  auto r = m.dim("r", R), c = m.dim("c", C), s = m.dim("s", R), d = m.dim("d", C);
  m.map({r}, norm, {m.at(r)}, m.fold(Join::Max, {c}, ctx.unary(Op::Abs, m.load(x, {m.at(r), m.at(c)}))), "norm");
  m.map({s, d}, y, {m.at(s), m.at(d)}, ctx.binary(Op::Div, m.load(x, {m.at(s), m.at(d)}), ctx.unary(Op::Sqrt, ctx.binary(Op::Add, m.load(norm, {m.at(s)}), f32(ctx, 1)))), "y");
  quantise(m, y, {R, C});
  split(m);
  REQUIRE(m.f.body.size() == 5);
  CHECK(m.f.body[1].joins);
  CHECK(m.f.body[2].joins);  // the pieces
  test::check_lowering(ctx, m.f, *targets::find_target("x86-64-v4"));
}

TEST_CASE("free extents are cut without knowing them") {
  for (const char* name : {"x86-64-v4", "x86-64-v2"}) {
    ir::Context ctx;
    NestMaker m(ctx);
    const Expr *A = ctx.sym(ctx.declare_sym("A", 0, 100000)), *B = ctx.sym(ctx.declare_sym("B", 0, 100000));
    const uint32_t x = m.array("x", DType::F32, {A, B}), y = m.output("y", DType::F32, {}), w = m.array("w", DType::I32, {A}), z = m.output("z", DType::I32, {});
    auto a = m.dim("a", A), b = m.dim("b", B), k = m.dim("k", A);
    m.map({}, y, {}, m.fold(Join::Max, {a, b}, m.load(x, {m.at(a), m.at(b)})));
    m.map({}, z, {}, m.fold(Join::Sum, {k}, m.load(w, {m.at(k)})));
    split(m);
    CHECK(m.f.body.size() > 2);
    for (auto [p, q] : {std::pair{0, 3}, {3, 0}, {1, 1}, {7, 300}, {9000, 3}, {4096, 1}, {4097, 2}})
      test::check_lowering(ctx, m.f, *targets::find_target(name), {{A->sym, p}, {B->sym, q}});
  }
}

TEST_CASE("points that lie side by side in what is folded lie side by side in its pieces") {
  for (const char* name : {"x86-64-v4", "x86-64-v2", "portable"})
    for (const bool behind : {true, false}) {
      CAPTURE(name);
      CAPTURE(behind);
      ir::Context ctx;
      NestMaker m(ctx);
      const Expr *C = m.n(12), *H = ctx.sym(ctx.declare_sym("H", 0, 4096)), *W = ctx.sym(ctx.declare_sym("W", 0, 4096));
      const uint32_t x = m.array("x", DType::F32, {C, H, W}), y = m.output("y", DType::F32, {C});
      if (behind) m.f.arrays[x].layout = nest::permuted({1, 2, 0});
      const auto c = m.dim("c", C), h = m.dim("h", H), w = m.dim("w", W);
      m.map({c}, y, {m.at(c)}, m.fold(Join::Sum, {h, w}, m.load(x, {m.at(c), m.at(h), m.at(w)})));
      split(m);
      REQUIRE(m.f.body.size() == 2);
      const nest::Array& pieces = m.f.arrays[m.f.body[0].nest->writes[0].array];
      CHECK((pieces.shape.back() == C) == behind);
      for (const auto& [p, q] : {std::pair{0, 3}, {1, 1}, {70, 31}, {200, 9}})
        test::check_lowering(ctx, m.f, *targets::find_target(name), {{H->sym, p}, {W->sym, q}});
    }
}

TEST_CASE("what many points fold, what is short and what a product sums stay whole") {
  const auto statements = [](int64_t rows, int64_t length, bool product, DType type) {
    ir::Context ctx;
    NestMaker m(ctx);
    auto R = m.n(rows), K = m.n(length);
    const uint32_t x = m.array("x", type, {R, K}), w = m.array("w", type, {K}), y = m.output("y", type, {R});
    auto r = m.dim("r", R), k = m.dim("k", K);
    const Expr* v = m.load(x, {m.at(r), m.at(k)});
    m.map({r}, y, {m.at(r)}, m.fold(Join::Sum, {k}, product ? ctx.binary(Op::Mul, v, m.load(w, {m.at(k)})) : v));
    split(m);
    return m.f.body.size();
  };
  CHECK(statements(1, 100000, false, DType::F32) == 2);
  CHECK(statements(16, 100000, false, DType::F32) == 2);
  CHECK(statements(17, 100000, false, DType::F32) == 1);
  CHECK(statements(1, 20000, false, DType::F32) == 1);
  CHECK(statements(1, 100000, true, DType::F32) == 1);
  CHECK(statements(1, 100000, false, DType::F16) == 1);  // pieces would be rounded to it
}

TEST_CASE("the place of the largest, of several fields") {
  for (const char* name : {"x86-64-v4", "portable"}) {
    ir::Context ctx;
    NestMaker m(ctx);
    auto N = m.n(40013);
    const uint32_t x = m.array("x", DType::F32, {N}), y = m.output("y", DType::I64, {});
    ir::Combiner c;
    c.name = "argmax";
    c.join = Join::Custom;
    const ir::Type ft{DType::F32, 1}, it{DType::I64, 1};
    c.units = {f32(ctx, -3e38), ctx.integer(INT64_MAX)};
    c.left = {ctx.fresh_var(ft), ctx.fresh_var(it)};
    c.right = {ctx.fresh_var(ft), ctx.fresh_var(it)};
    const Expr* less = ctx.binary(Op::Lt, c.left[0], c.right[0]);
    const Expr* equal = ctx.binary(Op::Eq, c.left[0], c.right[0]);
    c.joins = {ctx.binary(Op::Max, c.left[0], c.right[0]),
               ctx.select(less, c.right[1], ctx.select(equal, ctx.min(c.left[1], c.right[1]), c.left[1]))};
    const ir::Combiner* argmax = ctx.declare_combiner(std::move(c));
    auto n = m.dim("n", N);
    m.map({}, y, {}, ctx.field(ctx.fold({argmax, {n}, nullptr}, {m.load(x, {m.at(n)}), m.at(n)}), 1));
    split(m);
    CHECK(m.f.body.size() == 2);
    CHECK(m.f.body[0].nest->writes.size() == 2);
    test::check_lowering(ctx, m.f, *targets::find_target(name));
  }
}

TEST_CASE("random folds: shapes, layouts, conditions, combiners") {
  std::mt19937 random(5);
  const auto pick = [&](std::initializer_list<int64_t> of) { return of.begin()[random() % of.size()]; };
  int cut = 0;
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    ir::Context ctx;
    NestMaker m(ctx);
    const size_t rank = 1 + random() % 4;
    std::vector<const Expr*> shape, at, kept, index;
    std::vector<const ir::Dim*> dims, map, fold;
    int64_t elements = 1;
    for (size_t k = 0; k < rank; ++k) {
      const int64_t most = 200000 / elements;
      const int64_t n = std::min<int64_t>(most, k + 1 == rank && elements < 40000 ? most / pick({1, 2, 3}) : pick({1, 2, 3, 5, 16, 17, 64, 250}));
      elements *= std::max<int64_t>(1, n);
      shape.push_back(m.n(std::max<int64_t>(1, n)));
      dims.push_back(m.dim("d", shape.back()));
      at.push_back(m.at(dims.back()));
      const bool maps = random() % 4 == 0 && k + 1 < rank;
      (maps ? map : fold).push_back(dims.back());
      if (maps) kept.push_back(shape.back()), index.push_back(at.back());
    }
    const DType type = random() % 2 ? DType::F32 : DType::I32;
    const uint32_t x = m.array("x", type, shape), y = m.output("y", type, kept);
    if (rank == 4 && random() % 2) m.f.arrays[x].layout = nest::permuted({0, 2, 3, 1});
    const Expr* value = m.load(x, at);
    const Expr* where = nullptr;
    if (random() % 3 == 0) where = ctx.binary(Op::Lt, value, ctx.number(1, type));
    else if (random() % 3 == 0) where = ctx.binary(Op::Lt, m.at(fold[0]), m.n(std::max<int64_t>(1, fold[0]->extent->i / 2)));
    if (random() % 2) value = ctx.binary(Op::Mul, value, value);
    const Join join = std::array{Join::Sum, Join::Max, Join::Min}[random() % 3];
    const Expr* folded = m.fold(join, fold, value, where);
    m.map(map, y, index, ctx.binary(Op::Add, folded, folded));
    split(m);
    cut += m.f.body.size() > 1;
    test::check_lowering(ctx, m.f, *targets::find_target(round % 2 ? "x86-64-v4" : "x86-64-v2"), {}, static_cast<uint32_t>(round), 1e-4);
  }
  CHECK(cut > 20);
}
