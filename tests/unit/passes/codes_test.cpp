// Products of quantised arrays: what DequantizeLinear made of codes is multiplied as codes.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "packager/ir/numeric.h"
#include "packager/nest/facts/contraction.h"
#include "packager/nest/interpret/interpret.h"
#include "packager/nest/text/print.h"
#include "packager/passes/passes.h"
#include "packager/passes/util.h"
#include "tests/support/nests/nests.h"

using namespace mlc;
using ir::Expr;
using ir::Op;
using test::NestMaker;

namespace {

struct Quantised : NestMaker {
  std::mt19937 rng{5};
  explicit Quantised(ir::Context& ctx) : NestMaker(ctx) {}

  uint32_t constant(const std::string& name, DType t, const std::vector<int64_t>& shape) {
    std::vector<const Expr*> extents;
    for (int64_t e : shape) extents.push_back(n(e));
    const uint32_t a = array(name, t, extents, nest::Array::Kind::Const);
    auto bytes = std::make_shared<std::vector<std::byte>>(random(t, shape).bytes);
    f.arrays[a].data = std::make_shared<nest::ConstData>(nest::ConstData{Bytes(*bytes), bytes});
    return a;
  }
  nest::Tensor random(DType t, std::vector<int64_t> shape) {
    nest::Tensor x = nest::Tensor::zeros(t, std::move(shape));
    for (int64_t k = 0; k < x.elements(); ++k)
      ir::store_element(t, x.bytes.data(), static_cast<uint64_t>(k), {static_cast<int64_t>(rng() % 256), 0.01 + static_cast<double>(rng() % 100) / 1000});
    return x;
  }
  // y = (f32(x) - zero) * scale, of an axis where these are arrays.
  uint32_t dequantised(uint32_t x, double zero, const Expr* scale) {
    const uint32_t y = array(f.arrays[x].name + ", dequantised", DType::F32, f.arrays[x].shape, nest::Array::Kind::Temp);
    dims.clear();
    std::vector<const Expr*> index;
    for (const Expr* e : f.arrays[x].shape) {
      dims.push_back(dim("d", e));
      index.push_back(at(dims.back()));
    }
    if (!scale) scale = load(constant("scales", DType::F32, {f.arrays[x].shape.back()->i}), {index.back()});
    const Expr* code = ctx.binary(Op::Sub, ctx.cast(DType::F32, load(x, index)), ctx.number(zero, DType::F32));
    map(dims, y, index, ctx.binary(Op::Mul, code, scale), "DequantizeLinear");
    return y;
  }
  uint32_t product(uint32_t x, uint32_t w, const Expr* K) {
    const Expr *M = f.arrays[x].shape[0], *N = f.arrays[w].shape[1];
    const uint32_t y = output("y", DType::F32, {M, N});
    auto m = dim("m", M), c = dim("n", N), k = dim("k", K);
    map({m, c}, y, {at(m), at(c)}, fold(ir::Join::Sum, {k}, ctx.binary(Op::Mul, load(x, {at(m), at(k)}), load(w, {at(k), at(c)}))), "MatMul");
    return y;
  }
  const Expr* real(double v) { return ctx.number(v, DType::F32); }
  // The type in which products are summed, of all in the function.
  std::vector<DType> sums() {
    std::vector<DType> found;
    for (const nest::Statement& s : f.body)
      passes::for_roots(s, [&](const Expr* root) {
        ir::walk(root, [&](const Expr* e) {
          if (auto c = nest::contraction_of(ctx, s.nest->dims, e)) found.push_back(c->acc());
        });
      });
    return found;
  }
  std::vector<nest::Tensor> answers(const std::vector<nest::Tensor>& inputs) {
    auto r = nest::interpret(f, inputs);
    REQUIRE_MESSAGE(r.ok(), (r.ok() ? "" : r.status().text()));
    return std::move(*r);
  }
  void run() {
    const Status s = passes::run(ctx, f, {});
    REQUIRE_MESSAGE(s.ok(), s.text());
  }

  std::vector<const ir::Dim*> dims;
};

}  // namespace

