// What becomes one statement or one launch, and what does not (packager/passes/fuse).
#include <doctest/doctest.h>

#include <algorithm>

#include "packager/ir/broadcast.h"
#include "packager/nest/facts/contraction.h"
#include "packager/nest/text/print.h"
#include "packager/passes/util.h"
#include "tests/unit/passes/net.h"

using namespace mlc;
using namespace mlc::ir;
using namespace mlc::nest;
using mlc::test::Net;
using mlc::test::numbers;

TEST_CASE_FIXTURE(Net, "a convolution is stored as it is where its channels are taken apart and pieces of them lie beside rows") {
  for (auto [channels, side, statements] : {std::tuple{3, 2, 1}, {4, 2, 2}, {5, 2, 2}, {5, 4, 2}, {5, 8, 2}}) {  // the first: few columns in all
    Net net;
    auto x = net.input("x", DType::F32, {net.k(1), net.k(8), net.k(5), net.k(6)});
    auto c = net.conv("conv", x, net.random_constant("w", {channels * side * side, 8, 1, 1}, 1), 0);
    auto y = net.array("y", DType::F32, {net.k(1), net.k(channels), net.k(5 * side), net.k(6 * side)});
    auto m = net.dim("m", channels), h = net.dim("h", 5), p = net.dim("p", side), w = net.dim("w", 6), q = net.dim("q", side);
    const auto joined = [&](const Dim* outer, const Dim* inner) { return net.ctx.add(net.ctx.mul(net.d(outer), net.k(side)), net.d(inner)); };
    auto channel = net.ctx.add(net.ctx.mul(joined(m, p), net.k(side)), net.d(q));
    net.nest("DepthToSpace", {m, h, p, w, q}, {{y, {net.k(0), net.d(m), joined(h, p), joined(w, q)}, net.load(c, {net.k(0), channel, net.d(h), net.d(w)})}});
    net.finish(y);
    REQUIRE_OK(net.optimise());
    CAPTURE(side);
    CHECK(net.fn.body.size() == static_cast<size_t>(statements));
  }
}

TEST_CASE_FIXTURE(Net, "two convolutions whose results are added stay two launches: sharing channels would leave no columns to their products") {
  auto x = conv("x", input("in", DType::F32, {k(1), k(16), k(14), k(14)}), random_constant("wx", {32, 16, 1, 1}, 4), 0);
  auto a = conv("a", x, random_constant("wa", {64, 32, 1, 1}, 1), 0), b = conv("b", x, random_constant("wb", {64, 32, 1, 1}, 2), 0);
  finish(conv("z", relu("y", add("sum", a, b)), random_constant("wz", {16, 64, 1, 1}, 3), 0));
  REQUIRE_OK(optimise());
  INFO(print(fn));
  size_t products = 0;
  for (const Statement& s : fn.body) {
    for (const Write& write : s.nest->writes) walk(write.value, [&](const Expr* e) { products += e->op == Op::Fold; });
    CHECK_FALSE(s.joins);
  }
  CHECK(products == 4);
}

TEST_CASE_FIXTURE(Net, "padding becomes bounds of the sum") {
  auto x = input("x", DType::F32, {k(1), k(3), k(6), k(6)});
  auto w = random_constant("w", {5, 3, 3, 3}, 1);
  auto padded = array("padded", DType::F32, {k(1), k(3), k(8), k(8)});
  auto dims = dims_of(padded);
  auto row = ctx.sub(d(dims[2]), k(1)), col = ctx.sub(d(dims[3]), k(1));
  auto inside = [&](const Expr* e) { return ctx.logical_and(ctx.binary(Op::Le, k(0), e), ctx.binary(Op::Lt, e, k(6))); };
  nest("Pad", dims, {{padded, at(dims), ctx.select(ctx.logical_and(inside(row), inside(col)), load(x, {d(dims[0]), d(dims[1]), row, col}), r(0))}});
  finish(conv("conv", padded, w, 0));
  REQUIRE_OK(optimise());
  INFO(print(fn));
  REQUIRE(fn.body.size() == 1);
  const Expr* value = fn.body[0].nest->writes[0].value;
  REQUIRE(nest::contraction_of(ctx, {}, value));
  CHECK(value->fold->where != nullptr);
}

