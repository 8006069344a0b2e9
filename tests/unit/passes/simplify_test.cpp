// Cuts, constants, indices and dims without divisions, equal statements (packager/passes/simplify).
#include <doctest/doctest.h>

#include "packager/ir/numeric.h"
#include "packager/nest/text/print.h"
#include "packager/passes/util.h"
#include "tests/unit/passes/net.h"

using namespace mlc;
using namespace mlc::ir;
using namespace mlc::nest;
using mlc::test::Net;
using mlc::test::numbers;

TEST_CASE_FIXTURE(Net, "a reshape of free extents, which may be zero, divides nothing") {
  auto h = ctx.sym(ctx.declare_sym("H", 0)), w = ctx.sym(ctx.declare_sym("W", 0));
  auto x = input("x", DType::F32, {k(2), k(12), h, w});
  // [2, 12, H, W] to [2, 3, 4*H*W] as of a normalisation by groups, and back to double each element.
  auto area = ctx.mul(h, w), group = ctx.mul(k(4), area);
  auto grouped = array("grouped", DType::F32, {k(2), k(3), group});
  auto g = dims_of(grouped);
  auto flat = ctx.add(ctx.mul(d(g[1]), group), d(g[2]));
  nest("Reshape", g, {{grouped, at(g), load(x, {d(g[0]), ctx.floordiv(ctx.floordiv(flat, w), h), ctx.floormod(ctx.floordiv(flat, w), h), ctx.floormod(flat, w)})}});
  auto total = array("total", DType::F32, {k(2), k(3)});
  auto n = dims_of(total);
  auto i = dim("i", group);
  nest("Sum", n, {{total, at(n), ctx.fold({ctx.builtin(Join::Sum), {i}, nullptr}, {load(grouped, {d(n[0]), d(n[1]), d(i)})})}});
  auto y = array("y", DType::F32, {k(2), k(12), h, w});
  auto o = dims_of(y);
  auto place = ctx.add(ctx.mul(ctx.add(ctx.mul(d(o[1]), h), d(o[2])), w), d(o[3]));
  nest("Back", o, {{y, at(o), ctx.binary(Op::Add, load(grouped, {d(o[0]), ctx.floordiv(place, group), ctx.floormod(place, group)}),
                                         load(total, {d(o[0]), ctx.floordiv(place, group)}))}});
  finish(y);
  const auto answers = [&](int64_t height, int64_t width) {
    Tensor given = Tensor::zeros(DType::F32, {2, 12, height, width});
    for (int64_t e = 0; e < given.elements(); ++e) ir::store_element(DType::F32, given.bytes.data(), static_cast<uint64_t>(e), {0, static_cast<double>(e % 7)});
    const std::vector<Tensor> inputs{std::move(given)};
    auto results = interpret(fn, inputs);
    REQUIRE(results.ok());
    return (*results)[0].bytes;
  };
  const std::vector<std::pair<int64_t, int64_t>> sizes{{3, 5}, {1, 1}, {4, 1}, {0, 3}};
  std::vector<std::vector<std::byte>> before;
  for (auto [height, width] : sizes) before.push_back(answers(height, width));
  REQUIRE_OK(passes::run(ctx, fn, {}));
  INFO(print(fn));
  for (size_t k = 0; k < sizes.size(); ++k) CHECK(answers(sizes[k].first, sizes[k].second) == before[k]);
  for (const Statement& s : fn.body)
    for (const Write& write : s.nest->writes)
      walk(write.value, [&](const Expr* e) { CHECK_FALSE(((e->op == Op::FloorDiv || e->op == Op::FloorMod) && !e->args[1]->is_const())); });
}