TEST_CASE("a product of dequantised arrays is summed in integers, their scales outside") {
  for (DType activations : {DType::U8, DType::I8})
    for (DType weights : {DType::U8, DType::I8})
      for (double zero : {0.0, 3.0})
        for (int64_t K : {2, 7, 64}) {
          ir::Context ctx;
          Quantised net(ctx);
          const uint32_t x = net.array("x", activations, {net.n(5), net.n(K)}), w = net.constant("w", weights, {K, 19});
          net.product(net.dequantised(x, zero, net.real(0.02)), net.dequantised(w, 2 * zero, nullptr), net.n(K));
          const std::vector<nest::Tensor> inputs{net.random(activations, {5, K})};
          const auto want = net.answers(inputs);
          net.run();
          INFO(nest::print(net.f));
          CHECK(net.sums() == std::vector{DType::I32});
          const auto got = net.answers(inputs);
          // Each term is at most 258*0.02 * 262*0.11.
          const double bound = std::ldexp(static_cast<double>(K) * 258 * 0.02 * 262 * 0.11, -20);
          for (int64_t e = 0; e < want[0].elements(); ++e) {
            const double a = ir::load_element(DType::F32, want[0].bytes.data(), static_cast<uint64_t>(e)).f;
            CHECK(std::abs(a - ir::load_element(DType::F32, got[0].bytes.data(), static_cast<uint64_t>(e)).f) <= bound);
          }
        }
}

TEST_CASE("a convolution of codes with few channels reads a copy with its border, in whole groups of taps; one with many does not") {
  for (const int64_t channels : {1, 2, 3, 4})
    for (const int64_t kernel : {3, 4, 5}) {
      ir::Context ctx;
      Quantised net(ctx);
      const Expr *H = ctx.sym(ctx.declare_sym("H", 0)), *C = net.n(channels), *K = net.n(kernel);
      const uint32_t x = net.array("x", DType::U8, {C, H, net.n(9)}), w = net.constant("w", DType::I8, {8, channels, kernel, kernel});
      const uint32_t y = net.output("y", DType::I32, {net.n(8), H, net.n(9)});
      auto m = net.dim("m", net.n(8)), p = net.dim("p", H), q = net.dim("q", net.n(9)), c = net.dim("c", C), u = net.dim("u", K), v = net.dim("v", K);
      const auto i32 = [&](const Expr* e) { return ctx.cast(DType::I32, e); };
      const Expr *row = ctx.add(ctx.add(net.at(p), net.at(u)), net.n(-1)), *column = ctx.add(ctx.add(net.at(q), net.at(v)), net.n(-1));
      const Expr* product = ctx.binary(Op::Mul, ctx.binary(Op::Sub, i32(net.load(x, {net.at(c), row, column})), ctx.integer(9, DType::I32)),
                                       i32(net.load(w, {net.at(m), net.at(c), net.at(u), net.at(v)})));
      const Expr* where = ctx.binary(Op::And, net.within(row, H), net.within(column, net.n(9)));
      net.map({m, p, q}, y, {net.at(m), net.at(p), net.at(q)}, net.fold(ir::Join::Sum, {c, u, v}, product, where), "conv");
      std::vector<std::vector<nest::Tensor>> inputs, want;
      for (const int64_t height : {0, 1, 6}) {
        inputs.push_back({net.random(DType::U8, {channels, height, 9})});
        want.push_back(net.answers(inputs.back()));
      }
      net.run();
      INFO(nest::print(net.f));
      for (size_t k = 0; k < inputs.size(); ++k) CHECK(net.answers(inputs[k])[0].bytes == want[k][0].bytes);
      bool is_copied = false, is_restricted = false;
      int64_t longest = 0;
      for (const nest::Statement& s : net.f.body)
        passes::for_roots(s, [&](const Expr* root) {
          is_copied |= root->op == Op::Select && root->type.dtype == DType::U8;
          ir::walk(root, [&](const Expr* e) {
            const auto found = nest::contraction_of(ctx, s.nest->dims, e);
            if (!found) return;
            is_restricted |= found->a.inside || found->b.inside || e->fold->where;
            for (const ir::Dim* d : e->fold->dims) longest = std::max(longest, d->extent->i);
          });
        });
      CHECK(is_copied == (channels < 4));
      CHECK(is_restricted == (channels >= 4));
      CHECK(longest == (channels < 4 ? (kernel + 3) / 4 * 4 : std::max(channels, kernel)));
    }
}

