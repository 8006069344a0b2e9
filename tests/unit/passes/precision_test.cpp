// Factors that products round (mlpack build --precision): which, to what, and where.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "packager/ir/numeric.h"
#include "packager/nest/interpret/interpret.h"
#include "packager/passes/passes.h"
#include "tests/support/nests/attention_nests.h"
#include "tests/support/nests/nests.h"

using namespace mlc;
using ir::Op;
using test::NestMaker;

namespace {

size_t count(const nest::Function& f, Op op, DType from) {
  size_t n = 0;
  for (const nest::Statement& s : f.body)
    for (const nest::Write& w : s.nest->writes) ir::walk(w.value, [&](const ir::Expr* e) { n += e->op == op && e->args[0]->type.dtype == from; });
  return n;
}

// A product with weights, of which the first is `first`.
struct Product {
  explicit Product(int64_t m, int64_t k, int64_t n, float first = 1) : maker(ctx) {
    maker.matmul(maker.n(m), maker.n(k), maker.n(n), false, false);
    nest::Array& w = maker.f.arrays[1];
    auto bytes = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(k * n) * sizeof(float));
    for (int64_t e = 0; e < k * n; ++e) ir::store_element(DType::F32, bytes->data(), static_cast<uint64_t>(e), {0, e ? 1 + static_cast<double>(e % 7) / 4096 : first});
    w.kind = nest::Array::Kind::Const;
    w.data = std::make_shared<nest::ConstData>(nest::ConstData{Bytes(*bytes), bytes});
    std::erase(maker.f.inputs, 1u);
  }
  Status run(const char* pass) { return passes::run(ctx, maker.f, {.pipeline = {pass}}); }
  bool has(DType t) const { return std::any_of(maker.f.arrays.begin(), maker.f.arrays.end(), [&](const nest::Array& a) { return a.dtype == t; }); }

  ir::Context ctx;
  NestMaker maker;
};

}  // namespace

TEST_CASE("tf32 is rounded where a product reads it, if all sides of the product are wide") {
  for (const auto& [m, k, n, wide] : {std::tuple{32, 32, 32, true}, {31, 64, 64, false}, {64, 31, 64, false}, {64, 64, 31, false}}) {
    CAPTURE(m);
    Product p(m, k, n);
    REQUIRE(p.run("products-in-tf32").ok());
    CHECK(count(p.maker.f, Op::Tf32, DType::F32) == (wide ? 2 : 0));
    CHECK(p.maker.f.body.size() == 1);  // no copies
    REQUIRE(p.run("products-in-tf32").ok());
    CHECK(count(p.maker.f, Op::Tf32, DType::F32) == (wide ? 2 : 0));  // once
  }
}

TEST_CASE("a launch of attention, which has a pass of its own, and weights of places keep f32 beside products in tf32") {
  Product attention(64, 64, 64);
  attention.maker.f.body[0].joins = true;
  REQUIRE(attention.run("products-in-tf32").ok());
  CHECK(count(attention.maker.f, Op::Tf32, DType::F32) == 0);
  for (const bool is_weight : {true, false}) {
    ir::Context ctx;
    NestMaker m(ctx);
    const uint32_t x = m.array("x", DType::F32, {m.n(4), m.n(64), m.n(64)}), w = m.array("w", DType::F32, {m.n(4), m.n(64), m.n(64)}), y = m.output("y", DType::F32, {m.n(4), m.n(64), m.n(64)});
    if (is_weight) m.f.arrays[w].kind = nest::Array::Kind::Derived;
    const auto b = m.dim("b", m.n(4)), i = m.dim("i", m.n(64)), k = m.dim("k", m.n(64)), j = m.dim("j", m.n(64));
    m.map({b, i, j}, y, {m.at(b), m.at(i), m.at(j)}, m.fold(ir::Join::Sum, {k}, ctx.binary(Op::Mul, m.load(x, {m.at(b), m.at(i), m.at(k)}), m.load(w, {m.at(b), m.at(k), m.at(j)}))));
    REQUIRE(passes::run(ctx, m.f, {.pipeline = {"products-in-tf32"}, .verify = false}).ok());
    CHECK(count(m.f, Op::Tf32, DType::F32) == (is_weight ? 0 : 2));
  }
}

