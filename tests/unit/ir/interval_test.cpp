// Intervals contain whatever an expression may be: random expressions, made without the simplifications of Context, at random points.
#include "packager/ir/interval.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <random>

#include "packager/ir/impl.h"
#include "packager/ir/numeric.h"

using namespace mlc;
using namespace mlc::ir;

namespace {

constexpr size_t kValues = 24;  // points at which each expression is evaluated
constexpr DType kIntegers[] = {DType::I64, DType::I64, DType::I64, DType::I32, DType::U32, DType::I8, DType::U8, DType::U64, DType::Bool};

// An expression and its lanes at each point. Index arithmetic that overflows has no value: `exists` is false there.
struct Sampled {
  const Expr* e;
  std::vector<int64_t> at[kValues];
  bool exists[kValues];
};

class IntegerDraw {
 public:
  explicit IntegerDraw(uint64_t seed) : random_(seed) {}
  uint64_t pick(uint64_t n) { return random_() % n; }
  // Near zero, near what fits in 32 or 64 bits, or any.
  int64_t integer() {
    const int64_t near = static_cast<int64_t>(pick(9)) - 4;
    switch (pick(8)) {
      case 0: return (int64_t{1} << pick(63)) + near;
      case 1: return -(int64_t{1} << pick(63)) + near;
      case 2: return pick(2) ? INT64_MAX - static_cast<int64_t>(pick(3)) : INT64_MIN + static_cast<int64_t>(pick(3));
      case 3: return static_cast<int64_t>(random_());
      default: return near * static_cast<int64_t>(1 + pick(20));
    }
  }
  Interval interval() {
    const auto [lo, hi] = std::minmax({integer(), integer()});
    return {pick(5) ? lo : INT64_MIN, pick(5) ? hi : INT64_MAX};
  }
  // The ends more often than what lies between them.
  int64_t within(Interval v) {
    const uint64_t span = static_cast<uint64_t>(v.hi) - static_cast<uint64_t>(v.lo);
    const uint64_t step = pick(3) ? pick(4) : random_();
    const uint64_t from_lo = span == UINT64_MAX ? step : step % (span + 1);
    return static_cast<int64_t>(pick(2) ? static_cast<uint64_t>(v.lo) + from_lo : static_cast<uint64_t>(v.hi) - from_lo);
  }

 private:
  std::mt19937_64 random_;
};

Interval all_of_type(DType t) { return t == DType::I64 || t == DType::U64 ? Interval{} : Interval{lowest_int(t), highest_int(t)}; }

// Whether arithmetic on numbers of unlimited width gives a number of 64 bits.
bool fits_in_64(const Expr* e, int64_t a, int64_t b) {
  int64_t r;
  switch (e->op) {
    case Op::Add: return !__builtin_add_overflow(a, b, &r);
    case Op::Sub: return !__builtin_sub_overflow(a, b, &r);
    case Op::Mul: return !__builtin_mul_overflow(a, b, &r);
    case Op::FloorDiv: case Op::TruncDiv: return a != INT64_MIN || b != -1;
    case Op::Shl: return b < 0 || b >= 63 || (a <= INT64_MAX >> b && a >= INT64_MIN >> b);
    case Op::Neg: case Op::Abs: return a != INT64_MIN;
    default: return true;
  }
}

int64_t lane_value(const Expr* e, const std::vector<const Sampled*>& args, size_t point, size_t lane) {
  const auto arg = [&](size_t k) {
    const auto& lanes = args[k]->at[point];
    return lanes[lanes.size() == 1 ? 0 : lane];
  };
  switch (e->op) {
    case Op::Select: return arg(0) ? arg(1) : arg(2);
    case Op::Splat: return arg(0);
    case Op::Ramp: return wrap_to(e->type.dtype, static_cast<int64_t>(static_cast<uint64_t>(arg(0)) + lane * static_cast<uint64_t>(e->i)));
    case Op::Extract: return args[0]->at[point][static_cast<size_t>(e->i)];
    default: break;
  }
  const DType from = e->args[0]->type.dtype;
  if (args.size() == 1) return apply_unary(e->op, from, e->type.dtype, {arg(0), 0}).i;
  return apply_binary(e->op, from, {arg(0), 0}, {arg(1), 0}).i;
}

// IntegerDraw expressions over leaves; with `vectors`, also those of Loop kernels.
class RandomExpressions {
 public:
  RandomExpressions(uint64_t seed, bool vectors) : random_(seed), vectors_(vectors) {}
  Context ctx;
  std::vector<Sampled> all;

  void add_leaf(const Expr* e, Interval v) {
    Sampled leaf{e, {}, {}};
    for (size_t k = 0; k < kValues; ++k) leaf.at[k] = {random_.within(v)}, leaf.exists[k] = true;
    all.push_back(std::move(leaf));
  }
  IntegerDraw& random() { return random_; }

