// Loads and stores, and the addresses in them.
#include <algorithm>

#include "targets/portable/encoder.h"

namespace mlc::targets::portable {

using ir::Op;
using mlc::portable::kind_of;

namespace {

// How an element that registers hold in another form is stored in memory.
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

// A constant as far as addresses go: of what is known while unrolling, too.
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
  if (e.args.size() > 1) i.b = mask(arg(e, 1), lanes);
  const R raw = emit_unstable(i, kind_of(m), lanes);
  if (is_small(t)) return unpack(raw, lanes, t);
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
    if (status_.ok()) i.b = mask(i.b, lanes);
  }
  if (!status_.ok()) return;
  if (is_small(t)) value = pack(value, lanes, t);
  i.op = static_cast<uint8_t>(PortableOp::Store);
  i.type = static_cast<uint8_t>(m);
  i.c = value;
  i.array = static_cast<uint16_t>(s.array);
  put(i);
}

}  // namespace mlc::targets::portable
