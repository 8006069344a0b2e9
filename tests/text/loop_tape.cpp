#include "tests/text/loop_tape.h"

#include <algorithm>
#include <cmath>

#include "packager/ir/numeric.h"

namespace mlc::loop {

using ir::Expr;
using ir::Op;
using ir::Scalar;

namespace {

// A pairwise tree over neighbouring lanes, halves folded onto each other: the order that expr.h promises.
Scalar fold_lanes(Op op, DType type, std::vector<Scalar> v) {
  Op join = op == Op::SumLanes ? Op::Add : op == Op::ProdLanes ? Op::Mul : op == Op::MinLanes ? Op::Min : Op::Max;
  while (v.size() > 1) {
    size_t half = v.size() / 2;
    for (size_t i = 0; i < half; ++i) v[i] = ir::apply_binary(join, type, v[i], v[i + half]);
    v.resize(half);
  }
  return v[0];
}

// In the order of the lanes; floats are rounded after each addition.
Scalar add_products(DType sum, Scalar acc, const Scalar* a, const Scalar* b, size_t group) {
  for (size_t g = 0; g < group; ++g) {
    if (is_float(sum)) acc.f = ir::round_to(sum, acc.f + a[g].f * b[g].f);
    else acc.i = ir::wrap_to(sum, acc.i + a[g].i * b[g].i);
  }
  return acc;
}

double fma(DType type, double a, double b, double c) {
  if (type == DType::F32) return std::fma(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c));
  return ir::round_to(type, std::fma(a, b, c));
}

// Arithmetic of f32, most of what kernels do, without a look at the type for each lane.
bool f32_binary(Op op, const Scalar* a, const Scalar* b, Scalar* r, unsigned lanes) {
  const auto each = [&](auto f) {
    for (unsigned l = 0; l < lanes; ++l) r[l].f = f(static_cast<float>(a[l].f), static_cast<float>(b[l].f));
    return true;
  };
  switch (op) {
    case Op::Add: return each([](float x, float y) { return x + y; });
    case Op::Sub: return each([](float x, float y) { return x - y; });
    case Op::Mul: return each([](float x, float y) { return x * y; });
    default: return false;
  }
}

}  // namespace

Evaluator::Place& Evaluator::place(const Expr* e) {
  const auto [it, is_new] = places_.try_emplace(e);
  if (is_new && e->op == Op::Var) {
    it->second.slot = static_cast<Slot>(variables_) | kOfVars;
    variables_ += e->type.lanes;
  } else if (is_new) {
    it->second.slot = static_cast<Slot>(values_.size());
    values_.resize(values_.size() + e->type.lanes);
    if (e->op == Op::Const) values_.back() = {e->i, e->f};
  }
  return it->second;
}

// Operands first. An expression may be as deep as a long unrolled sum.
void Evaluator::add(Tape& t, const Expr* root) {
  struct Open {
    const Expr* e;
    Slot slot;
    std::vector<Slot> args;
  };
  std::vector<Open> open;
  const auto enter = [&](const Expr* e) {
    Place& p = place(e);
    if (p.tape != tapes_ && e->op != Op::Const) open.push_back({e, p.slot, {}});
    p.tape = tapes_;
    return p.slot;
  };
  t.roots.push_back(enter(root));
  t.lanes.push_back(root->type.lanes);
  while (!open.empty()) {
    const size_t at = open.size() - 1;
    if (open[at].args.size() < open[at].e->args.size()) {
      const Slot slot = enter(open[at].e->args[open[at].args.size()]);
      open[at].args.push_back(slot);
      continue;
    }
    t.steps.push_back({open[at].e, open[at].slot, static_cast<uint32_t>(t.operands.size())});
    t.operands.insert(t.operands.end(), open[at].args.begin(), open[at].args.end());
    open.pop_back();
  }
}

Tape Evaluator::tape(const std::vector<const Expr*>& roots) {
  Tape t;
  ++tapes_;
  for (const Expr* root : roots)
    if (root) add(t, root);
  return t;
}

void Evaluator::bind(Slot var, std::span<const Scalar> lanes) {
  const size_t at = var & ~kOfVars;
  std::copy(lanes.begin(), lanes.end(), vars_->values.begin() + static_cast<ptrdiff_t>(at));
  vars_->bound[at] = 1;
}

