#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <random>

#include "packager/ir/numeric.h"
#include "packager/nest/proc.h"
#include "packager/nest/text/print.h"
#include "tests/support/nests/nest_builder.h"
#include "tests/text/nest_text.h"

using namespace mlc;
using namespace mlc::ir;
using namespace mlc::nest;
using mlc::test::NestBuilder;
using mlc::test::numbers;

TEST_CASE_FIXTURE(NestBuilder, "a padded convolution equals the sum written out") {
  const int64_t N = 5, H = 9, C = 3;
  auto x = input("x", DType::F32, {k(C), k(H), k(H)}), w = input("w", DType::F32, {k(N), k(C), k(3), k(3)});
  auto y = output("y", DType::F32, {k(N), k(H), k(H)});
  auto n = dim("n", N), p = dim("p", H), q = dim("q", H), c = dim("c", C), u = dim("u", 3), v = dim("v", 3);
  auto row = ctx.sub(ctx.add(d(p), d(u)), k(1)), col = ctx.sub(ctx.add(d(q), d(v)), k(1));
  auto inside = [&](const Expr* e) { return ctx.logical_and(ctx.binary(Op::Le, k(0), e), ctx.binary(Op::Lt, e, k(H))); };
  auto product = ctx.binary(Op::Mul, load(x, {d(c), row, col}), load(w, {d(n), d(c), d(u), d(v)}));
  auto sum = ctx.fold({ctx.builtin(Join::Sum), {c, u, v}, ctx.logical_and(inside(row), inside(col))}, {product});
  nest("Conv", {n, p, q}, {{y, {d(n), d(p), d(q)}, ctx.binary(Op::Max, sum, r(0))}});
  auto xs = numbers(C * H * H, 1), ws = numbers(N * C * 9, 2);
  std::vector<Tensor> inputs{Tensor::of(DType::F32, {C, H, H}, xs), Tensor::of(DType::F32, {N, C, 3, 3}, ws)};
  auto fast = run(inputs), slow = run(inputs, true);
  REQUIRE(fast.ok());
  REQUIRE(slow.ok());
  auto got = (*fast)[0].values<float>();
  CHECK(got == (*slow)[0].values<float>());
  for (int64_t i = 0; i < N; ++i)
    for (int64_t a = 0; a < H; ++a)
      for (int64_t b = 0; b < H; ++b) {
        float want = 0;
        for (int64_t cc = 0; cc < C; ++cc)
          for (int64_t uu = 0; uu < 3; ++uu)
            for (int64_t vv = 0; vv < 3; ++vv) {
              int64_t yy = a + uu - 1, xx = b + vv - 1;
              if (yy < 0 || yy >= H || xx < 0 || xx >= H) continue;
              float product_here = xs[static_cast<size_t>((cc * H + yy) * H + xx)] * ws[static_cast<size_t>(((i * C + cc) * 3 + uu) * 3 + vv)];
              want += product_here;
            }
        REQUIRE(got[static_cast<size_t>((i * H + a) * H + b)] == std::max(want, 0.0f));
      }
}

// y[n, p, q] = sum over c, u, v of x[c, (p + lo - u*a) / s, (q + lo - v) / t] * w[c, n, u, v] where s and t divide, and a number of the place.
TEST_CASE("a transposed convolution is done by phases, its answers those of point by point") {
  for (auto [h, s, t, kernel, a, lo] : {std::tuple{7, 2, 2, 4, 1, 1}, {5, 3, 2, 3, 2, 0}, {4, 2, 3, 5, 1, 2}, {1, 4, 1, 3, 1, 0}, {6, 5, 5, 2, 3, 4}, {3, 9, 8, 2, 1, 0}}) {
    NestBuilder b;
    CAPTURE(h);
    CAPTURE(s);
    Context& ctx = b.ctx;
    const auto k = [&](int64_t v) { return b.k(v); };
    const int64_t N = 3, C = 2, P = 19, Q = 11;
    auto x = b.input("x", DType::F32, {k(C), k(h), k(h)}), w = b.input("w", DType::F32, {k(C), k(N), k(kernel), k(kernel)});
    auto y = b.output("y", DType::F32, {k(N), k(P), k(Q)});
    auto n = b.dim("n", N), p = b.dim("p", P), q = b.dim("q", Q), c = b.dim("c", C), u = b.dim("u", kernel), v = b.dim("v", kernel);
    const auto d = [&](const Dim* of) { return b.d(of); };
    auto row = ctx.sub(ctx.add(d(p), k(lo)), ctx.mul(d(u), k(a))), column = ctx.sub(ctx.add(d(q), k(lo)), d(v));
    const Expr* where = ctx.boolean(true);
    for (auto [back, by] : {std::pair{row, s}, {column, t}}) {
      const Expr* at = ctx.floordiv(back, k(by));
      for (const Expr* term : {ctx.binary(Op::Eq, ctx.floormod(back, k(by)), k(0)), ctx.binary(Op::Le, k(0), at), ctx.binary(Op::Lt, at, k(h))})
        where = ctx.logical_and(where, term);
    }
    auto product = ctx.binary(Op::Mul, b.load(x, {d(c), ctx.floordiv(row, k(s)), ctx.floordiv(column, k(t))}), b.load(w, {d(c), d(n), d(u), d(v)}));
    const Expr* sum = ctx.fold({ctx.builtin(Join::Sum), {c, u, v}, where}, {product});
    const Expr* place = ctx.cast(DType::F32, ctx.binary(Op::BitAnd, ctx.add(ctx.mul(d(p), k(100)), d(q)), k(1023)));  // not affine: the values of the dims
    b.nest("ConvTranspose", {n, p, q}, {{y, {d(n), d(p), d(q)}, ctx.binary(Op::Add, sum, place)}});
    std::vector<Tensor> inputs{Tensor::of(DType::F32, {C, h, h}, numbers(static_cast<size_t>(C * h * h), 1)),
                               Tensor::of(DType::F32, {C, N, kernel, kernel}, numbers(static_cast<size_t>(C * N * kernel * kernel), 2))};
    auto fast = b.run(inputs), slow = b.run(inputs, true);
    REQUIRE(fast.ok());
    REQUIRE(slow.ok());
    CHECK((*fast)[0].values<float>() == (*slow)[0].values<float>());
    double work = 1e9;
    REQUIRE(interpret(b.fn, inputs, {.work = &work}).ok());
    if (s * t <= 64) CHECK(1e9 - work < 5e3 + N * P * Q * (30 + 0.5 * static_cast<double>(C * (kernel + s) * (kernel + t)) / static_cast<double>(s * t)));
  }
}

