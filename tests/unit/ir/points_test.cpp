#include <doctest/doctest.h>

#include <random>

#include "packager/ir/impl.h"

using namespace mlc;
using namespace mlc::ir;

namespace {

// An expression, and what it is at each point by its definition.
struct Valued {
  const Expr* e;
  std::optional<int64_t> at[kPoints];
};

Valued leaf_of(const Expr* e) {
  Valued v{e, {}};
  for (size_t k = 0; k < kPoints; ++k)
    if (node(e)->points_known >> k & 1) v.at[k] = node(e)->points[k];
  return v;
}

std::optional<int64_t> defined(Op op, int64_t a, int64_t b) {
  switch (op) {
    case Op::Add: return a + b;
    case Op::Sub: return a - b;
    case Op::Mul: return a * b;
    case Op::Min: return std::min(a, b);
    case Op::Max: return std::max(a, b);
    case Op::FloorDiv: return b > 0 ? std::optional(floor_div(a, b)) : std::nullopt;
    case Op::FloorMod: return b > 0 ? std::optional(floor_mod(a, b)) : std::nullopt;
    default: return std::nullopt;
  }
}

Valued binary(Context& ctx, Op op, const Valued& a, const Valued& b) {
  Valued v{ctx.binary(op, a.e, b.e), {}};
  for (size_t k = 0; k < kPoints; ++k)
    if (a.at[k] && b.at[k]) v.at[k] = defined(op, *a.at[k], *b.at[k]);
  return v;
}

Valued choice(Context& ctx, const Valued& a, const Valued& b, const Valued& yes, const Valued& no) {
  Valued v{ctx.select(ctx.binary(Op::Lt, a.e, b.e), yes.e, no.e), {}};
  for (size_t k = 0; k < kPoints; ++k)
    if (a.at[k] && b.at[k]) v.at[k] = *a.at[k] < *b.at[k] ? yes.at[k] : no.at[k];
  return v;
}

}  // namespace

TEST_CASE("symbols and dims have values of their range at every point") {
  Context ctx;
  const Expr* n = ctx.sym(ctx.declare_sym("N", 3, 40, 4));
  const Expr* d = ctx.dim(ctx.declare_dim("d", n));
  const Expr* none = ctx.dim(ctx.declare_dim("none", ctx.integer(0)));
  REQUIRE(node(n)->points_known == (1u << kPoints) - 1);
  for (size_t k = 0; k < kPoints; ++k) {
    const int64_t extent = node(n)->points[k];
    CHECK(extent % 4 == 0);
    CHECK(extent >= 3);
    CHECK(extent <= 40);
    CHECK(node(d)->points[k] >= 0);
    CHECK(node(d)->points[k] < extent);
  }
  CHECK(node(d)->points[0] == 0);
  CHECK(node(d)->points[1] == node(n)->points[1] - 1);
  CHECK(node(none)->points_known == 0);  // a loop that never runs has no position
  CHECK(node(ctx.sym(ctx.declare_sym("None", 5, 7, 8)))->points_known == 0);
  CHECK(node(ctx.sym(ctx.declare_sym("Lowest", INT64_MIN, INT64_MIN + 1, 3)))->points_known == 0);
  const Expr* wide = ctx.sym(ctx.declare_sym("Wide", INT64_MIN, INT64_MAX, 3));
  for (size_t k = 0; k < kPoints; ++k) CHECK(node(wide)->points[k] % 3 == 0);
}

TEST_CASE("what is loaded, what is real and what does not fit into 64 bits has no value at any point") {
  Context ctx;
  const Expr* loaded = ctx.load(0, {DType::I64, 1}, {ctx.integer(0)});
  const Expr* large = ctx.sym(ctx.declare_sym("L", INT64_MAX / 2, INT64_MAX - 1));
  CHECK(node(loaded)->points_known == 0);
  CHECK(node(ctx.add(loaded, ctx.integer(1)))->points_known == 0);
  CHECK(node(ctx.number(1.5, DType::F64))->points_known == 0);
  CHECK(node(ctx.mul(large, large))->points_known == 0);
  CHECK_FALSE(is_negative_somewhere(ctx.impl().poly_of(ctx.mul(ctx.mul(large, large), ctx.integer(-1)))));
}

TEST_CASE("whatever an expression is simplified to, it has the value of its definition at every point") {
  std::mt19937 draw(27);
  for (int round = 0; round < 400; ++round) {
    Context ctx;
    std::vector<Valued> all;
    for (int64_t k : {-7, -1, 0, 1, 2, 16}) all.push_back(leaf_of(ctx.integer(k)));
    const Expr* n = ctx.sym(ctx.declare_sym("N", round % 3, 1 << 20));
    all.push_back(leaf_of(n));
    all.push_back(leaf_of(ctx.sym(ctx.declare_sym("M", 8, 1 << 16, 8))));
    all.push_back(leaf_of(ctx.dim(ctx.declare_dim("i", n))));
    all.push_back(leaf_of(ctx.dim(ctx.declare_dim("j", ctx.integer(9)))));
    const auto any = [&] { return all[draw() % all.size()]; };
    constexpr Op kOps[] = {Op::Add, Op::Sub, Op::Mul, Op::Min, Op::Max, Op::FloorDiv, Op::FloorMod};
    for (int made = 0; made < 25; ++made) {
      const Valued a = any(), b = any();
      const Valued v = draw() % 6 == 0 ? choice(ctx, a, b, any(), any()) : binary(ctx, kOps[draw() % std::size(kOps)], a, b);
      bool small = true;
      for (const auto& at : v.at) small = small && (!at || std::abs(*at) < int64_t{1} << 24);
      if (!small) continue;
      for (size_t k = 0; k < kPoints; ++k)
        if (v.at[k] && (node(v.e)->points_known >> k & 1)) CHECK(node(v.e)->points[k] == *v.at[k]);
      all.push_back(v);
      // A fact that is proved holds at every point.
      if (ctx.impl().is_non_negative(ctx.impl().poly_of(v.e)))
        for (const auto& at : v.at) CHECK((!at || *at >= 0));
    }
  }
}
