// Expressions of a Loop kernel as portable instructions: in which order, in which scope, and what each node is.
#include <algorithm>
#include <bit>

#include "targets/portable/encoder.h"

namespace mlc::targets::portable {

using ir::Op;
using mlc::portable::kind_of;

// --- instructions ---

Encoder::R Encoder::emit(PortableOp op, Kind kind, unsigned lanes, R a, R b, R c, int64_t imm, DType type) {
  if (!status_.ok()) return 0;
  Instruction i;
  i.op = static_cast<uint8_t>(op);
  i.type = static_cast<uint8_t>(type);
  i.a = a, i.b = b, i.c = c, i.imm = imm;
  size_t level = 0;
  for (R r : {a, b, c}) {
    if (r == kNone) continue;
    if (!registers_[r].is_stable) return emit_unstable(i, kind, lanes);
    level = std::max<size_t>(level, registers_[r].level);
  }
  const Key key = {i.op, i.type, static_cast<uint16_t>(static_cast<unsigned>(kind) << 8 | lanes), a, b, c, imm};
  auto [known, is_new] = scopes_[level].values.try_emplace(key, R{0});
  if (is_new) {
    i.dst = known->second = allocate(level, kind, lanes);
    scopes_[level].owned.push_back(i.dst);
    scopes_[level].code.push_back(i);
  }
  return known->second;
}

Encoder::R Encoder::emit_unstable(Instruction i, Kind kind, unsigned lanes) {
  i.dst = temporary(kind, lanes);
  put(i);
  return i.dst;
}

Encoder::R Encoder::int_constant(Kind kind, unsigned lanes, int64_t value) {
  return constant(kind, lanes, kind == Kind::I32 ? static_cast<uint32_t>(value) : static_cast<uint64_t>(value));
}

Encoder::R Encoder::float_constant(Kind kind, unsigned lanes, double value) {
  return constant(kind, lanes, kind == Kind::F32 ? std::bit_cast<uint32_t>(static_cast<float>(value))
                                                 : std::bit_cast<uint64_t>(value));
}

Encoder::R Encoder::fit(R a, unsigned lanes, DType t) {
  if (is_small(t)) return unpack(pack(a, lanes, t), lanes, t);
  return is_narrow(t) ? emit(PortableOp::Wrap, Kind::I32, lanes, a, kNone, kNone, 0, t) : a;
}

Encoder::R Encoder::mask(R condition, unsigned lanes) {
  return registers_[condition].lanes == lanes ? condition : emit(PortableOp::Splat, Kind::Mask, lanes, condition);
}

// --- order of evaluation ---

Encoder::R Encoder::find(const Expr* e) const {
  if (e->op == Op::Var) {
    if (auto var = vars_.find(e->i); var != vars_.end()) return var->second;
  }
  if (auto here = scopes_.back().statement.find(e); here != scopes_.back().statement.end()) return here->second;
  for (size_t k = scopes_.size(); k-- > 0;)
    if (auto known = scopes_[k].known.find(e); known != scopes_[k].known.end()) return known->second;
  return kNone;
}

// Which factor of a multiply-add is one lane many times: 0, 1, or -1.
int Encoder::broadcast_operand(const Expr& e) const {
  if (e.op != Op::Fma || !is_float(e.type.dtype) || e.type.lanes == 1) return -1;
  for (int k = 0; k < 2; ++k) {
    const Expr* x = e.args[static_cast<size_t>(k)];
    if ((x->op == Op::Splat && x->args[0]->type.lanes == 1) || (x->op == Op::Var && broadcasts_.count(x->i))) return k;
  }
  return -1;
}

// What has to be in registers before `e` can be computed.
void Encoder::operands(const Expr& e, std::vector<const Expr*>& out) {
  if (e.op == Op::Load && e.args[0]->type.lanes == 1) {
    for (const Expr* t : split_address(e.args[0]).terms) out.push_back(t);
    if (e.args.size() > 1) out.push_back(e.args[1]);
  } else if (const int k = broadcast_operand(e); k >= 0) {
    if (e.args[static_cast<size_t>(k)]->op == Op::Splat) out.push_back(e.args[static_cast<size_t>(k)]->args[0]);
    out.push_back(e.args[static_cast<size_t>(1 - k)]);
    out.push_back(e.args[2]);
  } else {
    out.insert(out.end(), e.args.begin(), e.args.end());
  }
}

Encoder::R Encoder::eval(const Expr* root) {
  if (!status_.ok()) return 0;
  if (!root) return fail("a missing expression"), R{0};
  std::vector<const Expr*> stack = {root};
  std::vector<const Expr*> needed;
  while (!stack.empty() && status_.ok()) {
    const Expr* e = stack.back();
    if (find(e) != kNone) {
      stack.pop_back();
      continue;
    }
    needed.clear();
    operands(*e, needed);
    const size_t before = stack.size();
    for (size_t k = needed.size(); k-- > 0;)
      if (find(needed[k]) == kNone) stack.push_back(needed[k]);
    if (stack.size() != before) continue;
    const R r = node(*e);
    if (!status_.ok()) break;
    if (r == kNone) return fail("an operation that this level does not have"), R{0};
    const Register& reg = registers_[r];
    if (!reg.is_stable) scopes_.back().statement[e] = r;
    else scopes_[reg.level].known[e] = r;
    stack.pop_back();
  }
  return status_.ok() ? find(root) : 0;
}

Encoder::R Encoder::eval_unchanging(const Expr* e) {
  const R r = eval(e);
  if (!status_.ok() || !registers_[r].is_local) return r;
  Instruction i;
  i.op = static_cast<uint8_t>(PortableOp::Move);
  i.a = r;
  return emit_unstable(i, registers_[r].kind, registers_[r].lanes);
}

// --- operations ---

Encoder::R Encoder::node(const Expr& e) {
  const DType t = e.type.dtype;
  const Kind kind = kind_of(t);
  const unsigned lanes = e.type.lanes;
  if (kind == Kind::None) return kNone;
  switch (e.op) {
    case Op::Const:
      if (kind == Kind::Mask) return constant(kind, lanes, e.i != 0);
      if (is_small(t)) {
        const R wide = float_constant(Kind::F64, lanes, e.f);
        return fit(emit(PortableOp::ResizeOdd, Kind::F32, lanes, wide), lanes, t);
      }
      if (is_float(t)) return float_constant(kind, lanes, e.f);
      return fit(int_constant(kind, lanes, e.i), lanes, t);
    case Op::Sym:
      for (size_t k = 0; k < kernel_->scalars.size(); ++k)
        if (kernel_->scalars[k] == e.sym)
          return emit(PortableOp::Scalar, Kind::I64, 1, kNone, kNone, kNone, static_cast<int64_t>(k));
      return fail("reads a symbol that is no launch argument");
    case Op::Var:
      if (auto var = unrolled_.find(e.i); var != unrolled_.end()) return int_constant(Kind::I64, 1, var->second);
      if (auto lane = broadcasts_.find(e.i); lane != broadcasts_.end())
        return emit(PortableOp::Splat, kind, lanes, lane->second);
      return fail("reads a variable outside of its block");
    case Op::Load: return load(e);
    case Op::Neg: case Op::Abs: case Op::Not: case Op::BitNot: case Op::Floor: case Op::Ceil: case Op::Trunc:
    case Op::Rint: case Op::Sqrt: case Op::IsNan: case Op::IsInf: return unary(e, arg(e, 0));
    case Op::Cast: return cast(arg(e, 0), lanes, e.args[0]->type.dtype, t);
    case Op::SatCast: return sat_cast(arg(e, 0), lanes, e.args[0]->type.dtype, t);
    case Op::Bitcast: return bitcast(arg(e, 0), lanes, e.args[0]->type.dtype, t);
    case Op::Add: case Op::Sub: case Op::Mul: case Op::Div: case Op::FloorDiv: case Op::FloorMod: case Op::TruncDiv:
    case Op::TruncMod: case Op::Min: case Op::Max: case Op::Pow: case Op::And: case Op::Or: case Op::BitAnd:
    case Op::BitOr: case Op::BitXor: case Op::Shl: case Op::Shr: case Op::Lt: case Op::Le: case Op::Eq: case Op::Ne:
      return binary(e, arg(e, 0), arg(e, 1));
    case Op::Select: return emit(PortableOp::Select, kind, lanes, mask(arg(e, 0), lanes), arg(e, 1), arg(e, 2));
    case Op::Fma: {
      if (!is_float(t)) return int_binary(Op::Add, t, lanes, int_binary(Op::Mul, t, lanes, arg(e, 0), arg(e, 1)), arg(e, 2));
      const int k = broadcast_operand(e);
      if (k < 0) return fit(emit(PortableOp::Fma, kind, lanes, arg(e, 0), arg(e, 1), arg(e, 2)), lanes, t);
      const Expr* x = e.args[static_cast<size_t>(k)];
      const R one = x->op == Op::Splat ? find(x->args[0]) : broadcasts_.at(x->i);
      return fit(emit(PortableOp::FmaSplat, kind, lanes, one, arg(e, static_cast<unsigned>(1 - k)), arg(e, 2)), lanes, t);
    }
    case Op::Splat:
      if (lanes == e.args[0]->type.lanes) return arg(e, 0);
      return emit(e.args[0]->type.lanes == 1 ? PortableOp::Splat : PortableOp::Repeat, kind, lanes, arg(e, 0));
    case Op::Dot: return emit(PortableOp::Dot, kind, lanes, arg(e, 1), arg(e, 2), arg(e, 0));
    case Op::Ramp:
      if (lanes == 1) return arg(e, 0);
      if (!is_int(t)) return kNone;
      return fit(emit(PortableOp::Ramp, kind, lanes, arg(e, 0), kNone, kNone, e.i), lanes, t);
    case Op::Extract:
      if (e.args[0]->type.lanes == 1) return arg(e, 0);
      return emit(PortableOp::Extract, kind, 1, arg(e, 0), kNone, kNone, e.i);
    case Op::SumLanes: case Op::ProdLanes: case Op::MinLanes: case Op::MaxLanes: {
      const R a = arg(e, 0);
      if (registers_[a].lanes == 1) return a;
      const bool u = is_unsigned_int(t);
      const PortableOp op = e.op == Op::SumLanes    ? PortableOp::SumLanes
                            : e.op == Op::ProdLanes ? PortableOp::ProdLanes
                            : e.op == Op::MinLanes  ? (u ? PortableOp::MinLanesU : PortableOp::MinLanes)
                                                    : (u ? PortableOp::MaxLanesU : PortableOp::MaxLanes);
      return fit(emit(op, kind, 1, a), 1, t);
    }
    case Op::Widen: {
      // Written part by part, so the register is this statement's own.
      const R out = temporary(kind, lanes);
      unsigned at = 0;
      for (unsigned k = 0; k < e.args.size(); ++k) {
        Instruction i;
        i.op = static_cast<uint8_t>(PortableOp::Insert);
        i.dst = out, i.a = arg(e, k), i.imm = at;
        put(i);
        at += e.args[k]->type.lanes;
      }
      return out;
    }
    case Op::Dim: case Op::Fold: case Op::Field: case Op::Exp: case Op::Log: case Op::Sin: case Op::Cos: case Op::Tan:
    case Op::Asin: case Op::Acos: case Op::Atan: case Op::Sinh: case Op::Cosh: case Op::Tanh: case Op::Asinh:
    case Op::Acosh: case Op::Atanh: case Op::Erf: case Op::Tf32: case Op::Exp2:
      return kNone;
  }
  return kNone;
}

}  // namespace mlc::targets::portable