namespace {

// Elements of any type, of small numbers that it holds.
Tensor small_numbers(DType type, std::vector<int64_t> shape, unsigned seed) {
  Tensor t = Tensor::zeros(type, std::move(shape));
  const auto drawn = numbers(static_cast<size_t>(t.elements()), seed);
  const auto whole = [](float v) { return static_cast<int64_t>(v * 100); };
  for (size_t i = 0; i < drawn.size(); ++i)
    ir::store_element(type, t.bytes.data(), i,
                      {is_signed_int(type) ? whole(drawn[i]) : whole(drawn[i]) & 127, is_float(type) ? ir::round_to(type, drawn[i]) : 0.0});
  return t;
}

}  // namespace

// y[n, p] = sum over c, u of (x[c, p + u - 1] - z) * (w[n, c, u] - v[n]), of which z or v may be missing.
TEST_CASE("sums of products of any type are done in steps through memory, with the bits of single points") {
  struct Types {
    DType x, w, sum;
    bool z, v;
  };
  for (auto [xt, wt, sum_type, has_z, has_v] :
       {Types{DType::F16, DType::F16, DType::F32, false, false}, {DType::BF16, DType::BF16, DType::F32, false, false},
        {DType::BF16, DType::F32, DType::F32, false, true}, {DType::F8E4M3, DType::F16, DType::F32, true, false},
        {DType::F64, DType::F32, DType::F64, true, true},
        {DType::U8, DType::I8, DType::I32, true, true},
        {DType::I8, DType::I8, DType::I32, true, false}, {DType::I64, DType::I32, DType::I64, false, false},
        {DType::U16, DType::Bool, DType::U32, false, false},
        {DType::U8, DType::F32, DType::F32, true, false}, {DType::I4, DType::F16, DType::F32, false, true},
        {DType::I16, DType::I16, DType::I16, false, false}}) {
    NestBuilder b;
    CAPTURE(name_of(xt));
    CAPTURE(name_of(wt));
    Context& ctx = b.ctx;
    const int64_t N = 11, P = 13, C = 3;
    const auto k = [&](int64_t v) { return b.k(v); };
    const auto d = [&](const Dim* of) { return b.d(of); };
    auto x = b.input("x", xt, {k(C), k(P)}), w = b.input("w", wt, {k(N), k(C), k(3)}), v = b.input("v", wt, {k(N)});
    auto y = b.output("y", sum_type, {k(N), k(P)});
    auto n = b.dim("n", N), p = b.dim("p", P), c = b.dim("c", C), u = b.dim("u", 3);
    const auto wide = [&](const Expr* e) { return e->type.dtype == sum_type ? e : ctx.cast(sum_type, e); };
    const Expr* at = ctx.sub(ctx.add(d(p), d(u)), k(1));
    const Expr *left = wide(b.load(x, {d(c), at})), *right = wide(b.load(w, {d(n), d(c), d(u)}));
    if (has_z) left = ctx.binary(Op::Sub, left, is_float(sum_type) ? b.r(0.375, sum_type) : ctx.integer(3, sum_type));
    if (has_v) right = ctx.binary(Op::Sub, right, wide(b.load(v, {d(n)})));
    auto where = ctx.logical_and(ctx.binary(Op::Le, k(0), at), ctx.binary(Op::Lt, at, k(P)));
    for (const Expr* product : {ctx.binary(Op::Mul, left, right), ctx.binary(Op::Mul, right, left)}) {
      b.fn.body.clear();
      b.nest("Conv", {n, p}, {{y, {d(n), d(p)}, ctx.fold({ctx.builtin(Join::Sum), {c, u}, where}, {product})}});
      std::vector<Tensor> inputs{small_numbers(xt, {C, P}, 1), small_numbers(wt, {N, C, 3}, 2), small_numbers(wt, {N}, 3)};
      auto fast = b.run(inputs), slow = b.run(inputs, true);
      REQUIRE_MESSAGE(fast.ok(), (fast.ok() ? "" : fast.status().message));
      REQUIRE(slow.ok());
      CHECK((*fast)[0].bytes == (*slow)[0].bytes);
      double work = 1e9;
      REQUIRE(interpret(b.fn, inputs, {.work = &work}).ok());
      CHECK(1e9 - work < 5e3 + static_cast<double>(N * P * (5 + C * 3)));
    }
  }
}

