// How arrays lie: what contractions and gathers ask of what they read (packager/passes/layout.cpp).
#include <doctest/doctest.h>

#include "packager/nest/text/print.h"
#include "tests/unit/passes/net.h"

using namespace mlc;
using namespace mlc::ir;
using namespace mlc::nest;
using mlc::test::Net;

TEST_CASE_FIXTURE(Net, "inputs and outputs are copied where contractions would go across their grain, and only if that is worth a launch") {
  for (int64_t channels : {4, 64})
    for (int64_t size : {4, 32}) {
      Net net;
      auto x = net.input("x", DType::F32, {net.k(1), net.k(channels), net.k(size), net.k(size)});
      auto w = net.random_constant("w", {channels, channels, 3, 3}, 1);
      auto y = net.relu("y", net.add("add", net.conv("conv", x, w, 1), x));
      net.finish(y);
      REQUIRE_OK(net.optimise(passes::without_forms(passes::default_pipeline())));
      CHECK(net.fn.body.size() == (channels == 64 && size == 32 ? 3 : 1));
      CHECK(net.fn.arrays[x].layout.is_row_major());
      CHECK(net.fn.arrays[y].layout.is_row_major());
    }
}

TEST_CASE_FIXTURE(Net, "what is gathered for all of a long dim lies with that dim innermost") {
  auto x = input("x", DType::F32, {k(1), k(32), k(64), k(64)}), at = input("at", DType::I64, {k(500), k(2)});
  auto y = array("y", DType::F32, {k(500), k(32)});
  auto q = dim("q", 500), c = dim("c", 32);
  const auto place = [&](int64_t axis) {
    return ctx.binary(Op::Min, ctx.binary(Op::Max, load(at, {d(q), k(axis)}), k(0)), k(63));
  };
  nest("gather", {q, c}, {{y, {d(q), d(c)}, load(x, {k(0), d(c), place(0), place(1)})}});
  finish(y);
  REQUIRE_OK(optimise());
  INFO(print(fn));
  REQUIRE(fn.body.size() == 2);
  CHECK(to_string(fn.arrays.back().layout, 4) == "[0][2][3][1]");
  CHECK(fn.arrays[x].layout.is_row_major());
}

TEST_CASE_FIXTURE(Net, "a pass of a resampling, whose places along one axis are a table, copies neither input nor output") {
  auto x = input("x", DType::F32, {k(1), k(32), k(64), k(64)}), from = input("from", DType::I64, {k(128)});
  auto weight = random_constant("weight", {2, 128}, 1);
  auto y = array("y", DType::F32, {k(1), k(32), k(64), k(128)});
  auto c = dim("c", 32), h = dim("h", 64), w = dim("w", 128), t = dim("t", 2);
  auto place = ctx.binary(Op::Min, ctx.binary(Op::Max, ctx.add(load(from, {d(w)}), d(t)), k(0)), k(63));
  auto product = ctx.binary(Op::Mul, load(x, {k(0), d(c), d(h), place}), load(weight, {d(t), d(w)}));
  nest("pass", {c, h, w}, {{y, {k(0), d(c), d(h), d(w)}, ctx.fold({ctx.builtin(Join::Sum), {t}, nullptr}, {product})}});
  finish(y);
  REQUIRE_OK(optimise());
  INFO(print(fn));
  CHECK(fn.body.size() == 1);
}

TEST_CASE_FIXTURE(Net, "depthwise weights lie by taps, and the window votes for channels last") {
  auto x = input("x", DType::F32, {k(1), k(8), k(6), k(6)});
  auto w = random_constant("w", {8, 1, 3, 3}, 1), w1 = random_constant("w1", {8, 8, 1, 1}, 2);
  auto t = relu("t", conv("conv", x, w1, 0));
  finish(relu("y", conv("dw", t, w, 1, 8)));
  REQUIRE_OK(optimise());
  INFO(print(fn));
  REQUIRE(fn.body.size() == 2);
  CHECK(to_string(fn.arrays[w].layout, 4) == "[2][3][1][0]");
  CHECK(to_string(fn.arrays[t].layout, 4) == "[0][2][3][1]");
}