TEST_CASE_FIXTURE(Net, "reshape and transpose are read through, heads split out of a product in place") {
  auto L = ctx.sym(ctx.declare_sym("L", 1));
  auto x = input("x", DType::F32, {k(1), L, k(32)});
  auto w = random_constant("w", {32, 32}, 1), b = random_constant("b", {32}, 2);
  auto mm = array("mm", DType::F32, {k(1), L, k(32)}), bias = array("bias", DType::F32, {k(1), L, k(32)});
  auto o = dim("o", 1), s = dim("s", L), n = dim("n", 32), c = dim("c", 32);
  nest("MatMul", {o, s, n}, {{mm, {d(o), d(s), d(n)}, ctx.fold({ctx.builtin(Join::Sum), {c}, nullptr}, {ctx.binary(Op::Mul, load(x, {d(o), d(s), d(c)}), load(w, {d(c), d(n)}))})}});
  auto dims = dims_of(bias);
  nest("Add", dims, {{bias, at(dims), ctx.binary(Op::Add, load(b, {d(dims[2])}), load(mm, at(dims)))}});
  // Reshape to [1, L, 4, 8], then transpose to [1, 4, L, 8], then scale.
  auto heads = array("heads", DType::F32, {k(1), L, k(4), k(8)});
  auto h = dims_of(heads);
  auto flat = ctx.add(ctx.mul(ctx.add(ctx.mul(d(h[1]), k(4)), d(h[2])), k(8)), d(h[3]));
  nest("Reshape", h, {{heads, at(h), load(bias, {k(0), ctx.floordiv(flat, k(32)), ctx.floormod(flat, k(32))})}});
  auto turned = array("turned", DType::F32, {k(1), k(4), L, k(8)});
  auto t = dims_of(turned);
  nest("Transpose", t, {{turned, at(t), load(heads, {d(t[0]), d(t[2]), d(t[1]), d(t[3])})}});
  finish(map("scaled", {turned}, [&](auto v) { return ctx.binary(Op::Mul, v[0], r(0.25)); }));
  REQUIRE_OK(optimise());
  INFO(print(fn));
  CHECK(fn.body.size() == 1);
  size_t matrices = 0;
  walk(fn.body[0].nest->writes[0].value, [&](const Expr* e) {
    if (e->op != Op::Load || fn.arrays[e->array].shape.size() != 2) return;
    ++matrices;
    CHECK(to_string(fn.arrays[e->array].layout, 2) == "[1/16][0][1%16]");
  });
  CHECK(matrices == 1);
}

