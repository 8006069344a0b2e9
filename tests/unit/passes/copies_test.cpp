// Devices: small copies that stand one behind the other are one statement.
#include <doctest/doctest.h>

#include <algorithm>

#include "packager/nest/facts/parts.h"
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
  CHECK(join() == 4);  // of the five, the first one and that to t are at the same points
  CHECK(fn.body[0].nest->writes.size() == 2);
}

TEST_CASE_FIXTURE(Caches, "copies of caches are one statement where the new rows are computed between them, but none moves to before what it reads is there") {
  const uint32_t keys = rows("keys", N), key = rows("key", M), values = rows("values", N), value = rows("value", M), t = array("t", DType::F32, {k(3), M, k(8)});
  const uint32_t k1 = output("k", DType::F32, {k(3), all, k(8)}), v1 = output("v", DType::F32, {k(3), all, k(8)});
  const auto computed = [&](uint32_t from, uint32_t to, const Expr* at) {
    const Dim *a = dim("a", 3), *n = ctx.declare_dim("n", M), *b = dim("b", 8), *r = dim("r", 8);
    nest("norm", {a, n, b}, {{to, {d(a), ctx.add(d(n), at), d(b)}, ctx.binary(Op::Mul, load(from, {d(a), d(n), d(b)}), ctx.fold({ctx.builtin(Join::Sum), {r}, nullptr}, {load(from, {d(a), d(n), d(r)})}))}});
  };
  copy(keys, N, k1, k(0)), computed(key, k1, N), copy(values, N, v1, k(0)), computed(value, v1, N);
  CHECK(join() == 3);
  CHECK(fn.body[0].nest->writes.size() == 2);
  const uint32_t z = output("z", DType::F32, {k(3), M, k(8)});
  copy(key, M, t, k(0)), computed(t, z, k(0)), copy(z, M, output("y", DType::F32, {k(3), M, k(8)}), k(0));
  CHECK(join() == 6);
}

TEST_CASE_FIXTURE(Caches, "an array that is copied whole into an output stays alone: nothing is copied then") {
  const uint32_t one = rows("one", N), s = array("s", DType::F32, {k(3), N, k(8)}), t = array("t", DType::F32, {k(3), N, k(8)});
  const uint32_t y = output("y", DType::F32, {k(3), N, k(8)}), z = output("z", DType::F32, {k(3), N, k(8)});
  copy(one, N, s, k(0)), copy(one, N, t, k(0)), copy(s, N, y, k(0)), copy(t, N, z, k(0));
  CHECK(join() == 3);
  const nest::Parts parts = nest::parts_of_outputs(ctx, fn, 256);
  CHECK(std::count(parts.is_done.begin(), parts.is_done.end(), true) == 2);
}

namespace {

// x * c + turned * s, where the first half of `turned` is the negated second half of x: its halves change places.
struct Rotation : NestBuilder {
  const Sym* fresh = ctx.declare_sym("new", 0, 16);
  const Expr* M = ctx.sym(fresh);
  const uint32_t x = input("x", DType::F32, {k(3), M, k(8)}), c = input("c", DType::F32, {M, k(8)}), y = output("y", DType::F32, {k(3), M, k(8)});
  const uint32_t turned = array("turned", DType::F32, {k(3), M, k(8)});

  void half(int64_t from, int64_t to, bool negated) {
    const Dim *a = dim("a", 3), *n = ctx.declare_dim("n", M), *b = dim("b", 4);
    const Expr* value = load(x, {d(a), d(n), ctx.add(d(b), k(from))});
    nest("half", {a, n, b}, {{turned, {d(a), d(n), ctx.add(d(b), k(to))}, negated ? ctx.unary(Op::Neg, value) : value}});
  }
  void rotate(uint32_t to) {
    const Dim *a = dim("a", 3), *n = ctx.declare_dim("n", M), *b = dim("b", 8);
    const Expr* at = load(c, {d(n), d(b)});
    nest("rotate", {a, n, b}, {{to, {d(a), d(n), d(b)}, ctx.binary(Op::Add, ctx.binary(Op::Mul, load(x, {d(a), d(n), d(b)}), at), ctx.binary(Op::Mul, load(turned, {d(a), d(n), d(b)}), at))}});
  }
  size_t join() {
    const Status s = passes::run(ctx, fn, {.pipeline = {"join-copies"}, .check = true});
    REQUIRE_MESSAGE(s.ok(), s.text());
    return fn.body.size();
  }
};

}  // namespace

