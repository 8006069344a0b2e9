// Any schedule of a device that the verifier accepts computes what the statement says, without races; others are refused with a message.
#include "tests/support/nests/any_schedule.h"
#include "tests/support/nests/attention_nests.h"

using namespace mlc;
using ir::Expr;
using ir::Join;
using ir::Op;
using test::Extents;
using test::NestMaker;

namespace {

using Make = std::function<void(NestMaker&, std::mt19937&, const Extents&)>;

test::ScheduleCounts check_device(uint32_t seed, bool exact, const Make& make,
                                  std::initializer_list<const char*> targets = {"vulkan-base", "cuda-sm75", "cuda-sm80", "cuda-sm90"}, int statements = 12) {
  const test::ScheduleCounts counts = test::check_many(seed, exact, targets, make, statements);
  CHECK(counts.refused > 24);
  return counts;
}

// y[n, c] = exp(x - max) / sum(exp(x - max))
void softmax(NestMaker& m, const Expr* N, const Expr* C) {
  ir::Context& ctx = m.ctx;
  const uint32_t x = m.array("x", DType::F32, {N, C}), y = m.output("y", DType::F32, {N, C});
  const ir::Dim *n = m.dim("n", N), *c = m.dim("c", C), *k = m.dim("k", C), *j = m.dim("j", C);
  const Expr* largest = m.fold(Join::Max, {j}, m.load(x, {m.at(n), m.at(j)}));
  const auto above = [&](const ir::Dim* d) { return ctx.unary(Op::Exp, ctx.binary(Op::Sub, m.load(x, {m.at(n), m.at(d)}), largest)); };
  m.map({n, c}, y, {m.at(n), m.at(c)}, ctx.binary(Op::Div, above(c), m.fold(Join::Sum, {k}, above(k))));
}

// y = sum x * w of numbers of 16 bits or codes, which lie along the depth or by points.
void short_product(NestMaker& m, std::mt19937& rng, const Extents& extent, DType x_type, DType w_type) {
  ir::Context& ctx = m.ctx;
  const DType sum = is_float(x_type) ? DType::F32 : DType::I32;
  const Expr *M = extent(test::one_of<int64_t>(rng, {64, 72, 131})), *K = extent(test::one_of<int64_t>(rng, {32, 40, 64, 67})), *N = extent(test::one_of<int64_t>(rng, {64, 80, 136}));
  const bool x_by_points = rng() % 2, w_by_points = rng() % 2;
  const uint32_t x = m.array("x", x_type, x_by_points ? std::vector{K, M} : std::vector{M, K});
  const uint32_t w = m.array("w", w_type, w_by_points ? std::vector{K, N} : std::vector{N, K}), y = m.output("y", sum, {M, N});
  const ir::Dim *i = m.dim("m", M), *k = m.dim("k", K), *j = m.dim("n", N);
  const auto load = [&](uint32_t array, const ir::Dim* points, bool by_points) {
    return ctx.cast(sum, by_points ? m.load(array, {m.at(k), m.at(points)}) : m.load(array, {m.at(points), m.at(k)}));
  };
  m.map({i, j}, y, {m.at(i), m.at(j)}, m.fold(Join::Sum, {k}, ctx.binary(Op::Mul, load(x, i, x_by_points), load(w, j, w_by_points))));
}

}  // namespace

TEST_CASE("legal schedules of products in tiles") {
  const auto counts = check_device(21, false, [](NestMaker& m, std::mt19937& rng, const Extents& extent) {
    m.matmul(extent(test::one_of<int64_t>(rng, {9, 16, 33, 70})), extent(test::one_of<int64_t>(rng, {1, 8, 24, 31})), extent(test::one_of<int64_t>(rng, {16, 31, 66})), rng() % 2);
  });
  CHECK(counts.altered > 24);
}

TEST_CASE("legal schedules of products of 16 bits, by warps and by groups of them") {
  const auto counts = check_device(31, false, [](NestMaker& m, std::mt19937& rng, const Extents& extent) {
    const DType t = test::one_of(rng, {DType::F16, DType::BF16});
    short_product(m, rng, extent, t, t);
  }, {"cuda-sm80", "cuda-sm90a", "cuda-sm90a"}, 8);
  CHECK(counts.altered > 16);
}

TEST_CASE("legal schedules of products of codes by groups of warps") {
  const auto counts = check_device(32, true, [](NestMaker& m, std::mt19937& rng, const Extents& extent) {
    short_product(m, rng, extent, test::one_of(rng, {DType::U8, DType::I8}), test::one_of(rng, {DType::U8, DType::I8}));
  }, {"cuda-sm90a"}, 6);
  CHECK(counts.altered > 8);
}

