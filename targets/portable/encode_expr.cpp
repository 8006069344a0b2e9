// Expressions of a Loop kernel as portable instructions.
#include <bit>
#include <algorithm>
#include <cmath>

#include "targets/portable/encoder.h"

namespace mlc::targets::portable {

using ir::Op;
using mlc::portable::kind_of;

namespace {

bool is_small(DType t) { return is_float(t) && t != DType::F32 && t != DType::F64; }
bool is_narrow(DType t) { return is_int(t) && bits_of(t) < 32; }

// How an element that registers hold in another form lies in memory.
DType memory_type(DType t) {
  if (is_small(t)) return bits_of(t) == 16 ? DType::U16 : DType::U8;
  switch (t) {
    case DType::U64: return DType::I64;
    case DType::U32: return DType::I32;
    case DType::I4: case DType::I2: return DType::I8;
    case DType::U4: case DType::U2: return DType::U8;
    default: return t;
  }
}

}  // namespace

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
  if (is_small(t))
    return emit(PortableOp::Unpack, Kind::F32, lanes, emit(PortableOp::Pack, Kind::I32, lanes, a, kNone, kNone, 0, t),
                kNone, kNone, 0, t);
  return is_narrow(t) ? emit(PortableOp::Wrap, Kind::I32, lanes, a, kNone, kNone, 0, t) : a;
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

bool Encoder::constant_value(const Expr* e, int64_t& out) const {
  if (e->op == Op::Const && is_int(e->type.dtype)) return out = e->i, true;
  if (e->op == Op::Var) {
    auto var = unrolled_.find(e->i);
    return var != unrolled_.end() && (out = var->second, true);
  }
  int64_t a, b;
  if (e->op == Op::Mul && e->args[0]->args.empty() && e->args[1]->args.empty() && constant_value(e->args[0], a) &&
      constant_value(e->args[1], b)) {
    out = static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    return true;
  }
  return false;
}

// An index of one lane as terms to add and a constant.
Encoder::Address Encoder::split_address(const Expr* index) {
  Address out;
  std::vector<const Expr*> stack = {index};
  while (!stack.empty()) {
    const Expr* e = stack.back();
    stack.pop_back();
    int64_t value;
    if (constant_value(e, value)) {
      out.displacement = static_cast<int64_t>(static_cast<uint64_t>(out.displacement) + static_cast<uint64_t>(value));
    } else if (e->op == Op::Add && e->type.lanes == 1) {
      stack.push_back(e->args[1]);
      stack.push_back(e->args[0]);
    } else {
      out.terms.push_back(e);
    }
  }
  return out;
}

// Terms of outer loops are added first, so that the sum of those is computed there.
Encoder::R Encoder::sum_of(const Address& address) {
  std::vector<R> terms;
  for (const Expr* t : address.terms) terms.push_back(find(t));
  auto depth = [&](R r) { return registers_[r].is_stable ? registers_[r].level : 0xffff; };
  std::stable_sort(terms.begin(), terms.end(), [&](R x, R y) { return depth(x) < depth(y); });
  if (terms.empty()) return constant(Kind::I64, 1, 0);
  R sum = terms[0];
  for (size_t k = 1; k < terms.size(); ++k) sum = emit(PortableOp::Add, Kind::I64, 1, sum, terms[k]);
  return sum;
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

// --- memory ---

Encoder::R Encoder::load(const Expr& e) {
  const unsigned lanes = e.type.lanes;
  const DType t = e.type.dtype, m = memory_type(t);
  Instruction i;
  i.op = static_cast<uint8_t>(PortableOp::Load);
  i.type = static_cast<uint8_t>(m);
  i.array = static_cast<uint16_t>(e.array);
  if (e.args[0]->type.lanes == 1) {
    const Address address = split_address(e.args[0]);
    i.a = sum_of(address);
    i.imm = address.displacement;
  } else {
    i.a = arg(e, 0);
  }
  if (e.args.size() > 1) {
    i.b = arg(e, 1);
    if (registers_[i.b].lanes != lanes) i.b = emit(PortableOp::Splat, Kind::Mask, lanes, i.b);
  }
  const R raw = emit_unstable(i, kind_of(m), lanes);
  if (is_small(t)) return emit(PortableOp::Unpack, Kind::F32, lanes, raw, kNone, kNone, 0, t);
  return bits_of(t) < 8 ? fit(raw, lanes, t) : raw;
}

void Encoder::store(const loop::Stmt& s) {
  if (s.index.size() != 1) return (void)fail("a store with several indices");
  const DType t = s.value->type.dtype, m = memory_type(t);
  const unsigned lanes = s.value->type.lanes;
  R value = eval(s.value);
  Instruction i;
  if (s.index[0]->type.lanes == 1) {
    const Address address = split_address(s.index[0]);
    for (const Expr* term : address.terms) eval(term);
    if (!status_.ok()) return;
    i.a = sum_of(address);
    i.imm = address.displacement;
  } else {
    i.a = eval(s.index[0]);
  }
  if (s.cond) {
    i.b = eval(s.cond);
    if (status_.ok() && registers_[i.b].lanes != lanes) i.b = emit(PortableOp::Splat, Kind::Mask, lanes, i.b);
  }
  if (!status_.ok()) return;
  if (is_small(t)) value = emit(PortableOp::Pack, Kind::I32, lanes, value, kNone, kNone, 0, t);
  i.op = static_cast<uint8_t>(PortableOp::Store);
  i.type = static_cast<uint8_t>(m);
  i.c = value;
  i.array = static_cast<uint16_t>(s.array);
  put(i);
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
    case Op::Select: {
      R mask = arg(e, 0);
      if (registers_[mask].lanes != lanes) mask = emit(PortableOp::Splat, Kind::Mask, lanes, mask);
      return emit(PortableOp::Select, kind, lanes, mask, arg(e, 1), arg(e, 2));
    }
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
    case Op::Acosh: case Op::Atanh: case Op::Erf:
      return kNone;
  }
  return kNone;
}

Encoder::R Encoder::unary(const Expr& e, R a) {
  const DType t = e.args[0]->type.dtype;
  const Kind kind = kind_of(t);
  const unsigned lanes = e.type.lanes;
  PortableOp op;
  switch (e.op) {
    case Op::Neg: op = PortableOp::Neg; break;
    case Op::Abs:
      if (!is_float(t) && !is_signed_int(t)) return a;
      op = PortableOp::Abs;
      break;
    case Op::Not: case Op::BitNot: op = PortableOp::Not; break;
    case Op::Floor: op = PortableOp::Floor; break;
    case Op::Ceil: op = PortableOp::Ceil; break;
    case Op::Trunc: op = PortableOp::Trunc; break;
    case Op::Rint: op = PortableOp::Rint; break;
    case Op::Sqrt: op = PortableOp::Sqrt; break;
    case Op::IsNan: case Op::IsInf:
      if (!is_float(t)) return constant(Kind::Mask, lanes, 0);
      return emit(e.op == Op::IsNan ? PortableOp::IsNan : PortableOp::IsInf, Kind::Mask, lanes, a);
    default: return kNone;
  }
  const bool rounds = op >= PortableOp::Floor && op <= PortableOp::Rint;
  if (rounds && !is_float(t)) return a;
  return fit(emit(op, kind, lanes, a), lanes, t);
}

Encoder::R Encoder::binary(const Expr& e, R a, R b) {
  const DType t = e.args[0]->type.dtype;
  const unsigned lanes = e.type.lanes;
  switch (e.op) {
    case Op::Lt: case Op::Le: case Op::Eq: case Op::Ne: return compare(e.op, t, lanes, a, b);
    case Op::And: return emit(PortableOp::And, Kind::Mask, lanes, a, b);
    case Op::Or: return emit(PortableOp::Or, Kind::Mask, lanes, a, b);
    default: break;
  }
  if (!is_float(t)) return int_binary(e.op, t, lanes, a, b);
  const R r = float_binary(e.op, kind_of(t), lanes, a, b);
  return r == kNone ? r : fit(r, lanes, t);
}

Encoder::R Encoder::compare(Op op, DType t, unsigned lanes, R a, R b) {
  auto emit_mask = [&](PortableOp o) { return emit(o, Kind::Mask, lanes, a, b); };
  const bool u = is_unsigned_int(t) && bits_of(t) >= 32;
  if (op == Op::Eq) return emit_mask(PortableOp::Eq);
  if (op == Op::Ne) return emit_mask(PortableOp::Ne);
  if (t == DType::Bool) {
    const R not_a = emit(PortableOp::Not, Kind::Mask, lanes, a);
    return emit(op == Op::Lt ? PortableOp::And : PortableOp::Or, Kind::Mask, lanes, not_a, b);
  }
  if (op == Op::Lt) return emit_mask(u ? PortableOp::LtU : PortableOp::Lt);
  return emit_mask(u ? PortableOp::LeU : PortableOp::Le);
}

Encoder::R Encoder::float_binary(Op op, Kind kind, unsigned lanes, R a, R b) {
  auto two = [&](PortableOp o, R x, R y) { return emit(o, kind, lanes, x, y); };
  switch (op) {
    case Op::Add: return two(PortableOp::Add, a, b);
    case Op::Sub: return two(PortableOp::Sub, a, b);
    case Op::Mul: return two(PortableOp::Mul, a, b);
    case Op::Div: return two(PortableOp::Div, a, b);
    case Op::Min: return two(PortableOp::Min, a, b);
    case Op::Max: return two(PortableOp::Max, a, b);
    case Op::FloorDiv: return emit(PortableOp::Floor, kind, lanes, two(PortableOp::Div, a, b));
    case Op::TruncDiv: return emit(PortableOp::Trunc, kind, lanes, two(PortableOp::Div, a, b));
    case Op::FloorMod:
      return two(PortableOp::Sub, a, two(PortableOp::Mul, b, emit(PortableOp::Floor, kind, lanes, two(PortableOp::Div, a, b))));
    case Op::TruncMod: return two(PortableOp::FMod, a, b);
    default: return kNone;
  }
}

Encoder::R Encoder::int_binary(Op op, DType t, unsigned lanes, R a, R b) {
  const Kind kind = kind_of(t);
  const bool is_bool = t == DType::Bool;
  // Narrow unsigned values are small positive numbers in their registers.
  const bool u = is_unsigned_int(t) && bits_of(t) >= 32;
  PortableOp o;
  switch (op) {
    case Op::Add: o = is_bool ? PortableOp::Or : PortableOp::Add; break;
    case Op::Sub: o = PortableOp::Sub; break;
    case Op::Mul: o = is_bool ? PortableOp::And : PortableOp::Mul; break;
    case Op::FloorDiv: o = u ? PortableOp::QuotU : PortableOp::FloorQuot; break;
    case Op::FloorMod: o = u ? PortableOp::RemU : PortableOp::FloorRem; break;
    case Op::TruncDiv: o = u ? PortableOp::QuotU : PortableOp::Quot; break;
    case Op::TruncMod: o = u ? PortableOp::RemU : PortableOp::Rem; break;
    case Op::Min: o = is_bool ? PortableOp::And : u ? PortableOp::MinU : PortableOp::Min; break;
    case Op::Max: o = is_bool ? PortableOp::Or : u ? PortableOp::MaxU : PortableOp::Max; break;
    case Op::Pow: o = u ? PortableOp::PowU : PortableOp::Pow; break;
    case Op::BitAnd: o = PortableOp::And; break;
    case Op::BitOr: o = PortableOp::Or; break;
    case Op::BitXor: o = PortableOp::Xor; break;
    case Op::Shl: o = PortableOp::Shl; break;
    case Op::Shr: o = u ? PortableOp::ShrU : PortableOp::Shr; break;
    default: return kNone;
  }
  const R r = emit(o, kind, lanes, a, b);
  // These stay in the range of their type.
  const bool keeps = op == Op::Min || op == Op::Max || op == Op::BitAnd || op == Op::BitOr || op == Op::BitXor ||
                     op == Op::Shr || op == Op::TruncMod || op == Op::FloorMod;
  return keeps ? r : fit(r, lanes, t);
}

Encoder::R Encoder::cast(R a, unsigned lanes, DType from, DType to) {
  if (from == to) return a;
  const Kind fk = kind_of(from), tk = kind_of(to);
  auto one = [&](PortableOp op, Kind kind, R x) { return emit(op, kind, lanes, x); };
  if (to == DType::Bool) {
    const R zero = is_float(from) ? float_constant(fk, lanes, 0) : int_constant(fk, lanes, 0);
    return emit(PortableOp::Ne, Kind::Mask, lanes, a, zero);
  }
  if (from == DType::Bool) {
    a = one(PortableOp::FromMask, Kind::I32, a);
    if (tk == Kind::I64) return one(PortableOp::Widen, tk, a);
    return tk == Kind::I32 ? a : one(PortableOp::ToFloat, tk, a);
  }
  if (is_float(from) && is_float(to)) {
    if (fk == tk) return fit(a, lanes, to);
    if (tk == Kind::F64) return one(PortableOp::Resize, tk, a);
    return to == DType::F32 ? one(PortableOp::Resize, tk, a) : fit(one(PortableOp::ResizeOdd, tk, a), lanes, to);
  }
  if (is_float(from)) {
    if (is_narrow(to)) return fit(one(PortableOp::ToInt, Kind::I32, a), lanes, to);
    if (to == DType::U32) return one(PortableOp::Narrow, tk, one(PortableOp::ToInt, Kind::I64, a));  // negative ones wrap
    return one(is_signed_int(to) ? PortableOp::ToInt : PortableOp::ToIntU, tk, a);
  }
  if (is_float(to)) {
    const bool u = is_unsigned_int(from) && bits_of(from) >= 32;
    return fit(one(u ? PortableOp::ToFloatU : PortableOp::ToFloat, tk, a), lanes, to);
  }
  if (fk == tk) return fit(a, lanes, to);
  if (tk == Kind::I64) return one(from == DType::U32 ? PortableOp::WidenU : PortableOp::Widen, tk, a);
  return fit(one(PortableOp::Narrow, tk, a), lanes, to);
}

Encoder::R Encoder::sat_cast(R a, unsigned lanes, DType from, DType to) {
  if (from == DType::Bool || to == DType::Bool || (is_int(from) && is_float(to))) return cast(a, lanes, from, to);
  const Kind fk = kind_of(from);
  if (is_float(to)) {
    if (!is_small(to)) return cast(a, lanes, from, to);
    // Clamped to the finite range.
    const double limit = to == DType::F16      ? 65504
                         : to == DType::BF16   ? 0x1.fep127
                         : to == DType::F8E4M3 ? 448
                         : to == DType::F8E4M3FNUZ ? 240
                         : to == DType::F4E2M1     ? 6
                         : to == DType::F6E2M3     ? 7.5
                         : to == DType::F6E3M2     ? 28
                         : to == DType::F8E8M0     ? 0x1p127
                                                   : 57344;
    a = emit(PortableOp::Min, fk, lanes, float_constant(fk, lanes, limit), a);
    a = emit(PortableOp::Max, fk, lanes, float_constant(fk, lanes, -limit), a);
    return cast(a, lanes, from, to);
  }
  const unsigned value_bits = bits_of(to) - is_signed_int(to);
  const int64_t high = value_bits >= 63 ? INT64_MAX : (int64_t{1} << value_bits) - 1;
  const int64_t low = is_signed_int(to) ? -high - 1 : 0;
  if (is_float(from)) {  // conversions clamp to 32 or 64 bits
    if (!is_narrow(to)) return emit(is_signed_int(to) ? PortableOp::ToInt : PortableOp::ToIntU, kind_of(to), lanes, a);
    a = emit(PortableOp::ToInt, Kind::I32, lanes, a);
    a = emit(PortableOp::Min, Kind::I32, lanes, a, int_constant(Kind::I32, lanes, high));
    return emit(PortableOp::Max, Kind::I32, lanes, a, int_constant(Kind::I32, lanes, low));
  }
  const bool from_signed = is_signed_int(from);
  const bool u = !from_signed && bits_of(from) >= 32;
  if (bits_of(from) - from_signed > value_bits)
    a = emit(u ? PortableOp::MinU : PortableOp::Min, fk, lanes, a, int_constant(fk, lanes, high));
  if (from_signed && (low == 0 || bits_of(from) > bits_of(to)))
    a = emit(PortableOp::Max, fk, lanes, a, int_constant(fk, lanes, low));
  return cast(a, lanes, from, to);
}

// The bits of a value of at most 32 bits in an I32.
Encoder::R Encoder::to_bits(R a, unsigned lanes, DType from) {
  if (from == DType::Bool) return emit(PortableOp::FromMask, Kind::I32, lanes, a);
  if (is_small(from)) return emit(PortableOp::Pack, Kind::I32, lanes, a, kNone, kNone, 0, from);
  return from == DType::F32 ? emit(PortableOp::Move, Kind::I32, lanes, a) : a;
}

Encoder::R Encoder::bitcast(R a, unsigned lanes, DType from, DType to) {
  if (from == to) return a;
  if (bits_of(from) != bits_of(to)) return fail("a bit cast that changes the width");
  if (bits_of(to) == 64) return kind_of(from) == kind_of(to) ? a : emit(PortableOp::Move, kind_of(to), lanes, a);
  const R bits = to_bits(a, lanes, from);
  if (to == DType::Bool) return emit(PortableOp::Ne, Kind::Mask, lanes, bits, int_constant(Kind::I32, lanes, 0));
  if (is_small(to)) return emit(PortableOp::Unpack, Kind::F32, lanes, bits, kNone, kNone, 0, to);
  return to == DType::F32 ? emit(PortableOp::Move, Kind::F32, lanes, bits) : fit(bits, lanes, to);
}

}  // namespace mlc::targets::portable
