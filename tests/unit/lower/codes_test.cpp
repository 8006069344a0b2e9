// Products of codes of 8 bits, from the text of the operator to the kernel: zero points, padding, signs and sizes of all kinds.
#include <random>

#include "packager/nest/interpret/interpret.h"
#include "packager/nest/text/print.h"
#include "packager/passes/passes.h"
#include "tests/support/nests/any_schedule.h"
#include "tests/support/nests/lowered.h"
#include "tests/support/nests/nests.h"

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
  bool residual = false;  // becomes a code again, with another array added
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

  // The sum's code made real, and the other one's, added and made a code.
  const Expr* added_code(const Expr* sum, const Expr* other) {
    const auto real = [&](const Expr* e) { return ctx.cast(DType::F32, e); };
    const auto by = [&](Op op, const Expr* e, double v) { return ctx.binary(op, e, ctx.number(v, DType::F32)); };
    const Expr* first = ctx.convert(Op::SatCast, {DType::I8, 1}, by(Op::Add, ctx.unary(Op::Rint, by(Op::Mul, real(sum), 0.0009765625)), 3));
    const Expr* both = ctx.binary(Op::Add, by(Op::Mul, by(Op::Sub, real(first), 3), 0.04), by(Op::Mul, real(other), 0.03));
    return ctx.convert(Op::SatCast, {DType::U8, 1}, by(Op::Add, ctx.unary(Op::Rint, by(Op::Div, by(Op::Max, both, -1), 0.05)), 20));
  }

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
    const std::vector<const Expr*> shape{n(p.n), n(p.m / (p.side * p.side)), ctx.mul(out(H), n(p.side)), ctx.mul(out(W), n(p.side))};
    const uint32_t r = p.residual ? array("r", DType::I8, shape) : 0;
    const uint32_t y = output("y", p.residual ? DType::U8 : DType::I32, shape);
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
    if (p.residual) value = added_code(value, load(r, {at(dn), column, at(dp), at(dq)}));
    if (p.side > 1) map({dn, dp, ds, dq, dt}, y, {at(dn), n(0), ctx.add(ctx.mul(at(dp), n(p.side)), at(ds)), ctx.add(ctx.mul(at(dq), n(p.side)), at(dt))}, value, "conv");
    else map({dn, dg, dm, dp, dq}, y, {at(dn), column, at(dp), at(dq)}, value, "conv");
  }

 private:
  std::mt19937& rng_;
};

struct ValuesCase {
  int64_t batch = 1, m = 20, k = 24, n = 32;
  DType first = DType::U8, second = DType::U8;
  enum class Zero : uint8_t { None, Constant, Loaded, PerColumn } zero_a = Zero::Constant, zero_b = Zero::Constant;
  bool transposed = false, free_extents = false, second_first = false, produced = true;
};

