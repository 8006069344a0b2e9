// Products of codes of 8 bits, from the text of the operator to the kernel: zero points, padding, signs and sizes of all kinds.
#include <random>

#include "packager/nest/interpret.h"
#include "packager/nest/print.h"
#include "packager/passes/passes.h"
#include "tests/support/lowered.h"
#include "tests/support/nests.h"

using namespace mlc;
using ir::Expr;
using ir::Op;
using test::NestMaker;

namespace {

struct Case {
  int64_t n = 1, c = 8, m = 16, h = 5, w = 6, kernel = 3, stride = 1, pad = 1, group = 1;
  DType activations = DType::U8, weights = DType::U8;
  int zero_a = 0, zero_w = 128;
  bool zero_per_channel = false, free_extents = false, produced = true;
  int64_t side = 1;  // columns go to places of side x side, as DepthToSpace does it
};

class CodeNet : public NestMaker {
 public:
  CodeNet(ir::Context& ctx, std::mt19937& rng) : NestMaker(ctx), rng_(rng) {}

  uint32_t constant(const std::string& name, DType t, const std::vector<int64_t>& shape, int64_t low, int64_t high) {
    std::vector<const Expr*> extents;
    for (int64_t e : shape) extents.push_back(n(e));
    const uint32_t a = array(name, t, extents, nest::Array::Kind::Const);
    nest::Tensor values = nest::Tensor::zeros(t, shape);
    for (int64_t k = 0; k < values.elements(); ++k)
      ir::store_element(t, values.bytes.data(), static_cast<uint64_t>(k), {std::uniform_int_distribution<int64_t>(low, high)(rng_), 0});
    auto bytes = std::make_shared<std::vector<std::byte>>(std::move(values.bytes));
    f.arrays[a].data = std::make_shared<nest::ConstData>(nest::ConstData{Bytes(*bytes), bytes});
    return a;
  }
  const Expr* i32(const Expr* e) { return ctx.cast(DType::I32, e); }