TEST_CASE_FIXTURE(Net, "weights of few columns lie with k innermost, and their input has its channels last") {
  for (int64_t columns : {1, 3, 5}) {
    Net net;
    auto x = net.input("x", DType::F32, {net.k(1), net.k(8), net.k(6), net.k(6)});
    auto w = net.random_constant("w", {columns, 16, 3, 3}, 1), w1 = net.random_constant("w1", {16, 8, 1, 1}, 2);
    auto t = net.relu("t", net.conv("conv", x, w1, 0));
    net.finish(net.relu("y", net.conv("few", t, w, 1)));
    REQUIRE_OK(net.optimise());
    CAPTURE(columns);
    CHECK(to_string(net.fn.arrays[w].layout, 4) == (columns < 5 ? "[2][3][0][1]" : "[2][3][0/16][1][0%16]"));
    CHECK(to_string(net.fn.arrays[t].layout, 4) == "[0][2][3][1]");
  }
}

TEST_CASE_FIXTURE(Net, "of several axes that only the weights know the longest is N, the others tell apart matrices") {
  auto x = input("x", DType::F32, {k(9), k(12)});
  auto w = random_constant("w", {2, 48, 12}, 1);
  auto s = dim("s", k(9)), direction = dim("d", 2), g = dim("g", 48), i = dim("i", 12);
  uint32_t y = array("y", DType::F32, {k(9), k(2), k(48)});
  auto sum = ctx.fold({ctx.builtin(Join::Sum), {i}, nullptr},
                      {ctx.binary(Op::Mul, load(x, {d(s), d(i)}), load(w, {d(direction), d(g), d(i)}))});
  nest("product", {s, direction, g}, {{y, {d(s), d(direction), d(g)}, sum}});
  finish(y);
  REQUIRE_OK(optimise());
  CHECK(to_string(fn.arrays[w].layout, 3) == "[0][1/16][2][1%16]");
}

TEST_CASE_FIXTURE(Net, "three channels stay planes, whatever writes them") {
  for (int64_t channels : {3, 8}) {
    Net net;
    auto x = net.input("x", DType::F32, {net.k(1), net.k(channels), net.k(6), net.k(6)});
    auto read_twice = net.relu("t", x);
    auto y = net.conv("conv", read_twice, net.random_constant("w", {16, channels, 3, 3}, 1), 1);
    net.fn.outputs = {read_twice, y};
    auto t = net.map("u", {read_twice}, [&](auto e) { return net.ctx.unary(Op::Exp, e[0]); });
    net.finish(net.relu("z", net.conv("other", t, net.random_constant("v", {16, channels, 3, 3}, 2), 1)));
    REQUIRE_OK(net.optimise());
    CAPTURE(channels);
    CHECK(net.fn.arrays[t].layout.is_row_major() == (channels == 3));
  }
}

TEST_CASE_FIXTURE(Net, "scores have their keys side by side also where a head is a part of a row") {
  auto H = k(3), N = ctx.sym(ctx.declare_sym("N", 1)), D = k(8);
  auto q = input("q", DType::F32, {k(1), N, k(24)}), ks = input("k", DType::F32, {k(1), H, N, D}), y = array("y", DType::F32, {k(1), H, N, N});
  auto o = dim("o", 1), h = dim("h", H), n = dim("n", N), u = dim("u", N), e = dim("e", D);
  const Expr* head = ctx.add(ctx.mul(d(h), k(8)), d(e));
  auto scores = array("scores", DType::F32, {k(1), H, N, N});
  nest("scores", {o, h, n, u}, {{scores, {d(o), d(h), d(n), d(u)}, ctx.fold({ctx.builtin(Join::Sum), {e}, nullptr}, {ctx.binary(Op::Mul, load(q, {d(o), d(n), head}), load(ks, {d(o), d(h), d(u), d(e)}))})}});
  auto total = array("total", DType::F32, {k(1), H, N});
  auto t = dims_of(total);
  auto r = dim("r", N);
  nest("total", t, {{total, at(t), ctx.fold({ctx.builtin(Join::Sum), {r}, nullptr}, {load(scores, {d(t[0]), d(t[1]), d(t[2]), d(r)})})}});
  auto dims = dims_of(y);
  nest("part", dims, {{y, at(dims), ctx.binary(Op::Div, load(scores, at(dims)), load(total, {d(dims[0]), d(dims[1]), d(dims[2])}))}});
  finish(y);
  REQUIRE_OK(optimise());
  INFO(print(fn));
  CHECK(fn.arrays[scores].layout.is_row_major());
}