TEST_CASE("keys that are repeated for heads that share them are read where they are; what is repeated along the sum or along columns is not") {
  enum class Repeated { Heads, Depth, Columns };
  for (const Repeated what : {Repeated::Heads, Repeated::Depth, Repeated::Columns}) {
    CAPTURE(static_cast<int>(what));
    Net net;
    auto& ctx = net.ctx;
    const auto k = [&](int64_t n) { return net.k(n); };
    const auto d = [&](const Dim* dim) { return net.d(dim); };
    const auto L = ctx.sym(ctx.declare_sym("L", 1)), M = ctx.sym(ctx.declare_sym("M", 1));
    const auto of = [&](Repeated r, const Expr* extent) { return r == what ? ctx.mul(extent, k(4)) : extent; };
    const auto at = [&](Repeated r, const Dim* dim) { return r == what ? ctx.floordiv(d(dim), k(4)) : d(dim); };
    const auto source = net.input("keys", DType::F32, {k(2), M, k(16)});
    // Repeated, and turned: [heads, depth, columns].
    const auto keys = net.array("repeated", DType::F32, {of(Repeated::Heads, k(2)), of(Repeated::Depth, k(16)), of(Repeated::Columns, M)});
    const auto r = net.dims_of(keys);
    net.nest("Repeat", r, {{keys, net.at(r), net.load(source, {at(Repeated::Heads, r[0]), at(Repeated::Columns, r[2]), at(Repeated::Depth, r[1])})}});
    const auto queries = net.input("queries", DType::F32, {net.fn.arrays[keys].shape[0], L, net.fn.arrays[keys].shape[1]});
    const auto scores = net.array("scores", DType::F32, {net.fn.arrays[keys].shape[0], L, net.fn.arrays[keys].shape[2]});
    const auto s = net.dims_of(scores);
    const auto c = net.dim("c", net.fn.arrays[keys].shape[1]);
    net.nest("MatMul", s, {{scores, net.at(s), ctx.fold({ctx.builtin(Join::Sum), {c}, nullptr}, {ctx.binary(Op::Mul, net.load(queries, {d(s[0]), d(s[1]), d(c)}), net.load(keys, {d(s[0]), d(c), d(s[2])}))})}});
    net.finish(scores);
    REQUIRE_OK(net.optimise());
    INFO(print(net.fn));
    CHECK(net.fn.body.size() == (what == Repeated::Heads ? 1 : 2));
    for (const Statement& statement : net.fn.body)
      ir::walk(statement.nest->writes[0].value, [&](const Expr* e) { CHECK((e->op != Op::Fold || nest::contraction_of(ctx, statement.nest->dims, e))); });
  }
}

TEST_CASE_FIXTURE(Net, "what is put together for an output alone is written there") {
  for (const bool read_twice : {false, true}) {
    Net net;
    auto& ctx = net.ctx;
    const auto L = ctx.sym(ctx.declare_sym("L", 1));
    auto x = net.input("x", DType::F32, {L, net.k(6)}), z = net.input("z", DType::F32, {L, net.k(6)});
    auto both = net.array("both", DType::F32, {net.k(2), L, net.k(6)}), y = net.array("y", DType::F32, {net.k(2), L, net.k(6)});
    for (const auto& [part, source] : {std::pair{0, x}, {1, z}}) {
      const auto dims = net.dims_of(source);
      net.nest("part", dims, {{both, {net.k(part), net.d(dims[0]), net.d(dims[1])}, net.load(source, net.at(dims))}});
    }
    const auto dims = net.dims_of(both);
    net.nest("copy", dims, {{y, net.at(dims), net.load(both, net.at(dims))}});
    net.finish(y);
    if (read_twice) net.fn.outputs.push_back(net.relu("more", both));
    REQUIRE_OK(net.optimise());
    INFO(print(net.fn));
    if (read_twice) continue;
    REQUIRE(net.fn.body.size() == 2);
    for (const Statement& s : net.fn.body) CHECK(s.nest->writes[0].array == y);
  }
}

TEST_CASE_FIXTURE(Net, "softmax keeps its sums, and nothing expensive is computed twice") {
  auto x = input("x", DType::F32, {k(4), k(20)});
  auto e = map("e", {x}, [&](auto v) { return ctx.unary(Op::Exp, v[0]); });
  auto sum = array("sum", DType::F32, {k(4)});
  auto a = dim("a", 4), c = dim("c", 20);
  nest("sum", {a}, {{sum, {d(a)}, ctx.fold({ctx.builtin(Join::Sum), {c}, nullptr}, {load(e, {d(a), d(c)})})}});
  auto y = temp_like("y", x);
  auto dims = dims_of(y);
  nest("div", dims, {{y, at(dims), ctx.binary(Op::Div, load(e, at(dims)), load(sum, {d(dims[0])}))}});
  finish(y);
  REQUIRE_OK(optimise());
  INFO(print(fn));
  REQUIRE(fn.body.size() == 3);
  // One launch, a row after the other.
  CHECK(!fn.body[0].joins);
  CHECK(fn.body[1].joins);
  CHECK(fn.body[2].joins);
}