// y[n, p] = sum over c, u of x[c, s*p + u - 1] * w[n, c, u], or of w[c, n, u]: more rows, lanes and steps than are taken at once, and numbers
// that must not meet the zeros of lanes that do not count. What is inside was computed in floats, as exporters write it.
TEST_CASE("sums of many rows and steps have the bits of single points, whatever the numbers are") {
  struct Form {
    int64_t N, P, C, stride;
    bool turned, wild;
    DType type = DType::F32;
  };
  for (const Form& form : {Form{133, 21, 90, 1, false, false}, {133, 21, 90, 1, true, true}, {9, 300, 5, 1, false, true}, {6, 270, 4, 2, true, false},
                           {2, 17, 3, 2, false, true}, {5, 19, 90, 1, true, false, DType::F64}, {5, 19, 90, 1, false, false, DType::I32}, {5, 19, 4, 1, true, false, DType::I64}}) {
    CAPTURE(form.N);
    CAPTURE(form.P);
    NestBuilder b;
    Context& ctx = b.ctx;
    const int64_t width = form.P * form.stride;
    const auto k = [&](int64_t v) { return b.k(v); };
    const auto d = [&](const Dim* of) { return b.d(of); };
    auto x = b.input("x", form.type, {k(form.C), k(width)});
    auto w = form.turned ? b.input("w", form.type, {k(form.C), k(form.N), k(3)}) : b.input("w", form.type, {k(form.N), k(form.C), k(3)});
    auto y = b.output("y", form.type, {k(form.N), k(form.P)});
    auto n = b.dim("n", form.N), p = b.dim("p", form.P), c = b.dim("c", form.C), u = b.dim("u", 3);
    const Expr* at = ctx.sub(ctx.add(ctx.mul(d(p), k(form.stride)), d(u)), k(1));
    const Expr* end = ctx.cast(DType::I64, ctx.unary(Op::Floor, ctx.binary(Op::Mul, ctx.cast(DType::F32, k(2 * width)), b.r(0.5))));
    auto where = ctx.logical_and(ctx.binary(Op::Le, k(0), at), ctx.binary(Op::Lt, at, end));
    const Expr* right = form.turned ? b.load(w, {d(c), d(n), d(u)}) : b.load(w, {d(n), d(c), d(u)});
    b.nest("Conv", {n, p}, {{y, {d(n), d(p)}, ctx.fold({ctx.builtin(Join::Sum), {c, u}, where}, {ctx.binary(Op::Mul, b.load(x, {d(c), at}), right)})}});
    std::vector<Tensor> inputs{small_numbers(form.type, {form.C, width}, 1), small_numbers(form.type, form.turned ? std::vector{form.C, form.N, int64_t{3}} : std::vector{form.N, form.C, int64_t{3}}, 2)};
    if (form.wild) {
      ir::store_element(form.type, inputs[1].bytes.data(), 6, {0, HUGE_VAL});
      ir::store_element(form.type, inputs[1].bytes.data(), 14, {0, 3e38});
      ir::store_element(form.type, inputs[0].bytes.data(), 5, {0, HUGE_VAL});
    }
    double work = 1e12;
    const auto fast = interpret(b.fn, inputs, {.work = &work}), slow = b.run(inputs, true);
    REQUIRE_MESSAGE(fast.ok(), (fast.ok() ? "" : fast.status().message));
    REQUIRE(slow.ok());
    CHECK((*fast)[0].bytes == (*slow)[0].bytes);
    // As a sum of products, and not one operation after the other.
    CHECK(1e12 - work < 1e4 + 1.5 * static_cast<double>(form.N * form.P * (5 + form.C * 3)));
  }
}

