// All passes together: a residual block, random functions, and the verifier that stands behind each pass.
#include <doctest/doctest.h>

#include <algorithm>

#include "packager/ir/broadcast.h"
#include "packager/nest/facts/contraction.h"
#include "packager/nest/text/print.h"
#include "packager/nest/verify/verify.h"
#include "packager/passes/util.h"
#include "tests/unit/passes/net.h"

using namespace mlc;
using namespace mlc::ir;
using namespace mlc::nest;
using mlc::test::Net;

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

TEST_CASE_FIXTURE(Net, "an axis of a constant is read along a dim that the run knows, where it is checked that both are equal") {
  const Expr* L = ctx.sym(ctx.declare_sym("L"));
  auto x = input("x", DType::F32, {L}), slope = random_constant("slope", {7}, 1), y = array("y", DType::F32, {L});
  auto i = dim("i", L);
  nest("y", {i}, {{y, {d(i)}, ctx.binary(Op::Mul, load(x, {d(i)}), load(slope, {d(i)}))}});
  finish(y);
  const auto verdict = [&](const Expr* condition) {
    fn.checks = {{condition, "slopes"}};
    return verified(ctx, fn).ok();
  };
  CHECK_FALSE(verified(ctx, fn).ok());
  CHECK_FALSE(verdict(ctx.binary(Op::Eq, L, k(8))));
  CHECK_FALSE(verdict(ctx.binary(Op::Le, k(7), L)));
  CHECK(verdict(ctx.binary(Op::Le, L, k(7))));
  CHECK(verdict(ctx.binary(Op::Eq, L, k(7))));
  // No size that is tried is 7; the inputs that are given have it.
  passes::Options o;
  o.check = true;
  CHECK(passes::run(ctx, fn, o).code == Code::InputMismatch);
  o.inputs = {Tensor::zeros(DType::F32, {6})};
  CHECK(passes::run(ctx, fn, o).code == Code::InputMismatch);
  o.inputs = {Tensor::zeros(DType::F32, {7})};
  REQUIRE_OK(passes::run(ctx, fn, o));
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