TEST_CASE_FIXTURE(Net, "attention is one launch: the quotient of its softmax leaves the product, its heads are written side by side") {
  auto H = k(3), N = k(40), U = k(20), D = k(8);
  auto q = input("q", DType::F32, {N, H, D}), ks = input("k", DType::F32, {U, H, D}), v = input("v", DType::F32, {U, H, D});
  auto scores = array("scores", DType::F32, {H, N, U}), all = array("all", DType::F32, {H, N}), p = array("p", DType::F32, {H, N, U}),
       mixed = array("mixed", DType::F32, {H, N, D}), y = array("y", DType::F32, {N, k(24)});
  auto h = dim("h", H), n = dim("n", N), u = dim("u", U), e = dim("e", D);
  auto product = [&](const Expr* a, const Expr* b, const Dim* over) { return ctx.fold({ctx.builtin(Join::Sum), {over}, nullptr}, {ctx.binary(Op::Mul, a, b)}); };
  nest("scores", {h, n, u}, {{scores, {d(h), d(n), d(u)}, ctx.unary(Op::Abs, product(load(q, {d(n), d(h), d(e)}), load(ks, {d(u), d(h), d(e)}), e))}});
  auto sum = ctx.fold({ctx.builtin(Join::Sum), {u}, nullptr}, {load(scores, {d(h), d(n), d(u)})});
  nest("all", {h, n}, {{all, {d(h), d(n)}, ctx.binary(Op::Add, sum, r(1))}});
  nest("p", {h, n, u}, {{p, {d(h), d(n), d(u)}, ctx.binary(Op::Div, load(scores, {d(h), d(n), d(u)}), load(all, {d(h), d(n)}))}});
  nest("mixed", {h, n, e}, {{mixed, {d(h), d(n), d(e)}, product(load(p, {d(h), d(n), d(u)}), load(v, {d(u), d(h), d(e)}), u)}});
  auto c = dim("c", 24);
  nest("merge", {n, c}, {{y, {d(n), d(c)}, load(mixed, {ctx.floordiv(d(c), k(8)), d(n), ctx.floormod(d(c), k(8))})}});
  finish(y);
  REQUIRE_OK(optimise());
  INFO(print(fn));
  REQUIRE(fn.body.size() == 3);
  CHECK(fn.body[1].joins);
  CHECK(fn.body[2].joins);
  CHECK(fn.body[2].nest->writes[0].array == y);
  CHECK(fn.body[2].nest->writes[0].value->op == Op::Div);
}

TEST_CASE_FIXTURE(Net, "a factor leaves a product only if what it reads instead has no divisions in its index") {
  for (const bool divides : {false, true}) {
    Net net;
    auto width = net.ctx.sym(net.ctx.declare_sym("W", 1)), rows = net.ctx.sym(net.ctx.declare_sym("M", 1));
    auto x = net.input("x", DType::F32, {rows, width}), v = net.input("v", DType::F32, {net.ctx.mul(rows, width), net.k(40)});
    auto scaled = net.array("scaled", DType::F32, {net.k(1), net.ctx.mul(rows, width)});
    auto one = net.dim("one", 1), flat = net.dim("flat", net.ctx.mul(rows, width));
    auto y = net.array("y", DType::F32, {net.k(1), net.k(40)});
    auto z = net.input("z", DType::F32, {net.k(1), net.ctx.mul(rows, width)});
    const Expr* from = divides ? net.load(x, {net.ctx.floordiv(net.d(flat), width), net.ctx.floormod(net.d(flat), width)}) : net.load(z, {net.d(one), net.d(flat)});
    net.nest("scale", {one, flat}, {{scaled, {net.d(one), net.d(flat)}, net.ctx.binary(Op::Mul, from, net.r(0.5))}});
    auto m = net.dim("m", 1), n = net.dim("n", 40), u = net.dim("u", net.ctx.mul(rows, width));
    auto sum = net.ctx.fold({net.ctx.builtin(Join::Sum), {u}, nullptr}, {net.ctx.binary(Op::Mul, net.load(scaled, {net.d(m), net.d(u)}), net.load(v, {net.d(u), net.d(n)}))});
    net.nest("product", {m, n}, {{y, {net.d(m), net.d(n)}, sum}});
    net.finish(y);
    REQUIRE_OK(net.optimise());
    INFO(print(net.fn));
    size_t products = 0;
    for (const Statement& s : net.fn.body) products += std::ranges::count(read(s), v) > 0 && std::ranges::count(read(s), divides ? x : z) > 0;
    CHECK(products == (divides ? 0u : 1u));
  }
}