TEST_CASE("the border of a picture is read by no sum beside a product with weights of the run") {
  for (const int64_t zero : {0, 9})
    for (const int64_t other : {0, 122}) {
      ir::Context ctx;
      Quantised net(ctx);
      const Expr *C = net.n(8), *K = net.n(3), *side = net.n(5);
      const uint32_t x = net.array("x", DType::U8, {C, side, side}), w = net.array("w", DType::U8, {net.n(16), C, K, K});
      const uint32_t y = net.output("y", DType::I32, {net.n(16), side, side});
      auto m = net.dim("m", net.n(16)), p = net.dim("p", side), q = net.dim("q", side), c = net.dim("c", C), u = net.dim("u", K), v = net.dim("v", K);
      const auto number = [&](uint32_t array, std::vector<const Expr*> index, int64_t less) {
        return ctx.binary(Op::Sub, ctx.cast(DType::I32, net.load(array, std::move(index))), ctx.integer(less, DType::I32));
      };
      const Expr *row = ctx.add(ctx.add(net.at(p), net.at(u)), net.n(-1)), *column = ctx.add(ctx.add(net.at(q), net.at(v)), net.n(-1));
      const Expr* product = ctx.binary(Op::Mul, number(x, {net.at(c), row, column}, zero), number(w, {net.at(m), net.at(c), net.at(u), net.at(v)}, other));
      const Expr* where = ctx.binary(Op::And, net.within(row, side), net.within(column, side));
      net.map({m, p, q}, y, {net.at(m), net.at(p), net.at(q)}, net.fold(ir::Join::Sum, {c, u, v}, product, where), "conv");
      const std::vector<nest::Tensor> inputs{net.random(DType::U8, {8, 5, 5}), net.random(DType::U8, {16, 8, 3, 3})};
      const auto want = net.answers(inputs);
      const Status s = passes::run(ctx, net.f, {.check = true});  // index ranges
      INFO(nest::print(net.f));
      REQUIRE_MESSAGE(s.ok(), s.text());
      CHECK(net.answers(inputs)[0].bytes == want[0].bytes);
      // The picture has the condition, and the weights are what is packed.
      bool is_padded = false;
      for (const nest::Statement& made : net.f.body)
        passes::for_roots(made, [&](const Expr* root) {
          ir::walk(root, [&](const Expr* e) {
            const auto found = nest::contraction_of(ctx, made.nest->dims, e);
            is_padded |= found && ((found->a.inside && found->a.load->array == x) || (found->b.inside && found->b.load->array == x));
          });
        });
      CHECK(is_padded == (zero != 0));
    }
}

TEST_CASE("a product of codes is stored as it is where its columns are taken apart, however few they are") {
  for (const bool quantised : {false, true}) {
    ir::Context ctx;
    Quantised net(ctx);
    const uint32_t x = net.array("x", quantised ? DType::U8 : DType::F32, {net.n(5), net.n(24)});
    const uint32_t w = net.constant("w", quantised ? DType::I8 : DType::F32, {24, 9});
    const uint32_t y = net.array("y", DType::F32, {net.n(5), net.n(9)}, nest::Array::Kind::Temp);
    const uint32_t real_x = quantised ? net.dequantised(x, 9, net.real(0.02)) : x, real_w = quantised ? net.dequantised(w, 0, net.real(0.5)) : w;
    auto m = net.dim("m", net.n(5)), c = net.dim("n", net.n(9)), k = net.dim("k", net.n(24));
    net.map({m, c}, y, {net.at(m), net.at(c)},
            net.fold(ir::Join::Sum, {k}, ctx.binary(Op::Mul, net.load(real_x, {net.at(m), net.at(k)}), net.load(real_w, {net.at(k), net.at(c)}))), "MatMul");
    const uint32_t z = net.output("z", DType::F32, {net.n(15), net.n(3)});
    auto h = net.dim("h", net.n(5)), p = net.dim("p", net.n(3)), q = net.dim("q", net.n(3));
    const auto joined = [&](const ir::Dim* outer, const ir::Dim* inner) { return ctx.add(ctx.mul(net.at(outer), net.n(3)), net.at(inner)); };
    net.map({h, p, q}, z, {joined(h, p), net.at(q)}, net.load(y, {net.at(h), joined(p, q)}), "DepthToSpace");
    net.run();
    INFO(nest::print(net.f));
    const auto reads_x = [&](const nest::Statement& s) { return std::ranges::count(nest::read(s), x) > 0; };
    const auto writes_z = [&](const nest::Statement& s) { return std::ranges::count(nest::written(s), z) > 0; };
    CHECK(std::ranges::any_of(net.f.body, [&](const nest::Statement& s) { return reads_x(s) && writes_z(s); }) == !quantised);
  }
}

TEST_CASE("sums that i32 may not hold, and of lengths that nobody knows, stay sums of numbers") {
  for (bool free : {true, false}) {
    ir::Context ctx;
    Quantised net(ctx);
    const Expr* K = free ? ctx.sym(ctx.declare_sym("K", 1)) : net.n(40000);
    const uint32_t x = net.array("x", DType::U8, {net.n(2), K}), w = net.array("w", DType::U8, {K, net.n(8)});
    net.product(net.dequantised(x, 1, net.real(0.02)), net.dequantised(w, 1, net.real(0.5)), K);
    net.run();
    CHECK(net.sums() == std::vector{DType::F32});
  }
}