  void add_operation() {
    constexpr Op kBinary[] = {Op::Add, Op::Sub, Op::Mul, Op::Min, Op::Max, Op::FloorDiv, Op::FloorMod, Op::TruncDiv, Op::TruncMod, Op::BitAnd,
                              Op::BitOr, Op::BitXor, Op::Shl, Op::Shr};
    constexpr Op kCompare[] = {Op::Lt, Op::Le, Op::Eq, Op::Ne};
    constexpr Op kUnary[] = {Op::Neg, Op::Abs, Op::BitNot};
    const Sampled& a = any();
    const Type t = a.e->type;
    switch (random_.pick(vectors_ ? 12 : 10)) {
      case 0: return make(kCompare[random_.pick(4)], {DType::Bool, t.lanes}, {&a, &alike(t)});
      case 1: return make(Op::Cast, {kIntegers[random_.pick(std::size(kIntegers))], t.lanes}, {&a});
      case 2: return make(Op::SatCast, {kIntegers[random_.pick(std::size(kIntegers) - 1)], t.lanes}, {&a});
      case 3: return make(Op::Select, t, {&alike({DType::Bool, t.lanes}), &a, &alike(t)});
      case 4: return t.dtype == DType::Bool ? make(Op::Not, t, {&a}) : make(kUnary[random_.pick(3)], t, {&a});
      case 10: return t.lanes == 1 ? make(Op::Splat, {t.dtype, 3}, {&a}) : make(Op::Extract, {t.dtype, 1}, {&a}, static_cast<int64_t>(random_.pick(3)));
      case 11: return t.lanes == 1 && t.dtype != DType::Bool ? make(Op::Ramp, {t.dtype, 3}, {&a}, random_.integer()) : void();
      default: {
        if (t.dtype == DType::Bool) return make(random_.pick(2) ? Op::And : Op::Or, t, {&a, &alike(t)});
        const Op op = kBinary[random_.pick(std::size(kBinary))];
        const bool by_constant = random_.pick(3) == 0;
        return make(op, t, {&a, by_constant ? &constant(t) : random_.pick(8) ? &alike(t) : &a});
      }
    }
  }

  // Points at which e has a value outside of v.
  size_t outside(const Sampled& v, Interval known) const {
    size_t n = 0;
    if (is_float(v.e->type.dtype) || v.e->type.dtype == DType::U64) return known.lo != INT64_MIN || known.hi != INT64_MAX;
    for (size_t k = 0; k < kValues; ++k)
      for (const int64_t x : v.at[k]) n += v.exists[k] && (x < known.lo || x > known.hi);
    return n;
  }

 private:
  const Sampled& any() { return all[random_.pick(all.size())]; }
  const Sampled& alike(Type t) {
    std::vector<const Sampled*> found;
    for (const Sampled& v : all)
      if (v.e->type == t) found.push_back(&v);
    return found.empty() ? constant(t) : *found[random_.pick(found.size())];
  }
  const Sampled& constant(Type t) {
    Expr proto;
    proto.type = t;
    proto.i = wrap_to(t.dtype, random_.pick(3) ? static_cast<int64_t>(random_.pick(70)) : random_.integer());
    constants_.push_back({ctx.raw(proto, {}), {}, {}});
    for (size_t k = 0; k < kValues; ++k) constants_.back().at[k].assign(t.lanes, proto.i), constants_.back().exists[k] = true;
    return constants_.back();
  }
  void make(Op op, Type type, std::vector<const Sampled*> args, int64_t i = 0) {
    Expr proto;
    proto.op = op, proto.type = type, proto.i = i;
    std::vector<const Expr*> operands;
    for (const Sampled* a : args) operands.push_back(a->e);
    Sampled v{ctx.raw(proto, operands), {}, {}};
    const bool is_index_arithmetic = !vectors_ && type.dtype == DType::I64 && !node(v.e)->data;
    for (size_t k = 0; k < kValues; ++k) {
      v.exists[k] = std::all_of(args.begin(), args.end(), [&](const Sampled* a) { return a->exists[k]; });
      if (is_index_arithmetic) v.exists[k] = v.exists[k] && fits_in_64(v.e, args[0]->at[k][0], args.back()->at[k][0]);
      for (size_t l = 0; l < type.lanes; ++l) v.at[k].push_back(lane_value(v.e, args, k, l));
    }
    all.push_back(std::move(v));
  }

  IntegerDraw random_;
  bool vectors_;
  std::deque<Sampled> constants_;
};

// How much the intervals say, lest they contain everything: of those that are not all of the type.
struct Told {
  size_t some = 0, all = 0;
  void add(const Sampled& v, Interval known) {
    const Interval range = all_of_type(v.e->type.dtype);
    some += known.lo > range.lo || known.hi < range.hi;
    ++all;
  }
};

}  // namespace

