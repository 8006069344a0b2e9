#include "packager/ir/context.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "packager/ir/impl.h"
#include "packager/ir/numeric.h"

namespace mlc::ir {
namespace {

uint64_t mix(uint64_t h, uint64_t v) {
  h ^= v + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
  return h * 0xff51afd7ed558ccdu;
}

uint64_t hash_of(const Expr& e, std::span<const Expr* const> args) {
  uint64_t h = static_cast<uint64_t>(e.op) | static_cast<uint64_t>(e.type.dtype) << 8 |
               static_cast<uint64_t>(e.type.lanes) << 16 | static_cast<uint64_t>(e.access) << 32;
  h = mix(h, e.array);
  h = mix(h, static_cast<uint64_t>(e.i));
  h = mix(h, std::bit_cast<uint64_t>(e.f));
  h = mix(h, reinterpret_cast<uintptr_t>(e.sym) ^ reinterpret_cast<uintptr_t>(e.dim) ^ reinterpret_cast<uintptr_t>(e.fold));
  for (const Expr* a : args) h = mix(h, a->id);
  return h ^ h >> 32;  // tables take the low bits
}

bool same(const Expr& a, const Expr& b, std::span<const Expr* const> args) {
  return a.op == b.op && a.type == b.type && a.access == b.access && a.array == b.array && a.i == b.i &&
         std::bit_cast<uint64_t>(a.f) == std::bit_cast<uint64_t>(b.f) && a.sym == b.sym && a.dim == b.dim &&
         a.fold == b.fold && b.args.size() == args.size() && std::equal(args.begin(), args.end(), b.args.begin());
}

Expr leaf(Op op, Type type) {
  Expr e;
  e.op = op;
  e.type = type;
  return e;
}

bool is_comparison(Op op) { return op == Op::Lt || op == Op::Le || op == Op::Eq || op == Op::Ne; }
bool is_vector(const Expr* e) { return e->type.lanes != 1; }
bool is_float_const(const Expr* e, double v) { return e->is_const() && is_float(e->type.dtype) && e->f == v; }
Scalar scalar_of(const Expr* e) { return {e->i, e->f}; }

constexpr int kDeepestSign = 8;  // expressions inside of each other that are asked for their sign

// A real number that is never -0: then adding 0 changes nothing (-0 + 0 is 0). Sums start at 0, and a sum is -0 only if
// both numbers are.
bool is_never_negative_zero(const Expr* e, int deep = kDeepestSign) {
  if (deep == 0) return false;
  const auto arg = [&](size_t k) { return is_never_negative_zero(e->args[k], deep - 1); };
  switch (e->op) {
    case Op::Const: return e->f != 0 || !std::signbit(e->f);
    case Op::Cast: return !is_float(e->args[0]->type.dtype) || (bits_of(e->type.dtype) >= bits_of(e->args[0]->type.dtype) && arg(0));
    case Op::Fold: return e->fold->combiner->join == Join::Sum;
    case Op::Abs: case Op::Exp: return true;
    case Op::Add: return arg(0) || arg(1);
    case Op::Select: return is_never_negative_zero(e->args[1], deep - 1) && is_never_negative_zero(e->args[2], deep - 1);
    default: return false;
  }
}

// x + 0 and x - 0 are x, if x or the zero has the right sign.
bool changes_nothing(Op op, const Expr* a, const Expr* zero) {
  return std::signbit(zero->f) == (op == Op::Add) || is_never_negative_zero(a);
}

}  // namespace

void NodeTable::insert(const Node* node) {
  const auto put = [&](const Slot& slot) {
    size_t at = slot.hash & (slots_.size() - 1);
    while (slots_[at].node) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = slot;
  };
  if (++size_ * 2 > slots_.size()) {
    std::vector<Slot> before(slots_.size() * 2);
    before.swap(slots_);
    for (const Slot& slot : before)
      if (slot.node) put(slot);
  }
  put({node->hash, node});
}

std::span<const Expr* const> ArgumentStore::keep(std::span<const Expr* const> row) {
  constexpr size_t kBlock = 4096;
  if (row.empty()) return {};
  if (row.size() > left_) {
    left_ = std::max(row.size(), kBlock);
    blocks_.push_back(std::make_unique<const Expr*[]>(left_));
    end_ = blocks_.back().get() + left_;
  }
  const Expr** to = end_ - left_;
  std::copy(row.begin(), row.end(), to);
  left_ -= row.size();
  return {to, row.size()};
}

Context::Context() : impl_(std::make_unique<Impl>(*this)) {
  static constexpr const char* kNames[] = {"sum", "prod", "min", "max", "any", "all", "last"};
  for (unsigned j = 0; j < 7; ++j) {
    Combiner c;
    c.name = kNames[j];
    c.join = static_cast<Join>(j);
    c.commutative = c.join != Join::Last;
    impl_->builtins[j] = declare_combiner(std::move(c));
  }
}
Context::~Context() = default;

const Expr* Context::Impl::make(Expr proto, std::span<const Expr* const> arguments) {
  uint64_t h = hash_of(proto, arguments);
  if (const Node* known = table.find(h, [&](const Node& n) { return same(proto, n, arguments); })) return known;
  Node n;
  static_cast<Expr&>(n) = proto;
  n.args = args.keep(arguments);
  n.id = static_cast<uint32_t>(nodes.size());
  n.hash = h;
  set_facts(n);
  set_points(n);
  nodes.push_back(n);
  table.insert(&nodes.back());
  return &nodes.back();
}

const Expr* Context::Impl::make_binary(Op op, Type type, const Expr* a, const Expr* b) {
  const Expr* args[] = {a, b};
  return make(leaf(op, type), args);
}

const Expr* Context::integer(int64_t value, DType dtype) {
  if (is_float(dtype)) return number(static_cast<double>(value), dtype);
  Expr e = leaf(Op::Const, {dtype, 1});
  e.i = wrap_to(dtype, value);
  return impl_->make(e, {});
}

const Expr* Context::number(double value, DType dtype) {
  if (!is_float(dtype)) {
    Scalar v = apply_unary(Op::SatCast, DType::F64, dtype == DType::Bool ? DType::I64 : dtype, {0, std::nearbyint(value)});
    return integer(v.i, dtype);
  }
  Expr e = leaf(Op::Const, {dtype, 1});
  e.f = std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : round_to(dtype, value);
  return impl_->make(e, {});
}

const Expr* Context::boolean(bool value) { return integer(value, DType::Bool); }

const Expr* Context::sym(const Sym* s) {
  if (s->lo == s->hi) return integer(s->lo);
  Expr e = leaf(Op::Sym, {DType::I64, 1});
  e.sym = s;
  return impl_->make(e, {});
}

const Expr* Context::dim(const Dim* d) {
  Expr e = leaf(Op::Dim, {DType::I64, 1});
  e.dim = d;
  return impl_->make(e, {});
}

const Expr* Context::fresh_var(Type type) {
  Expr e = leaf(Op::Var, type);
  e.i = impl_->next_var++;
  return impl_->make(e, {});
}

const Sym* Context::declare_sym(std::string name, int64_t lo, int64_t hi, int64_t multiple) {
  auto [it, fresh] = impl_->sym_by_name.try_emplace(name, nullptr);
  if (fresh) {
    impl_->syms.push_back({std::move(name), lo, hi, multiple < 1 ? 1 : multiple});
    it->second = &impl_->syms.back();
  }
  return it->second;
}

const Sym* Context::numbered_sym(const std::string& purpose, size_t number, int64_t lo, int64_t hi, int64_t multiple) {
  std::string name = purpose + std::to_string(number);
  if (lo != 0 || hi != INT64_MAX) name += " " + std::to_string(lo) + ".." + (hi == INT64_MAX ? "" : std::to_string(hi));
  if (multiple > 1) name += " by " + std::to_string(multiple);
  return declare_sym(std::move(name), lo, hi, multiple);
}

const Dim* Context::declare_dim(std::string name, const Expr* extent) {
  impl_->dims.push_back({std::move(name), extent, static_cast<uint32_t>(impl_->dims.size())});
  return &impl_->dims.back();
}

const Combiner* Context::builtin(Join join) { return impl_->builtins[static_cast<unsigned>(join)]; }

const Combiner* Context::declare_combiner(Combiner combiner) {
  impl_->combiners.push_back(std::move(combiner));
  return &impl_->combiners.back();
}

const Expr* Context::load(uint32_t array, Type type, std::vector<const Expr*> index, Access access) {
  Expr e = leaf(Op::Load, type);
  e.array = array;
  e.access = access;
  return impl_->make(e, index);
}

const Fold* Context::Impl::intern(Fold fold) {
  uint64_t h = mix(reinterpret_cast<uintptr_t>(fold.combiner), fold.where ? fold.where->id + 1 : 0);
  for (const ir::Dim* d : fold.dims) h = mix(h, d->id);
  auto [first, last] = fold_table.equal_range(h);
  for (; first != last; ++first)
    if (first->second->combiner == fold.combiner && first->second->where == fold.where && first->second->dims == fold.dims)
      return first->second;
  folds.push_back(std::move(fold));
  fold_table.emplace(h, &folds.back());
  return &folds.back();
}

const Expr* Context::fold(Fold f, std::vector<const Expr*> bodies) {
  Type type = bodies[0]->type;
  if (f.where && f.where->is_int(1)) f.where = nullptr;
  bool builtin = f.combiner->join != Join::Custom;
  // An axis of one element is no axis.
  std::unordered_map<const Expr*, const Expr*> zeros;
  bool empty = f.where && f.where->is_int(0);
  for (const Dim* d : f.dims) {
    if (d->extent->is_int(1)) zeros.emplace(dim(d), integer(0));
    empty |= d->extent->is_int(0);
  }
  if (empty && builtin) return unit_of(f.combiner->join, type.dtype);
  if (!zeros.empty()) {
    std::erase_if(f.dims, [](const Dim* d) { return d->extent->is_int(1); });
    for (const Expr*& b : bodies) b = substitute(b, zeros);
    if (f.where) f.where = substitute(f.where, zeros);
    return fold(std::move(f), std::move(bodies));
  }
  if (f.dims.empty() && builtin)
    return f.where ? select(f.where, bodies[0], unit_of(f.combiner->join, type.dtype)) : bodies[0];
  Expr e = leaf(Op::Fold, type);
  e.fold = impl_->intern(std::move(f));
  return impl_->make(e, bodies);
}

const Expr* Context::field(const Expr* fold, unsigned index) {
  if (fold->op != Op::Fold || fold->args.size() == 1) return fold;
  Expr e = leaf(Op::Field, fold->args[index]->type);
  e.i = index;
  return impl_->make(e, std::span(&fold, 1));
}

const Expr* Context::unary(Op op, const Expr* a) {
  Type type = a->type;
  if (op == Op::IsNan || op == Op::IsInf) type.dtype = DType::Bool;
  return convert(op, type, a);
}

const Expr* Context::cast(DType to, const Expr* a) { return convert(Op::Cast, {to, a->type.lanes}, a); }

namespace {

// Extents that went through floating point come back exactly: i64(floor(f32(n) * 2)) is 2 * n. (Beyond 2^24 the detour
// would round; the integer is what was meant.)
const Expr* integer_of_float(Context& ctx, const Expr* a) {
  Op rounding = Op::Trunc;
  if (a->op == Op::Floor || a->op == Op::Ceil || a->op == Op::Rint || a->op == Op::Trunc) {
    rounding = a->op;
    a = a->args[0];
  }
  auto plain = [](const Expr* e) { return e->op == Op::Cast && is_index(e->args[0]) ? e->args[0] : nullptr; };
  if (const Expr* n = plain(a)) return n;
  if (a->op != Op::Mul && a->op != Op::Div) return nullptr;
  const Expr* n = plain(a->args[0]);
  if (!n || !a->args[1]->is_const()) return nullptr;
  double k = a->args[1]->f;
  auto small_integer = [](double v) { return v >= 1 && v <= 4096 && v == std::floor(v); };
  if (a->op == Op::Mul && small_integer(k)) return ctx.mul(n, ctx.integer(static_cast<int64_t>(k)));
  if (a->op == Op::Mul && k > 0) {
    int exponent;
    if (std::frexp(k, &exponent) != 0.5) return nullptr;
    k = 1 / k;
  }
  if (!small_integer(k)) return nullptr;
  const Expr* d = ctx.integer(static_cast<int64_t>(k));
  if (rounding == Op::Floor || (rounding == Op::Trunc && interval_of(n).lo >= 0)) return ctx.floordiv(n, d);
  if (rounding == Op::Ceil) return ctx.ceildiv(n, d);
  return nullptr;
}

}  // namespace

const Expr* Context::convert(Op op, Type to, const Expr* a) {
  Type from = a->type;
  Expr e = leaf(op, to);
  if (op == Op::Splat || is_vector(a) || to.lanes != 1) {
    if (op == Op::Splat && to == from) return a;
    return impl_->make(e, std::span(&a, 1));
  }
  if ((op == Op::Cast || op == Op::SatCast || op == Op::Bitcast) && to == from) return a;
  bool rounds = op == Op::Floor || op == Op::Ceil || op == Op::Trunc || op == Op::Rint;
  if (rounds && !is_float(from.dtype)) return a;
  if (a->is_const()) {
    Scalar v = apply_unary(op, from.dtype, to.dtype, scalar_of(a));
    return is_float(to.dtype) ? number(v.f, to.dtype) : integer(v.i, to.dtype);
  }
  if (op == Op::Not) {
    if (a->op == Op::Not) return a->args[0];
    if (a->op == Op::Eq) return binary(Op::Ne, a->args[0], a->args[1]);
    if (a->op == Op::Ne) return binary(Op::Eq, a->args[0], a->args[1]);
    if ((a->op == Op::Lt || a->op == Op::Le) && !is_float(a->args[0]->type.dtype))
      return binary(a->op == Op::Lt ? Op::Le : Op::Lt, a->args[1], a->args[0]);
  }
  if (op == Op::Neg && is_index(a)) return binary(Op::Sub, integer(0), a);
  if ((op == Op::Neg || op == Op::BitNot) && a->op == op) return a->args[0];
  if (op == Op::Abs && is_signed_int(from.dtype)) {
    if (node(a)->interval.lo >= 0) return a;
    if (is_index(a) && node(a)->interval.hi <= 0) return unary(Op::Neg, a);
  }
  if (op == Op::Abs && is_unsigned_int(from.dtype)) return a;
  if (op == Op::Cast && to.dtype == DType::Bool && !is_float(from.dtype))
    return binary(Op::Ne, a, integer(0, from.dtype));
  if ((op == Op::Cast || op == Op::SatCast) && to.dtype == DType::I64 && is_float(from.dtype) && !node(a)->data)
    if (const Expr* n = integer_of_float(*this, a)) return n;
  return impl_->make(e, std::span(&a, 1));
}

const Expr* Context::binary(Op op, const Expr* a, const Expr* b) {
  Type type = a->type;
  if (is_comparison(op)) type.dtype = DType::Bool;
  if (is_vector(a)) return impl_->make_binary(op, type, a, b);
  DType t = a->type.dtype;
  if (t == DType::I64) return impl_->index_binary(op, a, b);
  if (a->is_const() && b->is_const()) {
    Scalar v = apply_binary(op, t, scalar_of(a), scalar_of(b));
    return is_float(type.dtype) ? number(v.f, type.dtype) : integer(v.i, type.dtype);
  }
  if (op == Op::And || op == Op::Or) {
    bool absorbing = op == Op::Or;
    if (a->is_const()) return a->is_int(absorbing) ? a : b;
    if (b->is_int(!absorbing) || a == b) return a;
    if (b->is_int(absorbing)) return b;
    // To the left: and(a, and(b, c)) is and(and(a, b), c); a condition that already stands there is dropped.
    std::vector<const Expr*> parts, all{b};
    while (!all.empty()) {
      const Expr* e = all.back();
      all.pop_back();
      if (e->op == op) {
        all.push_back(e->args[1]);
        all.push_back(e->args[0]);
      } else {
        parts.push_back(e);
      }
    }
    for (const Expr* p : parts) {
      bool known = false;
      const Expr* e = a;
      for (; !known && e->op == op; e = e->args[0]) known = e->args[1] == p;
      if (!known && e != p) a = impl_->make_binary(op, type, a, p);
    }
    return a;
  }
  // Settled by ranges, as for a u8 that is compared with 300.
  if (is_comparison(op) && t != DType::U64 && !is_float(t)) {
    if (a == b) return boolean(op == Op::Le || op == Op::Eq);
    if (const auto truth = settled(op, node(a)->interval, node(b)->interval)) return boolean(*truth);
  }
  if (t == DType::Bool && (op == Op::Eq || op == Op::Ne)) {
    if (a->is_const()) std::swap(a, b);
    if (b->is_const()) return b->is_int(op == Op::Eq) ? a : logical_not(a);
  }
  if (op == Op::Add || op == Op::Mul || op == Op::Eq || op == Op::Ne) {
    // One order for operations that commute; constants last.
    if (a->is_const() ? !b->is_const() : !b->is_const() && compare(b, a) < 0) std::swap(a, b);
  }
  bool real = is_float(t);
  bool one = real ? is_float_const(b, 1) : b->is_int(1), zero = real ? is_float_const(b, 0) : b->is_int(0);
  switch (op) {
    case Op::Add: case Op::Sub:
      if (zero && (!real || changes_nothing(op, a, b))) return a;
      break;
    case Op::Mul:
      if (one) return a;
      if (zero && !real) return b;
      break;
    case Op::Div: {
      if (one) return a;
      int exponent;  // by a power of two: the reciprocal is exact
      if (b->is_const() && std::isfinite(b->f) && std::fabs(std::frexp(b->f, &exponent)) == 0.5 && std::abs(exponent) < 14)
        return binary(Op::Mul, a, number(1 / b->f, t));
      break;
    }
    case Op::FloorDiv: case Op::TruncDiv:
      if (one && !real) return a;
      break;
    case Op::FloorMod: case Op::TruncMod:
      if (one && !real) return integer(0, t);
      break;
    case Op::Min: case Op::Max: case Op::BitAnd: case Op::BitOr:
      if (a == b) return a;
      break;
    case Op::Pow:
      if (one) return a;
      break;
    case Op::Shl: case Op::Shr: case Op::BitXor:
      if (zero) return a;
      break;
    default: break;
  }
  return impl_->make_binary(op, type, a, b);
}

const Expr* Context::select(const Expr* c, const Expr* a, const Expr* b) {
  if (c->is_const()) return c->i ? a : b;
  if (a == b) return a;
  if (c->op == Op::Not) return select(c->args[0], b, a);
  if (c->op == Op::Ne) return select(binary(Op::Eq, c->args[0], c->args[1]), b, a);
  if (a->type == Type{DType::Bool, 1}) {
    if (a->is_int(1)) return binary(Op::Or, c, b);
    if (b->is_int(0)) return binary(Op::And, c, a);
    if (a->is_int(0) && b->is_int(1)) return logical_not(c);
  }
  if (a->op == Op::Select && a->args[0] == c) a = a->args[1];
  if (b->op == Op::Select && b->args[0] == c) b = b->args[2];
  if (a == b) return a;
  const Expr* args[] = {c, a, b};
  return impl_->make(leaf(Op::Select, a->type), args);
}

const Expr* Context::fma(const Expr* a, const Expr* b, const Expr* c) {
  const Expr* args[] = {a, b, c};
  return impl_->make(leaf(Op::Fma, a->type), args);
}

const Expr* Context::raw(Expr e, std::vector<const Expr*> args) {
  if (e.op == Op::Fold && e.fold) e.fold = impl_->intern(*e.fold);
  if (e.op == Op::Var) impl_->next_var = std::max(impl_->next_var, e.i + 1);
  return impl_->make(e, args);
}

const Expr* Context::ceildiv(const Expr* a, const Expr* b) { return floordiv(add(a, sub(b, integer(1))), b); }

const Expr* Context::product(std::span<const Expr* const> factors) {
  const Expr* p = integer(1);
  for (const Expr* f : factors) p = mul(p, f);
  return p;
}

const Expr* Context::unit_of(Join join, DType t) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  switch (join) {
    case Join::Sum: case Join::Last: case Join::Custom: return integer(0, t);
    case Join::Prod: return integer(1, t);
    case Join::Min: return is_float(t) ? number(kInf, t) : integer(highest_int(t), t);
    case Join::Max: return is_float(t) ? number(-kInf, t) : integer(lowest_int(t), t);
    case Join::Any: return boolean(false);
    case Join::All: return boolean(true);
  }
  return nullptr;
}