TEST_CASE("a scale along what is summed over does not leave the sum") {
  ir::Context ctx;
  Quantised net(ctx);
  const uint32_t x = net.array("x", DType::U8, {net.n(2), net.n(16)}), w = net.constant("w", DType::U8, {16, 8});
  net.product(net.dequantised(x, 1, nullptr), net.dequantised(w, 1, net.real(0.5)), net.n(16));
  net.run();
  for (DType t : net.sums()) CHECK(t == DType::F32);
}

TEST_CASE("constant scales of plain numbers leave a sum of products") {
  ir::Context ctx;
  Quantised net(ctx);
  const uint32_t x = net.array("x", DType::F32, {net.n(4), net.n(6)}), w = net.array("w", DType::F32, {net.n(6), net.n(8)});
  const uint32_t y = net.output("y", DType::F32, {net.n(4), net.n(8)});
  auto m = net.dim("m", net.n(4)), c = net.dim("n", net.n(8)), k = net.dim("k", net.n(6));
  const Expr* left = ctx.binary(Op::Mul, net.load(x, {net.at(m), net.at(k)}), net.real(0.5));
  net.map({m, c}, y, {net.at(m), net.at(c)}, net.fold(ir::Join::Sum, {k}, ctx.binary(Op::Mul, left, net.load(w, {net.at(k), net.at(c)}))));
  net.run();
  const Expr* value = net.f.body[0].nest->writes[0].value;
  CHECK(value->op == Op::Mul);
  bool plain = false;
  ir::walk(value, [&](const Expr* e) {
    if (auto p = nest::contraction_of(ctx, {}, e)) plain = p->is_plain();
  });
  CHECK(plain);
}

TEST_CASE("activations of i8 that only products and maps use lie in memory as u8, with the same numbers") {
  ir::Context ctx;
  Quantised net(ctx);
  const uint32_t given = net.array("x", DType::I8, {net.n(5), net.n(12)}), made = net.array("made", DType::I8, {net.n(5), net.n(12)}, nest::Array::Kind::Temp);
  auto a = net.dim("a", net.n(5)), b = net.dim("b", net.n(12));
  net.map({a, b}, made, {net.at(a), net.at(b)}, ctx.binary(Op::BitXor, net.load(given, {net.at(a), net.at(b)}), ctx.integer(3, DType::I8)));
  net.product(net.dequantised(made, -128, net.real(0.02)), net.dequantised(net.constant("w", DType::I8, {12, 16}), 0, net.real(0.5)), net.n(12));
  const uint32_t z = net.output("z", DType::I8, {net.n(5), net.n(12)});
  net.map({a, b}, z, {net.at(a), net.at(b)}, ctx.binary(Op::Max, net.load(made, {net.at(a), net.at(b)}), ctx.integer(0, DType::I8)));
  const std::vector<nest::Tensor> inputs{net.random(DType::I8, {5, 12})};
  const auto want = net.answers(inputs);
  net.run();
  INFO(nest::print(net.f));
  CHECK(net.f.arrays[made].dtype == DType::U8);
  const auto got = net.answers(inputs);
  CHECK(want[1].bytes == got[1].bytes);
}

TEST_CASE("who takes dequantised elements one after the other reads the codes") {
  ir::Context ctx;
  Quantised net(ctx);
  const uint32_t x = net.array("x", DType::U8, {net.n(5), net.n(12)}), real = net.dequantised(x, 9, net.real(0.02));
  for (const char* name : {"y", "z"}) {
    const uint32_t out = net.output(name, DType::F32, {net.n(5), net.n(12)});
    auto a = net.dim("a", net.n(5)), b = net.dim("b", net.n(12));
    net.map({a, b}, out, {net.at(a), net.at(b)}, ctx.binary(Op::Max, net.load(real, {net.at(a), net.at(b)}), net.real(name[0])));
  }
  const std::vector<nest::Tensor> inputs{net.random(DType::U8, {5, 12})};
  const auto want = net.answers(inputs);
  net.run();
  INFO(nest::print(net.f));
  CHECK(net.f.body.size() == 2);
  const auto got = net.answers(inputs);
  for (size_t k = 0; k < 2; ++k) CHECK(want[k].bytes == got[k].bytes);
}