TEST_CASE("factors of a launch of attention are rounded to tf32, its weights to the type of its values, where there are queries and keys for a tile") {
  struct Case { const char* pass; DType type; int64_t queries, keys; bool joins; size_t tf32, casts; };
  for (const Case& c : {Case{"attention-in-tf32", DType::F32, 64, 40, true, 4, 0}, {"attention-in-tf32", DType::F32, 31, 40, true, 0, 0}, {"attention-in-tf32", DType::F32, 64, 31, true, 0, 0},
                        {"attention-in-tf32", DType::F32, 64, 40, false, 0, 0}, {"attention-in-tf32", DType::F16, 64, 40, true, 0, 0}, {"attention-in-f16", DType::F16, 64, 40, true, 0, 1},
                        {"attention-in-bf16", DType::BF16, 64, 40, true, 0, 1}, {"attention-in-f16", DType::F32, 64, 40, true, 0, 0}, {"attention-in-f16", DType::BF16, 64, 40, true, 0, 0},
                        {"attention-in-f16", DType::F16, 16, 40, true, 0, 0}, {"attention-in-f16", DType::F16, 64, 40, false, 0, 0}}) {
    CAPTURE(c.pass);
    CAPTURE(c.queries);
    ir::Context ctx;
    NestMaker m(ctx);
    test::attention(m, {.type = c.type, .value_type = c.type}, m.n(c.queries), m.n(c.keys));
    for (nest::Statement& s : m.f.body) s.joins = s.joins && c.joins;
    for (int twice = 0; twice < 2; ++twice) {
      REQUIRE(passes::run(ctx, m.f, {.pipeline = {c.pass}}).ok());
      CHECK(count(m.f, Op::Tf32, DType::F32) == c.tf32);
      CHECK(count(m.f, Op::Cast, DType::F32) == c.casts);
    }
  }
}

TEST_CASE("weights that f16 cannot hold keep their product in f32") {
  for (const auto& [first, holds] : {std::pair{1.0f, true}, {65504.0f, true}, {65519.0f, true}, {65520.0f, false}, {-1e6f, false}, {std::numeric_limits<float>::infinity(), false}}) {
    CAPTURE(first);
    Product p(8, 16, 16, first);
    REQUIRE(p.run("weights-in-f16").ok());
    CHECK(p.has(DType::F16) == holds);
    CHECK(count(p.maker.f, Op::Cast, DType::F16) == (holds ? 2 : 0));
    Product other(8, 16, 16, first);
    REQUIRE(other.run("weights-in-bf16").ok());
    CHECK(other.has(DType::BF16));
  }
  Product computed(8, 16, 16);
  computed.maker.f.arrays[1].kind = nest::Array::Kind::Derived;
  computed.maker.f.arrays[1].data = nullptr;
  REQUIRE(passes::run(computed.ctx, computed.maker.f, {.pipeline = {"weights-in-f16"}, .verify = false}).ok());
  CHECK(!computed.has(DType::F16));
}

