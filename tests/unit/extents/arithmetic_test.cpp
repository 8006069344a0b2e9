// The arithmetic of extents is done three times: by the rules of C, while building, and by the instructions of a plan.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <random>
#include <unordered_map>

#include "packager/plan/encode.h"
#include "packager/plan/symbols.h"
#include "schema/plan/shape_program.h"

using namespace mlc;
using ir::Context;
using ir::Expr;
using ir::Op;

namespace {

// What the plan computes for e, its symbols being told in this order; none if that fails.
std::optional<int64_t> by_the_plan(const Expr* e, const std::vector<const ir::Sym*>& syms, const std::vector<int64_t>& values) {
  plan::SymbolTable table;
  for (uint32_t k = 0; k < syms.size(); ++k) table.bind_input_axis(syms[k], k, 0);
  const auto result = table.symbol_of(e);
  REQUIRE_MESSAGE(result.ok(), (result.ok() ? std::string() : result.status().text()));
  exec::Plan written;
  exec::Function& f = written.functions.emplace_back();
  f.name = "main";
  f.num_symbols = table.num_symbols();
  f.shape = table.instructions();
  for (exec::SymbolInstr& i : f.shape)
    if (i.op == exec::SymbolOp::InputDim) i = {exec::SymbolOp::Const, i.dst, 0, 0, 0, values[i.a]};
  const auto plan = exec::decode_plan(plan::encode(written), {0, [](uint32_t, uint32_t) { return std::optional<uint64_t>(); }});
  REQUIRE_MESSAGE(plan.ok(), (plan.ok() ? std::string() : plan.status().text()));
  std::vector<int64_t> symbols;
  if (!exec::evaluate_shapes(plan->functions[0], {}, {}, symbols).ok()) return std::nullopt;
  return symbols.at(*result);
}

std::optional<int64_t> while_building(const Expr* e, const std::vector<const ir::Sym*>& syms, const std::vector<int64_t>& values) {
  return ir::evaluate_extent(e, [&](const ir::Sym* s) -> std::optional<int64_t> {
    return values[static_cast<size_t>(std::find(syms.begin(), syms.end(), s) - syms.begin())];
  });
}

// As C has it; none where it is undefined.
std::optional<int64_t> in_c(Op op, int64_t a, int64_t b) {
  int64_t r = 0;
  const bool divides = op == Op::FloorDiv || op == Op::FloorMod || op == Op::TruncDiv || op == Op::TruncMod;
  if (divides && b == 0) return std::nullopt;
  if (divides && b == -1) {
    if (op == Op::FloorMod || op == Op::TruncMod) return 0;
    return __builtin_sub_overflow(int64_t{0}, a, &r) ? std::nullopt : std::optional(r);
  }
  switch (op) {
    case Op::Add: return __builtin_add_overflow(a, b, &r) ? std::nullopt : std::optional(r);
    case Op::Sub: return __builtin_sub_overflow(a, b, &r) ? std::nullopt : std::optional(r);
    case Op::Mul: return __builtin_mul_overflow(a, b, &r) ? std::nullopt : std::optional(r);
    case Op::TruncDiv: return a / b;
    case Op::TruncMod: return a % b;
    case Op::FloorDiv: return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
    case Op::FloorMod: return a % b + (a % b != 0 && (a % b < 0) != (b < 0) ? b : 0);
    case Op::Min: return std::min(a, b);
    case Op::Max: return std::max(a, b);
    default: return std::nullopt;
  }
}

const Op kOps[] = {Op::Add, Op::Sub, Op::Mul, Op::TruncDiv, Op::TruncMod, Op::FloorDiv, Op::FloorMod, Op::Min, Op::Max};

}  // namespace

TEST_CASE("each operation on each pair of signs, and on the ends of the range, is that of C") {
  Context ctx;
  const std::vector<const ir::Sym*> syms = {ctx.declare_sym("a", INT64_MIN), ctx.declare_sym("b", INT64_MIN)};
  const Expr *a = ctx.sym(syms[0]), *b = ctx.sym(syms[1]);
  const int64_t numbers[] = {-9, -8, -7, -3, -1, 0, 1, 2, 3, 7, 8, 9, INT64_MIN, INT64_MIN + 1, INT64_MAX - 1, INT64_MAX};
  for (Op op : kOps)
    for (int64_t x : numbers)
      for (int64_t y : numbers) {
        CAPTURE(ir::to_string(ctx.binary(op, a, b)));
        CAPTURE(x);
        CAPTURE(y);
        CHECK(by_the_plan(ctx.binary(op, a, b), syms, {x, y}) == in_c(op, x, y));
        // By a constant, where more is simplified. Nothing is said of what lies outside of 64 bits on the way.
        if (x < -100 || x > 100 || y < -100 || y > 100) continue;
        CHECK(by_the_plan(ctx.binary(op, a, ctx.integer(y)), syms, {x, y}) == in_c(op, x, y));
        CHECK(while_building(ctx.binary(op, a, b), syms, {x, y}) == in_c(op, x, y));
      }
}

