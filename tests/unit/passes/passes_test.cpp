#include <doctest/doctest.h>

#include <algorithm>

#include "packager/ir/broadcast.h"
#include "packager/ir/numeric.h"
#include "packager/nest/facts/contraction.h"
#include "packager/nest/text/print.h"
#include "packager/nest/verify/verify.h"
#include "packager/passes/passes.h"
#include "packager/passes/util.h"
#include "packager/passes/weights/pack.h"
#include "tests/support/nests/nest_builder.h"

using namespace mlc;
using namespace mlc::ir;
using namespace mlc::nest;
using mlc::test::NestBuilder;
using mlc::test::numbers;

namespace {

struct Net : NestBuilder {
  uint32_t constant(std::string name, std::vector<int64_t> shape, const std::vector<float>& values) {
    std::vector<const Expr*> extents;
    for (int64_t e : shape) extents.push_back(k(e));
    uint32_t n = array(std::move(name), DType::F32, extents, Array::Kind::Const);
    auto bytes = std::make_shared<std::vector<std::byte>>(values.size() * 4);
    std::memcpy(bytes->data(), values.data(), bytes->size());
    fn.arrays[n].data = std::make_shared<ConstData>(ConstData{Bytes(*bytes), bytes});
    return n;
  }
  uint32_t random_constant(std::string name, std::vector<int64_t> shape, unsigned seed) {
    int64_t n = 1;
    for (int64_t e : shape) n *= e;
    return constant(std::move(name), shape, numbers(static_cast<size_t>(n), seed));
  }
  std::vector<const Dim*> dims_of(uint32_t a) {
    std::vector<const Dim*> dims;
    for (const Expr* e : fn.arrays[a].shape) dims.push_back(dim("d", e));
    return dims;
  }
  std::vector<const Expr*> at(const std::vector<const Dim*>& dims) {
    std::vector<const Expr*> out;
    for (const Dim* x : dims) out.push_back(d(x));
    return out;
  }
  uint32_t temp_like(const std::string& name, uint32_t a) { return array(name, fn.arrays[a].dtype, fn.arrays[a].shape); }
  // y = op(x), element by element.
  uint32_t map(const std::string& name, std::vector<uint32_t> xs, const std::function<const Expr*(std::vector<const Expr*>)>& op) {
    uint32_t y = temp_like(name, xs[0]);
    auto dims = dims_of(y);
    std::vector<const Expr*> loads;
    for (uint32_t x : xs) loads.push_back(load(x, at(dims)));
    nest(name, dims, {{y, at(dims), op(loads)}});
    return y;
  }
  uint32_t relu(const std::string& name, uint32_t x) {
    return map(name, {x}, [&](auto v) { return ctx.binary(Op::Max, v[0], r(0)); });
  }
  uint32_t add(const std::string& name, uint32_t a, uint32_t b) {
    return map(name, {a, b}, [&](auto v) { return ctx.binary(Op::Add, v[0], v[1]); });
  }
  uint32_t conv(const std::string& name, uint32_t x, uint32_t w, int64_t pad, int64_t groups = 1) {
    auto xs = fn.arrays[x].shape, ws = fn.arrays[w].shape;
    auto out = [&](int a) { return ctx.add(ctx.sub(ctx.add(xs[static_cast<size_t>(a)], k(2 * pad)), ws[static_cast<size_t>(a)]), k(1)); };
    uint32_t y = array(name, DType::F32, {xs[0], ws[0], out(2), out(3)});
    auto b = dim("b", xs[0]), p = dim("p", out(2)), q = dim("q", out(3)), c = dim("c", ws[1]), u = dim("u", ws[2]), v = dim("v", ws[3]);
    auto g = dim("g", groups), m = dim("m", ctx.floordiv(ws[0], k(groups)));
    const Expr* n = ctx.add(ctx.mul(d(g), m->extent), d(m));
    const Expr* channel = ctx.add(ctx.mul(d(g), ws[1]), d(c));
    if (groups == 1) {
      n = d(m);
      channel = d(c);
    }
    auto row = ctx.sub(ctx.add(d(p), d(u)), k(pad)), col = ctx.sub(ctx.add(d(q), d(v)), k(pad));
    auto inside = [&](const Expr* e, const Expr* extent) { return ctx.logical_and(ctx.binary(Op::Le, k(0), e), ctx.binary(Op::Lt, e, extent)); };
    auto product = ctx.binary(Op::Mul, load(x, {d(b), channel, row, col}), load(w, {n, d(c), d(u), d(v)}));
    auto where = ctx.logical_and(inside(row, xs[2]), inside(col, xs[3]));
    auto sum = ctx.fold({ctx.builtin(Join::Sum), {c, u, v}, where}, {product});
    std::vector<const Dim*> dims{b, m, p, q};
    if (groups > 1) dims.insert(dims.begin() + 1, g);
    nest(name, dims, {{y, {d(b), n, d(p), d(q)}, sum}});
    return y;
  }
  uint32_t batch_norm(const std::string& name, uint32_t x, int64_t channels, unsigned seed) {
    auto s = random_constant(name + ".scale", {channels}, seed), b = random_constant(name + ".b", {channels}, seed + 1),
         m = random_constant(name + ".mean", {channels}, seed + 2), var = random_constant(name + ".var", {channels}, seed + 3);
    uint32_t y = temp_like(name, x);
    auto dims = dims_of(y);
    auto c = d(dims[1]);
    auto inv = ctx.unary(Op::Sqrt, ctx.binary(Op::Add, ctx.unary(Op::Abs, load(var, {c})), r(1e-2)));
    auto value = ctx.binary(Op::Add, ctx.binary(Op::Mul, ctx.binary(Op::Div, ctx.binary(Op::Sub, load(x, at(dims)), load(m, {c})), inv), load(s, {c})), load(b, {c}));
    nest(name, dims, {{y, at(dims), value}});
    return y;
  }
  void finish(uint32_t y) { fn.outputs.push_back(y); }
  Status optimise(std::vector<std::string> pipeline = passes::default_pipeline()) {
    passes::Options o;
    o.pipeline = std::move(pipeline);
    o.check = true;
    return passes::run(ctx, fn, o);
  }
};

#define REQUIRE_OK(status)                                         \
  do {                                                             \
    Status s_ = (status);                                          \
    std::string t_ = s_.ok() ? "" : s_.message;                    \
    for (const std::string& f_ : s_.facts) t_ += "\n" + f_;        \
    REQUIRE_MESSAGE(s_.ok(), t_);                                  \
  } while (0)

}  // namespace

