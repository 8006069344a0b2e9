#include <doctest/doctest.h>

#include <bit>
#include <cmath>

#include "schema/plan/shape_program.h"
#include "tests/support/containers/plan_maker.h"

using namespace mlc;
using namespace mlc::exec;
using mlc::test::PlanMaker;
namespace fbp = mlc::fb::plan;

namespace {

// The value of the last symbol of a plan without ports; none if evaluation fails.
std::optional<int64_t> value_of(PlanMaker& m) {
  m.inputs.clear(), m.outputs.clear(), m.buffers.clear(), m.body.clear();
  m.arena_bytes = 0;
  const auto plan = decode_plan(m.bytes(), {0, [](uint32_t, uint32_t) { return std::optional<uint64_t>(); }});
  REQUIRE_MESSAGE(plan.ok(), (plan.ok() ? std::string() : plan.status().message));
  std::vector<int64_t> symbols;
  if (!evaluate_shapes(plan->functions[0], {}, {}, symbols).ok()) return std::nullopt;
  return symbols.back();
}
std::optional<int64_t> binary(fbp::SymbolOp op, int64_t a, int64_t b) {
  PlanMaker m;
  const uint32_t x = m.constant(a), y = m.constant(b);
  m.op(op, x, y);
  return value_of(m);
}
std::optional<int64_t> rounded(fbp::SymbolOp op, double v) {
  PlanMaker m;
  m.constant(0);  // the arena's size
  const uint32_t x = m.op(fbp::SymbolOp_FConst, 0, 0, 0, std::bit_cast<int64_t>(v));
  m.op(op, x);
  return value_of(m);
}

}  // namespace

TEST_CASE("division and modulus round down for every combination of signs") {
  for (int64_t a : {-7, -6, -1, 0, 1, 6, 7})
    for (int64_t b : {-3, -1, 1, 3}) {
      CHECK(*binary(fbp::SymbolOp_FloorDiv, a, b) == static_cast<int64_t>(std::floor(double(a) / double(b))));
      CHECK(*binary(fbp::SymbolOp_CeilDiv, a, b) == static_cast<int64_t>(std::ceil(double(a) / double(b))));
      CHECK(*binary(fbp::SymbolOp_Mod, a, b) == a - b * static_cast<int64_t>(std::floor(double(a) / double(b))));
    }
}

TEST_CASE("overflow and division by zero fail the run instead of wrapping") {
  using namespace mlc::fb::plan;
  CHECK(!binary(SymbolOp_Add, INT64_MAX, 1));
  CHECK(!binary(SymbolOp_Sub, INT64_MIN, 1));
  CHECK(!binary(SymbolOp_Mul, INT64_MAX / 2, 3));
  CHECK(!binary(SymbolOp_FloorDiv, 1, 0));
  CHECK(!binary(SymbolOp_CeilDiv, 1, 0));
  CHECK(!binary(SymbolOp_Mod, 1, 0));
  CHECK(!binary(SymbolOp_FloorDiv, INT64_MIN, -1));
  CHECK(!binary(SymbolOp_CeilDiv, INT64_MIN, -1));
  CHECK(*binary(SymbolOp_Mod, INT64_MIN, -1) == 0);
  CHECK(*binary(SymbolOp_Add, INT64_MAX - 1, 1) == INT64_MAX);
}

TEST_CASE("comparisons, logic and selection") {
  using namespace mlc::fb::plan;
  CHECK(*binary(SymbolOp_Min, -3, 2) == -3);
  CHECK(*binary(SymbolOp_Max, -3, 2) == 2);
  CHECK(*binary(SymbolOp_Eq, 5, 5) == 1);
  CHECK(*binary(SymbolOp_Ne, 5, 5) == 0);
  CHECK(*binary(SymbolOp_Lt, 5, 5) == 0);
  CHECK(*binary(SymbolOp_Le, 5, 5) == 1);
  CHECK(*binary(SymbolOp_And, 5, 0) == 0);
  CHECK(*binary(SymbolOp_And, 5, 2) == 1);
  CHECK(*binary(SymbolOp_Or, 0, -1) == 1);
  PlanMaker m;
  const uint32_t no = m.constant(0), a = m.constant(10), b = m.constant(20);
  m.op(SymbolOp_Select, no, a, b);
  CHECK(*value_of(m) == 20);
  m.op(SymbolOp_Not, no);
  CHECK(*value_of(m) == 1);
}

TEST_CASE("doubles: rounding modes, and conversions that do not fit fail") {
  using namespace mlc::fb::plan;
  CHECK(*rounded(SymbolOp_FFloor, -2.5) == -3);
  CHECK(*rounded(SymbolOp_FCeil, -2.5) == -2);
  CHECK(*rounded(SymbolOp_FTrunc, -2.5) == -2);
  CHECK(*rounded(SymbolOp_FRint, 2.5) == 2);
  CHECK(*rounded(SymbolOp_FRint, 3.5) == 4);
  CHECK(!rounded(SymbolOp_FFloor, 1e30));
  CHECK(!rounded(SymbolOp_FFloor, NAN));
  CHECK(!rounded(SymbolOp_FTrunc, INFINITY));
  CHECK(*rounded(SymbolOp_FFloor, -0x1p63) == INT64_MIN);
  CHECK(!rounded(SymbolOp_FFloor, 0x1p63));
  CHECK(std::bit_cast<double>(*rounded(SymbolOp_FRoundF32, 0.1)) == double(0.1f));
  CHECK(std::bit_cast<double>(*rounded(SymbolOp_FSqrt, 2.25)) == 1.5);
}

TEST_CASE("a wrong fixed extent is reported as such, for all inputs at once") {
  PlanMaker m = PlanMaker::two_steps();
  const auto plan = decode_plan(m.bytes(), {2, [](uint32_t, uint32_t) { return std::optional<uint64_t>(); }}).value();
  std::vector<int64_t> symbols;
  const std::vector<int64_t> good{5, 3}, wrong{5, 4}, empty{0, 3};
  const auto evaluate = [&](const std::vector<int64_t>& s) {
    const Shape shapes[] = {s};
    return evaluate_shapes(plan.functions[0], shapes, {}, symbols);
  };
  CHECK(evaluate(good).ok());
  const Status s = evaluate(wrong);
  CHECK(s.code == Code::InputMismatch);
  CHECK(s.text().find("found [5,4], expected [?,3]") != std::string::npos);
  CHECK(evaluate(empty).message.find("the batch is empty") != std::string::npos);
  const std::vector<int64_t> huge{INT64_MAX, 3};
  CHECK(evaluate(huge).code == Code::InputMismatch);
}
