// What is done to constants (packager/passes/weights).
#include <doctest/doctest.h>

#include "packager/nest/text/print.h"
#include "packager/passes/weights/pack.h"
#include "tests/unit/passes/net.h"

using namespace mlc;
using namespace mlc::ir;
using namespace mlc::nest;
using mlc::test::Net;

TEST_CASE_FIXTURE(Net, "packing is the address of the layout, element by element") {
  struct Case {
    std::vector<int64_t> shape;
    Layout layout;
  };
  std::vector<Case> cases{{{20, 5, 3, 3}, {{{2, 1, 0}, {3, 1, 0}, {0, 16, 0}, {1, 1, 0}, {0, 1, 16}}}},
                          {{7, 33}, {{{1, 16, 0}, {0, 1, 0}, {1, 1, 16}}}},
                          {{6, 1, 3, 3}, permuted({2, 3, 1, 0})},
                          {{5}, {}},
                          {{}, {}},
                          {{3, 7}, {{{0, 1, 0}, {1, 4, 0}, {1, 2, 2}, {1, 1, 2}}}}};
  for (const Case& c : cases) {
    auto n = random_constant("c" + std::to_string(fn.arrays.size()), c.shape, 3);
    Array& a = fn.arrays[n];
    a.layout = c.layout;
    auto bytes = passes::pack(a);
    int64_t stored = stored_elements(ctx, a.layout, a.shape)->i;
    REQUIRE(bytes.size() == static_cast<size_t>(stored) * 4);
    std::vector<float> got(static_cast<size_t>(stored)), from(a.data->bytes.size() / 4), want(got.size(), 0.0f);
    std::memcpy(got.data(), bytes.data(), bytes.size());
    std::memcpy(from.data(), a.data->bytes.data(), a.data->bytes.size());
    for (size_t e = 0; e < from.size(); ++e) {
      std::vector<const Expr*> index(c.shape.size());
      int64_t rest = static_cast<int64_t>(e);
      for (size_t i = c.shape.size(); i-- > 0; rest /= c.shape[i]) index[i] = k(rest % c.shape[i]);
      want[static_cast<size_t>(address(ctx, a.layout, a.shape, index)->i)] = from[e];
    }
    CHECK(got == want);
  }
}

TEST_CASE_FIXTURE(Net, "what is computed from constants alone is derived once, as far as there is room") {
  constexpr uint64_t kPanelBytes = 6400;  // of ten columns, as of sixteen
  for (const uint64_t most : {uint64_t{0}, kPanelBytes - 1, kPanelBytes, passes::kUsualDerived}) {
    Net net;
    auto x = net.input("x", DType::F32, {net.k(10), net.k(100)});
    auto a = net.random_constant("a", {10, 100}, 1), b = net.random_constant("b", {10, 100}, 2);
    auto w = net.add("w", a, b);
    auto y = net.array("y", DType::F32, {net.k(10), net.k(10)});
    auto i = net.dim("i", 10), j = net.dim("j", 10), k = net.dim("k", 100);
    auto product = net.ctx.binary(Op::Mul, net.load(x, {net.d(i), net.d(k)}), net.load(w, {net.d(j), net.d(k)}));
    net.nest("product", {i, j}, {{y, {net.d(i), net.d(j)}, net.ctx.fold({net.ctx.builtin(Join::Sum), {k}, nullptr}, {product})}});
    net.finish(y);
    passes::Options o;
    o.pipeline = {"layout", "derive-weights", "widen"};
    o.check = true;
    o.most_derived = most;
    REQUIRE_OK(passes::run(net.ctx, net.fn, o));
    CAPTURE(most);
    CHECK((net.fn.arrays[w].kind == Array::Kind::Derived) == (most >= kPanelBytes));
    CHECK(net.fn.arrays[y].kind == Array::Kind::Temp);
  }
}

