#include "packager/lower/flat/body.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "packager/ir/broadcast.h"
#include "packager/ir/numeric.h"

namespace mlc::lower {

using ir::Access;
using ir::Expr;
using ir::Op;
using ir::Type;

namespace {
bool is_transcendental(Op op) { return op >= Op::Exp && op <= Op::Erf; }

// The argument of erf, whose quotient by a number (the root of two in GELU) may as well be a product: half an ulp of the
// argument is no more than that of the result.
const Expr* without_division(ir::Context& ctx, const Expr* e) {
  const Expr* x = e->args[0];
  if (e->op != Op::Erf || x->op != Op::Div || !x->args[1]->is_const()) return x;
  const double inverse = 1 / x->args[1]->f;
  if (!(std::abs(inverse) > 1e-30 && std::abs(inverse) < 1e30)) return x;
  return ctx.binary(Op::Mul, x->args[0], ctx.number(inverse, x->type.dtype));
}
}  // namespace

void Body::bind(const ir::Dim* d, const Expr* value) {
  auto [it, fresh] = env_.try_emplace(d, value);
  if (fresh || it->second == value) return;
  Scope& scope = scopes_.back();
  scope.rebound.emplace_back(d, it->second);
  it->second = value;
  scope.hidden |= facts.bit(d);
  auto stale = [&](const auto& entry) { return (facts.dims(entry.first.e) & facts.bit(d)) != 0; };
  std::erase_if(scope.memo, stale);
  std::erase_if(scope.folds, stale);
}

void Body::close_scope() {
  auto& rebound = scopes_.back().rebound;
  for (size_t k = rebound.size(); k-- > 0;) env_[rebound[k].first] = rebound[k].second;
  scopes_.pop_back();
}

void Body::scoped(const std::function<void()>& body) {
  open_scope();
  body();
  close_scope();
}

void Body::with_for(const ir::Dim* d, const Expr* begin, const Expr* end, int64_t step,
                    const std::function<void()>& body) {
  if (begin->is_const() && end->is_const() && begin->i >= end->i) return;
  if (begin->is_const() && end->is_const() && end->i - begin->i <= step) {  // one turn needs no loop
    scoped([&] {
      bind(d, begin);
      body();
    });
    return;
  }
  b.with_for(begin, end, step, [&](const Expr* var) {
    scoped([&] {
      bind(d, var);
      body();
    });
  });
}

void Body::vectorised(const ir::Dim* d, unsigned lanes, const Expr* tail, const std::function<void()>& body) {
  auto saved = std::tuple(vdim_, lanes_, tail_);
  DimSet changed = d ? facts.bit(d) : 0;
  if (vdim_) changed |= facts.bit(vdim_);
  vdim_ = lanes > 1 ? d : nullptr;
  lanes_ = lanes;
  tail_ = tail;
  open_scope().hidden = changed;
  body();
  close_scope();
  std::tie(vdim_, lanes_, tail_) = saved;
}

const Expr* Body::scalar(const Expr* e, const Expr* guard) {
  guard = guard && facts.needs_guard(e) ? needed_by_any(guard) : nullptr;
  if (!vdim_ || !facts.depends(e, vdim_)) return value(e, guard);
  const Expr* r = nullptr;
  vectorised(vdim_, 1, nullptr, [&] { r = value(e, guard); });
  return r;
}

const Expr* Body::both(const Expr* a, const Expr* c) {
  if (!a || (a->is_const() && a->i)) return c && c->is_const() && c->i ? nullptr : c;
  if (!c || (c->is_const() && c->i)) return a;
  return loop::vec_binary(ctx, Op::And, a, c);
}

const Expr* Body::any_lane(const Expr* mask) {
  if (!mask || mask->type.lanes == 1) return mask;
  const Expr* ones = ctx.convert(Op::Cast, {DType::I32, mask->type.lanes}, mask);
  return ctx.binary(Op::Ne, loop::lanes_fold(ctx, Op::MaxLanes, ones), ctx.integer(0, DType::I32));
}

const Expr* Body::needed_by_any(const Expr* guard) {
  if (!guard || guard->type.lanes == 1) return guard;
  return any_lane(both(guard, tail_));
}

const Expr* Body::value(const Expr* e, const Expr* guard) {
  if (e->op == Op::Const || e->op == Op::Sym) return e;
  if (guard && !facts.needs_guard(e)) guard = nullptr;
  DimSet blocked = 0;
  for (size_t k = scopes_.size(); k-- > 0;) {
    // What was computed for every case serves each of them.
    for (const Expr* when : {guard, static_cast<const Expr*>(nullptr)})
      if (auto it = scopes_[k].memo.find({e, when}); it != scopes_[k].memo.end()) return it->second;
    blocked |= scopes_[k].hidden;
    if (scopes_[k].isolated || (facts.dims(e) & blocked)) break;
  }
  if (++depth_ > kMaxDepth) fail("expression too deep");
  const Expr* r = error_.empty() ? compute(e, guard) : nullptr;
  --depth_;
  if (!r) {  // after an error: anything of the right type
    r = is_float(e->type.dtype) ? ctx.number(0, e->type.dtype)
        : e->type.dtype == DType::Bool ? ctx.boolean(false) : ctx.integer(0, e->type.dtype);
  }
  scopes_.back().memo[{e, guard}] = r;
  return r;
}

const Expr* Body::compute(const Expr* e, const Expr* guard) {
  switch (e->op) {
    case Op::Dim: {
      auto it = env_.find(e->dim);
      if (it == env_.end()) {
        fail("dim " + e->dim->name + " is not bound");
        return nullptr;
      }
      return e->dim == vdim_ ? loop::ramp(ctx, it->second, lanes_) : it->second;
    }
    case Op::Var: {
      auto it = vars_.find(e);
      return it == vars_.end() ? e : it->second;
    }
    case Op::Load: return load(e, guard);
    case Op::Fold: return fold(e, guard)[0];
    case Op::Field: return fold(e->args[0], guard)[static_cast<size_t>(e->i)];
    case Op::Select: return select(e, guard);
    case Op::And:
    case Op::Or: {
      const Expr* a = value(e->args[0], guard);
      const Expr* when = e->op == Op::And ? a : loop::vec_unary(ctx, Op::Not, a);
      return loop::vec_binary(ctx, e->op, a, value(e->args[1], both(guard, when)));
    }
    case Op::FloorDiv: case Op::FloorMod: case Op::TruncDiv: case Op::TruncMod:
      return is_float(e->type.dtype) ? generic(e, guard) : divide(e, guard);
    case Op::Pow: return power(e, guard);
    default:
      if (is_transcendental(e->op)) {
        const Expr* text = transcendental(e->op, named(without_division(ctx, e), guard));
        return text ? value(text, guard) : nullptr;
      }
      return generic(e, guard);
  }
}

// The value of `x` under a name. Texts read their arguments in many places, arms of selects among them, and each place
// would load under a condition of its own.
const Expr* Body::named(const Expr* x, const Expr* guard) {
  if (!facts.needs_guard(x)) return x;
  const Expr* name = ctx.fresh_var(x->type);
  vars_[name] = b.let(value(x, guard));
  return name;
}

const Expr* Body::transcendental(Op op, const Expr* arg) {
  const Expr* text = expand_ ? expand_(ctx, op, arg) : nullptr;
  if (!text) fail("there is no such function of " + std::string(name_of(arg->type.dtype)));
  return text;
}

// Index arithmetic of vectors, both of whose operands fit into 32 bits, with room for lanes beyond the end: processors compare and multiply
// twice as many of those at once, and have no product of 64 bits to divide by a number with.
bool Body::is_short(const Expr* e, const std::vector<const Expr*>& args) const {
  if (target.is_device() || args.size() != 2 || e->args[0]->type.dtype != DType::I64) return false;
  const bool narrows = e->op == Op::FloorDiv || e->op == Op::FloorMod || e->op == Op::Min || e->op == Op::Max || e->op == Op::Lt || e->op == Op::Le ||
                       e->op == Op::Eq || e->op == Op::Ne;
  constexpr int64_t kMost = int64_t{1} << 30;
  return narrows && std::all_of(e->args.begin(), e->args.end(), [&](const Expr* a) { return ir::within(ir::interval_of(a), {-kMost, kMost}); });
}

const Expr* Body::generic(const Expr* e, const Expr* guard) {
  std::vector<const Expr*> args;
  unsigned lanes = 1;
  for (const Expr* a : e->args) {
    args.push_back(value(a, guard));
    lanes = std::max<unsigned>(lanes, args.back()->type.lanes);
  }
  if (lanes > 1 && is_short(e, args)) {
    for (const Expr*& a : args) a = loop::splat(ctx, loop::vec_convert(ctx, Op::Cast, DType::I32, a), lanes);
    const Expr* small = loop::vec_binary(ctx, e->op, args[0], args[1]);
    return e->type.dtype == DType::I64 ? loop::vec_convert(ctx, Op::Cast, DType::I64, small) : small;
  }
  if (lanes > 1) {
    for (const Expr*& a : args) a = loop::splat(ctx, a, lanes);
    Expr node = *e;
    node.type.lanes = static_cast<uint16_t>(lanes);
    return ctx.raw(node, std::move(args));
  }
  switch (args.size()) {
    case 1:
      return e->op == Op::Cast || e->op == Op::SatCast || e->op == Op::Bitcast ? ctx.convert(e->op, e->type, args[0])
                                                                               : ctx.unary(e->op, args[0]);
    case 2: return ctx.binary(e->op, args[0], args[1]);
    case 3: return e->op == Op::Fma ? ctx.fma(args[0], args[1], args[2]) : ctx.select(args[0], args[1], args[2]);
    default: fail("operation " + std::to_string(int(e->op)) + " cannot be compiled"); return nullptr;
  }
}

const Expr* Body::all_one(const std::vector<const Expr*>& steps) {
  const Expr* all = nullptr;
  for (const Expr* s : steps)
    if (std::find(ones_.begin(), ones_.end(), s) == ones_.end()) all = both(all, ctx.logical_not(s->args[0]));
  return all;
}

void Body::by_steps(const std::vector<const Expr*>& steps, const std::function<void()>& body) {
  const Expr* all = all_one(steps);
  if (!all) return body();
  b.with_if(all, [&] {
    scoped([&] {
      const size_t before = ones_.size();
      ones_.insert(ones_.end(), steps.begin(), steps.end());
      body();
      ones_.resize(before);
    });
  }, [&] { scoped(body); });
}

bool Body::by_neighbours(Type type, int64_t stride, const Expr* mask) const {
  if (mask && (mask->type.lanes != type.lanes || !target.has_masks || bits_of(type.dtype) < 32)) return false;
  return !target.is_device() && type.lanes >= 4 && type.dtype != DType::Bool && bits_of(type.dtype) >= 8 && std::abs(stride) <= kMostNeighbours && (stride < -1 || stride > 1);
}

// Elements at a small stride: vectors of all elements from the first to the last, of which lanes are picked. The last of these vectors ends
// at the last element, so that nothing beyond is read. Under a mask only what is picked is read.
const Expr* Body::every_nth(uint32_t array, Type type, const Expr* base, int64_t stride, const Expr* mask) {
  const int64_t w = type.lanes, step = std::abs(stride), last = (w - 1)*step;
  const Expr* low = stride < 0 ? ctx.sub(base, ctx.integer(last)) : base;
  std::vector<const Expr*> vectors, lanes;
  std::vector<int64_t> begins;
  for (int64_t k = 0; k < step; ++k) {
    begins.push_back(std::min(k*w, last - (w - 1)));
    std::vector<const Expr*> wanted;
    for (int64_t e = 0; mask && e < w; ++e) {
      const int64_t at = begins.back() + e, lane = stride < 0 ? w - 1 - at / step : at / step;
      wanted.push_back(loop::extract(ctx, at % step ? loop::splat(ctx, ctx.boolean(false), lanes_) : mask, static_cast<unsigned>(at % step ? 0 : lane)));
    }
    vectors.push_back(loop::vec_load(ctx, array, type, ctx.add(low, ctx.integer(begins.back())), mask ? b.let(loop::widen(ctx, wanted)) : nullptr));
  }
  for (int64_t lane = 0; lane < w; ++lane) {
    const int64_t at = stride < 0 ? last - lane*step : lane*step, k = std::min(at / w, step - 1);
    lanes.push_back(loop::extract(ctx, vectors[static_cast<size_t>(k)], static_cast<unsigned>(at - begins[static_cast<size_t>(k)])));
  }
  return loop::widen(ctx, std::move(lanes));
}

const Expr* Body::load(const Expr* e, const Expr* guard) {
  if (e->args.size() > 1) {  // checked: faults where it is needed and out of range
    const Expr* bad = loop::vec_unary(ctx, Op::Not, value(e->args[1], guard));
    const Expr* needed = both(guard, bad);
    if (needed && needed->type.lanes > 1) needed = both(tail_, needed);
    b.fault(needed ? needed : ctx.boolean(true), kIndexFault);
  }
  const Expr* mask = e->access == Access::Clamped ? nullptr : guard;
  const Expr* address = e->args[0];
  if (!ones_.empty())
    address = ctx.rewrite(address, [&](const Expr* x) {
      return std::find(ones_.begin(), ones_.end(), x) == ones_.end() ? nullptr : ctx.integer(1);
    });
  if (!depends_on_lanes(address)) return loop::vec_load(ctx, e->array, e->type, value(address, guard), needed_by_any(mask));

  mask = both(mask, tail_);
  Type type{e->type.dtype, static_cast<uint16_t>(lanes_)};
  const Expr* leaf[] = {ctx.dim(vdim_)};
  auto lin = ir::linear_in(ctx, address, leaf);
  auto along = [&](const Expr* base, int64_t stride) {
    if (by_neighbours(type, stride, mask)) return every_nth(e->array, type, base, stride, mask);
    if (stride != 1 && !mask && lanes_ <= 16) {  // single loads: code generators move them out of loops, unlike gathers
      std::vector<const Expr*> parts;
      for (unsigned k = 0; k < lanes_; ++k)
        parts.push_back(loop::vec_load(ctx, e->array, e->type, ctx.add(base, ctx.integer(stride * k))));
      return loop::widen(ctx, std::move(parts));
    }
    return loop::vec_load(ctx, e->array, type, stride == 1 ? base : loop::ramp(ctx, base, lanes_, stride), mask);
  };
  if (lin && lin->coefficients[0]->is_const()) return along(scalar(address, guard), lin->coefficients[0]->i);
  const Expr* usual = lin ? ir::without_steps(ctx, lin->coefficients[0]) : nullptr;
  if (usual && usual != lin->coefficients[0] && usual->is_const()) {
    // Whether this axis has one element is dynamic: a vector or a single one.
    const Expr* moves = all_one(ir::steps_in(lin->coefficients[0]));
    if (!moves) return along(scalar(address, guard), usual->i);
    const Expr* base = b.let(scalar(address, guard));
    const Expr* zero = is_float(e->type.dtype) ? ctx.number(0, e->type.dtype)
                       : e->type.dtype == DType::Bool ? ctx.boolean(false) : ctx.integer(0, e->type.dtype);
    const Expr* r = b.local(loop::splat(ctx, zero, lanes_));
    const Expr* any = any_lane(mask);
    b.with_if(moves, [&] { b.assign(r, along(base, usual->i)); },
              [&] { b.assign(r, loop::splat(ctx, loop::vec_load(ctx, e->array, e->type, base, any), lanes_)); });
    return r;
  }
  return loop::vec_load(ctx, e->array, type, loop::splat(ctx, value(address, guard), lanes_), mask);
}

const Expr* Body::select(const Expr* e, const Expr* guard) {
  const Expr* c = value(e->args[0], guard);
  if (c->is_const()) return value(e->args[c->i ? 1 : 2], guard);
  // Vectors that are read under one condition for all lanes: a branch. A masked load of no lane costs as much as a fault where its page
  // does not exist, and more than a branch anywhere.
  const auto reads_vectors = [&](const Expr* arm) { return !target.is_device() && depends_on_lanes(arm) && facts.needs_guard(arm); };
  const auto branches = [&](const Expr* arm) { return facts.has_fold(arm) || reads_vectors(arm); };
  if (c->type.lanes == 1 && (branches(e->args[1]) || branches(e->args[2]))) {
    unsigned lanes = depends_on_lanes(e->args[1]) || depends_on_lanes(e->args[2]) ? lanes_ : 1;
    const Expr* zero = is_float(e->type.dtype) ? ctx.number(0, e->type.dtype)
                       : e->type.dtype == DType::Bool ? ctx.boolean(false) : ctx.integer(0, e->type.dtype);
    const Expr* r = b.local(loop::splat(ctx, zero, lanes));
    auto arm = [&](const Expr* x) {
      return [&, x] { scoped([&] { b.assign(r, loop::splat(ctx, value(x, guard), lanes)); }); };
    };
    b.with_if(c, arm(e->args[1]), arm(e->args[2]));
    return r;
  }
  const Expr* x = value(e->args[1], both(guard, c));
  const Expr* y = value(e->args[2], both(guard, loop::vec_unary(ctx, Op::Not, c)));
  return loop::vec_select(ctx, c, x, y);
}

// Division by zero gives 0, and the least integer divided by -1 wraps (ir/numeric.h); hardware traps on both.
const Expr* Body::divide(const Expr* e, const Expr* guard) {
  DType t = e->type.dtype;
  const Expr* divisor = e->args[1];
  bool safe = divisor->is_const() ? divisor->i != 0 && divisor->i != -1
                                  : t == DType::I64 && ir::interval_of(divisor).lo >= 1;
  if (safe) return generic(e, guard);
  const Expr* n = value(e->args[0], guard);
  const Expr* d = value(divisor, guard);
  bool quotient = e->op == Op::FloorDiv || e->op == Op::TruncDiv;
  const Expr *zero = ctx.integer(0, t), *one = ctx.integer(1, t);
  const Expr* is_zero = loop::vec_binary(ctx, Op::Eq, d, zero);
  const Expr* odd = is_zero;
  const Expr* minus = nullptr;
  if (is_signed_int(t)) {
    minus = loop::vec_binary(ctx, Op::Eq, d, ctx.integer(-1, t));
    odd = loop::vec_binary(ctx, Op::Or, is_zero, minus);
  }
  const Expr* q = loop::vec_binary(ctx, e->op, n, loop::vec_select(ctx, odd, one, d));
  if (!quotient) return loop::vec_select(ctx, odd, zero, q);
  if (minus) q = loop::vec_select(ctx, minus, loop::vec_unary(ctx, Op::Neg, n), q);
  return loop::vec_select(ctx, is_zero, zero, q);
}

// x ** y. Whole exponents are products; the rest goes through exp and log in double precision, since an error of one
// unit in log(x) is multiplied by y.
const Expr* Body::power(const Expr* e, const Expr* guard) {
  const Expr *x = e->args[0], *y = e->args[1];
  DType t = e->type.dtype;
  if (y->is_const()) {
    double k = is_float(t) ? y->f : static_cast<double>(y->i);
    if (is_float(t) && k == 0.5) {  // a root, save of -0 and -inf
      const auto number = [&](double v) { return ctx.number(v, t); };
      return value(ctx.select(ctx.binary(Op::Eq, x, number(-INFINITY)), number(INFINITY), ctx.unary(Op::Sqrt, ctx.binary(Op::Add, x, number(0)))), guard);
    }
    if (is_float(t) && k == -1) return value(ctx.binary(Op::Div, ctx.number(1, t), x), guard);
    if (k == static_cast<int>(k) && k >= 0 && k <= 16) {
      const Expr* r = is_float(t) ? ctx.number(1, t) : ctx.integer(1, t);
      const Expr* square = x;
      for (int n = static_cast<int>(k); n; n >>= 1) {
        if (n & 1) r = r->op == Op::Const ? square : ctx.binary(Op::Mul, r, square);
        square = ctx.binary(Op::Mul, square, square);
      }
      return value(r, guard);
    }
  }
  if (!is_float(t)) return generic(e, guard);  // back ends have a loop for it
  DType wide = DType::F64;
  auto num = [&](double v) { return ctx.number(v, wide); };
  const Expr *a = ctx.cast(wide, named(x, guard)), *p = ctx.cast(wide, named(y, guard));
  const Expr* log = expand_ ? expand_(ctx, Op::Log, ctx.unary(Op::Abs, a)) : nullptr;
  const Expr* exp = log ? expand_(ctx, Op::Exp, ctx.binary(Op::Mul, p, log)) : nullptr;
  if (!exp) {
    fail("there is no power of " + std::string(name_of(t)));
    return nullptr;
  }
  const Expr* whole = ctx.binary(Op::Eq, ctx.unary(Op::Trunc, p), p);
  const Expr* half = ctx.binary(Op::Mul, p, num(0.5));
  const Expr* odd = ctx.binary(Op::And, whole, ctx.binary(Op::Ne, ctx.unary(Op::Trunc, half), half));
  const Expr* nan = num(std::numeric_limits<double>::quiet_NaN());
  const Expr* negative = ctx.select(whole, ctx.select(odd, ctx.unary(Op::Neg, exp), exp), nan);
  const Expr* r = ctx.select(ctx.binary(Op::Lt, a, num(0)), negative, exp);
  // Whole exponents up to 127 by products, square roots by theirs: 9**3 must be 729 and not its neighbour, which a cast
  // to an integer would turn into 728. This also makes 1 of every x**0.
  const Expr* size = ctx.unary(Op::Abs, p);
  const Expr* few = ctx.binary(Op::And, whole, ctx.binary(Op::Lt, size, num(128)));
  const Expr* steps = ctx.cast(DType::I64, ctx.select(few, size, num(0)));
  const Expr *product = num(1), *square = a;
  for (int bit = 0; bit < 7; ++bit) {
    const Expr* odd_step = ctx.binary(Op::Ne, ctx.binary(Op::BitAnd, steps, ctx.integer(int64_t{1} << bit)), ctx.integer(0));
    product = ctx.select(odd_step, ctx.binary(Op::Mul, product, square), product);
    square = ctx.binary(Op::Mul, square, square);
  }
  product = ctx.select(ctx.binary(Op::Lt, p, num(0)), ctx.binary(Op::Div, num(1), product), product);
  r = ctx.select(ctx.binary(Op::Eq, a, num(1)), num(1), r);
  r = ctx.select(ctx.binary(Op::And, ctx.binary(Op::Eq, p, num(0.5)), ctx.binary(Op::Lt, num(0), a)), ctx.unary(Op::Sqrt, a), r);
  return value(ctx.cast(t, ctx.select(few, product, r)), guard);
}

void Body::hoist(const Expr* root, DimSet inner) {
  if (!facts.has_fold(root)) return;
  std::vector<const Expr*> stack{root};
  while (!stack.empty()) {
    const Expr* e = stack.back();
    stack.pop_back();
    if (!facts.has_fold(e)) continue;
    size_t always = e->args.size();  // arguments that are evaluated whenever `e` is
    if (e->op == Op::Fold) {
      if (!(facts.dims(e) & inner)) {
        fold(e, nullptr);
        continue;
      }
      for (const Expr* body : e->args)
        if (!facts.needs_guard(body)) stack.push_back(body);
      continue;
    }
    if (e->op == Op::Select || e->op == Op::And || e->op == Op::Or) always = 1;
    for (size_t k = 0; k < always; ++k) stack.push_back(e->args[k]);
  }
}

}  // namespace mlc::lower