TEST_CASE_FIXTURE(Net, "a residual block becomes one nest per convolution, normalisation folded into the weights") {
  auto x = input("x", DType::F32, {ctx.sym(ctx.declare_sym("B", 1)), k(8), k(6), k(6)});
  auto w1 = random_constant("w1", {16, 8, 3, 3}, 1), w2 = random_constant("w2", {16, 16, 1, 1}, 2), w3 = random_constant("w3", {16, 8, 1, 1}, 3);
  auto a = relu("relu1", batch_norm("bn1", conv("conv1", x, w1, 1), 16, 10));
  auto b = batch_norm("bn2", conv("conv2", a, w2, 0), 16, 20);
  auto s = batch_norm("bn3", conv("conv3", x, w3, 0), 16, 30);
  auto y = relu("relu2", add("add", b, s));
  finish(y);
  REQUIRE_OK(optimise());
  INFO(print(fn));
  REQUIRE(fn.body.size() == 4);  // the last one copies the output, whose columns lie far apart
  CHECK(fn.body[3].nest->writes[0].value->op == Op::Load);
  size_t panels = 0;
  for (size_t n = 0; n < 3; ++n) {
    const Statement& st = fn.body[n];
    size_t folds = 0;
    walk(st.nest->writes[0].value, [&](const Expr* e) { folds += e->op == Op::Fold; });
    CHECK(folds == 1);
    // The contraction's weights lie in panels, taps outermost.
    walk(st.nest->writes[0].value, [&](const Expr* e) {
      if (nest::contraction_of(ctx, {}, e))
        for (const Expr* l : e->args[0]->args)
          if (fn.arrays[l->array].kind == Array::Kind::Const) {
            ++panels;
            CHECK(to_string(fn.arrays[l->array].layout, 4) == "[2][3][0/16][1][0%16]");
          }
    });
  }
  CHECK(panels > 0);
  // Activations between convolutions are channels-last; input and output stay as they are.
  const auto relu = std::find_if(fn.arrays.begin(), fn.arrays.end(), [](const Array& array) { return array.name == "relu1"; });
  REQUIRE(relu != fn.arrays.end());
  CHECK(to_string(relu->layout, 4) == "[0][2][3][1]");
  CHECK(fn.arrays[x].layout.is_row_major());
  CHECK(fn.arrays[y].layout.is_row_major());
  CHECK(passes::used_constants(fn).size() == 6);
}

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