TEST_CASE("the interval of an expression contains its values: index arithmetic does not overflow, all other wraps") {
  Told told;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    CAPTURE(seed);
    RandomExpressions x(seed, /*vectors=*/false);
    for (int k = 0; k < 3; ++k) {
      const Interval v = x.random().interval();
      x.add_leaf(x.ctx.sym(x.ctx.declare_sym("s" + std::to_string(k), v.lo, v.hi)), v);
      const Interval extent = {1, std::max<int64_t>(1, x.random().interval().hi)};
      const Sym* n = x.ctx.declare_sym("n" + std::to_string(k), extent.lo, extent.hi);
      x.add_leaf(x.ctx.dim(x.ctx.declare_dim("d" + std::to_string(k), x.ctx.sym(n))), {0, std::max<int64_t>(0, extent.hi - 1)});
      const DType t = kIntegers[x.random().pick(std::size(kIntegers))];
      x.add_leaf(x.ctx.load(static_cast<uint32_t>(k), {t, 1}, {x.ctx.integer(0)}), all_of_type(t));
      x.add_leaf(x.ctx.fresh_var({t, 1}), all_of_type(t));
    }
    for (int k = 0; k < 40; ++k) x.add_operation();
    for (const Sampled& v : x.all) {
      const Interval known = interval_of(v.e);
      told.add(v, known);
      CHECK_MESSAGE(x.outside(v, known) == 0, to_string(v.e) << " in " << known.lo << " .. " << known.hi);
    }
  }
  CHECK(told.some * 4 > told.all);
}

TEST_CASE("the interval of an expression of a kernel contains its values: all arithmetic wraps") {
  Told told;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    CAPTURE(seed);
    RandomExpressions x(seed, /*vectors=*/true);
    KernelIntervals intervals;
    for (int k = 0; k < 3; ++k) {
      const Interval own = x.random().interval(), v = {x.random().within(own), own.hi};
      const Sym* s = x.ctx.declare_sym("s" + std::to_string(k), own.lo, own.hi);
      const bool is_assumed = x.random().pick(2);
      if (is_assumed) intervals.assume(s, v);
      x.add_leaf(x.ctx.sym(s), is_assumed ? v : own);
      const DType t = kIntegers[x.random().pick(std::size(kIntegers))];
      x.add_leaf(x.ctx.load(static_cast<uint32_t>(k), {t, 1}, {x.ctx.integer(0)}), all_of_type(t));
      x.add_leaf(x.ctx.fresh_var({t, 1}), all_of_type(t));
      const Interval bound = x.random().interval();
      const Expr* var = x.ctx.fresh_var({DType::I64, 1});
      intervals.bind(var, bound);
      x.add_leaf(var, bound);
    }
    for (int k = 0; k < 40; ++k) x.add_operation();
    for (const Sampled& v : x.all) {
      const Interval known = intervals.of(v.e);
      told.add(v, known);
      CHECK_MESSAGE(x.outside(v, known) == 0, "a " << name_of(v.e->type.dtype) << " in " << known.lo << " .. " << known.hi << ", operation " << int(v.e->op));
    }
  }
  CHECK(told.some * 4 > told.all);
}

TEST_CASE("what has no bound keeps none in index arithmetic, and no interval is wider than it has to be") {
  Context ctx;
  const Expr *s = ctx.sym(ctx.declare_sym("s", 0)), *n = ctx.sym(ctx.declare_sym("n", 1)), *below = ctx.sym(ctx.declare_sym("below", -8, -3));
  const auto operation = [&](Op op, DType t, std::vector<const Expr*> args) {
    Expr proto;
    proto.op = op, proto.type = {t, 1};
    return ctx.raw(proto, std::move(args));
  };
  const Expr* half = operation(Op::FloorDiv, DType::I64, {s, ctx.integer(2)});
  KernelIntervals in_kernel;
  CHECK(interval_of(half) == Interval{0, INT64_MAX});
  CHECK(in_kernel.of(half) == Interval{0, INT64_MAX / 2});
  CHECK(interval_of(operation(Op::Sub, DType::I64, {s, ctx.integer(1)})) == Interval{-1, INT64_MAX});
  CHECK(interval_of(operation(Op::FloorDiv, DType::I64, {below, n})) == Interval{-8, -1});
  CHECK(interval_of(operation(Op::TruncMod, DType::I64, {below, ctx.integer(5)})) == Interval{-4, 0});
  CHECK(interval_of(operation(Op::FloorMod, DType::I64, {half, ctx.integer(5)})) == Interval{0, 4});
  CHECK(interval_of(operation(Op::SatCast, DType::I8, {ctx.load(0, {DType::U8, 1}, {s})})) == Interval{0, 127});
}