TEST_CASE_FIXTURE(Net, "a product with weights, and a fold across what lies side by side, start launches of their own") {
  auto x = input("x", DType::F32, {k(200), k(32)});
  auto w = random_constant("w", {32, 48}, 3);
  auto a = dim("a", 200), c = dim("c", 32), o = dim("o", 48), s = dim("s", 200);
  auto part = array("part", DType::F32, {k(200)}), y = array("y", DType::F32, {k(200), k(48)}), t = array("t", DType::F32, {k(200), k(32)}),
       columns = array("columns", DType::F32, {k(48)}), z = array("z", DType::F32, {k(200), k(48)});
  nest("part", {a}, {{part, {d(a)}, ctx.fold({ctx.builtin(Join::Max), {c}, nullptr}, {load(x, {d(a), d(c)})})}});
  nest("t", {a, c}, {{t, {d(a), d(c)}, ctx.unary(Op::Tanh, ctx.binary(Op::Add, load(x, {d(a), d(c)}), load(part, {d(a)})))}});
  nest("y", {a, o}, {{y, {d(a), d(o)}, ctx.fold({ctx.builtin(Join::Sum), {c}, nullptr}, {ctx.binary(Op::Mul, load(t, {d(a), d(c)}), load(w, {d(c), d(o)}))})}});
  nest("columns", {o}, {{columns, {d(o)}, ctx.fold({ctx.builtin(Join::Max), {s}, nullptr}, {load(y, {d(s), d(o)})})}});
  nest("z", {a, o}, {{z, {d(a), d(o)}, ctx.binary(Op::Sub, load(y, {d(a), d(o)}), load(columns, {d(o)}))}});
  finish(z);
  REQUIRE_OK(optimise());
  INFO(print(fn));
  REQUIRE(fn.body.size() == 5);
  CHECK(fn.body[1].joins);
  for (size_t k = 2; k < 5; ++k) CHECK(!fn.body[k].joins);
}

TEST_CASE_FIXTURE(Net, "what may broadcast at run time is computed where it is read, unless it is a sum of products") {
  const Expr *A = ctx.sym(ctx.declare_sym("A")), *B = ctx.sym(ctx.declare_sym("B")), *both = broadcast_extent(ctx, A, B);
  const Expr *step_a = broadcast_step(ctx, A), *step_b = broadcast_step(ctx, B), *step = broadcast_step(ctx, both);
  fn.checks.push_back({broadcast_condition(ctx, A, B), "broadcast"});
  auto x = input("x", DType::F32, {A}), z = input("z", DType::F32, {B});
  auto w = random_constant("w", {3, 4}, 1), u = input("u", DType::F32, {A, k(3)});
  auto t = relu("t", x), s = array("s", DType::F32, {both}), y = array("y", DType::F32, {both}), p = array("p", DType::F32, {A, k(4)}),
       q = array("q", DType::F32, {both, k(4)});
  auto i = dim("i", both), j = dim("j", both), a = dim("a", A), c = dim("c", 3), n = dim("n", 4), e = dim("e", both), o = dim("o", 4);
  nest("s", {i}, {{s, {d(i)}, ctx.binary(Op::Add, load(t, {ctx.mul(d(i), step_a)}), load(z, {ctx.mul(d(i), step_b)}))}});
  nest("y", {j}, {{y, {d(j)}, ctx.binary(Op::Mul, load(s, {ctx.mul(d(j), step)}), r(2))}});
  nest("p", {a, n}, {{p, {d(a), d(n)}, ctx.fold({ctx.builtin(Join::Sum), {c}, nullptr}, {ctx.binary(Op::Mul, load(u, {d(a), d(c)}), load(w, {d(c), d(n)}))})}});
  nest("q", {e, o}, {{q, {d(e), d(o)}, ctx.binary(Op::Mul, load(p, {ctx.mul(d(e), step_a), d(o)}), load(z, {ctx.mul(d(e), step_b)}))}});
  finish(y);
  finish(q);
  REQUIRE_OK(optimise());
  INFO(print(fn));
  CHECK(fn.body.size() == 3);  // y from x and z; the product; q
  for (auto [na, nb] : {std::pair<int64_t, int64_t>{1, 3}, {3, 3}, {3, 1}}) {
    auto vx = numbers(static_cast<size_t>(na), 1), vz = numbers(static_cast<size_t>(nb), 2);
    auto out = run({Tensor::of(DType::F32, {na}, vx), Tensor::of(DType::F32, {nb}, vz), Tensor::of(DType::F32, {na, 3}, numbers(static_cast<size_t>(na) * 3, 3))});
    REQUIRE(out.ok());
    for (size_t at = 0; at < 3; ++at)
      CHECK((*out)[0].values<float>()[at] == (std::max(vx[na == 1 ? 0 : at], 0.0f) + vz[nb == 1 ? 0 : at]) * 2);
    CHECK((*out)[1].shape == std::vector<int64_t>{3, 4});
  }
}

