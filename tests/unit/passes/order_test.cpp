// Products whose operands lie as the product wants to read them.
#include <doctest/doctest.h>

#include <cstring>

#include "packager/nest/text/print.h"
#include "packager/passes/passes.h"
#include "tests/support/nests/nest_builder.h"

using namespace mlc;
using namespace mlc::ir;
using namespace mlc::nest;
using mlc::test::NestBuilder;
using mlc::test::numbers;

namespace {

struct Product : NestBuilder {
  uint32_t constant(std::string name, std::vector<int64_t> shape) {
    std::vector<const Expr*> extents;
    size_t count = 1;
    for (int64_t e : shape) extents.push_back(k(e)), count *= static_cast<size_t>(e);
    const uint32_t n = array(std::move(name), DType::F32, extents, Array::Kind::Const);
    const std::vector<float> values = numbers(count, 1);
    auto bytes = std::make_shared<std::vector<std::byte>>(count * 4);
    std::memcpy(bytes->data(), values.data(), bytes->size());
    fn.arrays[n].data = std::make_shared<ConstData>(ConstData{Bytes(*bytes), bytes});
    return n;
  }
  float element(uint32_t a, size_t at) const {
    float v;
    std::memcpy(&v, fn.arrays[a].data->bytes.data() + 4 * at, 4);
    return v;
  }
  const Expr* sum(const Dim* over, const Expr* a, const Expr* b) { return ctx.fold({ctx.builtin(Join::Sum), {over}}, {ctx.binary(Op::Mul, a, b)}); }

  // y[a, n] = sum(x*x at [a, place(k)] * w[k, n]), for 10 of `places` columns of x.
  uint32_t read_at(int64_t places, const std::function<const Expr*(const Expr*)>& place) {
    const uint32_t x = input("x", DType::F32, {k(4), k(places)}), w = constant("w", {10, 3});
    const uint32_t squares = array("squares", DType::F32, {k(4), k(places)}), moved = array("moved", DType::F32, {k(4), k(10)}), y = output("y", DType::F32, {k(4), k(3)});
    const Dim *a = dim("a", 4), *q = dim("q", places), *b = dim("a", 4), *m = dim("m", 10), *c = dim("a", 4), *n = dim("n", 3), *j = dim("k", 10);
    nest("squares", {a, q}, {{squares, {d(a), d(q)}, ctx.binary(Op::Mul, load(x, {d(a), d(q)}), load(x, {d(a), d(q)}))}});
    nest("moved", {b, m}, {{moved, {d(b), d(m)}, load(squares, {d(b), place(d(m))})}});
    nest("y", {c, n}, {{y, {d(c), d(n)}, sum(j, load(moved, {d(c), d(j)}), load(w, {d(j), d(n)}))}});
    return w;
  }
  Status run_pass(const char* pass) {
    passes::Options o;
    o.pipeline = {pass};
    o.check = true;  // answers before and after
    return passes::run(ctx, fn, o);
  }
};

}  // namespace

TEST_CASE_FIXTURE(Product, "constant weights take the order of what a product reads; rows for one place are added") {
  const uint32_t w = read_at(12, [&](const Expr* m) { return ctx.floormod(ctx.mul(m, k(5)), k(8)); });  // 0 5 2 7 4 1 6 3 0 5
  const Status status = run_pass("permute-weights");
  REQUIRE_MESSAGE(status.ok(), status.message);
  INFO(print(fn));
  REQUIRE(fn.body.size() == 2);
  const uint32_t permuted = static_cast<uint32_t>(fn.arrays.size()) - 1;
  REQUIRE(fn.arrays[permuted].shape[0]->is_int(12));
  CHECK(element(permuted, 7 * 3 + 1) == element(w, 3 * 3 + 1));
  CHECK(element(permuted, 0) == element(w, 0) + element(w, 8 * 3));
  CHECK(element(permuted, 11 * 3) == 0);
}

TEST_CASE_FIXTURE(Product, "elements at a stride, and few of many, are read where they lie") {
  SUBCASE("a stride") { read_at(12, [&](const Expr* m) { return ctx.add(m, k(2)); }); }
  SUBCASE("few of many") { read_at(13, [&](const Expr* m) { return ctx.floormod(ctx.mul(m, k(5)), k(13)); }); }
  const std::string before = print(fn);
  const Status status = run_pass("permute-weights");
  REQUIRE_MESSAGE(status.ok(), status.message);
  CHECK(print(fn) == before);
}

TEST_CASE_FIXTURE(Product, "columns side by side between the elements of a fold are panels as they lie, whatever their factor is") {
  const auto product = [&](int64_t columns) {
    const uint32_t x = input("x", DType::F32, {k(100), k(25 * columns)}), w = constant("w", {25, 13}), y = output("y", DType::F32, {k(100), k(13), k(columns)});
    const Dim *a = dim("a", 100), *i = dim("i", 13), *j = dim("j", columns), *h = dim("h", 25);
    nest("y", {a, i, j}, {{y, {d(a), d(i), d(j)}, sum(h, load(x, {d(a), ctx.add(ctx.mul(d(h), k(columns)), d(j))}), load(w, {d(h), d(i)}))}});
    const Status status = run_pass("layout");
    REQUIRE_MESSAGE(status.ok(), status.message);
    return std::pair(fn.arrays[w].layout, fn.arrays[y].layout);
  };
  SUBCASE("whole panels") {
    const auto [weights, result] = product(32);
    CHECK(weights.is_row_major());
    CHECK(result.is_row_major());
  }
  SUBCASE("not whole ones") {
    const auto [weights, result] = product(20);
    CHECK(to_string(weights, 2) == "[1/16][0][1%16]");
  }
}
