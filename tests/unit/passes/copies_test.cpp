// Devices: small copies that stand one behind the other are one statement.
#include <doctest/doctest.h>

#include "packager/nest/facts/uses.h"
#include "packager/passes/passes.h"
#include "tests/support/nests/nest_builder.h"

using namespace mlc;
using namespace mlc::ir;
using namespace mlc::nest;
using mlc::test::NestBuilder;

namespace {

// Caches of a decoder: what comes behind `past` rows of an input is new.
struct Caches : NestBuilder {
  const Sym *past = ctx.declare_sym("past", 0, 1024), *fresh = ctx.declare_sym("new", 0, 16);
  const Expr *N = ctx.sym(past), *M = ctx.sym(fresh), *all = ctx.add(N, M);

  uint32_t rows(const std::string& name, const Expr* count) { return input(name, DType::F32, {k(3), count, k(8)}); }
  // All of `from` to the rows from `at` on of `to`.
  void copy(uint32_t from, const Expr* count, uint32_t to, const Expr* at) {
    const Dim *a = dim("a", 3), *n = ctx.declare_dim("n", count), *b = dim("b", 8);
    nest("copy", {a, n, b}, {{to, {d(a), ctx.add(d(n), at), d(b)}, load(from, {d(a), d(n), d(b)})}});
  }
  size_t join() {
    passes::Options o;
    o.pipeline = {"join-copies"};
    o.check = true;  // answers before and after
    const Status s = passes::run(ctx, fn, o);
    REQUIRE_MESSAGE(s.ok(), s.text());
    return fn.body.size();
  }
};

}  // namespace

TEST_CASE_FIXTURE(Caches, "the parts of a concatenation are one statement, and those of two at the same points its two writes") {
  const uint32_t keys = rows("keys", N), key = rows("key", M), values = rows("values", N), value = rows("value", M);
  const uint32_t k1 = output("k", DType::F32, {k(3), all, k(8)}), v1 = output("v", DType::F32, {k(3), all, k(8)});
  copy(keys, N, k1, k(0)), copy(key, M, k1, N), copy(values, N, v1, k(0)), copy(value, M, v1, N);
  CHECK(join() == 1);
  REQUIRE(fn.body[0].nest->writes.size() == 2);
  CHECK(fn.body[0].nest->dims[1]->extent == all);
}

TEST_CASE_FIXTURE(Caches, "three parts are one statement, along the last axis as well") {
  const uint32_t one = rows("one", N), two = rows("two", M), three = rows("three", k(5)), y = output("y", DType::F32, {k(3), ctx.add(all, k(5)), k(8)});
  copy(one, N, y, k(0)), copy(two, M, y, N), copy(three, k(5), y, all);
  const uint32_t wide = output("wide", DType::F32, {k(3), N, k(16)});
  for (const int64_t at : {0, 8}) {
    const Dim *a = dim("a", 3), *n = ctx.declare_dim("n", N), *b = dim("b", 8);
    nest("copy", {a, n, b}, {{wide, {d(a), d(n), ctx.add(d(b), k(at))}, load(one, {d(a), d(n), d(b)})}});
  }
  CHECK(join() == 2);
}

TEST_CASE_FIXTURE(Caches, "copies that are not beside each other, or of which one reads what the other writes, stay apart") {
  const uint32_t one = rows("one", N), two = rows("two", M), y = output("y", DType::F32, {k(3), ctx.add(all, k(1)), k(8)}), z = output("z", DType::F32, {k(3), N, k(8)});
  const uint32_t t = array("t", DType::F32, {k(3), N, k(8)});
  copy(one, N, y, k(0)), copy(two, M, y, ctx.add(N, k(1)));  // the row between them comes last
  const uint32_t row = rows("row", k(1));
  copy(row, k(1), y, N);
  copy(one, N, t, k(0)), copy(t, N, z, k(0));
  CHECK(join() == 5);
}

TEST_CASE_FIXTURE(Caches, "large copies keep a launch each, and so do parts of a function that run on different devices") {
  const uint32_t one = input("one", DType::F32, {k(64), k(512), k(64)}), y = output("y", DType::F32, {k(64), k(1024), k(64)});
  for (const int64_t at : {0, 512}) {
    const Dim *a = dim("a", 64), *n = dim("n", 512), *b = dim("b", 64);
    nest("copy", {a, n, b}, {{y, {d(a), ctx.add(d(n), k(at)), d(b)}, load(one, {d(a), d(n), d(b)})}});
  }
  const uint32_t two = rows("two", M), z = output("z", DType::F32, {k(3), ctx.add(M, M), k(8)});
  copy(two, M, z, k(0)), copy(two, M, z, M);
  fn.body.back().part = 1;
  CHECK(join() == 4);
}

TEST_CASE("only pipelines of devices join copies, once arrays lie where they are copied to") {
  const auto all = passes::default_pipeline(), devices = passes::for_devices(all, true, passes::Precision::F32);
  CHECK(std::find(all.begin(), all.end(), "join-copies") == all.end());
  const auto at = std::find(devices.begin(), devices.end(), "join-copies");
  REQUIRE(at != devices.end());
  CHECK(*(at - 1) == "in-place");
}
