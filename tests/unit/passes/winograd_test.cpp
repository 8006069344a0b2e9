#include <doctest/doctest.h>

#include <cmath>

#include "packager/ir/numeric.h"
#include "packager/nest/text/print.h"
#include "packager/nest/verify/verify.h"
#include "packager/passes/forms/winograd.h"
#include "packager/passes/passes.h"
#include "packager/passes/segments/derive.h"
#include "tests/support/nests/nest_builder.h"

using namespace mlc;
using namespace mlc::ir;
using namespace mlc::nest;
using mlc::test::NestBuilder;
using mlc::test::numbers;

namespace {

// y = relu(conv(relu(x)) + bias + relu(x) where there are as many channels), with channels innermost between the maps.
struct Net : NestBuilder {
  struct Shape {
    const Expr *batch, *height, *width;
    int64_t in, out, pad, taps = 3, stride = 1;
    bool flat = false;  // the window slides along rows alone
  };

  uint32_t constant(std::string name, std::vector<int64_t> shape, unsigned seed) {
    std::vector<const Expr*> extents;
    size_t n = 1;
    for (int64_t e : shape) extents.push_back(k(e)), n *= static_cast<size_t>(e);
    const uint32_t a = array(std::move(name), DType::F32, extents, Array::Kind::Const);
    const std::vector<float> values = numbers(n, seed);
    auto bytes = std::make_shared<std::vector<std::byte>>(n * 4);
    std::memcpy(bytes->data(), values.data(), bytes->size());
    fn.arrays[a].data = std::make_shared<ConstData>(ConstData{Bytes(*bytes), bytes});
    return a;
  }
  uint32_t relu(const std::string& name, uint32_t x, bool is_output) {
    const auto shape = fn.arrays[x].shape;
    const uint32_t y = is_output ? output(name, DType::F32, shape) : array(name, DType::F32, shape);
    std::vector<const Dim*> dims;
    std::vector<const Expr*> at;
    for (const Expr* e : shape) dims.push_back(dim("e", e)), at.push_back(d(dims.back()));
    nest(name, dims, {{y, at, ctx.binary(Op::Max, load(x, at), r(0))}});
    return y;
  }