TEST_CASE_FIXTURE(Rotation, "halves of a row that change their places, one of them negated, are chosen where one map reads them") {
  half(4, 0, true), half(0, 4, false), rotate(y);
  CHECK(join() == 1);
}

TEST_CASE_FIXTURE(Rotation, "a choice that two statements read is a statement of its own") {
  half(4, 0, true), half(0, 4, false), rotate(y);
  const uint32_t z = output("z", DType::F32, {k(3), M, k(8)});
  rotate(z);
  CHECK(join() == 2);  // of which one rotates twice
}

TEST_CASE_FIXTURE(Rotation, "halves that are computed are one statement, and what a map reads more than once is stored") {
  for (const int64_t at : {0, 4}) {
    const Dim *a = dim("a", 3), *n = ctx.declare_dim("n", M), *b = dim("b", 4);
    const auto side = [&](int64_t half) { return ctx.binary(Op::Mul, load(x, {d(a), d(n), ctx.add(d(b), k(half))}), load(c, {d(n), d(b)})); };
    nest("half", {a, n, b}, {{turned, {d(a), d(n), ctx.add(d(b), k(at))}, ctx.binary(at ? Op::Add : Op::Sub, side(0), side(4))}});
  }
  const Dim *a = dim("a", 3), *n = ctx.declare_dim("n", M), *b = dim("b", 8);
  nest("twice", {a, n, b}, {{y, {d(a), d(n), d(b)}, ctx.binary(Op::Add, load(turned, {d(a), d(n), d(b)}), load(turned, {d(a), d(n), ctx.sub(k(7), d(b))}))}});
  CHECK(join() == 2);
}

TEST_CASE_FIXTURE(Rotation, "elements under each other along an axis of one are parts, and a choice that was there keeps its meaning") {
  const uint32_t pairs = output("pairs", DType::F32, {M, k(4), k(2)});
  for (const int64_t at : {0, 1}) {
    const Dim *n = ctx.declare_dim("n", M), *b = dim("b", 4);
    const Expr* value = load(x, {k(0), d(n), ctx.add(ctx.mul(d(b), k(2)), k(1 - at))});
    nest("stack", {n, b}, {{pairs, {d(n), d(b), k(at)}, at ? value : ctx.unary(Op::Neg, value)}});
  }
  const Dim *a = dim("a", 3), *n = ctx.declare_dim("n", M), *b = dim("b", 4);
  const auto side = [&](int64_t half) { return load(x, {d(a), d(n), ctx.add(d(b), k(half))}); };
  nest("masked", {a, n, b}, {{turned, {d(a), d(n), d(b)}, ctx.select(ctx.binary(Op::Lt, load(c, {d(n), d(b)}), ctx.number(0, DType::F32)), side(0), side(4))}});
  half(0, 4, false), rotate(y);
  CHECK(join() == 2);
}

TEST_CASE_FIXTURE(Caches, "a computed part is not beside one as long as the run says, which may be the longer one") {
  const uint32_t one = rows("one", N), two = rows("two", M), y = output("y", DType::F32, {k(3), all, k(8)});
  copy(one, N, y, k(0));
  const Dim *a = dim("a", 3), *n = ctx.declare_dim("n", M), *b = dim("b", 8);
  nest("sum", {a, n, b}, {{y, {d(a), ctx.add(d(n), N), d(b)}, ctx.binary(Op::Add, load(two, {d(a), d(n), d(b)}), load(two, {d(a), d(n), ctx.sub(k(7), d(b))}))}});
  CHECK(join() == 2);
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

TEST_CASE_FIXTURE(Caches, "choices that share their parts are looked at no oftener than parts are allowed") {
  const uint32_t one = rows("one", k(4)), two = rows("two", k(4)), y = output("y", DType::F32, {k(3), k(8), k(8)});
  const Dim *a = dim("a", 3), *n = dim("n", 4), *b = dim("b", 8);
  const Expr *before = load(one, {d(a), d(n), d(b)}), *value = load(two, {d(a), d(n), d(b)});
  for (int64_t level = 0; level < 90; ++level) {  // as many paths as the 90th number of Fibonacci
    const Expr* next = ctx.select(ctx.binary(Op::Lt, ctx.add(ctx.mul(d(b), k(level + 1)), d(n)), k(3 * level + 5)), value, before);
    before = value, value = next;
  }
  nest("chosen", {a, n, b}, {{y, {d(a), d(n), d(b)}, value}});
  copy(one, k(4), y, k(4));
  passes::Options o;
  o.pipeline = {"join-copies"};
  REQUIRE(passes::run(ctx, fn, o).ok());
  CHECK(fn.body.size() == 2);
}