TEST_CASE("legal schedules of convolutions in tiles") {
  const auto counts = check_device(22, false, [](NestMaker& m, std::mt19937& rng, const Extents& extent) {
    NestMaker::Conv c{.h = 3 + int64_t(rng() % 4), .w = 4 + int64_t(rng() % 5), .c = test::one_of<int64_t>(rng, {3, 8}), .m = test::one_of<int64_t>(rng, {12, 16, 20})};
    c.stride = 1 + int64_t(rng() % 2), c.channels_last = rng() % 2, c.panels = rng() % 2;
    const bool free = rng() % 3 == 0;
    m.conv(c, free ? extent(c.h) : nullptr, free ? extent(c.w) : nullptr);
  });
  CHECK(counts.altered > 24);
}

TEST_CASE("legal schedules of few rows in slices of the fold") {
  const auto counts = check_device(23, false, [](NestMaker& m, std::mt19937& rng, const Extents& extent) {
    const Expr *rows = m.n(test::one_of<int64_t>(rng, {1, 3, 8})), *columns = extent(test::one_of<int64_t>(rng, {9, 16, 37}));
    m.matmul(rows, m.n(test::one_of<int64_t>(rng, {64, 131, 150})), columns, rng() % 2);
  });
  CHECK(counts.altered > 24);
}

TEST_CASE("legal schedules of lines, whose lanes share a reduction") {
  const auto counts = check_device(24, false, [](NestMaker& m, std::mt19937& rng, const Extents& extent) {
    softmax(m, extent(test::one_of<int64_t>(rng, {0, 1, 5})), extent(test::one_of<int64_t>(rng, {33, 40, 300})));
  });
  CHECK(counts.altered > 24);
}

TEST_CASE("legal schedules of folds whose points lie together") {
  const auto counts = check_device(28, false, [](NestMaker& m, std::mt19937& rng, const Extents& extent) {
    const Expr *rows = m.n(test::one_of<int64_t>(rng, {1, 3})), *columns = extent(test::one_of<int64_t>(rng, {65, 70, 96}));
    const Expr *tall = m.n(test::one_of<int64_t>(rng, {7, 9})), *wide = extent(test::one_of<int64_t>(rng, {6, 7}));
    const uint32_t x = m.array("x", DType::F32, {rows, tall, m.ctx.mul(wide, m.n(2)), columns}), y = m.output("y", DType::F32, {rows, columns});
    const ir::Dim *r = m.dim("r", rows), *h = m.dim("h", tall), *w = m.dim("w", wide), *c = m.dim("c", columns);
    m.map({r, c}, y, {m.at(r), m.at(c)}, m.fold(test::one_of(rng, {Join::Sum, Join::Max}), {h, w}, m.load(x, {m.at(r), m.at(h), m.at(w), m.at(c)})));
  });
  CHECK(counts.altered > 24);
}

TEST_CASE("legal schedules of attention") {
  const auto counts = check_device(25, false, [](NestMaker& m, std::mt19937& rng, const Extents& extent) {
    test::AttentionForm form{.causal = rng() % 2 == 0, .masked = rng() % 2 == 0, .safe = true, .heads = 1};
    form.depth = test::one_of<int64_t>(rng, {8, 20}), form.values = test::one_of<int64_t>(rng, {8, 20, 40});
    form.type = form.value_type = test::one_of(rng, {DType::F32, DType::F16, DType::BF16});
    test::attention(m, form, extent(test::one_of<int64_t>(rng, {17, 37, 40})), extent(test::one_of<int64_t>(rng, {32, 50})));
  });
  CHECK(counts.altered > 24);
}

// Of transposes and maps each point has a lane in the order of the dims: changes of it are refused, all of them.
TEST_CASE("legal schedules of transposes on devices are right to the last bit") {
  check_device(26, true, [](NestMaker& m, std::mt19937& rng, const Extents& extent) {
    const Expr *r = extent(test::one_of<int64_t>(rng, {17, 32, 35})), *c = extent(test::one_of<int64_t>(rng, {19, 40, 64}));
    const uint32_t x = m.array("x", DType::F32, {c, r}), y = m.output("y", DType::F32, {r, c});
    const ir::Dim *i = m.dim("i", r), *j = m.dim("j", c);
    m.map({i, j}, y, {m.at(i), m.at(j)}, m.ctx.binary(Op::Max, m.load(x, {m.at(j), m.at(i)}), m.ctx.number(0.25, DType::F32)));
  });
}

TEST_CASE("legal schedules of maps on devices are right to the last bit") {
  check_device(27, true, [](NestMaker& m, std::mt19937& rng, const Extents& extent) {
    const Expr *r = extent(test::one_of<int64_t>(rng, {0, 1, 7, 35})), *c = extent(test::one_of<int64_t>(rng, {1, 3, 19})), *k = m.n(test::one_of<int64_t>(rng, {1, 2, 4}));
    const uint32_t x = m.array("x", DType::F32, {r, c, k}), y = m.output("y", DType::F32, {r, c});
    const ir::Dim *i = m.dim("i", r), *j = m.dim("j", c), *e = m.dim("e", k);
    m.map({i, j}, y, {m.at(i), m.at(j)}, m.fold(Join::Max, {e}, m.load(x, {m.at(i), m.at(j), m.at(e)})));
  });
}