  void build(const Shape& s, unsigned seed) {
    const uint32_t x = relu("x1", input("x", DType::F32, {s.batch, k(s.in), s.height, s.width}), false);
    const uint32_t w = s.flat ? constant("w", {s.out, s.in, s.taps}, seed) : constant("w", {s.out, s.in, s.taps, s.taps}, seed);
    const uint32_t bias = constant("bias", {s.out}, seed + 1);
    const auto extent = [&](const Expr* e) { return ctx.add(ctx.floordiv(ctx.add(e, k(2 * s.pad - s.taps)), k(s.stride)), k(1)); };
    const Expr *height = s.flat ? s.height : extent(s.height), *width = extent(s.width);
    const uint32_t y = array("y", DType::F32, {s.batch, k(s.out), height, width});
    auto b = dim("b", s.batch), m = dim("m", s.out), p = dim("p", height), q = dim("q", width);
    auto c = dim("c", s.in), u = dim("u", s.taps), v = dim("v", s.taps);
    const auto slid = [&](const Dim* out, const Dim* tap) { return ctx.sub(ctx.add(ctx.mul(k(s.stride), d(out)), d(tap)), k(s.pad)); };
    const Expr *row = s.flat ? d(p) : slid(p, u), *column = slid(q, v);
    const auto inside = [&](const Expr* e, const Expr* n) { return ctx.logical_and(ctx.binary(Op::Le, k(0), e), ctx.binary(Op::Lt, e, n)); };
    const Expr* where = s.pad > 0 ? inside(column, s.width) : nullptr;
    if (where && !s.flat) where = ctx.logical_and(inside(row, s.height), where);
    const Expr *a = load(x, {d(b), d(c), row, column}), *weights = s.flat ? load(w, {d(m), d(c), d(v)}) : load(w, {d(m), d(c), d(u), d(v)});
    const Expr* product = seed % 2 ? ctx.binary(Op::Mul, a, weights) : ctx.binary(Op::Mul, weights, a);
    const Expr* sum = ctx.fold({ctx.builtin(Join::Sum), s.flat ? std::vector{c, v} : std::vector{c, u, v}, where}, {product});
    const Expr* value = ctx.binary(Op::Add, sum, load(bias, {d(m)}));
    if (s.in == s.out && s.pad == 1 && s.taps == 3 && s.stride == 1 && !s.flat) value = ctx.binary(Op::Add, value, load(x, {d(b), d(m), d(p), d(q)}));
    nest("conv", {b, m, p, q}, {{y, {d(b), d(m), d(p), d(q)}, ctx.binary(Op::Max, value, r(0))}});
    relu("out", y, true);
    for (const uint32_t channels_last : {fn.body[0].nest->writes[0].array, y}) fn.arrays[channels_last].layout = permuted({0, 2, 3, 1});
  }
  size_t statement_of_conv() const {
    for (size_t i = 0; i < fn.body.size(); ++i)
      if (fn.body[i].source == "conv") return i;
    return fn.body.size();
  }
  Tensor answer(std::vector<int64_t> shape, unsigned seed) {
    Tensor x = Tensor::zeros(DType::F32, shape);
    const std::vector<float> values = numbers(static_cast<size_t>(x.elements()), seed);
    std::memcpy(x.bytes.data(), values.data(), x.bytes.size());
    auto y = run({x});
    REQUIRE_MESSAGE(y.ok(), (y.ok() ? std::string() : y.status().message));
    return std::move((*y)[0]);
  }
};

void check_close(const Tensor& before, const Tensor& after, double bound) {
  REQUIRE(before.shape == after.shape);
  double largest = 0, difference = 0;
  for (int64_t i = 0; i < before.elements(); ++i) {
    const double a = load_element(DType::F32, before.bytes.data(), static_cast<uint64_t>(i)).f,
                 b = load_element(DType::F32, after.bytes.data(), static_cast<uint64_t>(i)).f;
    largest = std::max(largest, std::abs(a));
    difference = std::max(difference, std::abs(a - b));
  }
  CHECK(difference <= bound * largest);
}

std::string shown(const std::vector<std::string>& problems) {
  std::string all;
  for (const std::string& p : problems) all += p + "\n";
  return all;
}

}  // namespace

TEST_CASE("convolutions in tiles answer as they did: extents, paddings, channels of all kinds") {
  constexpr int64_t kExtents[] = {1, 2, 3, 4, 5, 7, 8, 11, 13, 18}, kChannels[] = {2, 3, 7, 16, 17, 20};
  std::mt19937 random(3);
  const auto any = [&](const auto& list) { return list[random() % std::size(list)]; };
  size_t taken = 0;
  for (unsigned round = 0; round < 120; ++round) {
    Net net;
    const Expr* batch = net.ctx.sym(net.ctx.declare_sym("N"));
    const bool flat = round % 4 == 1;
    const int64_t taps = round % 2 ? 2 + static_cast<int64_t>(random() % 6) : 3, stride = round % 3 ? 1 : 1 + static_cast<int64_t>(random() % 3);
    const int64_t pad = static_cast<int64_t>(random() % 3), least = std::max<int64_t>(1, taps - 2 * pad);
    const int64_t height = std::max(least, any(kExtents)), width = std::max(least, any(kExtents)), in = any(kChannels),
                  out = round % 3 ? any(kChannels) : in, points = flat && round % 8 == 1 ? 8 : round % 5 ? 6 : 4;
    net.build({batch, net.k(height), net.k(width), in, out, pad, taps, stride, flat}, round);
    CAPTURE(print(net.fn));
    std::vector<Tensor> before;
    for (const int64_t n : {0, 1, 2, 5}) before.push_back(net.answer({n, in, height, width}, round));
    const int64_t of_phase = (taps + stride - 1) / stride;
    const bool fits = of_phase >= (points == 8 ? 3 : 2) && of_phase < points;
    REQUIRE(passes::winograd_at_points(net.ctx, net.fn, net.statement_of_conv(), points) == fits);
    taken += fits;
    const auto problems = verify(net.ctx, net.fn, {.ranges = true});
    REQUIRE_MESSAGE(problems.empty(), shown(problems));
    size_t at = 0;
    for (const int64_t n : {0, 1, 2, 5}) check_close(before[at++], net.answer({n, in, height, width}, round), points > 4 ? 1e-5 : 3e-6);
  }
  CHECK(taken > 60);
}

