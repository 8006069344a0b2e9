#include "packager/nest/facts/contraction.h"

#include <doctest/doctest.h>

#include "tests/support/nests/nest_builder.h"

using namespace mlc;
using namespace mlc::ir;
using namespace mlc::nest;
using mlc::test::NestBuilder;
using Dims = std::vector<const Dim*>;

namespace {

struct Products : NestBuilder {
  const Dim *b = dim("b", 2), *m = dim("m", 5), *n = dim("n", 16), *c = dim("c", 8), *u = dim("u", 3);
  Dims scope{b, m, n};

  const Expr* sum(Dims dims, const Expr* left, const Expr* right, const Expr* where = nullptr) {
    return ctx.fold({ctx.builtin(Join::Sum), std::move(dims), where}, {ctx.binary(Op::Mul, left, right)});
  }
  const Expr* code(const Expr* load, const Expr* zero) {
    const Expr* e = ctx.cast(DType::I32, load);
    return zero ? ctx.binary(Op::Sub, e, zero) : e;
  }
  // The product with `a` the operand that loads `array`, whatever stands first.
  std::optional<Contraction> from(uint32_t array, const Expr* fold) {
    auto p = contraction_of(ctx, scope, fold);
    return p && p->a.load->array != array ? p->swapped() : p;
  }
  const Expr* i32(int64_t v) { return ctx.integer(v, DType::I32); }
};

}  // namespace

TEST_CASE_FIXTURE(Products, "every dim of a product has one role") {
  const auto x = input("x", DType::F32, {k(2), k(7), k(8)}), w = input("w", DType::F32, {k(2), k(16), k(8), k(3)});
  const Expr *left = load(x, {d(b), ctx.add(d(m), d(u)), d(c)}), *right = load(w, {d(b), d(n), d(c), d(u)});
  const auto p = from(x, sum({c, u}, left, right));
  REQUIRE(p);
  CHECK(p->batch == Dims{b});
  CHECK(p->m == Dims{m});
  CHECK(p->n == Dims{n});
  CHECK(p->k == Dims{c});
  CHECK(p->taps == Dims{u});
  CHECK(p->is_plain());
  CHECK(p->acc() == DType::F32);
  const Contraction other = p->swapped();
  CHECK(other.a.load == right);
  CHECK(other.m == Dims{n});
  CHECK(other.n == Dims{m});
}

TEST_CASE_FIXTURE(Products, "what is summed over may begin in the midst of an operand, once") {
  const auto x = input("x", DType::F32, {k(5), k(24)}), w = input("w", DType::F32, {k(8), k(16)});
  const auto roles = [&](const Expr* index) { return contraction_of(ctx, scope, sum({c}, load(x, {d(m), index}), load(w, {d(c), d(n)}))); };
  CHECK(roles(ctx.add(d(c), k(16)))->k == Dims{c});
  CHECK(roles(ctx.add(ctx.mul(d(c), k(2)), k(1)))->taps == Dims{c});
  CHECK(roles(ctx.add(d(c), d(m)))->taps == Dims{c});
}

TEST_CASE_FIXTURE(Products, "what a condition restricts is no k") {
  const auto x = input("x", DType::F32, {k(5), k(8)}), w = input("w", DType::F32, {k(8), k(16)});
  const Expr* product = sum({c}, load(x, {d(m), d(c)}), load(w, {d(c), d(n)}), ctx.binary(Op::Le, d(c), d(m)));
  const auto p = contraction_of(ctx, scope, product);
  REQUIRE(p);
  CHECK(p->k.empty());
  CHECK(p->taps == Dims{c});
}

TEST_CASE_FIXTURE(Products, "codes have zero points and scales, and read something outside of an image") {
  const auto x = input("x", DType::U8, {k(5), k(8)}), w = input("w", DType::I8, {k(8), k(16)}), z = input("z", DType::I8, {k(16)});
  const Expr *xs = load(x, {d(m), d(c)}), *ws = load(w, {d(c), d(n)}), *zero = ctx.cast(DType::I32, load(z, {d(n)}));
  auto p = from(x, sum({c}, code(xs, i32(7)), code(ws, zero)));
  REQUIRE(p);
  CHECK(p->a.zero == i32(7));
  CHECK(p->b.zero == zero);
  CHECK(p->a.code() == DType::U8);
  CHECK(p->acc() == DType::I32);
  CHECK_FALSE(p->is_plain_product());

  const Expr* inside = ctx.binary(Op::Lt, d(m), k(4));
  const Expr *padded = ctx.select(inside, ctx.cast(DType::I32, xs), i32(7)), *product = sum({c}, padded, code(ws, nullptr));
  p = from(x, product);
  REQUIRE(p);
  CHECK(p->a.inside == inside);
  CHECK(p->a.outside == i32(7));
  CHECK(p->is_plain_product());
  CHECK(is_sum_of_operand(ctx.fold(*product->fold, {padded}), *p, p->a));
  CHECK_FALSE(is_sum_of_operand(ctx.fold(*product->fold, {padded}), *p, p->b));
  CHECK_FALSE(is_sum_of_operand(ctx.fold(*product->fold, {ctx.cast(DType::I32, xs)}), *p, p->a));

  const Expr* scaled = ctx.binary(Op::Mul, ctx.cast(DType::F32, xs), r(0.5));
  p = from(x, sum({c}, scaled, ctx.cast(DType::F32, ws)));
  REQUIRE(p);
  CHECK(p->a.scale == r(0.5));
}

