#include "packager/nest/facts/key.h"

#include <doctest/doctest.h>

#include "tests/support/nests/nest_builder.h"

using namespace mlc;
using namespace mlc::ir;
using namespace mlc::nest;
using mlc::test::NestBuilder;

namespace {

struct Keys : NestBuilder {
  // out[d] = value(x[d]) over a dim of its own.
  uint32_t map(uint32_t x, int64_t n, const std::function<const Expr*(const Expr*)>& value) {
    const uint32_t y = array("t" + std::to_string(fn.arrays.size()), DType::F32, {k(n)});
    auto i = dim("i", n);
    nest("map", {i}, {{y, {d(i)}, value(load(x, {d(i)}))}});
    return y;
  }
  std::string merge_key(size_t s) {
    return key_of(*fn.body[s].nest, [](StructureKey& key, uint32_t array) { key.number(array); });
  }
  LoweringKey lower_key(size_t s) { 
    const Nest* const nest = fn.body[s].nest.get();
    return lowering_key(fn, {&nest, 1});
  }
};

}  // namespace

TEST_CASE_FIXTURE(Keys, "nests that compute the same have one key, whatever their dims and results are called") {
  auto x = input("x", DType::F32, {k(4)}), z = input("z", DType::F32, {k(4)});
  auto twice = [&](const Expr* e) { return ctx.binary(Op::Mul, e, r(2)); };
  map(x, 4, twice), map(x, 4, twice), map(z, 4, twice), map(x, 3, twice);
  map(x, 4, [&](const Expr* e) { return ctx.binary(Op::Mul, e, r(3)); });
  CHECK(merge_key(0) == merge_key(1));
  CHECK(merge_key(0) != merge_key(2));  // another array
  CHECK(merge_key(0) != merge_key(3));  // other extents
  CHECK(merge_key(0) != merge_key(4));  // another number
}

TEST_CASE_FIXTURE(Keys, "nests that differ in nothing but their arrays are lowered once") {
  auto x = input("x", DType::F32, {k(4)}), z = input("z", DType::F32, {k(4)}), longer = input("l", DType::F32, {k(5)});
  auto twice = [&](const Expr* e) { return ctx.binary(Op::Mul, e, r(2)); };
  auto y = map(x, 4, twice), w = map(z, 4, twice);
  map(longer, 4, twice);
  auto plus_x = [&](const Expr* e) { return ctx.binary(Op::Add, e, load(x, {k(0)})); };
  map(x, 4, plus_x), map(z, 4, plus_x);
  CHECK(lower_key(0).text == lower_key(1).text);
  CHECK(lower_key(0).arrays == std::vector<uint32_t>{x, y});
  CHECK(lower_key(1).arrays == std::vector<uint32_t>{z, w});
  CHECK(lower_key(0).text != lower_key(2).text);  // the shape of an array is another
  CHECK(lower_key(3).text != lower_key(4).text);  // one array twice is not two arrays
}

TEST_CASE_FIXTURE(Keys, "the order of a fold's dims counts") {
  auto x = input("x", DType::F32, {k(3), k(3)});
  auto y = output("y", DType::F32, {});
  auto sum = [&](bool turned) {
    auto a = dim("a", 3), b = dim("b", 3);
    std::vector<const Dim*> dims{a, b};
    if (turned) std::swap(dims[0], dims[1]);
    return ctx.fold({ctx.builtin(Join::Sum), dims, nullptr}, {load(x, {d(a), d(b)})});
  };
  nest("s", {}, {{y, {}, sum(false)}}), nest("s", {}, {{y, {}, sum(false)}}), nest("s", {}, {{y, {}, sum(true)}});
  CHECK(merge_key(0) == merge_key(1));
  CHECK(merge_key(0) != merge_key(2));
}

TEST_CASE_FIXTURE(Keys, "the key of a value used over and over is as long as its graph") {
  auto x = input("x", DType::F32, {k(4)});
  map(x, 4, [&](const Expr* e) {
    for (int n = 0; n < 60; ++n) e = ctx.binary(Op::Mul, ctx.binary(Op::Add, e, r(n + 1)), ctx.binary(Op::Sub, e, r(n + 1)));
    return e;
  });
  CHECK(merge_key(0).size() < 20000);
}

TEST_CASE("a lasting key is the same in every context, and names no symbol") {
  // y[i] = sum over j of x[i, j] * by, of N rows; other things are made before, so that nothing has the same number.
  const auto key = [](const char* symbol, int64_t length, double by, Join join, int made_before) {
    Keys keys;
    for (int n = 0; n < made_before; ++n) keys.map(keys.input("b" + std::to_string(n), DType::F32, {keys.k(9)}), 9, [&](const Expr* e) { return keys.ctx.binary(Op::Add, e, keys.r(7)); });
    const Expr* rows = keys.ctx.sym(keys.ctx.declare_sym(symbol, 0, 4096));
    const uint32_t x = keys.input("x", DType::F32, {rows, keys.k(length)}), y = keys.array("y", DType::F32, {rows});
    const Dim *i = keys.dim("i", rows), *j = keys.dim("j", length);
    const Expr* value = keys.ctx.binary(Op::Mul, keys.load(x, {keys.d(i), keys.d(j)}), keys.r(by));
    keys.nest("s", {i}, {{y, {keys.d(i)}, keys.ctx.fold({keys.ctx.builtin(join), {j}, nullptr}, {value})}});
    const Nest* const nest = keys.fn.body.back().nest.get();
    return lasting_key(keys.fn, {&nest, 1}).text;
  };
  const std::string first = key("N", 8, 2, Join::Sum, 0);
  CHECK(key("N", 8, 2, Join::Sum, 5) == first);
  CHECK(key("batch", 8, 2, Join::Sum, 3) == first);
  CHECK(key("N", 9, 2, Join::Sum, 0) != first);
  CHECK(key("N", 8, 3, Join::Sum, 0) != first);
  CHECK(key("N", 8, 2, Join::Max, 0) != first);
}
