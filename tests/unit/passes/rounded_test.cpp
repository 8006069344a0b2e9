// Devices: copies in 16 bits are stored by the statement that computes what they round.
#include <doctest/doctest.h>

#include "packager/nest/copy.h"
#include "packager/passes/passes.h"
#include "packager/passes/segments/cut.h"
#include "tests/support/nests/nest_builder.h"

using namespace mlc;
using namespace mlc::ir;
using namespace mlc::nest;
using mlc::test::NestBuilder;

namespace {

struct Rows : NestBuilder {
  uint32_t x = input("x", DType::F32, {k(5), k(32)}), rounded = array("rounded", DType::F16, {k(5), k(32)});

  const Expr* sum(const Dim* j, const Expr* of) { return ctx.fold({ctx.builtin(Join::Sum), {j}, nullptr}, {of}); }

  // y[m, n] = x[m, n] less the sum of its row
  void lines(uint32_t y) {
    const Dim *m = dim("m", 5), *n = dim("n", 32), *j = dim("j", 32);
    nest("norm", {m, n}, {{y, {d(m), d(n)}, ctx.binary(Op::Sub, load(x, {d(m), d(n)}), sum(j, load(x, {d(m), d(j)})))}});
  }
  void product(uint32_t y) {
    const uint32_t w = input("w", DType::F32, {k(32), k(32)});
    const Dim *m = dim("m", 5), *n = dim("n", 32), *j = dim("j", 32);
    nest("product", {m, n}, {{y, {d(m), d(n)}, sum(j, ctx.binary(Op::Mul, load(x, {d(m), d(j)}), load(w, {d(j), d(n)})))}});
  }
  void round(uint32_t y, bool turned = false) {
    const Dim *m = dim("m", turned ? 32 : 5), *n = dim("n", turned ? 5 : 32);
    nest("round", {m, n}, {{rounded, turned ? std::vector<const Expr*>{d(n), d(m)} : std::vector<const Expr*>{d(m), d(n)}, ctx.cast(DType::F16, load(y, turned ? std::vector<const Expr*>{d(n), d(m)} : std::vector<const Expr*>{d(m), d(n)}))}});
  }
  void read(uint32_t from, const char* name) {
    const Dim *m = dim("m", 5), *n = dim("n", 32);
    nest(name, {m, n}, {{output(name, DType::F32, {k(5), k(32)}), {d(m), d(n)}, ctx.cast(DType::F32, load(from, {d(m), d(n)}))}});
  }
  uint32_t temp() { return array("y", DType::F32, {k(5), k(32)}); }
  size_t store() {
    passes::Options o;
    o.pipeline = {"store-rounded"};
    o.check = true;  // answers before and after
    const Status s = passes::run(ctx, fn, o);
    REQUIRE_MESSAGE(s.ok(), s.text());
    return fn.body.size();
  }
};

}  // namespace

TEST_CASE_FIXTURE(Rows, "a norm that others read as well stores both, of lines that share their folds") {
  const uint32_t y = temp();
  lines(y), round(y), read(y, "wide"), read(rounded, "narrow");
  CHECK(store() == 3);
  REQUIRE(fn.body[0].nest->writes.size() == 2);
  CHECK(fn.body[0].nest->writes[1].array == rounded);
}

TEST_CASE_FIXTURE(Rows, "what nothing else reads is stored rounded alone, by a product as well") {
  const uint32_t y = temp();
  product(y), round(y, /*turned=*/true), read(rounded, "narrow");
  CHECK(store() == 2);
  REQUIRE(fn.body[0].nest->writes.size() == 1);
  CHECK(fn.body[0].nest->writes[0].array == rounded);
}

TEST_CASE_FIXTURE(Rows, "a product that others read, results of the model, and copies in another part stay as they are") {
  SUBCASE("a product writes once") {
    const uint32_t y = temp();
    product(y), round(y), read(y, "wide"), read(rounded, "narrow");
    CHECK(store() == 4);
  }
  SUBCASE("a part may run elsewhere") {
    const uint32_t y = temp();
    lines(y), round(y), read(y, "wide"), read(rounded, "narrow");
    for (size_t s = 1; s < fn.body.size(); ++s) fn.body[s].part = 1;
    CHECK(store() == 4);
  }
  SUBCASE("an answer stays, beside its copy") {
    const uint32_t y = output("y", DType::F32, {k(5), k(32)});
    lines(y), round(y), read(rounded, "narrow");
    CHECK(store() == 2);
    CHECK(fn.body[0].nest->writes.size() == 2);
  }
}

TEST_CASE_FIXTURE(Rows, "no border of a part lies between an array and its copy") {
  const auto next = [&](uint32_t from) {  // a product, which is a launch
    const uint32_t to = temp(), w = input("w", DType::F32, {k(32), k(32)});
    const Dim *m = dim("m", 5), *n = dim("n", 32), *j = dim("j", 32);
    nest("product", {m, n}, {{to, {d(m), d(n)}, sum(j, ctx.binary(Op::Mul, ctx.cast(DType::F32, load(from, {d(m), d(j)})), load(w, {d(j), d(n)})))}});
    return to;
  };
  round(next(next(x)));
  read(next(next(rounded)), "result");
  passes::Parts parts;
  parts.segments.push_back(std::make_unique<Function>(copy_of(fn)));
  parts.segments.back()->name = "main";
  passes::number_parts(ctx, {"main"}, parts);
  const std::vector<Statement>& body = parts.segments.back()->body;
  CHECK(body[1].part == body[2].part);
  CHECK(body.back().part > body[2].part);
}