TEST_CASE_FIXTURE(Products, "a zero point or scale along what is summed over belongs to no operand") {
  const auto x = input("x", DType::U8, {k(5), k(8)}), w = input("w", DType::I8, {k(8), k(16)}), z = input("z", DType::I8, {k(8)});
  const Expr *xs = load(x, {d(m), d(c)}), *ws = load(w, {d(c), d(n)}), *zero = ctx.cast(DType::I32, load(z, {d(c)}));
  CHECK_FALSE(contraction_of(ctx, scope, sum({c}, code(xs, nullptr), code(ws, zero))));
  CHECK_FALSE(contraction_of(ctx, scope, sum({c}, ctx.binary(Op::Mul, code(xs, nullptr), zero), code(ws, nullptr))));
}

TEST_CASE_FIXTURE(Products, "other folds are no products") {
  const auto x = input("x", DType::F32, {k(5), k(8)});
  const Expr* xs = load(x, {d(m), d(c)});
  CHECK_FALSE(contraction_of(ctx, scope, ctx.fold({ctx.builtin(Join::Sum), {c}, nullptr}, {xs})));
  CHECK_FALSE(contraction_of(ctx, scope, ctx.fold({ctx.builtin(Join::Max), {c}, nullptr}, {ctx.binary(Op::Mul, xs, xs)})));
}

TEST_CASE_FIXTURE(Products, "a value has one product, beside sums of its operands") {
  const auto x = input("x", DType::U8, {k(5), k(8)}), w = input("w", DType::I8, {k(8), k(16)});
  const Expr *xs = code(load(x, {d(m), d(c)}), nullptr), *ws = code(load(w, {d(c), d(n)}), nullptr), *product = sum({c}, xs, ws);
  const Expr* of_x = ctx.fold(*product->fold, {xs});
  auto p = only_product(ctx, scope, ctx.binary(Op::Sub, product, of_x), Factors::Elements);
  REQUIRE(p);
  if (p->a.load->array != x) p = p->swapped();
  CHECK(p->fold == product);
  CHECK(p->sum_of_a == of_x);
  CHECK(p->sum_of_b == nullptr);
  CHECK(p->swapped().sum_of_b == of_x);

  const Expr* of_others = ctx.fold({ctx.builtin(Join::Sum), {u}, nullptr}, {xs});
  CHECK_FALSE(only_product(ctx, scope, ctx.binary(Op::Sub, product, of_others), Factors::Elements));
  CHECK_FALSE(only_product(ctx, scope, ctx.binary(Op::Sub, product, sum({u}, xs, ws)), Factors::Elements));
  CHECK_FALSE(only_product(ctx, scope, xs, Factors::Elements));
}

TEST_CASE_FIXTURE(Products, "a factor may be computed for those who ask for it") {
  const auto x = input("x", DType::F16, {k(5), k(8)}), w = input("w", DType::I8, {k(8), k(16)}), s = input("s", DType::F32, {k(8), k(16)});
  const Expr *xs = ctx.cast(DType::F32, load(x, {d(m), d(c)})), *codes = ctx.cast(DType::F32, load(w, {d(c), d(n)}));
  const Expr *decoded = ctx.binary(Op::Mul, codes, load(s, {d(c), d(n)})), *product = sum({c}, decoded, xs);
  CHECK_FALSE(contraction_of(ctx, scope, product));
  const auto p = contraction_of(ctx, scope, product, Factors::Computed);
  REQUIRE(p);
  CHECK(p->a.factor == xs);
  CHECK(p->b.factor == decoded);
  CHECK(p->b.load == nullptr);
  CHECK(p->n == Dims{n});
  CHECK(p->m == Dims{b, m});
  // Codes alone are computed, too; two numbers are not, and neither is what has no number beside it.
  CHECK(contraction_of(ctx, scope, sum({c}, xs, codes), Factors::Computed));
  CHECK_FALSE(contraction_of(ctx, scope, sum({c}, xs, load(s, {d(c), d(n)})), Factors::Computed));
  CHECK_FALSE(contraction_of(ctx, scope, sum({c}, decoded, codes), Factors::Computed));
}
