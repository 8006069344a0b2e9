// Expressions of a kernel: the order of evaluation, what is remembered for how long, and the operations on vectors.
#include <algorithm>

#include "packager/loop/ops.h"
#include "targets/spirv/kernel_builder.h"

namespace mlc::targets::spirv {

using IrOp = ir::Op;

namespace {

constexpr uint8_t kLoads = 1;    // reads memory
constexpr uint8_t kMutable = 2;  // reads a local

bool is_wide_int(DType t) { return t == DType::I64 || t == DType::U64; }

// Whether both factors of Op::Dot are words.
bool word_operands(const Expr& e) {
  const auto is_words = [](const Expr* x) { return x->op == IrOp::Bitcast && loop::is_cells_of_codes(x->args[0]->type, x->type); };
  return is_words(e.args[1]) && is_words(e.args[2]);
}

const Expr* through_splat(const Expr* e) { return e->op == IrOp::Splat ? e->args[0] : e; }

}  // namespace

uint8_t KernelBuilder::flags_of(const Expr* root) {
  std::vector<const Expr*> stack = {root};
  while (!stack.empty()) {
    const Expr* e = stack.back();
    if (flags_.count(e)) {
      stack.pop_back();
      continue;
    }
    const auto var = e->op == IrOp::Var ? vars_.find(e->i) : vars_.end();
    uint8_t flags = e->op == IrOp::Load ? kLoads : var != vars_.end() && !var->second.places.empty() ? kMutable : 0;
    bool ready = true;
    for (const Expr* a : e->args) {
      const auto known = flags_.find(a);
      if (known == flags_.end()) stack.push_back(a), ready = false;
      else flags |= known->second;
    }
    if (!ready) continue;
    flags_[e] = flags;
    stack.pop_back();
  }
  return flags_[root];
}

void KernelBuilder::remember(const Wanted& w, Value v) {
  cache_[w] = std::move(v);
  (flags_of(w.e) ? statement_ : log_).push_back(w);
}

void KernelBuilder::close_scope(size_t mark) {
  while (log_.size() > mark) {
    cache_.erase(log_.back());
    log_.pop_back();
  }
}

void KernelBuilder::end_statement() {
  for (const Wanted& w : statement_) cache_.erase(w);
  statement_.clear();
}

// The low half of the result is a function of the low halves of the operands.
bool KernelBuilder::is_modular(const Expr& e) const {
  if (!is_wide_int(e.type.dtype)) return false;
  switch (e.op) {
    case IrOp::Add: case IrOp::Sub: case IrOp::Mul: case IrOp::Neg: case IrOp::BitAnd: case IrOp::BitOr: case IrOp::BitXor:
    case IrOp::BitNot: case IrOp::Select: case IrOp::Splat: case IrOp::Ramp: case IrOp::Extract: case IrOp::Widen: return true;
    default: return false;
  }
}

// Computed in 32 bits: a comparison or a conversion of numbers that fit there, or such a number itself.
bool KernelBuilder::is_narrow(const Expr& e) {
  const auto fit = [&] { return std::all_of(e.args.begin(), e.args.end(), [&](const Expr* a) { return ranges_.fits(a); }); };
  switch (e.op) {
    case IrOp::Lt: case IrOp::Le: case IrOp::Eq: case IrOp::Ne: return fit();
    case IrOp::Cast: return !is_wide_int(e.type.dtype) && fit();
    case IrOp::FloorDiv: case IrOp::FloorMod: case IrOp::TruncDiv: case IrOp::TruncMod: case IrOp::Min: case IrOp::Max: return ranges_.fits(&e) && fit();
    default: return is_modular(e) && ranges_.fits(&e);
  }
}

void KernelBuilder::operands(const Wanted& w, std::vector<Wanted>& out) {
  const Expr& e = *w.e;
  if (is_narrow(e) && !is_modular(e)) {
    if (!w.low && e.type.dtype == DType::I64) out.push_back({w.e, true});
    else for (const Expr* a : e.args) out.push_back({a, true});
    return;
  }
  if (!w.low && is_narrow(e)) return out.push_back({w.e, true});
  if (w.low && !is_modular(e)) {
    const bool is_cast = e.op == IrOp::Cast && (is_int(e.args[0]->type.dtype) || e.args[0]->type.dtype == DType::Bool);
    if (is_cast) out.push_back({e.args[0], is_wide_int(e.args[0]->type.dtype)});
    else if (e.op != IrOp::Const && e.op != IrOp::Var) out.push_back({w.e, false});
    return;
  }
  // Of words that are taken for codes the words, where an instruction multiplies these.
  if (e.op == IrOp::Dot && limits_.subgroups && word_operands(e)) return out.insert(out.end(), {{e.args[0], false}, {e.args[1]->args[0], false}, {e.args[2]->args[0], false}}), void();
  for (size_t k = 0; k < e.args.size(); ++k) out.push_back({e.args[k], w.low ? !(e.op == IrOp::Select && k == 0) : e.op == IrOp::Load && k == 0});
}

const Value* KernelBuilder::eval(const Expr* root, bool low) {
  if (!status_.ok()) return nullptr;
  if (!root) return fail("a missing expression"), nullptr;
  flags_of(root);
  std::vector<Wanted> stack = {{root, low}}, needs;
  while (!stack.empty() && status_.ok()) {
    const Wanted w = stack.back();
    if (cache_.count(w)) {
      stack.pop_back();
      continue;
    }
    needs.clear();
    operands(w, needs);
    bool ready = true;
    for (size_t k = needs.size(); k-- > 0;)
      if (!cache_.count(needs[k])) stack.push_back(needs[k]), ready = false;
    if (!ready) continue;
    Value v = w.low ? low_node(*w.e) : node(*w.e);
    if (v.size() != w.e->type.lanes || std::find(v.begin(), v.end(), 0u) != v.end()) return fail("an operation that devices do not have"), nullptr;
    remember(w, std::move(v));
    stack.pop_back();
  }
  return status_.ok() ? &cache_.at({root, low}) : nullptr;
}

Id KernelBuilder::scalar_of(const Expr* e) {
  const Value* v = eval(e);
  return v ? (*v)[0] : 0;
}

Value KernelBuilder::variable_value(const Expr& e, bool low) {
  const auto found = vars_.find(e.i);
  if (found == vars_.end()) return fail("reads a variable outside of its block"), Value{};
  const Binding& b = found->second;
  if (low && !b.low.empty()) return b.low;
  Value full = b.full, out;
  for (const Body::Variable& place : b.places) full.push_back(c_.load(place));
  if (full.empty())
    for (const Id v : b.low) full.push_back(b.has_sign ? c_.extended(v) : c_.op(Op::UConvert, Reg::U64, {v}));
  if (!low) return full;
  for (const Id v : full) out.push_back(c_.op(Op::UConvert, Reg::U32, {v}));
  return out;
}

Value KernelBuilder::low_node(const Expr& e) {
  const auto u = [&](int64_t v) { return c_.u32(static_cast<uint32_t>(v)); };
  Value out;
  if (e.op == IrOp::Const) return Value(e.type.lanes, u(e.i));
  if (e.op == IrOp::Var) return variable_value(e, true);
  if (!is_modular(e) && is_narrow(e)) return narrow_node(e);
  if (!is_modular(e)) {
    if (e.op != IrOp::Cast || !cache_.count({e.args[0], is_wide_int(e.args[0]->type.dtype)}) || is_float(e.args[0]->type.dtype)) {
      for (const Id v : cache_.at({&e, false})) out.push_back(c_.op(Op::UConvert, Reg::U32, {v}));
      return out;
    }
    const DType from = e.args[0]->type.dtype;
    for (const Id v : arg(e, 0, is_wide_int(from))) out.push_back(from == DType::Bool ? n_.to_raw(from, v) : v);
    return out;
  }
  const auto at = [&](size_t k, size_t lane) { return arg(e, k, true)[lane]; };
  for (size_t k = 0; k < e.type.lanes; ++k) {
    switch (e.op) {
      case IrOp::Neg: out.push_back(c_.op(Op::SNegate, Reg::U32, {at(0, k)})); break;
      case IrOp::BitNot: out.push_back(c_.op(Op::Not, Reg::U32, {at(0, k)})); break;
      case IrOp::Select: out.push_back(c_.select(Reg::U32, arg(e, 0)[k], at(1, k), at(2, k))); break;
      case IrOp::Splat: out.push_back(at(0, k % arg(e, 0, true).size())); break;
      case IrOp::Ramp: out.push_back(k ? c_.op(Op::IAdd, Reg::U32, {at(0, 0), u(e.i * static_cast<int64_t>(k))}) : at(0, 0)); break;
      case IrOp::Extract: out.push_back(at(0, static_cast<size_t>(e.i))); break;
      case IrOp::Widen: out.push_back(at(k / e.args[0]->type.lanes, k % e.args[0]->type.lanes)); break;
      default: out.push_back(n_.binary(e.op, DType::U32, at(0, k), at(1, k))); break;
    }
  }
  return out;
}

// By the low halves of its operands, which are all there is of them.
Value KernelBuilder::narrow_node(const Expr& e) {
  Value out;
  const Expr* second = e.args.size() > 1 ? through_splat(e.args[1]) : nullptr;
  const int64_t* constant = second && second->is_const() ? &second->i : nullptr;
  for (size_t k = 0; k < e.type.lanes; ++k) {
    const Id a = arg(e, 0, true)[k];
    out.push_back(e.op == IrOp::Cast ? n_.cast(DType::I32, e.type.dtype, a) : n_.binary(e.op, DType::I32, a, arg(e, 1, true)[k], constant));
  }
  return out;
}

Value KernelBuilder::node(const Expr& e) {
  const DType t = e.type.dtype;
  Value out;
  if (is_narrow(e)) {
    if (t != DType::I64) return narrow_node(e);
    const bool has_sign = ranges_.of(&e).lo < 0;
    for (const Id v : cache_.at({&e, true})) out.push_back(has_sign ? c_.extended(v) : c_.op(Op::UConvert, Reg::U64, {v}));
    return out;
  }
  switch (e.op) {
    case IrOp::Const: return Value(e.type.lanes, n_.constant(t, e.i, e.f));
    case IrOp::Sym: {
      const auto sym = syms_.find(e.sym);
      if (sym == syms_.end()) return fail("reads a symbol that is no launch argument"), Value{};
      return {scalar(sym->second)};
    }
    case IrOp::Var: return variable_value(e, false);
    case IrOp::Load: return load(e);
    case IrOp::Splat: case IrOp::Ramp: case IrOp::Extract: case IrOp::Widen: case IrOp::Dot:
    case IrOp::SumLanes: case IrOp::ProdLanes: case IrOp::MinLanes: case IrOp::MaxLanes: return vector_node(e);
    default: break;
  }
  if (e.args.empty() || e.args.size() > 3) return {};
  const DType from = e.args[0]->type.dtype;
  if (e.op == IrOp::Bitcast && e.args[0]->type.lanes != e.type.lanes) return cells(e);
  const Expr* second = e.args.size() > 1 ? through_splat(e.args[1]) : nullptr;
  const int64_t* constant = second && second->is_const() ? &second->i : nullptr;
  for (size_t k = 0; k < e.type.lanes; ++k) {
    const auto at = [&](size_t n) { return arg(e, n)[k]; };
    switch (e.op) {
      case IrOp::Cast: out.push_back(n_.cast(from, t, at(0))); break;
      case IrOp::SatCast: out.push_back(n_.sat_cast(from, t, at(0))); break;
      case IrOp::Bitcast: out.push_back(n_.bitcast(from, t, at(0))); break;
      case IrOp::Select: out.push_back(c_.select(reg_of(t), at(0), at(1), at(2))); break;
      case IrOp::Fma: out.push_back(n_.fma(t, at(0), at(1), at(2))); break;
      default: out.push_back(e.args.size() == 1 ? n_.unary(e.op, from, at(0)) : n_.binary(e.op, from, at(0), at(1), constant)); break;
    }
  }
  return out;
}

Value KernelBuilder::vector_node(const Expr& e) {
  const Value& first = arg(e, 0);
  Value out;
  switch (e.op) {
    case IrOp::Splat:
      for (size_t k = 0; k < e.type.lanes; ++k) out.push_back(first[k % first.size()]);
      return out;
    case IrOp::Ramp:
      for (size_t k = 0; k < e.type.lanes; ++k)
        out.push_back(k ? n_.binary(IrOp::Add, e.type.dtype, first[0], n_.constant(e.type.dtype, e.i * static_cast<int64_t>(k), 0)) : first[0]);
      return out;
    case IrOp::Extract: return {first[static_cast<size_t>(e.i)]};
    case IrOp::Widen:
      for (size_t k = 0; k < e.args.size(); ++k) out.insert(out.end(), arg(e, k).begin(), arg(e, k).end());
      return out;
    case IrOp::Dot: return dot(e);
    default: return reduce(e);
  }
}

// Halves are combined until one lane is left: the order is part of the meaning of float sums. Small floats are rounded once.
Value KernelBuilder::reduce(const Expr& e) {
  const DType t = e.type.dtype;
  const bool small = is_small(t);
  Value v = arg(e, 0);
  if (small)
    for (Id& x : v) x = n_.to_f32(t, x);
  const IrOp op = e.op == IrOp::SumLanes ? IrOp::Add : e.op == IrOp::ProdLanes ? IrOp::Mul : e.op == IrOp::MinLanes ? IrOp::Min : IrOp::Max;
  while (v.size() > 1) {
    const size_t half = v.size() / 2;
    for (size_t k = 0; k < half; ++k) v[k] = n_.binary(op, small ? DType::F32 : t, v[k], v[k + half]);
    v.resize(half);
  }
  return {small ? n_.from_f32(t, v[0]) : v[0]};
}

// Words as four codes each, or codes as words.
Value KernelBuilder::cells(const Expr& e) {
  const Value& from = arg(e, 0);
  const auto shifted = [&](Op how, Id v, size_t k) { return k ? c_.op(how, Reg::U32, {v, c_.u32(static_cast<uint32_t>(8 * k))}) : v; };
  Value out;
  if (from.size() < e.type.lanes) {
    for (size_t k = 0; k < e.type.lanes; ++k) out.push_back(n_.cast(DType::U32, e.type.dtype, shifted(Op::ShiftRightLogical, from[k / loop::kCodesOfCell], k % loop::kCodesOfCell)));
    return out;
  }
  for (size_t k = 0; k < from.size(); ++k) {
    const Id code = shifted(Op::ShiftLeftLogical, n_.bitcast(e.args[0]->type.dtype, DType::U8, from[k]), k % loop::kCodesOfCell);
    if (k % loop::kCodesOfCell == 0) out.push_back(code);
    else out.back() = c_.op(Op::BitwiseOr, Reg::U32, {out.back(), code});
  }
  return out;
}

// Lanes of a group one after the other, each widened to a lane of the sum; words of four codes by an instruction.
Value KernelBuilder::dot(const Expr& e) {
  Value sum = arg(e, 0);
  if (limits_.subgroups && word_operands(e)) return dot_words(e, std::move(sum));
  const Value &a = arg(e, 1), &b = arg(e, 2);
  const DType at = e.args[1]->type.dtype, bt = e.args[2]->type.dtype, t = e.type.dtype;
  const size_t group = a.size() / sum.size();
  for (size_t k = 0; k < a.size(); ++k) sum[k / group] = n_.fma(t, n_.cast(at, t, a[k]), n_.cast(bt, t, b[k]), sum[k / group]);
  return sum;
}

// Results have no sign: what a product of two unsigned words gives is below 2^31 as well.
Value KernelBuilder::dot_words(const Expr& e, Value sum) {
  writer_.capability(Capability::DotProduct);
  writer_.capability(Capability::DotProductInput4x8BitPacked);
  const Expr *a = e.args[1], *b = e.args[2];
  const bool a_signed = is_signed_int(a->type.dtype), b_signed = is_signed_int(b->type.dtype);
  if (!a_signed && b_signed) std::swap(a, b);  // SUDot takes the one with signs first
  const Value &x = cache_.at({a->args[0], false}), &y = cache_.at({b->args[0], false});
  const Op how = a_signed != b_signed ? Op::SUDot : a_signed ? Op::SDot : Op::UDot;
  for (size_t k = 0; k < sum.size(); ++k) {
    const Id product = writer_.result(how, c_.type(Reg::U32), {x[k], y[k], kPacked4x8});
    sum[k] = c_.op(Op::IAdd, Reg::U32, {product, sum[k]});
  }
  return sum;
}

}  // namespace mlc::targets::spirv