TEST_CASE("random expressions have one value") {
  std::mt19937_64 random(20261122);
  for (int round = 0; round < 400; ++round) {
    Context ctx;
    const auto pick = [&](size_t n) { return static_cast<size_t>(random() % n); };
    // Extents, which are not negative, and a number that the run tells.
    const std::vector<const ir::Sym*> syms = {ctx.declare_sym("h"), ctx.declare_sym("w", 1), ctx.declare_sym("k", -40, 40)};
    const std::vector<int64_t> values = {static_cast<int64_t>(pick(9)), 1 + static_cast<int64_t>(pick(70)), static_cast<int64_t>(pick(81)) - 40};
    struct Known {
      const Expr* e;
      int64_t value;
    };
    std::vector<Known> pool;
    for (size_t k = 0; k < syms.size(); ++k) pool.push_back({ctx.sym(syms[k]), values[k]});
    for (int64_t c : {-3, -1, 1, 2, 8}) pool.push_back({ctx.integer(c), c});
    for (int step = 0; step < 14; ++step) {
      const Known x = pool[pick(pool.size())], y = pool[pick(pool.size())];
      const Op op = kOps[pick(std::size(kOps))];
      const auto value = in_c(op, x.value, y.value);
      if (!value || std::abs(*value) > 1'000'000) continue;
      Known next{ctx.binary(op, x.e, y.e), *value};
      if (step % 4 == 1) next = {ctx.unary(Op::Abs, next.e), std::abs(next.value)};
      if (step % 4 == 3) next = {ctx.select(ctx.binary(Op::Lt, x.e, y.e), next.e, x.e), x.value < y.value ? next.value : x.value};
      pool.push_back(next);
    }
    for (const Known& known : pool) {
      CAPTURE(ir::to_string(known.e));
      CHECK(ir::is_extent(known.e));
      CHECK(by_the_plan(known.e, syms, values) == known.value);
      CHECK(while_building(known.e, syms, values) == known.value);
    }
  }
}

TEST_CASE("detours through reals round as floats and doubles do") {
  std::mt19937_64 random(7);
  Context ctx;
  const std::vector<const ir::Sym*> syms = {ctx.declare_sym("n", INT64_MIN)};
  const Expr* n = ctx.sym(syms[0]);
  for (const DType real : {DType::F32, DType::F64})
    for (const Op rounding : {Op::Floor, Op::Ceil, Op::Rint, Op::Trunc})
      for (const double factor : {0.1, 1.5, -0.75, 3.0}) {
        const Expr* scaled = ctx.binary(Op::Mul, ctx.cast(real, n), ctx.number(factor, real));
        const Expr* least = ctx.binary(Op::Max, ctx.unary(Op::Abs, scaled), ctx.number(0.25, real));
        const Expr* e = ctx.cast(DType::I64, ctx.unary(rounding, least));
        for (int k = 0; k < 20; ++k) {
          const auto value = static_cast<int64_t>(random() % 4001) - 2000;
          double v = static_cast<double>(value) * factor;
          if (real == DType::F32) v = static_cast<float>(value) * static_cast<float>(factor);
          v = std::max(std::fabs(v), 0.25);
          v = rounding == Op::Floor ? std::floor(v) : rounding == Op::Ceil ? std::ceil(v) : rounding == Op::Rint ? std::nearbyint(v) : std::trunc(v);
          CHECK(by_the_plan(e, syms, {value}) == static_cast<int64_t>(v));
          CHECK(while_building(e, syms, {value}) == static_cast<int64_t>(v));
        }
      }
  const Expr* real = ctx.cast(DType::F64, n);
  const Expr* nan = ctx.binary(Op::Div, ctx.number(0, DType::F64), ctx.binary(Op::Sub, real, real));
  const Expr *one = ctx.integer(1), *none = ctx.integer(0);
  CHECK(by_the_plan(ctx.select(ctx.unary(Op::IsNan, nan), one, none), syms, {5}) == 1);
  CHECK(by_the_plan(ctx.select(ctx.unary(Op::IsNan, ctx.binary(Op::Min, real, nan)), one, none), syms, {5}) == 1);
  CHECK(by_the_plan(ctx.select(ctx.binary(Op::Eq, nan, nan), one, none), syms, {5}) == 0);
  CHECK(by_the_plan(ctx.select(ctx.binary(Op::Ne, nan, real), one, none), syms, {5}) == 1);
  CHECK(by_the_plan(ctx.cast(DType::I64, ctx.cast(DType::Bool, real)), syms, {5}) == 1);
  CHECK(!by_the_plan(ctx.cast(DType::I64, ctx.unary(Op::Floor, nan)), syms, {5}));
}

TEST_CASE("what plans cannot compute is no extent") {
  Context ctx;
  const Expr* n = ctx.sym(ctx.declare_sym("n"));
  const Expr* half = ctx.cast(DType::F16, n);
  for (const Expr* e : {ctx.unary(Op::Exp, ctx.cast(DType::F32, n)), half, ctx.cast(DType::I64, ctx.unary(Op::Sqrt, half)),
                        ctx.binary(Op::BitXor, n, ctx.integer(5)), ctx.binary(Op::Pow, n, n), ctx.dim(ctx.declare_dim("d", n))})
    CHECK_MESSAGE(!ir::is_extent(e), ir::to_string(e));
  plan::SymbolTable table;
  table.bind_input_axis(n->sym, 0, 0);
  CHECK(!table.symbol_of(ctx.binary(Op::BitXor, n, ctx.integer(5))).ok());
}