TEST_CASE_FIXTURE(NestBuilder, "a sum of products within another fold is made anew for each of its points") {
  auto x = input("x", DType::F32, {k(4), k(6), k(20)}), w = input("w", DType::F32, {k(7), k(6)});
  auto y = output("y", DType::F32, {k(7), k(20)});
  auto n = dim("n", 7), p = dim("p", 20), a = dim("a", 4), c = dim("c", 6);
  const Expr* sum = ctx.fold({ctx.builtin(Join::Sum), {c}, nullptr}, {ctx.binary(Op::Mul, load(x, {d(a), d(c), d(p)}), load(w, {d(n), d(c)}))});
  nest("most", {n, p}, {{y, {d(n), d(p)}, ctx.fold({ctx.builtin(Join::Max), {a}, nullptr}, {sum})}});
  const std::vector<Tensor> inputs{small_numbers(DType::F32, {4, 6, 20}, 1), small_numbers(DType::F32, {7, 6}, 2)};
  const auto fast = run(inputs), slow = run(inputs, true);
  REQUIRE(fast.ok());
  REQUIRE(slow.ok());
  CHECK((*fast)[0].bytes == (*slow)[0].bytes);
}

// The same of a proc: y[n] = sum over c of x[c] * (w[n, c] - 3), written as a loop.
TEST_CASE("loops of procs that only add products of any type give the bits of a sum") {
  for (auto [narrow, sum_type] : {std::pair{DType::F16, DType::F32}, {DType::BF16, DType::F32}, {DType::F32, DType::F32}, {DType::F32, DType::F64},
                                  {DType::I8, DType::I32}, {DType::U8, DType::U32}}) {
    NestBuilder b;
    CAPTURE(name_of(narrow));
    Context& ctx = b.ctx;
    const int64_t N = 5, C = 700;
    auto x = b.input("x", narrow, {b.k(C)}), w = b.input("w", narrow, {b.k(N), b.k(C)});
    auto y = b.output("y", sum_type, {b.k(N)}), z = b.output("z", sum_type, {b.k(N)});
    auto n = b.dim("n", N), c = b.dim("c", C), m = b.dim("m", N);
    const auto product = [&](const Expr* row, const Expr* at) {
      const auto wide = [&](const Expr* e) { return narrow == sum_type ? e : ctx.cast(sum_type, e); };
      const Expr* less = is_float(sum_type) ? b.r(3, sum_type) : ctx.integer(3, sum_type);
      return ctx.binary(Op::Mul, wide(b.load(x, {at})), ctx.binary(Op::Sub, wide(b.load(w, {row, at})), less));
    };
    b.nest("Sum", {n}, {{z, {b.d(n)}, ctx.fold({ctx.builtin(Join::Sum), {c}, nullptr}, {product(b.d(n), b.d(c))})}});
    const auto make = [](loop::StmtKind kind, const Expr* var, const Expr* value) {
      auto s = std::make_unique<loop::Stmt>();
      s->kind = kind;
      s->var = var;
      s->value = value;
      return s;
    };
    Statement st;
    st.source = "Loop";
    st.proc = std::make_unique<Proc>();
    st.proc->dims = {m};
    st.proc->reads = {x, w};
    st.proc->writes = {y};
    auto at = ctx.fresh_var({DType::I64, 1}), total = ctx.fresh_var({sum_type, 1});
    auto loop = make(loop::StmtKind::For, at, nullptr);
    loop->begin = b.k(0);
    loop->end = b.k(C);
    loop->body.push_back(make(loop::StmtKind::Assign, total, ctx.binary(Op::Add, total, product(b.d(m), at))));
    auto store = make(loop::StmtKind::Store, nullptr, total);
    store->array = y;
    store->index = {b.d(m)};
    st.proc->body.push_back(make(loop::StmtKind::Local, total, is_float(sum_type) ? b.r(0, sum_type) : ctx.integer(0, sum_type)));
    st.proc->body.push_back(std::move(loop));
    st.proc->body.push_back(std::move(store));
    b.fn.body.push_back(std::move(st));
    std::vector<Tensor> inputs{small_numbers(narrow, {C}, 1), small_numbers(narrow, {N, C}, 2)};
    double work = 1e9;
    auto out = interpret(b.fn, inputs, {.work = &work});
    REQUIRE_MESSAGE(out.ok(), (out.ok() ? "" : out.status().message));
    CHECK((*out)[0].bytes == (*out)[1].bytes);
    CHECK(1e9 - work < 5e3 + 50.0 * N * C / 8);
  }
}

