// Products of one array with constant weights become one product, whose weights lie side by side.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "packager/passes/passes.h"
#include "tests/support/nests/nest_builder.h"

using namespace mlc;
using namespace mlc::ir;
using namespace mlc::nest;
using mlc::test::NestBuilder;

namespace {

struct Products : NestBuilder {
  static constexpr int64_t kRows = 5, kInner = 12;
  passes::ReadsElsewhere reads_elsewhere;
  passes::Precision precision = passes::Precision::F32;
  uint32_t x = input("x", DType::F32, {k(kRows), k(kInner)});

  uint32_t constant(const std::string& name, DType type, std::vector<int64_t> shape) {
    std::vector<const Expr*> extents;
    size_t elements = 1;
    for (const int64_t n : shape) extents.push_back(k(n)), elements *= static_cast<size_t>(n);
    const uint32_t c = array(name, type, std::move(extents), Array::Kind::Const);
    auto bytes = std::make_shared<std::vector<std::byte>>(elements * bytes_of(type));
    const std::vector<float> values = test::numbers(elements, c + 1);
    for (size_t i = 0; i < elements; ++i) {
      if (type == DType::F32) std::memcpy(bytes->data() + i * 4, &values[i], 4);
      else (*bytes)[i] = static_cast<std::byte>(static_cast<int>(values[i] * 100));
    }
    fn.arrays[c].data = std::make_shared<ConstData>(ConstData{Bytes(*bytes), bytes});
    return c;
  }
  struct Form {
    bool turned = false;      // weights are [n, k]
    bool swapped = false;     // weights are the first factor
    bool by_column = false;   // the number of the column is added
    double scale = 1;         // of the sum
    uint32_t weights = kNoArray, from = kNoArray;
  };
  // from * weights + bias, of so many columns.
  uint32_t product(const std::string& name, int64_t columns, const Form& form) {
    const uint32_t w = form.weights != kNoArray ? form.weights : constant(name + " weights", DType::F32, form.turned ? std::vector{columns, kInner} : std::vector{kInner, columns});
    const uint32_t bias = constant(name + " bias", DType::F32, {columns}), y = array(name, DType::F32, {k(kRows), k(columns)});
    const Dim *m = dim("m", kRows), *n = dim("n", columns), *i = dim("k", kInner);
    const Expr* a = load(form.from != kNoArray ? form.from : x, {d(m), d(i)});
    const Expr* b = load(w, form.turned ? std::vector{d(n), d(i)} : std::vector{d(i), d(n)});
    if (form.swapped) std::swap(a, b);
    const Expr* sum = ctx.fold({ctx.builtin(Join::Sum), {i}}, {ctx.binary(Op::Mul, a, b)});
    if (form.scale != 1) sum = ctx.binary(Op::Mul, sum, r(form.scale));
    const Expr* value = ctx.binary(Op::Add, sum, load(bias, {d(n)}));
    if (form.by_column) value = ctx.binary(Op::Add, value, ctx.cast(DType::F32, d(n)));
    nest(name, {m, n}, {{y, {d(m), d(n)}, value}});
    return y;
  }
  uint32_t product(const std::string& name, int64_t columns) { return product(name, columns, Form{}); }
  // Its rows are summed.
  uint32_t read_rows(uint32_t from) {
    const uint32_t y = output("sum " + std::to_string(fn.body.size()), DType::F32, {k(kRows)});
    const Dim *m = dim("m", kRows), *n = dim("n", fn.arrays[from].shape[1]);
    nest("sum", {m}, {{y, {d(m)}, ctx.fold({ctx.builtin(Join::Sum), {n}}, {load(from, {d(m), d(n)})})}});
    return y;
  }
  // Statements that are left.
  size_t join() {
    passes::Options o;
    o.pipeline = {"join-products"};
    o.reads_elsewhere = reads_elsewhere;
    o.precision = precision;
    o.check = true;  // answers before and after
    const Status s = passes::run(ctx, fn, o);
    REQUIRE_MESSAGE(s.ok(), s.text());
    return fn.body.size();
  }
};

}  // namespace

TEST_CASE("products of one array become one product of all their columns, of which each reader reads its own") {
  Products p;
  std::vector<uint32_t> results;
  const int64_t columns[] = {32, 16, 48};
  for (size_t k = 0; k < 3; ++k) results.push_back(p.product(std::string(1, "qkv"[k]), columns[k]));
  for (const uint32_t result : results) p.read_rows(result);
  const Array before = p.fn.arrays[p.x + 4];  // weights of k
  REQUIRE(before.name == "k weights");
  CHECK(p.join() == 4);
  const Nest& joined = *p.fn.body[0].nest;
  const Array& whole = p.fn.arrays[joined.writes[0].array];
  CHECK(whole.name == "q | k | v");
  CHECK(whole.shape[1]->is_int(96));
  // Each row of the weights has those of all three; the parts say what it is made of.
  const std::vector<uint32_t> constants = passes::used_constants(p.fn);
  REQUIRE(constants.size() == 2);
  const auto weights = std::find_if(constants.begin(), constants.end(), [&](uint32_t c) { return p.fn.arrays[c].shape.size() == 2; });
  REQUIRE(weights != constants.end());
  const ConstData& data = *p.fn.arrays[*weights].data;
  REQUIRE(data.bytes.size() == 96 * Products::kInner * 4);
  for (int64_t row = 0; row < Products::kInner; ++row)
    CHECK(std::memcmp(data.bytes.data() + (row * 96 + 32) * 4, before.data->bytes.data() + row * 16 * 4, 16 * 4) == 0);
  CHECK(data.axis == 1);
  REQUIRE(data.parts.size() == 3);
  CHECK(data.parts[1] == before.data);
}