// y = sum (x - zx) * (w - zw) of two values of the run, as MatMulInteger and QLinearMatMul say it.
void product_of_values(CodeNet& net, const ValuesCase& p) {
  ir::Context& ctx = net.ctx;
  const auto extent = [&](const char* name, int64_t n) { return p.free_extents ? ctx.sym(ctx.declare_sym(name, 0)) : net.n(n); };
  const Expr *B = net.n(p.batch), *M = extent("M", p.m), *K = extent("K", p.k), *N = extent("N", p.n);
  uint32_t x = net.array("x", p.first, {B, M, K});
  const uint32_t w = net.array("w", p.second, p.transposed ? std::vector{B, N, K} : std::vector{B, K, N});
  if (p.produced) {
    const uint32_t made = net.array("made", p.first, {B, M, K}, nest::Array::Kind::Temp);
    auto b = net.dim("b", B), m = net.dim("m", M), k = net.dim("k", K);
    const std::vector<const Expr*> at{net.at(b), net.at(m), net.at(k)};
    net.map({b, m, k}, made, at, ctx.binary(Op::BitXor, net.load(x, at), ctx.integer(5, p.first)));
    x = made;
  }
  auto b = net.dim("b", B), m = net.dim("m", M), n = net.dim("n", N), k = net.dim("k", K);
  const auto less = [&](const Expr* code, ValuesCase::Zero zero, const char* name, int64_t number) {
    using Zero = ValuesCase::Zero;
    const Expr* value = net.i32(code);
    const DType t = code->type.dtype;
    if (zero == Zero::None) return value;
    if (zero == Zero::Constant) return ctx.binary(Op::Sub, value, ctx.integer(number, DType::I32));
    const bool one = zero == Zero::Loaded;
    const uint32_t z = net.array(name, t, one ? std::vector<const Expr*>{} : std::vector{N});
    return ctx.binary(Op::Sub, value, net.i32(net.load(z, one ? std::vector<const Expr*>{} : std::vector{net.at(n)})));
  };
  const Expr* a = less(net.load(x, {net.at(b), net.at(m), net.at(k)}), p.zero_a, "za", 7);
  const Expr* c = less(net.load(w, p.transposed ? std::vector{net.at(b), net.at(n), net.at(k)} : std::vector{net.at(b), net.at(k), net.at(n)}), p.zero_b, "zb", 120);
  const uint32_t y = net.output("y", DType::I32, {B, M, N});
  net.map({b, m, n}, y, {net.at(b), net.at(m), net.at(n)}, net.fold(ir::Join::Sum, {k}, ctx.binary(Op::Mul, p.second_first ? c : a, p.second_first ? a : c)), "product");
}

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

std::string check_values(const ValuesCase& p, const char* target, unsigned seed) {
  ir::Context ctx;
  std::mt19937 rng(seed);
  CodeNet net(ctx, rng);
  product_of_values(net, p);
  test::Symbols symbols;
  if (p.free_extents) symbols = {{ctx.declare_sym("M", 0), p.m}, {ctx.declare_sym("K", 0), p.k}, {ctx.declare_sym("N", 0), p.n}};
  return check(ctx, net.f, target, rng, symbols);
}

constexpr const char* kTargets[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4", "armv8-a", "portable"};

}  // namespace

TEST_CASE("convolutions of codes are tiles, whatever their zero points, signs and sizes") {
  for (const char* target : kTargets)
    for (const Case& p : {Case{}, Case{.zero_a = 7}, Case{.weights = DType::I8, .zero_w = 0}, Case{.activations = DType::I8, .zero_a = -128},
                          Case{.activations = DType::I8, .zero_a = 3, .zero_w = 1}, Case{.zero_a = 200, .zero_per_channel = true},
                          Case{.c = 3, .m = 20, .stride = 2, .zero_a = 114}, Case{.c = 7, .m = 5, .kernel = 1, .pad = 0, .zero_a = 9},
                          Case{.c = 24, .m = 96, .kernel = 1, .pad = 0}, Case{.c = 24, .m = 96, .kernel = 1, .pad = 0, .zero_a = 3, .zero_w = 120}, Case{.c = 16, .m = 33, .zero_a = 1, .free_extents = true},
                          Case{.c = 16, .m = 33, .zero_w = 120, .free_extents = true}, Case{.h = 1, .w = 1, .zero_a = 5},
                          Case{.c = 5, .produced = false}, Case{.activations = DType::I8, .zero_a = 4, .produced = false}}) {
      CAPTURE(target);
      CAPTURE(p.c);
      CAPTURE(p.m);
      CAPTURE(p.zero_a);
      CHECK(check_conv(p, target, 3).find("instr dot.") != std::string::npos);
    }
}