TEST_CASE_FIXTURE(NestBuilder, "softmax through a custom combiner sums to one for every symbolic length") {
  auto L = ctx.sym(ctx.declare_sym("L", 1));
  auto x = input("x", DType::F32, {k(3), L}), y = output("y", DType::F32, {k(3), L});
  auto mx = array("m", DType::F32, {k(3)}), sm = array("s", DType::F32, {k(3)});
  auto a = dim("a", 3), t = dim("t", L), b = dim("b", L);
  Type f32{DType::F32, 1};
  Combiner c;
  c.name = "softsum";
  c.join = Join::Custom;
  c.units = {r(-3.0e38), r(0)};
  c.left = {ctx.fresh_var(f32), ctx.fresh_var(f32)};
  c.right = {ctx.fresh_var(f32), ctx.fresh_var(f32)};
  auto m = ctx.binary(Op::Max, c.left[0], c.right[0]);
  auto part = [&](const std::vector<const Expr*>& v) { return ctx.binary(Op::Mul, v[1], ctx.unary(Op::Exp, ctx.binary(Op::Sub, v[0], m))); };
  c.joins = {m, ctx.binary(Op::Add, part(c.left), part(c.right))};
  auto fold = ctx.fold({ctx.declare_combiner(c), {t}, nullptr}, {load(x, {d(a), d(t)}), r(1)});
  nest("Softmax.1", {a}, {{mx, {d(a)}, ctx.field(fold, 0)}, {sm, {d(a)}, ctx.field(fold, 1)}});
  auto e = ctx.unary(Op::Exp, ctx.binary(Op::Sub, load(x, {d(a), d(b)}), load(mx, {d(a)})));
  nest("Softmax.2", {a, b}, {{y, {d(a), d(b)}, ctx.binary(Op::Div, e, load(sm, {d(a)}))}});
  for (int64_t n : {1, 7, 40}) {
    std::vector<Tensor> inputs{Tensor::of(DType::F32, {3, n}, numbers(static_cast<size_t>(3 * n), 5))};
    auto fast = run(inputs), slow = run(inputs, true);
    REQUIRE(fast.ok());
    CHECK((*fast)[0].values<float>() == (*slow)[0].values<float>());
    auto v = (*fast)[0].values<float>();
    for (int64_t i = 0; i < 3; ++i) {
      double total = 0;
      for (int64_t j = 0; j < n; ++j) total += v[static_cast<size_t>(i * n + j)];
      CHECK(total == doctest::Approx(1).epsilon(1e-5));
    }
  }
}

TEST_CASE_FIXTURE(NestBuilder, "a select reads only the arm it takes") {
  auto x = input("x", DType::F32, {k(4)}), y = output("y", DType::F32, {k(8)});
  auto i = dim("i", 8);
  auto at = ctx.sub(d(i), k(2));
  auto in = ctx.logical_and(ctx.binary(Op::Le, k(0), at), ctx.binary(Op::Lt, at, k(4)));
  nest("Pad", {i}, {{y, {d(i)}, ctx.select(in, load(x, {at}), r(9))}});
  std::vector<Tensor> inputs{Tensor::of(DType::F32, {4}, std::vector<float>{1, 2, 3, 4})};
  for (bool points : {false, true}) {
    auto out = run(inputs, points);
    REQUIRE(out.ok());
    CHECK((*out)[0].values<float>() == std::vector<float>{9, 9, 1, 2, 3, 4, 9, 9});
  }
}

TEST_CASE_FIXTURE(NestBuilder, "a checked index out of range names the statement and the array") {
  auto x = input("table", DType::F32, {k(4)}), id = input("id", DType::I64, {k(3)}), y = output("y", DType::F32, {k(3)});
  auto i = dim("i", 3);
  nest("Gather_7 (Gather)", {i}, {{y, {d(i)}, load(x, {load(id, {d(i)})}, Access::Checked)}});
  auto table = Tensor::of(DType::F32, {4}, std::vector<float>{1, 2, 3, 4});
  auto good = run({table, Tensor::of(DType::I64, {3}, std::vector<int64_t>{3, 0, 1})});
  REQUIRE(good.ok());
  CHECK((*good)[0].values<float>() == std::vector<float>{4, 1, 2});
  for (bool points : {false, true}) {
    auto bad = run({table, Tensor::of(DType::I64, {3}, std::vector<int64_t>{3, 4, 1})}, points);
    REQUIRE_FALSE(bad.ok());
    CHECK(bad.status().code == Code::InputMismatch);
    CHECK(bad.status().message.find("Gather_7 (Gather)") != std::string::npos);
    CHECK(bad.status().message.find("index 4") != std::string::npos);
    CHECK(bad.status().message.find("'table'") != std::string::npos);
  }
}

