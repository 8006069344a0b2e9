#include <algorithm>

#include "packager/nest/block/block_compiler.h"

namespace mlc::nest {

using ir::Expr;
using ir::Op;

bool scale(Affine& a, int64_t by) {
  bool over = __builtin_mul_overflow(a.c, by, &a.c);
  for (int64_t& k : a.k) over |= __builtin_mul_overflow(k, by, &k);
  return !over;
}

bool add(Affine& a, const Affine& b) {
  a.k.resize(std::max(a.k.size(), b.k.size()));
  bool over = __builtin_add_overflow(a.c, b.c, &a.c);
  for (size_t i = 0; i < b.k.size(); ++i) over |= __builtin_add_overflow(a.k[i], b.k[i], &a.k[i]);
  return !over;
}

void BlockCompiler::add_dim(const ir::Dim* d) {
  if (slot_.contains(d)) return;
  slot_[d] = static_cast<int>(program_.dims.size());
  program_.dims.push_back(d);
  const Phase phase = phase_of(d);
  const int64_t extent = evaluator_.integer(d->extent);
  program_.extents.push_back(phase.step == 1 ? extent : (std::max(extent, phase.first) - phase.first + phase.step - 1) / phase.step);
  if (evaluator_.fault.failed) fail(evaluator_.fault.message);
  if (program_.dims.size() > 64) fail("more than 64 dims in one nest");
}

// Facts of every node below, once.
void BlockCompiler::analyse(const Expr* root) {
  // Fold dims get slots before anything mentions them.
  ir::walk(root, [&](const Expr* e) {
    if (e->op == Op::Fold) for (const ir::Dim* d : e->fold->dims) add_dim(d);
  });
  if (failed()) return;
  ir::walk(root, [&](const Expr* e) {
    if (facts_.contains(e)) return;
    Facts n;
    for (const Expr* a : e->args) merge(n, a);
    if (e->op == Op::Fold) {
      if (e->fold->where) merge(n, e->fold->where);
      for (const ir::Dim* d : e->fold->dims) n.dims &= ~bit(d);
      if (e->fold->combiner->join == ir::Join::Custom) {
        for (const Expr* j : e->fold->combiner->joins) analyse_join(j);
        for (const Expr* u : e->fold->combiner->units) analyse_join(u);
      }
    }
    n.reads |= e->op == Op::Load;
    n.vars |= e->op == Op::Var;
    if (e->op == Op::Dim) {
      if (slot_.contains(e->dim)) n.dims |= bit(e->dim);
      else fail("dim '" + e->dim->name + "' is not bound here");
    }
    if (e->type.lanes != 1) fail("vector in a nest");
    if (!failed()) n.constant = constant_of(e);
    if (!failed()) n.affine = n.constant && e->type == ir::Type{DType::I64, 1} ? Affine{n.constant->i, {}} : affine(e);
    facts_.emplace(e, std::move(n));
  });
}

void BlockCompiler::analyse_join(const Expr* root) {
  ir::walk(root, [&](const Expr* e) {
    Facts n;
    for (const Expr* a : e->args) merge(n, a);
    n.vars |= e->op == Op::Var;
    if (e->op == Op::Load || e->op == Op::Fold || e->op == Op::Dim) fail("a combiner reads something");
    facts_.emplace(e, std::move(n));
  });
}

void BlockCompiler::merge(Facts& facts, const Expr* operand) const {
  const Facts& m = facts_.at(operand);
  facts.dims |= m.dims;
  facts.reads |= m.reads;
  facts.vars |= m.vars;
}

// Sizes that were computed, also in floats, are numbers here.
std::optional<ir::Scalar> BlockCompiler::constant_of(const Expr* e) {
  const auto arg = [&](size_t i) -> const std::optional<ir::Scalar>& { return facts_.at(e->args[i]).constant; };
  switch (e->op) {
    case Op::Const: return ir::Scalar{e->i, e->f};
    case Op::Sym: {
      const ir::Scalar value{evaluator_.integer(e), 0};
      if (evaluator_.fault.failed) fail(evaluator_.fault.message);
      return value;
    }
    case Op::Dim: case Op::Var: case Op::Load: case Op::Fold: case Op::Field: case Op::Fma: return std::nullopt;
    case Op::Select: return arg(0) ? arg(arg(0)->i ? 1 : 2) : std::nullopt;
    case Op::And: case Op::Or:
      if (!arg(0) || !arg(1)) return std::nullopt;
      return ir::Scalar{e->op == Op::And ? arg(0)->i && arg(1)->i : arg(0)->i || arg(1)->i, 0};
    default: break;
  }
  const bool known = !e->args.empty() && e->args.size() <= 2 && arg(0) && (e->args.size() == 1 || arg(1));
  if (!known) return std::nullopt;
  const DType from = e->args[0]->type.dtype;
  return e->args.size() == 1 ? ir::apply_unary(e->op, from, e->type.dtype, *arg(0)) : ir::apply_binary(e->op, from, *arg(0), *arg(1));
}

std::optional<Affine> BlockCompiler::affine(const Expr* e) {
  if (e->type != ir::Type{DType::I64, 1}) return std::nullopt;
  auto arg = [&](size_t i) -> const std::optional<Affine>& { return facts_.at(e->args[i]).affine; };
  auto constant = [&](size_t i) {
    return arg(i) && std::all_of(arg(i)->k.begin(), arg(i)->k.end(), [](int64_t k) { return k == 0; });
  };
  auto scaled = [](Affine a, int64_t by) { return scale(a, by) ? std::optional(std::move(a)) : std::nullopt; };
  Affine r;
  switch (e->op) {
    case Op::Dim: {
      const Phase phase = phase_of(e->dim);
      r.k.assign(static_cast<size_t>(slot_.at(e->dim)) + 1, 0);
      r.k.back() = phase.step;
      r.c = phase.first;
      return r;
    }
    case Op::Neg: return arg(0) ? scaled(*arg(0), -1) : std::nullopt;
    case Op::Add: case Op::Sub: {
      if (!arg(0) || !arg(1)) return std::nullopt;
      const auto second = e->op == Op::Add ? arg(1) : scaled(*arg(1), -1);
      r = *arg(0);
      return second && add(r, *second) ? std::optional(std::move(r)) : std::nullopt;
    }
    case Op::Mul:
      if (constant(1) && arg(0)) return scaled(*arg(0), arg(1)->c);
      if (constant(0) && arg(1)) return scaled(*arg(1), arg(0)->c);
      return std::nullopt;
    case Op::FloorDiv: case Op::FloorMod: case Op::Min: case Op::Max:
      if (!arg(0) || !constant(1)) return std::nullopt;
      if (!constant(0)) {  // (n*a + c) / n = a + c / n, and what is left over is that of c
        const int64_t n = arg(1)->c;
        if ((e->op != Op::FloorDiv && e->op != Op::FloorMod) || n < 1) return std::nullopt;
        if (!std::all_of(arg(0)->k.begin(), arg(0)->k.end(), [&](int64_t k) { return k % n == 0; })) return std::nullopt;
        r.k = arg(0)->k;
        for (int64_t& k : r.k) k = e->op == Op::FloorDiv ? k / n : 0;
      }
      r.c = ir::apply_binary(e->op, DType::I64, {arg(0)->c, 0}, {arg(1)->c, 0}).i;
      return r;
    default: return std::nullopt;
  }
}

// Range over all values of all dims.
std::pair<__int128, __int128> BlockCompiler::range(const Affine& a) const {
  __int128 lo = a.c, hi = a.c;
  for (size_t d = 0; d < a.k.size(); ++d) {
    __int128 last = static_cast<__int128>(a.k[d]) * std::max<int64_t>(0, program_.extents[d] - 1);
    (last < 0 ? lo : hi) += last;
  }
  return {lo, hi};
}

bool BlockCompiler::inside(const Affine& a, int64_t extent) const {
  auto [lo, hi] = range(a);
  return lo >= 0 && hi < extent;
}

// Conditions as affine expressions >= 0; false if there is one of another kind.
bool BlockCompiler::affine_conditions(const Expr* where, std::vector<Affine>& out) const {
  std::vector<const Expr*> stack{where};
  while (!stack.empty()) {
    const Expr* e = stack.back();
    stack.pop_back();
    if (e->op == Op::And) {
      stack.insert(stack.end(), e->args.begin(), e->args.end());
      continue;
    }
    if ((e->op != Op::Lt && e->op != Op::Le && e->op != Op::Eq) || e->args[0]->type.dtype != DType::I64) return false;
    const auto &x = facts_.at(e->args[0]).affine, &y = facts_.at(e->args[1]).affine;
    if (!x || !y) return false;
    Affine d = *y, minus = *x;
    d.k.resize(program_.dims.size());
    if (!scale(minus, -1) || !add(d, minus) || (e->op == Op::Lt && !add(d, {-1, {}}))) return false;
    if (e->op == Op::Eq) {  // known here, or of another kind
      if (std::any_of(d.k.begin(), d.k.end(), [](int64_t k) { return k != 0; })) return false;
      d.c = d.c == 0 ? 0 : -1;
    }
    if (range(d).first < 0) out.push_back(std::move(d));  // the others hold everywhere
  }
  return true;
}

// The innermost map dim with enough points to be worth it, else the longest; in order, if the nest pushes.
void BlockCompiler::choose_lane() {
  constexpr int64_t kEnough = 5;
  if (program_.map_dims == 0) return;
  const int innermost = static_cast<int>(program_.map_dims) - 1;
  program_.lane = innermost;
  const std::vector<Write>& writes = statement_.nest->writes;
  if (std::any_of(writes.begin(), writes.end(), [](const Write& w) { return w.push; })) return;
  auto extent = [&](int d) { return program_.extents[static_cast<size_t>(d)]; };
  for (int d = innermost; d >= 0; --d) {
    if (extent(d) >= kEnough) {
      program_.lane = d;
      return;
    }
    if (extent(d) > extent(program_.lane)) program_.lane = d;
  }
}

int64_t BlockCompiler::lane_step(const Affine& a) const {
  return program_.lane >= 0 && static_cast<size_t>(program_.lane) < a.k.size() ? a.k[static_cast<size_t>(program_.lane)] : 0;
}

}  // namespace mlc::nest