TEST_CASE_FIXTURE(Net, "what a product in f16 reads is converted once, not by each tile: copies of inputs, weights as far as there is room") {
  constexpr uint64_t kPanelBytes = 64 * 64 * 4;
  for (const uint64_t most : {kPanelBytes - 1, kPanelBytes})
    for (const bool also_moved : {false, true}) {
      Net net;
      auto x = net.input("x", DType::F16, {net.k(1), net.k(64), net.k(16), net.k(16)});
      auto w = net.array("w", DType::F16, {net.k(64), net.k(64)}, Array::Kind::Const);
      auto bytes = std::make_shared<std::vector<std::byte>>(64 * 64 * 2);
      for (size_t k = 0; k < bytes->size(); k += 2) (*bytes)[k] = static_cast<std::byte>(k * 37), (*bytes)[k + 1] = std::byte{0x2c};
      net.fn.arrays[w].data = std::make_shared<ConstData>(ConstData{Bytes(*bytes), bytes});
      auto y = net.array("y", DType::F16, net.fn.arrays[x].shape);
      auto dims = net.dims_of(y);
      auto c = net.dim("c", 64);
      const auto f32 = [&](const Expr* e) { return net.ctx.cast(DType::F32, e); };
      auto product = net.ctx.binary(Op::Mul, f32(net.load(x, {net.d(dims[0]), net.d(c), net.d(dims[2]), net.d(dims[3])})), f32(net.load(w, {net.d(dims[1]), net.d(c)})));
      const Expr* value = net.ctx.cast(DType::F16, net.ctx.fold({net.ctx.builtin(Join::Sum), {c}, nullptr}, {product}));
      if (also_moved) value = net.ctx.binary(Op::Max, value, net.load(x, net.at(dims)));
      net.nest("product", dims, {{y, net.at(dims), value}});
      net.finish(y);
      passes::Options o;
      o.pipeline = {"layout", "derive-weights", "widen"};
      o.check = true;
      o.most_derived = most;
      REQUIRE_OK(passes::run(net.ctx, net.fn, o));
      CAPTURE(most);
      CAPTURE(also_moved);
      size_t derived = 0, copies = 0;
      for (const Array& a : net.fn.arrays) {
        derived += a.kind == Array::Kind::Derived && a.dtype == DType::F32;
        copies += a.kind == Array::Kind::Temp && a.dtype == DType::F32;
      }
      CHECK(derived == (most >= kPanelBytes));
      CHECK(copies == !also_moved);
    }
}

TEST_CASE("weights that are the transpose of a table of which rows are looked up are stored once, in panels; with one element that differs they are not") {
  constexpr int64_t kRows = 300, kWidth = 64;
  for (const bool same : {true, false}) {
    Net net;
    auto at = net.input("at", DType::I64, {net.k(5)});
    std::vector<float> table = mlc::test::numbers(kRows * kWidth, 7), turned(table.size());
    for (int64_t r = 0; r < kRows; ++r)
      for (int64_t c = 0; c < kWidth; ++c) turned[static_cast<size_t>(c * kRows + r)] = table[static_cast<size_t>(r * kWidth + c)];
    if (!same) turned.back() += 1;
    auto rows = net.constant("rows", {kRows, kWidth}, table), weights = net.constant("weights", {kWidth, kRows}, turned);
    auto x = net.array("x", DType::F32, {net.k(5), net.k(kWidth)}), y = net.array("y", DType::F32, {net.k(5), net.k(kRows)});
    auto i = net.dim("i", 5), c = net.dim("c", kWidth), n = net.dim("n", kRows), k = net.dim("k", kWidth);
    const Expr* place = net.ctx.binary(Op::Min, net.ctx.binary(Op::Max, net.load(at, {net.d(i)}), net.k(0)), net.k(kRows - 1));
    net.nest("look up", {i, c}, {{x, {net.d(i), net.d(c)}, net.load(rows, {place, net.d(c)})}});
    auto product = net.ctx.binary(Op::Mul, net.load(x, {net.d(i), net.d(k)}), net.load(weights, {net.d(k), net.d(n)}));
    net.nest("product", {i, n}, {{y, {net.d(i), net.d(n)}, net.ctx.fold({net.ctx.builtin(Join::Sum), {k}, nullptr}, {product})}});
    net.finish(y);
    REQUIRE_OK(net.optimise({"share-weights", "layout"}));
    INFO(nest::print(net.fn));
    CHECK(to_string(net.fn.arrays[rows].layout, 2) == (same ? "[0/16][1][0%16]" : "[0][1]"));
    REQUIRE(net.fn.body.size() == 2);
    bool reads_weights = false;
    ir::walk(net.fn.body[1].nest->writes[0].value, [&](const Expr* e) { reads_weights |= e->op == Op::Load && e->array == weights; });
    CHECK(reads_weights != same);
  }
}