TEST_CASE_FIXTURE(NestBuilder, "pushes combine where places coincide, and the highest point wins otherwise") {
  auto at = input("at", DType::I64, {k(5)}), u = input("u", DType::F32, {k(5)});
  auto s = output("s", DType::F32, {k(3)}), l = output("l", DType::F32, {k(3)});
  auto i = dim("i", 3), q = dim("q", 5);
  nest("zero", {i}, {{s, {d(i)}, r(0)}, {l, {d(i)}, r(-1)}});
  nest("Scatter", {q}, {{s, {load(at, {d(q)})}, load(u, {d(q)}), true, Join::Sum},
                        {l, {load(at, {d(q)})}, load(u, {d(q)}), true, Join::Last}});
  std::vector<Tensor> inputs{Tensor::of(DType::I64, {5}, std::vector<int64_t>{0, 2, 0, 2, 2}),
                             Tensor::of(DType::F32, {5}, std::vector<float>{1, 2, 3, 4, 5})};
  for (bool points : {false, true}) {
    auto out = run(inputs, points);
    REQUIRE(out.ok());
    CHECK((*out)[0].values<float>() == std::vector<float>{4, 0, 11});
    CHECK((*out)[1].values<float>() == std::vector<float>{3, -1, 5});
  }
}

TEST_CASE_FIXTURE(NestBuilder, "scans run from either end, with and without the point itself") {
  auto x = input("x", DType::I32, {k(2), k(4)});
  std::vector<std::vector<int32_t>> want{{1, 3, 6, 10, 5, 11, 18, 26}, {0, 1, 3, 6, 0, 5, 11, 18},
                                         {10, 9, 7, 4, 26, 21, 15, 8}, {9, 7, 4, 0, 21, 15, 8, 0}};
  for (int v = 0; v < 4; ++v) {
    auto y = output("y" + std::to_string(v), DType::I32, {k(2), k(4)});
    auto a = dim("a", 2), s = dim("s", 4);
    Nest& n = nest("CumSum", {a, s}, {{y, {d(a), d(s)}, load(x, {d(a), d(s)})}});
    n.scan_dim = s;
    n.scan_combiner = ctx.builtin(Join::Sum);
    n.scan_exclusive = v & 1;
    n.scan_reverse = v & 2;
  }
  auto out = run({Tensor::of(DType::I32, {2, 4}, std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8})});
  REQUIRE(out.ok());
  for (size_t v = 0; v < 4; ++v) CHECK((*out)[v].values<int32_t>() == want[v]);
}

TEST_CASE_FIXTURE(NestBuilder, "sums of half precision are kept in float until they are done") {
  auto x = input("x", DType::F16, {k(4096)}), y = output("y", DType::F16, {});
  auto i = dim("i", 4096);
  nest("ReduceSum", {}, {{y, {}, ctx.fold({ctx.builtin(Join::Sum), {i}, nullptr}, {load(x, {d(i)})})}});
  std::vector<uint16_t> ones(4096, 0x3c00);
  for (bool points : {false, true}) {
    auto out = run({Tensor::of(DType::F16, {4096}, ones)}, points);
    REQUIRE(out.ok());
    CHECK((*out)[0].values<uint16_t>() == std::vector<uint16_t>{0x6c00});  // 4096; in f16 steps it would stop at 2048
  }
}

TEST_CASE_FIXTURE(NestBuilder, "a proc sorts, and a loop beyond its bound is an error") {
  auto x = input("x", DType::F32, {k(2), k(5)}), y = output("y", DType::F32, {k(2), k(3)});
  Type i64{DType::I64, 1}, f32{DType::F32, 1};
  auto make = [](loop::StmtKind kind) {
    auto s = std::make_unique<loop::Stmt>();
    s->kind = kind;
    return s;
  };
  int64_t bound = 3;
  auto build = [&] {
    Statement st;
    st.source = "TopK_1 (TopK)";
    st.proc = std::make_unique<Proc>();
    auto a = dim("a", 2);
    st.proc->dims = {a};
    st.proc->reads = {x};
    st.proc->writes = {y};
    auto n = ctx.fresh_var(i64), p = ctx.fresh_var(i64), e = ctx.fresh_var(f32);
    auto loop_n = make(loop::StmtKind::For);
    loop_n->var = n;
    loop_n->begin = k(0);
    loop_n->end = k(5);
    auto let = make(loop::StmtKind::Let);
    let->var = e;
    let->value = load(x, {d(a), n}, Access::Checked);
    auto local = make(loop::StmtKind::Local);
    local->var = p;
    local->value = ctx.min(n, k(3));
    auto loop_p = make(loop::StmtKind::While);
    loop_p->cond = ctx.logical_and(ctx.binary(Op::Lt, k(0), p),
                                   ctx.binary(Op::Lt, load(y, {d(a), ctx.sub(p, k(1))}, Access::Checked), e));
    loop_p->bound = k(bound);
    auto move = make(loop::StmtKind::If);
    move->cond = ctx.binary(Op::Lt, p, k(3));
    auto store = make(loop::StmtKind::Store);
    store->array = y;
    store->index = {d(a), p};
    store->value = load(y, {d(a), ctx.sub(p, k(1))}, Access::Checked);
    move->body.push_back(std::move(store));
    auto step = make(loop::StmtKind::Assign);
    step->var = p;
    step->value = ctx.sub(p, k(1));
    loop_p->body.push_back(std::move(move));
    loop_p->body.push_back(std::move(step));
    auto last = make(loop::StmtKind::If);
    last->cond = ctx.binary(Op::Lt, p, k(3));
    auto put = make(loop::StmtKind::Store);
    put->array = y;
    put->index = {d(a), p};
    put->value = e;
    last->body.push_back(std::move(put));
    loop_n->body.push_back(std::move(let));
    loop_n->body.push_back(std::move(local));
    loop_n->body.push_back(std::move(loop_p));
    loop_n->body.push_back(std::move(last));
    st.proc->body.push_back(std::move(loop_n));
    fn.body.push_back(std::move(st));
  };
  build();
  std::vector<Tensor> inputs{Tensor::of(DType::F32, {2, 5}, std::vector<float>{3, 1, 4, 1, 5, -2, 7, 1, 8, 2})};
  auto out = run(inputs);
  REQUIRE(out.ok());
  CHECK((*out)[0].values<float>() == std::vector<float>{5, 4, 3, 8, 7, 2});
  std::string text = print(fn);
  Context other;
  auto again = parse(other, text);
  REQUIRE_MESSAGE(again.ok(), (again.ok() ? "" : again.status().message) << text);
  CHECK(print(*again) == text);
  auto same = interpret(*again, inputs);
  REQUIRE(same.ok());
  CHECK((*same)[0].values<float>() == std::vector<float>{5, 4, 3, 8, 7, 2});
  fn.body.clear();
  bound = 1;
  build();
  auto bad = run(inputs);
  REQUIRE_FALSE(bad.ok());
  CHECK(bad.status().message.find("TopK_1") != std::string::npos);
}