  // y = b + sum (x - zx) * (w - zw), as QLinearConv and ConvInteger say it.
  void conv(const Case& p) {
    const Expr* H = p.free_extents ? ctx.sym(ctx.declare_sym("H", 1)) : n(p.h);
    const Expr* W = p.free_extents ? ctx.sym(ctx.declare_sym("W", 1)) : n(p.w);
    const auto out = [&](const Expr* in) { return ctx.add(ctx.floordiv(ctx.add(in, n(2 * p.pad - p.kernel)), n(p.stride)), n(1)); };
    uint32_t x = array("x", p.activations, {n(p.n), n(p.c), H, W});
    if (p.produced) {  // by the network, in the layout that suits
      const uint32_t made = array("made", p.activations, f.arrays[x].shape, nest::Array::Kind::Temp);
      std::vector<const ir::Dim*> dims;
      std::vector<const Expr*> index;
      for (const Expr* e : f.arrays[x].shape) {
        dims.push_back(dim("d", e));
        index.push_back(at(dims.back()));
      }
      map(dims, made, index, ctx.binary(Op::BitXor, load(x, index), ctx.integer(5, p.activations)));
      x = made;
    }
    const int64_t low = p.weights == DType::I8 ? -128 : 0;
    const uint32_t w = constant("w", p.weights, {p.m, p.c / p.group, p.kernel, p.kernel}, low, low + 255);
    const uint32_t b = constant("b", DType::I32, {p.m}, -1000, 1000);
    const uint32_t z = p.zero_per_channel ? constant("z", p.weights, {p.m}, low, low + 255) : 0;
    const uint32_t y = output("y", DType::I32, {n(p.n), n(p.m / (p.side * p.side)), ctx.mul(out(H), n(p.side)), ctx.mul(out(W), n(p.side))});
    auto dn = dim("n", n(p.n)), dg = dim("g", n(p.group)), dm = dim("m", n(p.m / p.group)), dp = dim("p", out(H)), dq = dim("q", out(W)),
         dc = dim("c", n(p.c / p.group)), du = dim("u", n(p.kernel)), dv = dim("v", n(p.kernel));
    const auto place = [&](const ir::Dim* o, const ir::Dim* k) { return ctx.add(ctx.add(ctx.mul(at(o), n(p.stride)), at(k)), n(-p.pad)); };
    const Expr *ih = place(dp, du), *iw = place(dq, dv);
    const Expr* channel = p.group == 1 ? at(dc) : ctx.add(ctx.mul(at(dg), n(p.c / p.group)), at(dc));
    auto ds = dim("s", n(p.side)), dt = dim("t", n(p.side));
    const Expr* column = p.side > 1     ? ctx.add(ctx.mul(at(ds), n(p.side)), at(dt))
                         : p.group == 1 ? at(dm)
                                        : ctx.add(ctx.mul(at(dg), n(p.m / p.group)), at(dm));
    const Expr* zero = p.zero_per_channel ? i32(load(z, {column})) : ctx.integer(p.zero_w, DType::I32);
    const Expr* code = ctx.binary(Op::Sub, i32(load(x, {at(dn), channel, ih, iw})), ctx.integer(p.zero_a, DType::I32));
    const Expr* weight = ctx.binary(Op::Sub, i32(load(w, {column, at(dc), at(du), at(dv)})), zero);
    const Expr* where = p.pad ? ctx.binary(Op::And, within(ih, H), within(iw, W)) : nullptr;
    const Expr* sum = fold(ir::Join::Sum, {dc, du, dv}, ctx.binary(Op::Mul, code, weight), where);
    const Expr* value = ctx.binary(Op::Add, load(b, {column}), sum);
    if (p.side > 1) map({dn, dp, ds, dq, dt}, y, {at(dn), n(0), ctx.add(ctx.mul(at(dp), n(p.side)), at(ds)), ctx.add(ctx.mul(at(dq), n(p.side)), at(dt))}, value, "conv");
    else map({dn, dg, dm, dp, dq}, y, {at(dn), column, at(dp), at(dq)}, value, "conv");
  }

