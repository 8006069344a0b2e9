// Arrays that concatenations copy are parts of what they are copied to.
#include <doctest/doctest.h>

#include "packager/nest/copy.h"
#include "packager/nest/facts/uses.h"
#include "packager/nest/text/print.h"
#include "packager/nest/verify/verify.h"
#include "packager/passes/passes.h"
#include "packager/passes/segments/cut.h"
#include "tests/support/nests/nest_builder.h"
#include "tests/text/nest_text.h"

using namespace mlc;
using namespace mlc::ir;
using namespace mlc::nest;
using mlc::test::NestBuilder;

namespace {

struct Concat : NestBuilder {
  static constexpr int64_t kRows = 6;
  uint32_t x = input("x", DType::F32, {k(kRows), k(16)});

  // y = 2*from + 1, of as many columns.
  uint32_t map(const std::string& name, uint32_t from, int64_t columns) {
    const uint32_t y = array(name, DType::F32, {k(kRows), k(columns)});
    const Dim *a = dim("a", kRows), *b = dim("b", columns);
    nest(name, {a, b}, {{y, {d(a), d(b)}, ctx.binary(Op::Add, ctx.binary(Op::Mul, load(from, {d(a), d(b)}), r(2)), r(1))}});
    return y;
  }
  // Columns first .. first + count of `from` to columns from `at` on of `to`.
  void copy(uint32_t from, int64_t first, int64_t count, uint32_t to, int64_t at) {
    const Dim *a = dim("a", kRows), *b = dim("b", count);
    nest("copy of " + fn.arrays[from].name, {a, b}, {{to, {d(a), ctx.add(d(b), k(at))}, load(from, {d(a), ctx.add(d(b), k(first))})}});
  }
  uint32_t wide(const std::string& name, int64_t columns) { return array(name, DType::F32, {k(kRows), k(columns)}); }
  void result(std::vector<uint32_t> from) {
    const uint32_t y = output("result", DType::F32, {k(kRows)});
    const Dim* a = dim("a", kRows);
    const Expr* sum = r(0);
    for (const uint32_t f : from) {
      const Dim* b = dim("b", fn.arrays[f].shape[1]->i);
      sum = ctx.add(sum, ctx.fold({ctx.builtin(Join::Sum), {b}}, {load(f, {d(a), d(b)})}));
    }
    nest("result", {a}, {{y, {d(a)}, sum}});
  }
  void place() {
    passes::Options o;
    o.pipeline = {"in-place"};
    o.check = true;  // answers before and after
    const Status s = passes::run(ctx, fn, o);
    REQUIRE_MESSAGE(s.ok(), s.text());
  }
  bool is_part(uint32_t part, uint32_t whole, int64_t at) const {
    const Array& a = fn.arrays[part];
    return a.layout.is_part() && a.whole == whole && a.layout.at[0]->is_int(0) && a.layout.at[1]->is_int(at) && a.layout.within == fn.arrays[whole].shape;
  }
  bool is_part(uint32_t part) const { return fn.arrays[part].layout.is_part(); }
  size_t copies_left() {
    size_t left = 0;
    for (const Statement& s : fn.body) left += s.source.starts_with("copy") && !is_in_place(ctx, fn, s);
    return left;
  }
};

}  // namespace

TEST_CASE_FIXTURE(Concat, "what is copied whole, or in pieces, and read elsewhere lies where it is copied to") {
  const uint32_t halves = map("halves", x, 16), one = map("one", halves, 16), all = wide("all", 48);
  copy(halves, 0, 8, all, 0), copy(halves, 8, 8, all, 8), copy(one, 0, 16, all, 16);
  copy(x, 0, 16, all, 32);  // an input stays where it is
  result({all, one});
  place();
  CHECK(is_part(halves, all, 0));
  CHECK(is_part(one, all, 16));
  CHECK(copies_left() == 1);
  const Expr* at = address(ctx, fn.arrays[one].layout, fn.arrays[one].shape, {k(2), k(3)});
  CHECK(at->is_int(2 * 48 + 16 + 3));
  CHECK(stored_elements(ctx, fn.arrays[one].layout, fn.arrays[one].shape)->is_int(kRows * 48));
  // Its text says so, and is read.
  Context other;
  auto parsed = nest::parse(other, print(fn));
  REQUIRE_MESSAGE(parsed.ok(), parsed.status().text());
  CHECK(print(*parsed) == print(fn));
  CHECK(verify(other, *parsed).empty());
}