TEST_CASE("devices round queries, keys and values of attention, and leave its exponentials") {
  for (const bool divided : {false, true}) {
    ir::Context ctx;
    NestMaker m(ctx);
    const auto half_of_input = [&](const char* name, int64_t rows) {
      const uint32_t x = m.array(std::string(name) + "0", DType::F32, {m.n(rows), m.n(16)}), t = m.array(name, DType::F32, {m.n(rows), m.n(16)}, nest::Array::Kind::Temp);
      const auto i = m.dim("i", m.n(rows)), j = m.dim("j", m.n(16));
      m.map({i, j}, t, {m.at(i), m.at(j)}, ctx.binary(Op::Mul, m.load(x, {m.at(i), m.at(j)}), ctx.number(0.5, DType::F32)));
      return t;
    };
    const uint32_t q = half_of_input("q", 32), k = half_of_input("k", 24), v = half_of_input("v", 24);
    const auto temp = [&](const char* name) { return m.array(name, DType::F32, {m.n(32), m.n(24)}, nest::Array::Kind::Temp); };
    const uint32_t s = temp("s"), e = temp("e"), w = divided ? temp("w") : e;
    const uint32_t y = m.output("y", DType::F32, {m.n(32), m.n(16)});
    const auto row = m.dim("row", m.n(32)), key = m.dim("key", m.n(24)), c = m.dim("c", m.n(16));
    const auto sum = [&](const ir::Dim* d, const ir::Expr* a, const ir::Expr* b) { return m.fold(ir::Join::Sum, {d}, ctx.binary(Op::Mul, a, b)); };
    m.map({row, key}, s, {m.at(row), m.at(key)}, sum(c, m.load(q, {m.at(row), m.at(c)}), m.load(k, {m.at(key), m.at(c)})));
    m.map({row, key}, e, {m.at(row), m.at(key)}, ctx.unary(Op::Exp, m.load(s, {m.at(row), m.at(key)})));
    if (divided) m.map({row, key}, w, {m.at(row), m.at(key)}, ctx.binary(Op::Div, m.load(e, {m.at(row), m.at(key)}), ctx.number(24, DType::F32)));
    m.map({row, c}, y, {m.at(row), m.at(c)}, sum(key, m.load(w, {m.at(row), m.at(key)}), m.load(v, {m.at(key), m.at(c)})));
    REQUIRE(passes::run(ctx, m.f, {.pipeline = {"values-in-f16"}}).ok());
    CHECK(count(m.f, Op::Cast, DType::F16) == 3);
    const auto halves = std::count_if(m.f.arrays.begin(), m.f.arrays.end(), [](const nest::Array& a) { return a.dtype == DType::F16; });
    CHECK(halves == 3);
    for (const uint32_t rounded : {q, k, v}) CHECK(m.f.arrays[rounded].dtype == DType::F16);
  }
}

TEST_CASE("both factors are f16 in the answer") {
  Product exact(8, 16, 16), p(8, 16, 16);
  REQUIRE(p.run("weights-in-f16").ok());
  std::vector<nest::Tensor> inputs{nest::Tensor::zeros(DType::F32, {8, 16}), nest::Tensor::zeros(DType::F32, {16})};
  for (uint64_t e = 0; e < 128; ++e) ir::store_element(DType::F32, inputs[0].bytes.data(), e, {0, 1 + 0x1p-13 * static_cast<double>(e)});
  const auto got = nest::interpret(p.maker.f, inputs);
  REQUIRE(got.ok());
  for (uint64_t row = 0; row < 8; ++row)
    for (uint64_t column = 0; column < 16; ++column) {
      double sum = 0;
      for (uint64_t k = 0; k < 16; ++k) {
        const uint64_t at = k * 16 + column;
        const double w = at ? 1 + static_cast<double>(at % 7) / 4096 : 1;
        sum += ir::round_to(DType::F16, 1 + 0x1p-13 * static_cast<double>(row * 16 + k)) * ir::round_to(DType::F16, w);
      }
      CHECK(ir::load_element(DType::F32, (*got)[0].bytes.data(), row * 16 + column).f == doctest::Approx(sum).epsilon(1e-6));
    }
}