TEST_CASE("units for matrices multiply sixteen rows by panels, whatever rows there are and which of them exist") {
  for (const Case& p : {Case{.c = 64, .m = 32, .h = 4, .w = 16, .kernel = 1, .pad = 0}, Case{.c = 32, .m = 33, .h = 5, .w = 6}, Case{.c = 16, .m = 16, .h = 4, .w = 40, .zero_a = 7},
                        Case{.n = 2, .c = 128, .m = 50, .h = 3, .w = 9, .stride = 2, .zero_a = 200}, Case{.c = 32, .m = 48, .h = 3, .w = 19, .zero_a = 9, .free_extents = true},
                        Case{.c = 48, .m = 16, .h = 6, .w = 8, .kernel = 1, .pad = 0, .activations = DType::I8, .weights = DType::I8, .zero_w = 0, .residual = true},
                        Case{.c = 64, .m = 20, .h = 3, .w = 33, .activations = DType::I8, .weights = DType::I8, .zero_a = -128, .zero_w = 0, .free_extents = true, .residual = true},
                        Case{.c = 32, .m = 40, .h = 9, .w = 4, .kernel = 5, .pad = 2, .weights = DType::I8, .zero_a = 3, .zero_w = 0},
                        // Rows that all exist, and are no multiple of sixteen, or fewer.
                        Case{.c = 32, .m = 40, .h = 7, .w = 7, .kernel = 1, .pad = 0, .zero_a = 5}, Case{.c = 16, .m = 32, .h = 5, .w = 7, .kernel = 1, .pad = 0, .free_extents = true},
                        Case{.c = 64, .m = 24, .h = 3, .w = 3, .kernel = 1, .pad = 0, .residual = true}, Case{.c = 64, .m = 24, .h = 3, .w = 3, .kernel = 1, .pad = 0, .free_extents = true}}) {
    CAPTURE(p.c);
    CAPTURE(p.w);
    const std::string schedule = check_conv(p, "x86-64-v4+amx", 19);
    CHECK_MESSAGE(schedule.find(p.zero_w == 0 ? "instr tiles." : "instr") != std::string::npos, schedule);
  }
  // Sums of rows, few channels, a depth that nothing divides: vectors multiply.
  for (const Case& p : {Case{.c = 8}, Case{.c = 20, .m = 32, .weights = DType::I8, .zero_w = 0}, Case{.c = 64, .m = 32, .kernel = 1, .pad = 0, .zero_w = 120, .produced = false}})
    CHECK(check_conv(p, "x86-64-v4+amx", 19).find("instr dot.") != std::string::npos);
}

TEST_CASE("a long epilogue runs beside the products of the next tile") {
  for (const char* target : kTargets)
    for (const Case& p : {Case{.c = 16, .m = 33, .h = 9, .w = 31, .residual = true}, Case{.n = 2, .c = 16, .m = 20, .h = 4, .w = 13, .stride = 2, .zero_a = 9, .residual = true},
                          Case{.n = 2, .c = 16, .m = 33, .h = 5, .w = 26, .zero_w = 120, .free_extents = true, .residual = true}, Case{.c = 16, .h = 1, .w = 2, .residual = true},
                          Case{.c = 19, .m = 48, .h = 2, .w = 40, .zero_a = 5, .free_extents = true, .residual = true},
                          Case{.c = 20, .m = 64, .h = 6, .w = 12, .activations = DType::I8, .zero_w = 7, .zero_per_channel = true, .residual = true}}) {
      CAPTURE(target);
      CAPTURE(p.m);
      CAPTURE(p.w);
      CHECK(check_conv(p, target, 13).find(target == std::string("portable") ? "place sums" : "place late") != std::string::npos);
    }
  // A single tap, few channels: there is nothing to run beside.
  CHECK(check_conv({.c = 3, .m = 32, .w = 20, .stride = 2, .residual = true}, "x86-64-v4", 13).find("place sums") != std::string::npos);
  CHECK(check_conv({.c = 24, .m = 96, .kernel = 1, .pad = 0, .residual = true}, "x86-64-v4", 13).find("place sums") != std::string::npos);
}