TEST_CASE_FIXTURE(Net, "two long extents stay two, though their texts are cut short alike") {
  const auto long_extent = [&](const char* symbol) {
    const Expr* e = ctx.sym(ctx.declare_sym(symbol, 0));
    for (int64_t step = 0; step < 300; ++step) e = ctx.floormod(ctx.add(ctx.mul(e, k(7)), k(step)), k(step % 2 ? 101 : 103));
    return e;
  };
  const Expr *height = long_extent("H"), *width = long_extent("W");
  REQUIRE(height != width);
  REQUIRE(to_string(height) == to_string(width));
  auto h = ctx.sym(ctx.declare_sym("H", 0)), w = ctx.sym(ctx.declare_sym("W", 0));
  input("x", DType::F32, {h, w});
  for (auto [outer, inner] : {std::pair{height, width}, {width, height}}) {  // whichever of the two comes to stand for both
    const std::string name = fn.outputs.empty() ? "a" : "b";
    auto t = array(name, DType::F32, {outer, inner});
    auto o = dims_of(t);
    nest("Numbers", o, {{t, at(o), ctx.cast(DType::F32, ctx.add(ctx.mul(d(o[0]), k(100)), d(o[1])))}});
    auto y = array(name + ".flat", DType::F32, {ctx.mul(outer, inner)});
    auto i = dims_of(y);
    nest("Reshape", i, {{y, at(i), load(t, {ctx.floordiv(d(i[0]), inner), ctx.floormod(d(i[0]), inner)})}});
    fn.outputs.insert(fn.outputs.end(), {t, y});
  }
  const auto answer = [&](int64_t rows, int64_t columns) {
    auto results = interpret(fn, std::vector<Tensor>{Tensor::zeros(DType::F32, {rows, columns})});
    REQUIRE(results.ok());
    return std::pair{(*results)[1].bytes, (*results)[3].bytes};
  };
  const std::vector<std::pair<int64_t, int64_t>> sizes{{3, 5}, {1, 2}, {4, 1}, {7, 3}};
  std::vector<decltype(answer(1, 1))> before;
  for (auto [rows, columns] : sizes) before.push_back(answer(rows, columns));
  REQUIRE(before[0].first.size() != before[1].first.size());
  REQUIRE_OK(passes::run(ctx, fn, {}));
  for (size_t n = 0; n < sizes.size(); ++n) CHECK((answer(sizes[n].first, sizes[n].second) == before[n]));
}

TEST_CASE_FIXTURE(Net, "statements that differ only far inside a large expression stay two") {
  auto x = input("x", DType::F32, {k(4)});
  auto large = [&](const std::string& name, double last) {
    return map(name, {x}, [&](auto v) {
      const Expr* e = v[0];
      for (int n = 0; n < 24; ++n) e = ctx.binary(Op::Mul, e, e);  // as text longer than any that is printed
      return ctx.binary(Op::Add, e, r(last));
    });
  };
  finish(add("y", large("a", 1), map("b", {large("c", 2)}, [&](auto v) { return ctx.binary(Op::Mul, v[0], r(3)); })));
  REQUIRE_OK(optimise());
}

TEST_CASE_FIXTURE(Net, "constants are computed, numbers replace single elements") {
  auto x = input("x", DType::F32, {k(4)});
  auto two = constant("two", {1}, {2}), v = constant("v", {4}, {1, 2, 3, 4});
  auto scaled = map("scaled", {v}, [&](auto e) { return ctx.binary(Op::Mul, e[0], load(two, {k(0)})); });
  finish(map("y", {x, scaled}, [&](auto e) { return ctx.binary(Op::Add, ctx.binary(Op::Mul, e[0], load(two, {k(0)})), e[1]); }));
  REQUIRE_OK(optimise());
  REQUIRE(fn.body.size() == 1);
  CHECK(to_string(fn.body[0].nest->writes[0].value).find("2.0") != std::string::npos);
  CHECK(passes::used_constants(fn) == std::vector<uint32_t>{scaled});
  std::vector<float> got(4);
  std::memcpy(got.data(), fn.arrays[scaled].data->bytes.data(), 16);
  CHECK(got == std::vector<float>{2, 4, 6, 8});
}

