// Frames of a sound that is reflected at its ends: where a sample comes from is found once for each sample.
#include <doctest/doctest.h>

#include "packager/nest/text/print.h"
#include "packager/passes/passes.h"
#include "tests/support/nests/nest_builder.h"

using namespace mlc;
using namespace mlc::ir;

namespace {

struct Frames : test::NestBuilder {
  // Frames of `length` samples that begin `hop` apart, of a sound that begins and ends with zeros where `samples` are fewer, reflected.
  void build(int64_t length, int64_t hop) {
    const auto S = ctx.sym(ctx.declare_sym("S", 1, 1 << 20));
    const auto x = input("x", DType::F32, {S}), fitted = array("fitted", DType::F32, {k(4000)}), wide = array("wide", DType::F32, {k(4400)});
    const auto y = array("y", DType::F32, {k(4000 / hop), k(length)});
    const auto o = dim("o", 4000), w = dim("w", 4400), f = dim("f", 4000 / hop), n = dim("n", length);
    nest("Fit", {o}, {{fitted, {d(o)}, ctx.select(ctx.binary(Op::Lt, d(o), S), load(x, {d(o)}), r(0))}});
    const Expr* turn = ctx.floormod(ctx.add(d(w), k(7798)), k(7998));
    const Expr* from = ctx.min(ctx.select(ctx.binary(Op::Lt, turn, k(4000)), turn, ctx.sub(k(7998), turn)), k(3999));
    nest("Reflect", {w}, {{wide, {d(w)}, load(fitted, {from})}});
    nest("Frame", {f, n}, {{y, {d(f), d(n)}, ctx.binary(Op::Mul, load(wide, {ctx.add(ctx.mul(d(f), k(hop)), d(n))}), r(0.5))}});
    fn.outputs.push_back(y);
    const Status done = passes::run(ctx, fn, {});
    REQUIRE_MESSAGE(done.ok(), done.message);
  }
};

}  // namespace

TEST_CASE("frames that overlap read a sound that was reflected once, frames that do not reflect it themselves") {
  for (const auto& [length, hop, statements] : {std::tuple{int64_t{400}, int64_t{100}, size_t{2}}, {200, 200, 1}}) {
    CAPTURE(hop);
    Frames frames;
    frames.build(length, hop);
    INFO(print(frames.fn));
    CHECK(frames.fn.body.size() == statements);
  }
}