TEST_CASE("extents that the run decides, whether or not whole tiles are known to fit") {
  for (const int64_t points : {4, 6})
    for (const int64_t multiple : {1, 4}) {
      Net net;
      const Expr *h = net.ctx.sym(net.ctx.declare_sym("H", 0, INT64_MAX, multiple)), *w = net.ctx.sym(net.ctx.declare_sym("W", 0, INT64_MAX, 2 * multiple));
      net.build({net.k(2), h, w, 5, 6, 1}, 1);
      std::vector<Tensor> before;
      std::vector<std::pair<int64_t, int64_t>> sizes{{0, 8}, {4, 0}, {4, 8}, {12, 16}, {20, 8}};
      if (multiple == 1) sizes.insert(sizes.end(), {{1, 2}, {2, 4}, {3, 14}, {5, 6}, {7, 12}, {13, 10}});
      for (const auto& [y, x] : sizes) before.push_back(net.answer({2, 5, y, x}, 1));
      REQUIRE(passes::winograd_at_points(net.ctx, net.fn, net.statement_of_conv(), points));
      const auto problems = verify(net.ctx, net.fn, {.ranges = true});
      CHECK_MESSAGE(problems.empty(), shown(problems));
      for (size_t i = 0; i < sizes.size(); ++i) check_close(before[i], net.answer({2, 5, sizes[i].first, sizes[i].second}, 1), 1e-5);
    }
}

TEST_CASE("lengths that the run decides, in strides") {
  for (const int64_t stride : {1, 2, 3}) {
    Net net;
    const Expr* length = net.ctx.sym(net.ctx.declare_sym("L", 7));
    net.build({.batch = net.k(2), .height = net.k(1), .width = length, .in = 5, .out = 18, .pad = 0, .taps = 7, .stride = stride, .flat = true}, 1);
    std::vector<Tensor> before;
    for (const int64_t n : {7, 8, 20, 41}) before.push_back(net.answer({2, 5, 1, n}, 1));
    REQUIRE(passes::winograd_at_points(net.ctx, net.fn, net.statement_of_conv(), 8));
    const auto problems = verify(net.ctx, net.fn, {.ranges = true});
    CHECK_MESSAGE(problems.empty(), shown(problems));
    size_t at = 0;
    for (const int64_t n : {7, 8, 20, 41}) check_close(before[at++], net.answer({2, 5, 1, n}, 1), 1e-5);
  }
}

TEST_CASE("what is no convolution over constants, or has no tiles, stays") {
  const auto taken = [](Net& net, int64_t points = 6) { return passes::winograd_at_points(net.ctx, net.fn, net.statement_of_conv(), points); };
  Net six;
  six.build({six.k(1), six.k(9), six.k(9), 16, 16, 2, 6}, 1);
  CHECK(!taken(six));
  CHECK(!taken(six, 8));  // along two axes eight points lose too much
  Net apart;
  apart.build({apart.k(1), apart.k(9), apart.k(9), 16, 16, 1, 3, 3}, 1);
  CHECK(!taken(apart));
  Net variable;
  variable.build({variable.k(1), variable.k(8), variable.k(8), 16, 16, 1}, 1);
  for (Array& a : variable.fn.arrays)
    if (a.name == "w") a.kind = Array::Kind::Temp, a.data = nullptr;
  CHECK(!taken(variable));
  Net plain;
  plain.build({plain.k(1), plain.k(8), plain.k(8), 16, 16, 1}, 1);
  CHECK(taken(plain));
}