TEST_CASE("what products in f16 read is stored in f32 for processors, rounded where it is written; what others read as well is not") {
  const auto type_of_rounded = [](bool read_elsewhere, std::vector<nest::Tensor>& outputs, const std::vector<std::string>& pipeline) {
    Product p(8, 16, 16);
    NestMaker& m = p.maker;
    const auto temps = [&] { return std::count_if(m.f.arrays.begin(), m.f.arrays.end(), [](const nest::Array& a) { return a.kind == nest::Array::Kind::Temp && a.dtype == DType::F16; }); };
    REQUIRE(passes::run(p.ctx, m.f, {.pipeline = {"weights-in-f16", "fold-constants"}}).ok());
    REQUIRE(temps() == 1);
    const auto twin = static_cast<uint32_t>(std::find_if(m.f.arrays.begin(), m.f.arrays.end(), [](const nest::Array& a) { return a.kind == nest::Array::Kind::Temp && a.dtype == DType::F16; }) - m.f.arrays.begin());
    if (read_elsewhere) {
      const uint32_t z = m.output("z", DType::F32, {m.n(8), m.n(16)});
      const auto i = m.dim("i", m.n(8)), j = m.dim("j", m.n(16));
      m.map({i, j}, z, {m.at(i), m.at(j)}, p.ctx.cast(DType::F32, m.load(twin, {m.at(i), m.at(j)})));
    }
    REQUIRE(passes::run(p.ctx, m.f, {.pipeline = pipeline}).ok());
    std::vector<nest::Tensor> inputs{nest::Tensor::zeros(DType::F32, {8, 16}), nest::Tensor::zeros(DType::F32, {16})};
    for (uint64_t e = 0; e < 128; ++e) ir::store_element(DType::F32, inputs[0].bytes.data(), e, {0, 1 + 0x1p-13 * static_cast<double>(e)});
    auto got = nest::interpret(m.f, inputs);
    REQUIRE(got.ok());
    outputs = std::move(*got);
    return m.f.arrays[twin].dtype;
  };
  std::vector<nest::Tensor> narrow, wide;
  CHECK(type_of_rounded(false, narrow, {}) == DType::F16);
  CHECK(type_of_rounded(false, wide, {"widen"}) == DType::F32);
  CHECK(narrow[0].bytes == wide[0].bytes);
  CHECK(type_of_rounded(true, wide, {"widen"}) == DType::F16);
}

TEST_CASE("a pipeline rounds once, for devices to tf32 behind all else") {
  const std::vector<std::string> plain = passes::default_pipeline();
  CHECK(passes::with_precision(plain, passes::Precision::F32, passes::RoundedValues::All) == plain);
  CHECK(passes::with_precision(plain, passes::Precision::TF32, passes::RoundedValues::All) == plain);  // of processors
  CHECK(passes::for_devices(plain, false, passes::Precision::TF32).back() == "products-in-tf32");
  for (const passes::Precision precision : {passes::Precision::TF32, passes::Precision::F16, passes::Precision::BF16}) {
    const std::string attention = "attention-in-" + std::string(passes::name_of(precision));
    CHECK(passes::for_devices(plain, true, precision).back() == attention);
    CHECK(std::count(plain.begin(), plain.end(), attention) == 0);
    const auto without = passes::for_devices(plain, false, precision);
    CHECK(std::count(without.begin(), without.end(), attention) == 0);
  }
  const auto has = [](const std::vector<std::string>& all, const char* pass) { return std::count(all.begin(), all.end(), pass); };
  const auto f16 = passes::with_precision(plain, passes::Precision::F16, passes::RoundedValues::All), bf16 = passes::with_precision(plain, passes::Precision::BF16, passes::RoundedValues::All);
  CHECK((has(f16, "weights-in-f16") == 1 && has(passes::for_devices(f16, true, passes::Precision::F16), "values-in-f16") == 1 && has(passes::for_devices(f16, true, passes::Precision::F16), "weights-in-f16") == 1));
  CHECK((has(bf16, "products-in-bf16") == 1 && has(passes::for_devices(bf16, true, passes::Precision::BF16), "values-in-bf16") == 1));
}