TEST_CASE("depthwise convolutions of codes, and those of few groups") {
  for (const char* target : kTargets)
    for (const Case& p : {Case{.c = 32, .m = 32, .group = 32}, Case{.c = 19, .m = 19, .stride = 2, .group = 19, .zero_a = 9},
                          Case{.c = 32, .m = 32, .group = 32, .zero_a = 3, .zero_per_channel = true}, Case{.c = 8, .m = 32, .group = 2, .zero_a = 3}})
      check_conv(p, target, 5);
}

TEST_CASE("few input channels: the taps of a row are the groups of codes, read with their border") {
  for (const char* target : kTargets)
    for (const Case& p : {Case{.c = 1, .m = 32, .zero_a = 7}, Case{.c = 1, .m = 20, .h = 9, .w = 19, .kernel = 5, .pad = 2}, Case{.n = 2, .c = 2, .m = 16, .w = 18, .stride = 2, .zero_w = 120},
                          Case{.c = 3, .m = 64, .h = 9, .w = 17, .kernel = 7, .stride = 2, .pad = 3, .activations = DType::I8, .weights = DType::I8, .zero_a = -128, .zero_w = 0},
                          Case{.c = 1, .m = 33, .w = 21, .zero_a = 3, .zero_w = 119, .zero_per_channel = true, .free_extents = true, .residual = true},
                          Case{.c = 2, .m = 32, .h = 7, .w = 26, .kernel = 5, .stride = 2, .pad = 2, .zero_a = 200, .free_extents = true, .produced = false},
                          Case{.c = 1, .m = 16, .h = 8, .w = 16, .kernel = 4, .stride = 4, .pad = 0}, Case{.c = 3, .m = 32, .h = 6, .w = 9, .kernel = 5, .pad = 0, .activations = DType::I8, .zero_w = 3, .produced = false}}) {
      CAPTURE(target);
      CAPTURE(p.c);
      CAPTURE(p.kernel);
      const std::string schedule = check_conv(p, target, 17);
      CHECK_MESSAGE(schedule.find("instr dot.") != std::string::npos, schedule);
      CHECK_MESSAGE(schedule.find("v:4") != std::string::npos, schedule);  // along the taps of a row
    }
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

TEST_CASE("products of two values are tiles of codes, packed for every run") {
  using Zero = ValuesCase::Zero;
  constexpr DType kI8 = DType::I8;
  for (const char* target : kTargets)
    for (const ValuesCase& p :
         {ValuesCase{}, ValuesCase{.batch = 3, .n = 19}, ValuesCase{.k = 23, .n = 50, .second = kI8}, ValuesCase{.second = kI8, .zero_a = Zero::None, .zero_b = Zero::None},
          ValuesCase{.first = kI8, .zero_a = Zero::Loaded, .zero_b = Zero::Loaded}, ValuesCase{.first = kI8, .second = kI8, .zero_b = Zero::PerColumn, .produced = false},
          ValuesCase{.batch = 2, .k = 30, .zero_a = Zero::Loaded, .transposed = true}, ValuesCase{.n = 33, .zero_b = Zero::PerColumn, .transposed = true},
          ValuesCase{.second_first = true}, ValuesCase{.transposed = true, .second_first = true}, ValuesCase{.free_extents = true},
          ValuesCase{.batch = 2, .m = 9, .k = 27, .n = 21, .second = kI8, .zero_a = Zero::Loaded, .free_extents = true},
          ValuesCase{.batch = 2, .m = 13, .k = 31, .n = 16, .zero_b = Zero::Loaded, .transposed = true, .free_extents = true}, ValuesCase{.k = 0, .free_extents = true},
          ValuesCase{.m = 1, .k = 3, .n = 1, .free_extents = true}}) {
      CAPTURE(target);
      CAPTURE(p.batch);
      CAPTURE(p.k);
      CAPTURE(p.n);
      CAPTURE(p.transposed);
      CAPTURE(p.free_extents);
      CHECK(check_values(p, target, 9).find("instr dot.") != std::string::npos);
    }
}

// y = x*w with rounded factors, M rows of K elements by N columns.
struct RoundedCase {
  int64_t M = 20, K = 24, N = 32;
  bool is_free = false;
  enum class Columns { Constant, Scaled, Given, GivenAcross } columns = Columns::Constant;  // scaled: a product of two constants; across: [N, K]
  bool is_constant() const { return columns == Columns::Constant || columns == Columns::Scaled; }
};

// In code for `target` with this instruction.
void check_bf16(const char* target, const RoundedCase& p, const std::string& instruction) {
  CAPTURE(target);
  CAPTURE(p.M);
  CAPTURE(p.K);
  CAPTURE(p.N);
  CAPTURE(p.is_free);
  CAPTURE(static_cast<int>(p.columns));
  ir::Context ctx;
  std::mt19937 rng(3);
  CodeNet net(ctx, rng);
  using Columns = RoundedCase::Columns;
  const bool across = p.columns == Columns::GivenAcross;
  const std::array<const ir::Sym*, 3> symbols{ctx.declare_sym("M", 1), ctx.declare_sym("K", 1), ctx.declare_sym("N", 1)};
  const auto extent = [&](int64_t value, size_t k) { return p.is_free && (k == 0 || !p.is_constant()) ? ctx.sym(symbols[k]) : net.n(value); };
  const Expr *M = extent(p.M, 0), *K = extent(p.K, 1), *N = extent(p.N, 2);
  const uint32_t x = net.array("x", DType::F32, {M, K});
  const uint32_t w = net.array("w", DType::F32, across ? std::vector{N, K} : std::vector{K, N}, p.is_constant() ? nest::Array::Kind::Const : nest::Array::Kind::Input);
  const nest::Tensor columns = test::random_tensor(rng, DType::F32, across ? std::vector{p.N, p.K} : std::vector{p.K, p.N});
  auto bytes = std::make_shared<std::vector<std::byte>>(columns.bytes);
  if (p.is_constant()) net.f.arrays[w].data = std::make_shared<nest::ConstData>(nest::ConstData{Bytes(*bytes), bytes});
  const uint32_t y = net.output("y", DType::F32, {M, N});
  uint32_t weights = w;
  if (p.columns == Columns::Scaled) {
    weights = net.array("scaled", DType::F32, {K, N}, nest::Array::Kind::Temp);
    auto column = net.dim("c", N), row = net.dim("r", K);
    net.map({row, column}, weights, {net.at(row), net.at(column)}, ctx.binary(Op::Mul, net.load(w, {net.at(row), net.at(column)}), net.load(w, {net.n(0), net.at(column)})), "scaled");
  }
  auto m = net.dim("m", M), n = net.dim("n", N), k = net.dim("k", K);
  const Expr* column = net.load(weights, across ? std::vector{net.at(n), net.at(k)} : std::vector{net.at(k), net.at(n)});
  net.map({m, n}, y, {net.at(m), net.at(n)}, net.fold(ir::Join::Sum, {k}, ctx.binary(Op::Mul, net.load(x, {net.at(m), net.at(k)}), column)), "product");
  std::vector<nest::Tensor> inputs{test::random_tensor(rng, DType::F32, {p.M, p.K})};
  if (!p.is_constant()) inputs.push_back(columns);
  const auto in_f32 = nest::interpret(net.f, inputs);
  const Status passed = passes::run(ctx, net.f, {.pipeline = passes::with_precision(passes::default_pipeline(), passes::Precision::BF16, passes::RoundedValues::All)});
  REQUIRE_MESSAGE(passed.ok(), passed.text());
  const auto want = nest::interpret(net.f, inputs);
  REQUIRE(in_f32.ok());
  REQUIRE(want.ok());
  const auto got = test::run_lowered(ctx, net.f, inputs, *targets::find_target(target), {{symbols[0], p.M}, {symbols[1], p.K}, {symbols[2], p.N}}, test::test_math);
  CHECK_MESSAGE(got.schedules.back().find(instruction) != std::string::npos, got.schedules.back());
  const test::Difference rounded = test::difference(in_f32->front(), want->front()), native = test::difference(want->front(), got.outputs.front());
  CHECK((rounded.error > 0) == (!p.is_constant() || instruction.ends_with("bf16")));  // the factors are rounded, once each
  CHECK(rounded.error <= std::ldexp(1, -7) * rounded.largest * std::sqrt(p.K));
  CHECK(native.error <= std::ldexp(static_cast<double>(p.K), -23) * 16);
}

TEST_CASE("products of bf16 are tiles of pairs") {
  using Columns = RoundedCase::Columns;
  for (const char* target : kTargets)
    for (RoundedCase p : {RoundedCase{}, RoundedCase{1, 64, 48}, RoundedCase{13, 31, 19}, RoundedCase{9, 17, 70, true}, RoundedCase{5, 6, 8}})
      for (p.columns = Columns::Constant;; p.columns = Columns::Scaled) {
        check_bf16(target, p, "instr dot.bf16");
        if (p.columns == Columns::Scaled) break;
      }
  // A group of columns in two parts along k.
  check_bf16("x86-64-v4", {30, 3000, 40}, "depth 1500 fetch ; instr dot.bf16");
  check_bf16("x86-64-v4", {20, 3, 32}, "instr fma.f32");  // three channels of a picture
}

TEST_CASE("units for matrices multiply bf16 as codes, sums are f32") {
  for (const RoundedCase& p : {RoundedCase{}, RoundedCase{3, 64, 48}, RoundedCase{49, 40, 19}, RoundedCase{35, 96, 70, true}, RoundedCase{9, 32, 16, true}})
    check_bf16("x86-64-v4+amx", p, "instr tiles.bf16");
  check_bf16("x86-64-v4+amx", {1, 64, 48}, "instr dot.bf16");
  check_bf16("x86-64-v4+amx", {20, 30, 32}, "instr dot.bf16");  // half of a group of eight is left over
}

TEST_CASE("two values in bf16 are packed for units for matrices, whose last turn is filled up; elsewhere their columns stay") {
  using Columns = RoundedCase::Columns;
  for (const Columns columns : {Columns::Given, Columns::GivenAcross})
    for (const bool is_free : {false, true})
      for (const auto& [M, K, N] : {std::tuple{20, 32, 32}, {16, 64, 48}, {49, 40, 19}, {9, 5, 16}, {35, 33, 70}, {40, 63, 5}, {8, 128, 33}, {33, 30, 16}}) {
        const bool is_seen = is_free || N > 16 || K % 8 == 0;  // that columns are filled up: not of one panel
        check_bf16("x86-64-v4+amx", {M, K, N, is_free, columns}, is_seen ? "instr tiles.bf16" : "instr fma.f32");
        for (const char* target : {"x86-64-v3", "armv8-a", "portable"}) check_bf16(target, {M, K, N, is_free, columns}, "");
      }
  for (const int64_t M : {1, 2, 7, 15}) check_bf16("x86-64-v4+amx", {M, 45, 40, true, Columns::Given}, "");  // rows that are no block
  check_bf16("x86-64-v4+amx", {7, 32, 32, false, Columns::Given}, "instr fma.f32");                           // too few to pack for
}

TEST_CASE("attention in bf16 is one launch behind its packing, both products by the unit, weights that add up to one") {
  for (const bool is_free : {false, true})
    for (const auto& [rows, keys] : {std::pair{33, 50}, {64, 64}, {9, 130}, {1, 20}, {17, 1}}) {
      CAPTURE(rows);
      CAPTURE(keys);
      ir::Context ctx;
      std::mt19937 rng(3);
      test::NestMaker m(ctx);
      const ir::Sym *L = ctx.declare_sym("L", 1), *U = ctx.declare_sym("U", 1);
      m.attention(3, 3, is_free ? ctx.sym(L) : m.n(rows), is_free ? ctx.sym(U) : m.n(keys), 64);
      std::vector<nest::Tensor> inputs;
      for (const std::vector<int64_t>& shape : {std::vector<int64_t>{rows, 3, 64}, {keys, 3, 64}, {keys, 3, 64}, {rows, keys}}) inputs.push_back(test::random_tensor(rng, DType::F32, shape));
      const auto in_f32 = nest::interpret(m.f, inputs);
      const Status passed = passes::run(ctx, m.f, {.pipeline = passes::with_precision(passes::default_pipeline(), passes::Precision::BF16, passes::RoundedValues::All)});
      REQUIRE_MESSAGE(passed.ok(), passed.text());
      const auto want = nest::interpret(m.f, inputs);
      REQUIRE(in_f32.ok());
      REQUIRE(want.ok());
      const auto got = test::run_lowered(ctx, m.f, inputs, *targets::find_target("x86-64-v4+amx"), {{L, rows}, {U, keys}}, test::test_math);
      const test::Difference rounded = test::difference(in_f32->front(), want->front()), native = test::difference(want->front(), got.outputs.front());
      CHECK(rounded.error <= 0.02 * rounded.largest);
      CHECK(native.error <= 0.004 * native.largest);  // weights are exponentials rounded to bf16: a unit in the last place of one
      if (keys == 1) CHECK(native.error == 0);        // whose weight is one, of a value that is rounded
      if (!is_free && (rows < 16 || keys < 16)) continue;
      const std::string& group = got.schedules.back();
      const size_t first = group.find("tiles.bf16");
      CHECK_MESSAGE(group.find("tiles.bf16", first + 1) != std::string::npos, group);
    }
}

TEST_CASE("weights of 4 bits with a scale and a zero point per block are decoded in registers") {
  struct Blocks {
    int64_t m = 20, k = 64, n = 48, block = 16;
    bool free_rows = false, flat_scales = false, columns_last = false, zeros = true;
  };
  test::ScheduleCounts counts;
  for (const char* target : kTargets)
    for (const Blocks& p : {Blocks{}, Blocks{.m = 1}, Blocks{.m = 29, .free_rows = true, .flat_scales = true}, Blocks{.m = 3, .k = 30, .n = 16, .block = 6, .zeros = false},
                            Blocks{.m = 13, .columns_last = true, .zeros = false}}) {
      CAPTURE(target);
      CAPTURE(p.m);
      ir::Context ctx;
      std::mt19937 rng(3);
      CodeNet net(ctx, rng);
      const ir::Sym* rows = ctx.declare_sym("M", 0);
      const Expr* M = p.free_rows ? ctx.sym(rows) : net.n(p.m);
      const int64_t blocks = p.k / p.block, bytes = p.block / 2;
      const uint32_t x = net.array("x", DType::F32, {M, net.n(p.k)});
      const uint32_t codes = p.columns_last ? net.constant("w", DType::U8, {blocks, bytes, p.n}, 0, 255) : net.constant("w", DType::U8, {p.n, blocks, bytes}, 0, 255);
      const uint32_t scales = net.constant("s", DType::I8, p.flat_scales ? std::vector<int64_t>{p.n * blocks} : std::vector<int64_t>{p.n, blocks}, 1, 100);
      const uint32_t zeros = p.zeros ? net.constant("z", DType::U8, {p.n, blocks}, 0, 15) : 0;
      const uint32_t w = net.array("decoded", DType::F32, {net.n(p.n), net.n(p.k)}, nest::Array::Kind::Temp), y = net.output("y", DType::F32, {M, net.n(p.n)});
      auto wn = net.dim("n", net.n(p.n)), wk = net.dim("k", net.n(p.k));
      const auto real = [&](const Expr* e) { return ctx.cast(DType::F32, e); };
      const Expr *block = ctx.floordiv(net.at(wk), net.n(p.block)), *byte = ctx.floordiv(ctx.floormod(net.at(wk), net.n(p.block)), net.n(2));
      const Expr* packed = net.i32(net.load(codes, p.columns_last ? std::vector{block, byte, net.at(wn)} : std::vector{net.at(wn), block, byte}));
      const Expr* shift = net.i32(ctx.mul(ctx.floormod(net.at(wk), net.n(2)), net.n(4)));
      const Expr* code = real(ctx.binary(Op::BitAnd, ctx.binary(Op::Shr, packed, shift), ctx.integer(15, DType::I32)));
      const Expr* zero = p.zeros ? real(net.load(zeros, {net.at(wn), block})) : ctx.number(8, DType::F32);
      const Expr* scale = real(net.load(scales, p.flat_scales ? std::vector{ctx.add(ctx.mul(net.at(wn), net.n(blocks)), block)} : std::vector{net.at(wn), block}));
      net.map({wn, wk}, w, {net.at(wn), net.at(wk)}, ctx.binary(Op::Mul, ctx.binary(Op::Sub, code, zero), ctx.binary(Op::Mul, scale, ctx.number(0.01, DType::F32))), "decode");
      auto m = net.dim("m", M), n = net.dim("n", net.n(p.n)), k = net.dim("k", net.n(p.k));
      const Expr* sum = net.fold(ir::Join::Sum, {k}, ctx.binary(Op::Mul, net.load(x, {net.at(m), net.at(k)}), net.load(w, {net.at(n), net.at(k)})));
      net.map({m, n}, y, {net.at(m), net.at(n)}, ctx.binary(Op::Max, sum, ctx.number(0, DType::F32)), "product");
      const std::vector<nest::Tensor> inputs{test::random_tensor(rng, DType::F32, {p.m, p.k})};
      const auto want = nest::interpret(net.f, inputs);
      REQUIRE(want.ok());
      // What is small enough is computed once by fold-constants; larger matrices are not.
      const Status passed = passes::run(ctx, net.f, {.pipeline = {"cleanup", "layout", "inline-weights", "group"}, .check = true});
      REQUIRE_MESSAGE(passed.ok(), passed.text());
      CHECK(net.f.body.size() == 1);
      const auto got = test::run_lowered(ctx, net.f, inputs, *targets::find_target(target), {{rows, p.m}}, test::test_math);
      CHECK(got.schedules.back().find("decoded") == 0);
      const test::Difference d = test::difference(want->front(), got.outputs.front());
      CHECK(d.error <= 1e-5 * d.largest);
      test::check_schedules(ctx, net.f, target, {{rows, p.m}}, rng, counts, false, 10);
    }
  MESSAGE(counts.accepted, " schedules, ", counts.altered, " of them altered, ", counts.refused, " refused");
  CHECK(counts.altered > 8);
  CHECK(counts.refused > 24);
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
    p.kernel = pick({1, 3, 5});
    p.pad = p.kernel == 1 ? pick({0, 1}) : pick({p.kernel / 2, 2});
    p.stride = pick({1, 2});
    p.activations = rng() % 2 ? DType::U8 : DType::I8;
    p.weights = rng() % 2 ? DType::U8 : DType::I8;
    p.zero_a = static_cast<int>(pick({0, 0, 1, 127})) - (p.activations == DType::I8 ? 128 : 0) * static_cast<int>(rng() % 2);
    p.zero_w = static_cast<int>(pick({0, 5, 127}));
    p.zero_per_channel = rng() % 3 == 0;
    p.free_extents = rng() % 3 == 0;
    p.produced = rng() % 4 != 0;
    p.residual = rng() % 2 != 0;
    CAPTURE(seed);
    check_conv(p, kTargets[seed % std::size(kTargets)], seed);
  }
}