TEST_CASE_FIXTURE(Concat, "parts of parts lie in what has memory") {
  const uint32_t one = map("one", x, 16), two = map("two", one, 16), inner = wide("inner", 32), outer = wide("outer", 64);
  copy(one, 0, 16, inner, 0), copy(two, 0, 16, inner, 16);
  const uint32_t three = map("three", inner, 32);
  copy(three, 0, 32, outer, 0), copy(inner, 0, 32, outer, 32);
  result({outer, two, three});
  place();
  CHECK(is_part(inner, outer, 32));
  CHECK(is_part(one, outer, 32));
  CHECK(is_part(two, outer, 48));
  CHECK(is_part(three, outer, 0));
  CHECK(copies_left() == 0);
}

TEST_CASE_FIXTURE(Concat, "of two copies of an array one is made") {
  const uint32_t one = map("one", x, 16), twice = wide("twice", 32);
  copy(one, 0, 16, twice, 16), copy(one, 0, 16, twice, 0);
  result({twice});
  place();
  CHECK(is_part(one, twice, 16));
  CHECK(copies_left() == 1);
}

TEST_CASE_FIXTURE(Concat, "what would be laid out worse, is not copied whole or is the memory of a caller stays an array of its own") {
  const uint32_t odd = map("odd", x, 16), half = map("half", x, 16), shared = map("shared", x, 16), all = wide("all", 48), result_of = output("out", DType::F32, {k(kRows), k(16)});
  copy(x, 0, 3, all, 0), copy(odd, 0, 16, all, 3);        // rows that begin where no vector does
  copy(half, 0, 8, all, 19), copy(x, 0, 5, all, 27);      // half of it
  copy(x, 0, 16, all, 32), copy(shared, 0, 16, result_of, 0);  // an output is the caller's
  result({all, odd, half, shared});
  place();
  for (const uint32_t a : {odd, half, shared}) CHECK_FALSE(is_part(a));
}

TEST_CASE_FIXTURE(Concat, "what something else is written to later is copied: scatters, and fills below") {
  const uint32_t one = map("one", x, 16), all = wide("all", 16);
  const Dim *a = dim("a", kRows), *b = dim("b", 8), *c = dim("b", 16);
  SUBCASE("a scatter, which begins with a copy") {
    copy(one, 0, 16, all, 0);
    nest("scatter", {a, b}, {{all, {d(a), ctx.mul(d(b), k(2))}, r(7), true, Join::Last}});
  }
  SUBCASE("other elements of the same place") {
    nest("fill", {a, c}, {{all, {d(a), d(c)}, r(0)}});
    copy(one, 0, 16, all, 0);
  }
  result({all, one});
  place();
  CHECK_FALSE(is_part(one));
}

TEST_CASE_FIXTURE(Concat, "what parts of a function have in common stays an array of its own, and near copies are one part") {
  const uint32_t one = map("one", x, 16), two = map("two", one, 16), all = wide("all", 32);
  copy(one, 0, 16, all, 0), copy(two, 0, 16, all, 16);
  result({all, one});
  SUBCASE("its readers are in another part") {
    fn.body.back().part = 1;
    place();
    CHECK_FALSE(is_part(one));
    CHECK_FALSE(is_part(two));
  }
  SUBCASE("parts are numbered so that they are not") {
    passes::Parts parts;
    parts.segments.push_back(std::make_unique<Function>(copy_of(fn)));
    parts.segments.back()->name = "main";
    passes::number_parts(ctx, {"main"}, parts);
    for (const Statement& s : parts.segments.back()->body) CHECK(s.part == parts.segments.back()->body[0].part);
  }
}