TEST_CASE_FIXTURE(NestBuilder, "inputs that do not fit are refused by name") {
  auto n = ctx.sym(ctx.declare_sym("N", 1, 8));
  auto x = input("x", DType::F32, {n}), z = input("z", DType::F32, {n}), y = output("y", DType::F32, {n});
  auto i = dim("i", n);
  nest("Add", {i}, {{y, {d(i)}, ctx.binary(Op::Add, load(x, {d(i)}), load(z, {d(i)}))}});
  auto t = [](int64_t e) { return Tensor::of(DType::F32, {e}, std::vector<float>(static_cast<size_t>(e))); };
  CHECK(run({t(3), t(3)}).ok());
  CHECK_FALSE(run({t(3), t(4)}).ok());
  CHECK_FALSE(run({t(9), t(9)}).ok());
  CHECK_FALSE(run({t(3)}).ok());
  Tensor lying = t(3);
  lying.shape = {1 << 20};
  CHECK_FALSE(run({lying, lying}).ok());
}

// Random functions: the block interpreter against the evaluator that goes point by point.
TEST_CASE("blocks of points give what single points give") {
  for (unsigned seed = 0; seed < 400; ++seed) {
    NestBuilder b;
    Context& ctx = b.ctx;
    std::mt19937 random(seed);
    auto pick = [&](size_t n) { return static_cast<size_t>(random() % n); };
    auto P = b.k(3), Q = b.k(static_cast<int64_t>(2 + pick(40))), K = b.k(4);
    auto x = b.input("x", DType::F32, {P, Q}), h = b.input("h", DType::F16, {P, K}), u = b.input("u", DType::U8, {Q}),
         j = b.input("j", DType::I64, {K, Q});
    auto p = b.dim("p", P), q = b.dim("q", Q), c = b.dim("c", K), e = b.dim("e", 3);
    std::vector<const Expr*> reals, ints, conditions;
    auto dp = b.d(p), dq = b.d(q), dc = b.d(c), de = b.d(e);
    auto build = [&](bool in_fold, int steps) {
      reals = {b.load(x, {dp, dq}), b.r(0.5), ctx.cast(DType::F32, b.load(h, {dp, in_fold ? dc : b.k(1)}))};
      ints = {dp, dq, b.k(2), ctx.cast(DType::I64, b.load(u, {dq})), b.load(j, {in_fold ? dc : b.k(0), dq})};
      if (in_fold) ints.insert(ints.end(), {dc, de});
      conditions = {ctx.binary(Op::Lt, dp, b.k(2))};
      for (int s = 0; s < steps; ++s) {
        auto R = [&] { return reals[pick(reals.size())]; };
        auto I = [&] { return ints[pick(ints.size())]; };
        switch (pick(9)) {
          case 0: reals.push_back(ctx.binary(Op::Add, R(), R())); break;
          case 1: reals.push_back(ctx.binary(Op::Mul, R(), R())); break;
          case 2: reals.push_back(ctx.binary(Op::Max, R(), R())); break;
          case 3: ints.push_back(ctx.add(I(), I())); break;
          case 4: ints.push_back(ctx.floormod(I(), b.k(5))); break;
          case 5: conditions.push_back(ctx.binary(Op::Lt, I(), I())); break;
          case 6: reals.push_back(ctx.select(conditions[pick(conditions.size())], R(), R())); break;
          case 7: conditions.push_back(ctx.binary(pick(2) ? Op::And : Op::Or, conditions[pick(conditions.size())], conditions[pick(conditions.size())])); break;
          case 8: {
            // A read that only its guard keeps inside.
            auto at = ctx.add(dq, ctx.floormod(I(), b.k(4)));
            auto ok = ctx.binary(Op::Lt, at, Q);
            reals.push_back(ctx.select(ok, b.load(x, {dp, at}), R()));
            conditions.push_back(ctx.logical_and(ok, ctx.binary(Op::Lt, b.load(x, {dp, at}), b.r(0.25))));
            break;
          }
        }
      }
    };
    build(true, 14);
    static constexpr Join kJoins[] = {Join::Sum, Join::Max, Join::Min, Join::Prod, Join::Last};
    auto fold1 = ctx.fold({ctx.builtin(kJoins[pick(5)]), {c, e}, pick(2) ? conditions[pick(conditions.size())] : nullptr}, {reals.back()});
    auto fold2 = ctx.fold({ctx.builtin(pick(2) ? Join::Any : Join::All), {c, e}, nullptr}, {conditions.back()});
    auto ifold = ctx.fold({ctx.builtin(Join::Sum), {c, e}, nullptr}, {ints.back()});
    build(false, 10);
    auto y = b.output("y", DType::F32, {P, Q}), z = b.output("z", DType::I64, {Q, P});
    const Expr* value = pick(2) ? ctx.binary(Op::Add, fold1, reals.back()) : ctx.select(conditions.back(), fold1, reals.back());
    b.nest("random", {p, q}, {{y, {dp, dq}, ctx.select(fold2, value, b.r(-1))}, {z, {dq, dp}, ctx.add(ifold, ints.back())}},
           pick(3) == 0 ? conditions.front() : nullptr);
    std::vector<uint16_t> hs(12);
    for (auto& v : hs) v = static_cast<uint16_t>(random() % 0x3c00);
    std::vector<uint8_t> us(static_cast<size_t>(Q->i));
    for (auto& v : us) v = static_cast<uint8_t>(random());
    std::vector<int64_t> js(static_cast<size_t>(4 * Q->i));
    for (auto& v : js) v = static_cast<int64_t>(random() % 100) - 50;
    std::vector<Tensor> inputs{Tensor::of(DType::F32, {3, Q->i}, numbers(static_cast<size_t>(3 * Q->i), seed)),
                               Tensor::of(DType::F16, {3, 4}, hs), Tensor::of(DType::U8, {Q->i}, us),
                               Tensor::of(DType::I64, {4, Q->i}, js)};
    auto fast = b.run(inputs), slow = b.run(inputs, true);
    INFO("seed " << seed << ": " << to_string(b.fn.body[0].nest->writes[0].value));
    REQUIRE(slow.ok());
    if (!fast.ok()) INFO(fast.status().message);
    REQUIRE(fast.ok());
    for (size_t o = 0; o < 2; ++o) REQUIRE(((*fast)[o].bytes == (*slow)[o].bytes));
    // The text form says it all.
    std::string text = print(b.fn);
    Context other;
    auto again = parse(other, text);
    REQUIRE_MESSAGE(again.ok(), (again.ok() ? "" : again.status().message) << text);
    REQUIRE(print(*again) == text);
    auto parsed = interpret(*again, inputs);
    REQUIRE(parsed.ok());
    for (size_t o = 0; o < 2; ++o) REQUIRE(((*parsed)[o].bytes == (*fast)[o].bytes));
  }
}

TEST_CASE("a broken text is refused with its line") {
  const std::string good =
      "function \"f\"\nsym $N 1 8 multiple 1\ndim i = $N\narray %0 \"x\" input f32 [$N]\narray %1 \"y\" temp f32 [$N]\n"
      "inputs %0\noutputs %1\nnest \"Relu\" (i) {\n  write %1[i] = max(%0[i], 0.0)\n}\n";
  Context ctx;
  auto f = parse(ctx, good);
  REQUIRE(f.ok());
  CHECK(print(*f) == good);
  // Every prefix and every text with one character changed is parsed or refused, never anything else.
  for (size_t n = 0; n < good.size(); ++n) {
    Context a, b;
    (void)parse(a, std::string_view(good).substr(0, n));
    std::string changed = good;
    changed[n] = changed[n] == '(' ? ')' : '(';
    auto r = parse(b, changed);
    if (!r.ok()) CHECK(r.status().message.find("line ") == 0);
  }
  Context deep;
  CHECK_FALSE(parse(deep, good.substr(0, good.find("max")) + std::string(100000, '(')).ok());
}