TEST_CASE_FIXTURE(Net, "what is read by two convolutions is stored once, equal statements are one") {
  auto x = input("x", DType::F32, {k(1), k(3), k(5), k(5)});
  auto w = random_constant("w", {4, 3, 1, 1}, 1), v = random_constant("v", {4, 3, 1, 1}, 2);
  auto a = relu("a", x), same = relu("same", x);
  finish(add("y", conv("c1", a, w, 0), conv("c2", same, v, 0)));
  REQUIRE_OK(optimise());
  INFO(print(fn));
  CHECK(fn.body.size() == 3);
  size_t relus = 0;
  for (const Statement& s : fn.body) relus += s.source == "a" || s.source == "same";
  CHECK(relus == 1);
}

TEST_CASE_FIXTURE(Net, "the largest of a window of three axes is found along one, then along the others; sums and windows far apart are not") {
  struct Case { int64_t kernel, stride; Join join; size_t statements; };
  for (const Case& c : {Case{3, 1, Join::Max, 2}, {3, 2, Join::Min, 2}, {3, 1, Join::Sum, 1}, {1, 1, Join::Max, 1}, {2, 5, Join::Max, 1}}) {
    Net net;
    const Expr *side = net.k(11), *out = net.k((11 + 2 - c.kernel) / c.stride + 1);
    auto x = net.input("x", DType::F32, {net.k(2), side, side, side}), y = net.array("y", DType::F32, {net.k(2), out, out, out});
    auto dims = net.dims_of(y);
    std::vector<const Dim*> taps;
    std::vector<const Expr*> from{net.d(dims[0])};
    const Expr* where = net.ctx.boolean(true);
    for (size_t axis = 1; axis < 4; ++axis) {
      taps.push_back(net.dim("u", c.kernel));
      from.push_back(net.ctx.sub(net.ctx.add(net.ctx.mul(net.d(dims[axis]), net.k(c.stride)), net.d(taps.back())), net.k(1)));
      where = net.ctx.logical_and(where, net.ctx.logical_and(net.ctx.binary(Op::Le, net.k(0), from.back()), net.ctx.binary(Op::Lt, from.back(), side)));
    }
    net.nest("pool", dims, {{y, net.at(dims), net.ctx.fold({net.ctx.builtin(c.join), taps, where}, {net.load(x, from)})}});
    net.finish(y);
    REQUIRE_OK(net.optimise({"split-windows"}));
    CAPTURE(c.stride);
    CHECK(net.fn.body.size() == c.statements);
  }
}