void Evaluator::run(const Tape& tape, Memory& memory, Failure& failure) {
  for (const Tape::Step& s : tape.steps) {
    compute(tape, s, memory, failure);
    if (failure.stopped()) return;
  }
}

// An index of one lane: neighbours from there on.
void Evaluator::load(const Expr* e, const Scalar* index, const Scalar* mask, Scalar* r, Memory& memory, Failure& failure) {
  const bool gathers = e->args[0]->type.lanes > 1;
  for (unsigned l = 0; l < e->type.lanes; ++l) {
    r[l] = {};
    if (mask && !mask[l].i) continue;
    if (!memory.load(e->array, gathers ? index[l].i : index[0].i + l, r[l], failure)) return;
  }
}

namespace {

// Words of 32 bits as codes, or codes as words.
void cells(ir::Type from, ir::Type to, const Scalar* a, Scalar* r) {
  std::vector<std::byte> bytes(from.lanes * bits_of(from.dtype) / 8);
  for (unsigned l = 0; l < from.lanes; ++l) ir::store_element(from.dtype, bytes.data(), l, a[l]);
  for (unsigned l = 0; l < to.lanes; ++l) r[l] = ir::load_element(to.dtype, bytes.data(), l);
}

}  // namespace

void Evaluator::compute(const Tape& tape, const Tape::Step& step, Memory& memory, Failure& failure) {
  const Expr* e = step.e;
  const unsigned lanes = e->type.lanes;
  const DType type = e->type.dtype;
  if (e->op == Op::Var) {
    if (!vars_->bound[step.to & ~kOfVars]) failure.fail("variable read before it is bound");
    return;
  }
  const auto arg = [&](size_t k) { return k < e->args.size() ? at(tape.operands[step.args + k]) : nullptr; };
  const Scalar *a = arg(0), *b = arg(1), *c = arg(2);
  Scalar* r = values_.data() + step.to;
  switch (e->op) {
    case Op::Sym: {
      const auto v = run_.value(e->sym);
      if (!v) failure.fail("symbol " + e->sym->name + " has no value");
      r[0].i = v.value_or(0);
      return;
    }
    case Op::Load: return load(e, a, b, r, memory, failure);
    case Op::Splat:
      for (unsigned l = 0, width = e->args[0]->type.lanes; l < lanes; ++l) r[l] = a[l % width];
      return;
    case Op::Ramp:
      for (unsigned l = 0; l < lanes; ++l) r[l].i = ir::wrap_to(type, a[0].i + e->i * l);
      return;
    case Op::Extract: r[0] = a[e->i]; return;
    case Op::SumLanes: case Op::ProdLanes: case Op::MinLanes: case Op::MaxLanes:
      r[0] = fold_lanes(e->op, type, std::vector<Scalar>(a, a + e->args[0]->type.lanes));
      return;
    case Op::Widen:
      for (size_t k = 0; k < e->args.size(); ++k) r = std::copy_n(arg(k), e->args[k]->type.lanes, r);
      return;
    case Op::Dot: {
      const size_t group = e->args[1]->type.lanes / lanes;
      for (unsigned l = 0; l < lanes; ++l) r[l] = add_products(type, a[l], b + l * group, c + l * group, group);
      return;
    }
    case Op::Bitcast:
      if (const ir::Type from = e->args[0]->type; from.lanes != lanes) return cells(from, e->type, a, r);
      break;
    case Op::Select: for (unsigned l = 0; l < lanes; ++l) r[l] = a[l].i ? b[l] : c[l]; return;
    case Op::And: for (unsigned l = 0; l < lanes; ++l) r[l].i = a[l].i & b[l].i; return;
    case Op::Or: for (unsigned l = 0; l < lanes; ++l) r[l].i = a[l].i | b[l].i; return;
    case Op::Fma: for (unsigned l = 0; l < lanes; ++l) r[l].f = fma(type, a[l].f, b[l].f, c[l].f); return;
    default: break;
  }
  const DType from = e->args[0]->type.dtype;
  if (e->args.size() == 1)
    for (unsigned l = 0; l < lanes; ++l) r[l] = ir::apply_unary(e->op, from, type, a[l]);
  else if (from != DType::F32 || !f32_binary(e->op, a, b, r, lanes))
    for (unsigned l = 0; l < lanes; ++l) r[l] = ir::apply_binary(e->op, from, a[l], b[l]);
}

}  // namespace mlc::loop