TEST_CASE("weights of columns by rows are joined as well, in whatever order factors are multiplied") {
  Products p;
  for (const char* name : {"q", "k", "v"}) p.read_rows(p.product(name, 16, {.turned = true, .swapped = *name == 'k'}));
  CHECK(p.join() == 4);
}

TEST_CASE("products stay apart that differ in more than their columns") {
  Products p;
  p.read_rows(p.product("q", 16));
  SUBCASE("weights that lie otherwise") { p.read_rows(p.product("k", 16, {.turned = true})); }
  SUBCASE("another epilogue") { p.read_rows(p.product("k", 16, {.scale = 0.5})); }
  SUBCASE("of another array") { p.read_rows(p.product("k", 16, {.from = p.input("z", DType::F32, {p.k(Products::kRows), p.k(Products::kInner)})})); }
  SUBCASE("columns that are no panels") { p.read_rows(p.product("k", 24)); }
  SUBCASE("a result of the function") {
    const uint32_t y = p.product("k", 16);
    p.fn.outputs.push_back(y);
    p.read_rows(y);
  }
  SUBCASE("too far apart") {
    for (int k = 0; k < 40; ++k) p.read_rows(p.x);
    p.read_rows(p.product("k", 16));
  }
  const size_t before = p.fn.body.size();
  CHECK(p.join() == before);
}

TEST_CASE("what knows the number of its column is joined with nothing") {
  Products p;
  for (const char* name : {"q", "k"}) p.read_rows(p.product(name, 16, {.by_column = true}));
  CHECK(p.join() == 4);
}

TEST_CASE("weights that something else reads stay as they are, for a file holds them once") {
  Products p;
  const uint32_t q = p.product("q", 16), shared = p.constant("shared", DType::F32, {Products::kInner, 16});
  const uint32_t k = p.product("k", 16, {.weights = shared});
  p.read_rows(q), p.read_rows(k);
  SUBCASE("in the function") {
    const Dim *m = p.dim("m", Products::kInner), *n = p.dim("n", 16);
    const uint32_t y = p.output("y", DType::F32, {p.k(Products::kInner)});
    p.nest("sum", {m}, {{y, {p.d(m)}, p.ctx.fold({p.ctx.builtin(Join::Sum), {n}}, {p.load(shared, {p.d(m), p.d(n)})})}});
  }
  SUBCASE("in another one") {
    std::vector<std::unique_ptr<Function>> functions;
    Products other;
    const uint32_t w = other.constant("same", DType::F32, {Products::kInner, 16});
    other.fn.arrays[w].data = p.fn.arrays[shared].data;
    SUBCASE("the same") {}
    SUBCASE("equal ones") {
      auto bytes = std::make_shared<std::vector<std::byte>>(other.fn.arrays[w].data->bytes.begin(), other.fn.arrays[w].data->bytes.end());
      other.fn.arrays[w].data = std::make_shared<ConstData>(ConstData{Bytes(*bytes), bytes});
    }
    other.read_rows(w);
    functions.push_back(std::make_unique<Function>(std::move(other.fn)));
    functions.push_back(std::make_unique<Function>());
    const passes::ReadsElsewhere elsewhere = passes::reads_elsewhere_in(functions);
    REQUIRE(elsewhere);
    p.reads_elsewhere = elsewhere;
  }
  const size_t before = p.fn.body.size();
  CHECK(p.join() == before);
}

TEST_CASE("two thirds are joined where one of three may not be") {
  Products p;
  const uint32_t shared = p.constant("shared", DType::F32, {Products::kInner, 16});
  p.reads_elsewhere = [&](const Function&, uint32_t array) { return array == shared; };
  p.read_rows(p.product("q", 16)), p.read_rows(p.product("k", 16, {.weights = shared})), p.read_rows(p.product("v", 16));
  CHECK(p.join() == 5);
}

TEST_CASE("what attention reads rounded is not joined with what something else reads, where values are rounded") {
  for (const passes::Precision precision : {passes::Precision::F32, passes::Precision::F16}) {
    Products p;
    p.precision = precision;
    const uint32_t q = p.product("q", 16), k = p.product("k", 16), v = p.product("v", 16);
    const uint32_t scores = p.output("scores", DType::F32, {p.k(Products::kRows), p.k(Products::kRows)});
    const Dim *m = p.dim("m", Products::kRows), *n = p.dim("n", Products::kRows), *i = p.dim("k", 16);
    p.nest("scores", {m, n}, {{scores, {p.d(m), p.d(n)}, p.ctx.fold({p.ctx.builtin(Join::Sum), {i}}, {p.ctx.binary(Op::Mul, p.load(q, {p.d(m), p.d(i)}), p.load(k, {p.d(n), p.d(i)}))})}});
    p.read_rows(v);
    CHECK(p.join() == (precision == passes::Precision::F32 ? 3 : 4));
  }
}