const Expr* Context::join_of(Join join, const Expr* left, const Expr* right) {
  switch (join) {
    case Join::Sum: return binary(Op::Add, left, right);
    case Join::Prod: return binary(Op::Mul, left, right);
    case Join::Min: return binary(Op::Min, left, right);
    case Join::Max: return binary(Op::Max, left, right);
    case Join::Any: return binary(Op::Or, left, right);
    case Join::All: return binary(Op::And, left, right);
    case Join::Last: case Join::Custom: return right;
  }
  return nullptr;
}

std::vector<const Expr*> Context::units(const Combiner* c, std::span<const Type> types) {
  if (c->join == Join::Custom) return c->units;
  return {unit_of(c->join, types[0].dtype)};
}

std::vector<const Expr*> Context::combine(const Combiner* c, std::span<const Expr* const> left,
                                          std::span<const Expr* const> right) {
  if (c->join != Join::Custom) return {join_of(c->join, left[0], right[0])};
  std::unordered_map<const Expr*, const Expr*> map;
  for (size_t f = 0; f < c->joins.size(); ++f) {
    map.emplace(c->left[f], left[f]);
    map.emplace(c->right[f], right[f]);
  }
  std::vector<const Expr*> out;
  for (const Expr* j : c->joins) out.push_back(substitute(j, map));
  return out;
}

}  // namespace mlc::ir