TEST_CASE_FIXTURE(Net, "three channels stay planes, for whoever writes them") {
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

TEST_CASE_FIXTURE(Net, "a read at a stride that the run chooses is in range by what is checked, or refused") {
  const Expr *A = ctx.sym(ctx.declare_sym("A")), *B = ctx.sym(ctx.declare_sym("B"));
  auto x = input("x", DType::F32, {A}), y = array("y", DType::F32, {B});
  auto i = dim("i", B);
  nest("y", {i}, {{y, {d(i)}, load(x, {ctx.mul(d(i), broadcast_step(ctx, A))})}});
  finish(y);
  CHECK_FALSE(verified(ctx, fn).ok());
  fn.checks.push_back({ctx.binary(Op::Or, ctx.binary(Op::Eq, A, B), ctx.binary(Op::Eq, A, k(1))), "x broadcasts"});
  REQUIRE_OK(verified(ctx, fn));
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

TEST_CASE_FIXTURE(Net, "the verifier names every broken rule") {
  auto x = input("x", DType::F32, {k(4)});
  auto y = array("y", DType::F32, {k(4)}), z = array("z", DType::I64, {k(4)});
  auto i = dim("i", 4), j = dim("j", 3), other = dim("other", 4);
  auto problems = [&] { return verify(ctx, fn); };
  auto expect = [&](const char* what) {
    auto all = problems();
    INFO(what << " in " << (all.empty() ? "" : all[0]));
    CHECK(std::any_of(all.begin(), all.end(), [&](const std::string& s) { return s.find(what) != std::string::npos; }));
    fn.body.clear();
    fn.outputs.clear();
  };
  nest("good", {i}, {{y, {d(i)}, load(x, {d(i)})}});
  CHECK(problems().empty());
  fn.body.clear();
  nest("n", {i}, {{y, {d(i)}, load(x, {ctx.add(d(i), k(1))})}});
  expect("is not known to lie");
  nest("n", {i}, {{y, {d(i)}, load(x, {d(other)})}});
  expect("is not bound");
  nest("n", {i, j}, {{y, {d(i)}, load(x, {d(i)})}});
  expect("by every point of dim 'j'");
  nest("n", {i}, {{z, {d(i)}, load(x, {d(i)})}});
  expect("written as f32");
  nest("n", {i}, {{y, {d(i)}, load(y, {d(i)})}});
  expect("read before it is written");
  nest("n", {i}, {{x, {d(i)}, r(0)}});
  expect("is no result");
  nest("n", {i, i}, {{y, {d(i)}, r(0)}});
  expect("bound twice");
  nest("a", {i}, {{y, {d(i)}, r(0)}});
  nest("b", {i}, {{z, {d(i)}, ctx.cast(DType::I64, load(y, {d(i)}))}});
  nest("c", {i}, {{y, {d(i)}, r(1)}});
  expect("written after it was read");
  Expr bad;
  bad.op = Op::Add;
  bad.type = {DType::F32, 1};
  nest("n", {i}, {{y, {d(i)}, ctx.raw(bad, {load(x, {d(i)}), k(1)})}});
  expect("types do not fit");
  fn.outputs = {y};
  expect("never written");
  fn.arrays[y].layout.pieces = {{0, 1, 0}, {0, 1, 0}};
  expect("does not cover");
}

// Random graphs of maps, reductions and renamings: every pass keeps the answer (checked by the pass manager).
TEST_CASE("random small functions keep their meaning through all passes") {
  for (unsigned seed = 0; seed < 300; ++seed) {
    Net b;
    std::mt19937 random(seed);
    auto pick = [&](size_t n) { return static_cast<size_t>(random() % n); };
    const Expr* N = pick(2) ? b.ctx.sym(b.ctx.declare_sym("N", 1)) : b.k(3);
    std::vector<uint32_t> pool{b.input("x", DType::F32, {N, b.k(4), b.k(6)}), b.random_constant("c", {2, 4, 6}, seed)};
    if (!N->is_const()) pool.pop_back();
    int steps = 3 + static_cast<int>(pick(8));
    for (int s = 0; s < steps; ++s) {
      std::string name = "t" + std::to_string(s);
      uint32_t x = pool[pick(pool.size())];
      const Array shape_of = b.fn.arrays[x];
      auto same_shape = [&](uint32_t o) { return b.fn.arrays[o].shape == shape_of.shape; };
      std::vector<uint32_t> mates;
      for (uint32_t o : pool) if (same_shape(o)) mates.push_back(o);
      uint32_t other = mates[pick(mates.size())];
      size_t rank = shape_of.shape.size();
      switch (pick(8)) {
        case 0: pool.push_back(b.relu(name, x)); break;
        case 1: pool.push_back(b.add(name, x, other)); break;
        case 2: pool.push_back(b.map(name, {x}, [&](auto v) { return b.ctx.unary(Op::Tanh, v[0]); })); break;
        case 3: {  // reverse the axes
          std::vector<const Expr*> shape(shape_of.shape.rbegin(), shape_of.shape.rend());
          uint32_t y = b.array(name, DType::F32, shape);
          auto dims = b.dims_of(y);
          auto index = b.at(dims);
          std::reverse(index.begin(), index.end());
          b.nest(name, dims, {{y, b.at(dims), b.load(x, index)}});
          pool.push_back(y);
          break;
        }
        case 4: {  // sum over the last axis, kept with one element
          if (rank == 0) break;
          std::vector<const Expr*> shape = shape_of.shape;
          shape.back() = b.k(1);
          uint32_t y = b.array(name, DType::F32, shape);
          auto dims = b.dims_of(y);
          auto last = b.dim("r", shape_of.shape.back());
          auto index = b.at(dims);
          index.back() = b.d(last);
          b.nest(name, dims, {{y, b.at(dims), b.ctx.fold({b.ctx.builtin(pick(2) ? Join::Sum : Join::Max), {last}, nullptr}, {b.load(x, index)})}});
          pool.push_back(y);
          break;
        }
        case 5: {  // flatten everything
          std::vector<const Expr*> shape{b.ctx.product(shape_of.shape)};
          uint32_t y = b.array(name, DType::F32, shape);
          auto dims = b.dims_of(y);
          std::vector<const Expr*> index(rank);
          const Expr* rest = b.d(dims[0]);
          for (size_t k = rank; k-- > 0; rest = b.ctx.floordiv(rest, shape_of.shape[k]))
            index[k] = k == 0 ? rest : b.ctx.floormod(rest, shape_of.shape[k]);
          b.nest(name, dims, {{y, b.at(dims), b.load(x, index)}});
          pool.push_back(y);
          break;
        }
        case 6: {  // pad the first axis
          std::vector<const Expr*> shape = shape_of.shape;
          shape[0] = b.ctx.add(shape[0], b.k(2));
          uint32_t y = b.array(name, DType::F32, shape);
          auto dims = b.dims_of(y);
          auto index = b.at(dims);
          index[0] = b.ctx.sub(index[0], b.k(1));
          auto in = b.ctx.logical_and(b.ctx.binary(Op::Le, b.k(0), index[0]), b.ctx.binary(Op::Lt, index[0], shape_of.shape[0]));
          b.nest(name, dims, {{y, b.at(dims), b.ctx.select(in, b.load(x, index), b.r(0))}});
          pool.push_back(y);
          break;
        }
        case 7: {  // product with a weight along the last axis
          if (!shape_of.shape.back()->is_const() || shape_of.shape.back()->i > 64) break;
          int64_t K = shape_of.shape.back()->i;
          uint32_t w = b.random_constant(name + ".w", {K, 5}, seed);
          std::vector<const Expr*> shape = shape_of.shape;
          shape.back() = b.k(5);
          uint32_t y = b.array(name, DType::F32, shape);
          auto dims = b.dims_of(y);
          auto c = b.dim("c", K);
          auto index = b.at(dims);
          index.back() = b.d(c);
          b.nest(name, dims, {{y, b.at(dims), b.ctx.fold({b.ctx.builtin(Join::Sum), {c}, nullptr},
                  {b.ctx.binary(Op::Mul, b.load(x, index), b.load(w, {b.d(c), b.d(dims.back())}))})}});
          pool.push_back(y);
          break;
        }
      }
    }
    b.fn.outputs.push_back(pool.back());
    if (b.fn.arrays[pool.back()].kind != Array::Kind::Temp) continue;
    if (pool.size() > 3 && b.fn.arrays[pool[2]].kind == Array::Kind::Temp && pool[2] != pool.back()) b.fn.outputs.push_back(pool[2]);
    std::string before = print(b.fn);
    Status s = b.optimise();
    std::string facts;
    for (const std::string& f : s.facts) facts += "\n" + f;
    REQUIRE_MESSAGE(s.ok(), "seed " << seed << ": " << (s.ok() ? "" : s.message) << facts << "\n" << before << "\n" << print(b.fn));
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