TEST_CASE("what constants take to be computed is counted over all functions, and what there is no work left for stays") {
  // Each function has `count` sums over `terms` terms of a constant, and one over few of them.
  const auto folded = [](int count, int64_t terms, double& left) {
    Net net;
    auto few = net.random_constant("few", {8}, 1), many = net.random_constant("many", {64}, 2);
    auto x = net.input("x", DType::F32, {net.k(1)});
    std::vector<uint32_t> sums{x};
    for (int k = 0; k <= count; ++k) {
      const auto y = net.array("sum" + std::to_string(k), DType::F32, {net.k(1)});
      const auto d = net.dim("k", net.k(k < count ? terms : 8));
      const auto value = net.load(k < count ? many : few, {net.ctx.floormod(net.d(d), net.k(k < count ? 64 - k : 8))});
      net.nest("sum" + std::to_string(k), {}, {{y, {net.k(0)}, net.ctx.fold({net.ctx.builtin(Join::Sum), {d}, nullptr}, {value})}});
      sums.push_back(y);
    }
    net.fn.outputs.push_back(net.map("y", sums, [&](auto e) {
      const Expr* all = e[0];
      for (size_t k = 1; k < e.size(); ++k) all = net.ctx.binary(Op::Add, all, e[k]);
      return all;
    }));
    passes::Options o;
    o.pipeline = {"fold-constants"};
    o.folding = &left;
    const size_t before = net.fn.body.size();
    REQUIRE_OK(passes::run(net.ctx, net.fn, o));
    return before - net.fn.body.size();
  };
  double much = 1e10;
  CHECK(folded(4, 1000, much) == 5);
  const double spent = 1e10 - much;
  CHECK(spent > 4000);
  double again = 1e10;
  CHECK(folded(4, 1000, again) == 5);
  CHECK(again == much);  // counted, not timed

  // Four times as many, for what two functions may take together: some are computed, and of the rest each leaves half.
  double little = spent * 4;
  const size_t first = folded(16, 1000, little), second = folded(16, 1000, little);
  CHECK(first > 0);
  CHECK(second < 17);
  CHECK(first + second < 34);
  CHECK(little >= 0);
  double none = 0;
  CHECK(folded(4, 1000, none) == 0);
  // A thousand million terms are given up before or while they are added.
  double usual = passes::kLeastFolding / 1000;
  CHECK(folded(4, 1'000'000'000, usual) == 1);
  CHECK(usual > 0);
}

TEST_CASE_FIXTURE(Net, "a constant of many elements is stored if each takes long to compute") {
  for (bool costly : {true, false}) {
    Net net;
    auto x = net.input("x", DType::F32, {net.k(200), net.k(200)});
    auto table = net.array("table", DType::F32, {net.k(200), net.k(200)});
    auto dims = net.dims_of(table);
    auto number = net.ctx.convert(Op::Cast, {DType::F32, 1}, net.ctx.mul(net.d(dims[0]), net.d(dims[1])));
    auto value = costly ? net.ctx.binary(Op::Add, net.ctx.unary(Op::Sin, number), net.ctx.unary(Op::Cos, number)) : number;
    net.nest("table", dims, {{table, net.at(dims), value}});
    net.fn.outputs.push_back(net.map("y", {x, table}, [&](auto e) { return net.ctx.binary(Op::Mul, e[0], e[1]); }));
    REQUIRE_OK(net.optimise());
    CHECK((net.fn.arrays[table].kind == Array::Kind::Const) == costly);
  }
}

TEST_CASE_FIXTURE(Net, "a dim that holds heads of 36 numbers is taken apart, one of 32 is not") {
  for (const int64_t size : {32, 36, 4}) {
    Net net;
    auto x = net.input("x", DType::F32, {net.k(8), net.k(50), net.k(size)});
    auto y = net.array("y", DType::F32, {net.k(50), net.k(8 * size)});
    auto s = net.dim("s", 50), c = net.dim("c", 8 * size);
    net.nest("merge", {s, c}, {{y, {net.d(s), net.d(c)}, net.load(x, {net.ctx.floordiv(net.d(c), net.k(size)), net.d(s), net.ctx.floormod(net.d(c), net.k(size))})}});
    net.finish(y);
    REQUIRE_OK(net.optimise({"split-dims"}));
    CAPTURE(size);
    REQUIRE(net.fn.body.size() == 1);
    CHECK(net.fn.body[0].nest->dims.size() == (size == 36 ? 3 : 2));
  }
}

TEST_CASE("a check of an index is not lost where a copy does not move along its axis") {
  for (const bool spread : {true, false}) {
    Net net;
    const uint32_t x = net.input("x", DType::F32, {net.k(1), net.k(4)}), at = net.input("at", DType::I64, {net.k(2)});
    const uint32_t t = net.array("t", DType::F32, {net.k(spread ? 3 : 1), net.k(4)}), y = net.output("y", DType::F32, {net.k(2), net.k(4)});
    const Dim *a = net.dim("a", 3), *b = net.dim("b", 4), *q = net.dim("q", 2), *c = net.dim("c", 4);
    const Expr* row = spread ? net.d(a) : net.k(0);
    net.nest("spread", spread ? std::vector<const Dim*>{a, b} : std::vector<const Dim*>{b}, {{t, {row, net.d(b)}, net.load(x, {net.k(0), net.d(b)})}});
    net.nest("gather", {q, c}, {{y, {net.d(q), net.d(c)}, net.load(t, {net.load(at, {net.d(q)}), net.d(c)}, Access::Checked)}});
    REQUIRE_OK(net.optimise());
    Tensor values = Tensor::zeros(DType::F32, {1, 4}), places = Tensor::zeros(DType::I64, {2});
    const int64_t beyond = spread ? 3 : 1;
    std::memcpy(places.bytes.data() + 8, &beyond, 8);
    CHECK_FALSE(net.run({values, places}).ok());
    const int64_t last = beyond - 1;
    std::memcpy(places.bytes.data() + 8, &last, 8);
    CHECK(net.run({values, places}).ok());
  }
}

TEST_CASE("a sum of many arrays becomes sums of few, in the same order") {
  constexpr size_t kOperands = 300;
  for (const bool balanced : {false, true}) {
    Net net;
    std::vector<Tensor> inputs;
    std::vector<const Expr*> values;
    std::vector<const Dim*> dims{net.dim("i", 3), net.dim("j", 5)};
    for (size_t k = 0; k < kOperands; ++k) {
      values.push_back(net.load(net.input("x" + std::to_string(k), DType::F32, {net.k(3), net.k(5)}), net.at(dims)));
      Tensor t = Tensor::zeros(DType::F32, {3, 5});
      const std::vector<float> some = numbers(15, static_cast<unsigned>(k));
      std::memcpy(t.bytes.data(), some.data(), t.bytes.size());
      inputs.push_back(std::move(t));
    }
    const auto sum = [&](const Expr* a, const Expr* b) { return net.ctx.binary(Op::Add, a, b); };
    const Expr* total = values[0];
    for (size_t k = 1; k < kOperands && !balanced; ++k) total = sum(total, values[k]);
    while (balanced && values.size() > 1) {
      std::vector<const Expr*> pairs;
      for (size_t k = 0; k + 1 < values.size(); k += 2) pairs.push_back(sum(values[k], values[k + 1]));
      if (values.size() % 2) pairs.push_back(values.back());
      values = std::move(pairs);
      total = values[0];
    }
    net.nest("sum", dims, {{net.output("y", DType::F32, {net.k(3), net.k(5)}), net.at(dims), total}});
    const auto before = net.run(inputs);
    REQUIRE(before.ok());
    REQUIRE_OK(net.optimise());
    for (const Statement& s : net.fn.body) CHECK(passes::read(s).size() <= 14);
    const auto after = net.run(inputs);
    REQUIRE(after.ok());
    CHECK((*before)[0].bytes == (*after)[0].bytes);
  }
}

TEST_CASE("what stands behind a choice stays there when a sum is cut") {
  Net net;
  const uint32_t y = net.output("y", DType::F32, {net.k(6)});
  const Dim* i = net.dim("i", 6);
  const Expr *inside = net.ctx.binary(Op::Lt, net.d(i), net.k(4)), *total = net.r(0);
  std::vector<Tensor> inputs;
  for (size_t k = 0; k < 60; ++k) {
    const uint32_t x = net.input("x" + std::to_string(k), DType::F32, {net.k(4)});
    total = net.ctx.binary(Op::Add, total, net.ctx.select(inside, net.load(x, {net.d(i)}), net.r(1)));
    inputs.push_back(Tensor::zeros(DType::F32, {4}));
  }
  net.nest("sum", {i}, {{y, {net.d(i)}, total}});
  REQUIRE_OK(net.optimise({"narrow"}));
  CHECK(net.fn.body.size() > 5);
  for (const Statement& s : net.fn.body) CHECK(passes::read(s).size() <= 32);
  const auto r = net.run(inputs);
  REQUIRE(r.ok());
  float last = 0;
  std::memcpy(&last, (*r)[0].bytes.data() + 20, 4);
  CHECK(last == 60);
}