 private:
  std::mt19937& rng_;
};

// The answers before all passes are those of the kernels, to the last bit. The last schedule that is no copy comes back.
std::string check(ir::Context& ctx, nest::Function& f, const char* target, std::mt19937& rng, const test::Symbols& symbols) {
  std::vector<nest::Tensor> inputs;
  for (uint32_t a : f.inputs) inputs.push_back(test::random_tensor(rng, f.arrays[a].dtype, test::shape_of(f.arrays[a], symbols), 256));
  const auto want = nest::interpret(f, inputs);
  REQUIRE_MESSAGE(want.ok(), (want.ok() ? "" : want.status().text()));
  const Status passed = passes::run(ctx, f, {.verify = true});
  REQUIRE_MESSAGE(passed.ok(), passed.text());
  const targets::Target* t = targets::find_target(target);
  REQUIRE(t);
  const auto got = test::run_lowered(ctx, f, inputs, *t, symbols, test::test_math);
  INFO(nest::print(f));
  REQUIRE(got.fault == 0);
  for (size_t k = 0; k < want->size(); ++k) CHECK((*want)[k].bytes == got.outputs[k].bytes);
  for (const std::string& s : got.schedules)
    if (s.starts_with("product") || s.starts_with("thin")) return s;
  return got.schedules.back();
}

std::string check_conv(const Case& p, const char* target, unsigned seed) {
  ir::Context ctx;
  std::mt19937 rng(seed);
  CodeNet net(ctx, rng);
  net.conv(p);
  test::Symbols symbols;
  if (p.free_extents) symbols = {{ctx.declare_sym("H", 1), p.h}, {ctx.declare_sym("W", 1), p.w}};
  return check(ctx, net.f, target, rng, symbols);
}

constexpr const char* kTargets[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4", "armv8-a", "portable"};

}  // namespace

TEST_CASE("convolutions of codes are tiles, whatever their zero points, signs and sizes") {
  for (const char* target : kTargets)
    for (const Case& p : {Case{}, Case{.zero_a = 7}, Case{.weights = DType::I8, .zero_w = 0}, Case{.activations = DType::I8, .zero_a = -128},
                          Case{.activations = DType::I8, .zero_a = 3, .zero_w = 1}, Case{.zero_a = 200, .zero_per_channel = true},
                          Case{.c = 3, .m = 20, .stride = 2, .zero_a = 114}, Case{.c = 7, .m = 5, .kernel = 1, .pad = 0, .zero_a = 9},
                          Case{.c = 24, .m = 96, .kernel = 1, .pad = 0}, Case{.c = 16, .m = 33, .zero_a = 1, .free_extents = true},
                          Case{.c = 16, .m = 33, .zero_w = 120, .free_extents = true}, Case{.h = 1, .w = 1, .zero_a = 5},
                          Case{.c = 5, .produced = false}, Case{.activations = DType::I8, .zero_a = 4, .produced = false}}) {
      CAPTURE(target);
      CAPTURE(p.c);
      CAPTURE(p.m);
      CAPTURE(p.zero_a);
      CHECK(check_conv(p, target, 3).find("instr dot.") != std::string::npos);
    }
}

TEST_CASE("depthwise convolutions of codes, and those of few groups") {
  for (const char* target : kTargets)
    for (const Case& p : {Case{.c = 32, .m = 32, .group = 32}, Case{.c = 19, .m = 19, .stride = 2, .group = 19, .zero_a = 9},
                          Case{.c = 32, .m = 32, .group = 32, .zero_a = 3, .zero_per_channel = true}, Case{.c = 8, .m = 32, .group = 2, .zero_a = 3}})
      check_conv(p, target, 5);
}

TEST_CASE("columns that are taken apart, a few of them") {
  for (const char* target : kTargets)
    for (const Case& p : {Case{.c = 32, .m = 9, .side = 3}, Case{.c = 32, .m = 9, .zero_a = 120, .side = 3}, Case{.c = 32, .m = 9, .zero_a = 120, .free_extents = true, .side = 3},
                          Case{.c = 5, .m = 4, .zero_a = 9, .zero_per_channel = true, .free_extents = true, .side = 2}}) {
      CAPTURE(target);
      CAPTURE(p.zero_a);
      CAPTURE(p.free_extents);
      check_conv(p, target, 7);
    }
}

TEST_CASE("random convolutions of codes") {
  std::mt19937 rng(11);
  const auto pick = [&](std::initializer_list<int64_t> values) { return values.begin()[rng() % values.size()]; };
  for (unsigned seed = 0; seed < 40; ++seed) {
    Case p;
    p.n = pick({1, 2});
    p.c = pick({1, 2, 3, 4, 5, 8, 13, 16, 20});
    p.m = pick({1, 2, 7, 16, 17, 31, 48, 64});
    p.h = pick({1, 2, 3, 7, 11});
    p.w = pick({1, 2, 5, 13, 17});
    p.kernel = pick({1, 3});
    p.pad = p.kernel == 1 ? pick({0, 1}) : pick({1, 2});
    p.stride = pick({1, 2});
    p.activations = rng() % 2 ? DType::U8 : DType::I8;
    p.weights = rng() % 2 ? DType::U8 : DType::I8;
    p.zero_a = static_cast<int>(pick({0, 0, 1, 127})) - (p.activations == DType::I8 ? 128 : 0) * static_cast<int>(rng() % 2);
    p.zero_w = static_cast<int>(pick({0, 5, 127}));
    p.zero_per_channel = rng() % 3 == 0;
    p.free_extents = rng() % 3 == 0;
    p.produced = rng() % 4 != 0;
    CAPTURE(seed);
    check_conv(p, kTargets[seed % std::size(kTargets)], seed);
  }
}