TEST_CASE("layers that gain are rewritten, within the memory that derived constants may take") {
  const auto statements = [](int64_t side, int64_t channels, uint64_t most) {
    Net net;
    net.build({net.k(1), net.k(side), net.k(side), channels, channels, 1}, 1);
    REQUIRE(passes::winograd(net.ctx, net.fn, most).ok());
    return net.fn.body.size();
  };
  CHECK(statements(56, 64, UINT64_MAX) == 6);        // weights, inputs, products, results instead of one
  CHECK(statements(56, 64, 36 * 64 * 64 * 4) == 6);
  CHECK(statements(56, 64, 36 * 64 * 64 * 4 - 1) == 6);  // smaller tiles take less
  CHECK(statements(56, 64, 16 * 64 * 64 * 4 - 1) == 3);
  CHECK(statements(14, 256, 16 * 256 * 256 * 4) == 6);  // small tiles, where weights are large
  CHECK(statements(14, 256, 16 * 256 * 256 * 4 - 1) == 3);
  CHECK(statements(56, 8, UINT64_MAX) == 3);         // too few channels to fill a panel
  CHECK(statements(4, 64, UINT64_MAX) == 3);         // too few tiles for so many weights
}

TEST_CASE("on devices weights have to be worth reading; where tensor cores multiply only large batches are worth more launches") {
  const auto is_rewritten = [](int64_t side, int64_t channels, const targets::DeviceRow* device, int64_t batch = 1) {
    Net net;
    net.build({net.k(batch), net.k(side), net.k(side), channels, channels, 1}, 1);
    REQUIRE(passes::winograd(net.ctx, net.fn, UINT64_MAX, device).ok());
    return net.fn.body.size() > 3;
  };
  CHECK(is_rewritten(56, 64, &targets::kAnyDevice));
  CHECK(is_rewritten(10, 256, nullptr));
  CHECK_FALSE(is_rewritten(10, 256, &targets::kAnyDevice));
  CHECK_FALSE(is_rewritten(56, 64, &targets::kTensorDevice));
  CHECK(is_rewritten(56, 64, &targets::kTensorDevice, 32));
  const auto has = [](bool with_tensor_cores, const std::string& pass) {
    const auto pipeline = passes::for_devices(passes::default_pipeline(), with_tensor_cores);
    return std::find(pipeline.begin(), pipeline.end(), pass) != pipeline.end();
  };
  CHECK((has(false, "winograd-on-devices") && has(true, "winograd-on-tensor-cores")));
  CHECK_FALSE((has(false, "winograd") || has(true, "winograd") || has(true, "winograd-on-devices")));
}

TEST_CASE("derived constants go to a segment of their own, the same ones once") {
  Net net;
  net.build({net.k(1), net.k(8), net.k(8), 16, 16, 1}, 1);
  // The same convolution again, for whom it may concern.
  const Nest again = *net.fn.body[net.statement_of_conv()].nest;
  net.fn.arrays.push_back(net.fn.arrays[again.writes[0].array]);
  net.fn.arrays.back().name = "y2";
  Nest& second = net.nest("conv2", again.dims, again.writes);
  second.writes[0].array = static_cast<uint32_t>(net.fn.arrays.size() - 1);
  REQUIRE(passes::winograd_at_points(net.ctx, net.fn, net.fn.body.size() - 1, 6));
  REQUIRE(passes::winograd_at_points(net.ctx, net.fn, net.statement_of_conv(), 6));
  net.fn.name = "derive";  // a name that is taken
  passes::Parts parts;
  parts.segments.push_back(std::make_unique<Function>(std::move(net.fn)));
  passes::collect_derived(net.ctx, parts);
  REQUIRE(parts.segments.size() == 2);
  CHECK(parts.derive == "derive_");
  CHECK(parts.derived == std::vector<uint64_t>{36 * 16 * 16 * 4});
  const Function& made = *parts.segments[1];
  CHECK(made.inputs.empty());
  CHECK(made.outputs.empty());
  REQUIRE(made.body.size() == 1);
  CHECK(made.arrays[made.body[0].nest->writes[0].array].kind == Array::Kind::Derived);
  for (const Statement& s : parts.segments[0]->body)
    for (const Write& w : s.nest->writes) CHECK(parts.segments[0]->arrays[w.array].kind != Array::Kind::Derived);
}
