#include <algorithm>
#include <cstring>

#include "schema/plan/decode_function.h"

namespace mlc::exec {

namespace {

// What each operation reads and writes.
struct Signature {
  uint8_t reads;      // operands a, b, c in this order
  SymbolType operand;       // their type
  SymbolType result;
};
Signature signature_of(SymbolOp op) {
  using enum SymbolOp;
  switch (op) {
    case None: case Const: case InputDim: case InputElement: return {0, SymbolType::Integer, SymbolType::Integer};
    case Add: case Sub: case Mul: case FloorDiv: case CeilDiv: case Mod: case Min: case Max: case Eq: case Ne: case Lt:
    case Le: case And: case Or: return {2, SymbolType::Integer, SymbolType::Integer};
    case Not: return {1, SymbolType::Integer, SymbolType::Integer};
    case Select: return {3, SymbolType::Integer, SymbolType::Integer};  // b and c may both be doubles: see symbol()
    case ToDouble: return {1, SymbolType::Integer, SymbolType::Double};
    case FAdd: case FSub: case FMul: case FDiv: case FMin: case FMax: return {2, SymbolType::Double, SymbolType::Double};
    case FFloor: case FCeil: case FRint: case FTrunc: return {1, SymbolType::Double, SymbolType::Integer};
    case FLt: case FLe: return {2, SymbolType::Double, SymbolType::Integer};
    case FConst: return {0, SymbolType::Double, SymbolType::Double};
    case FSqrt: case FRoundF32: return {1, SymbolType::Double, SymbolType::Double};
  }
  return {0, SymbolType::Integer, SymbolType::Integer};
}

}  // namespace

Status FunctionDecoder::check_symbols() {
  out_.num_symbols = in_.num_symbols();
  types_.assign(out_.num_symbols, SymbolType::Unwritten);
  written_at_.assign(out_.num_symbols, 0);
  out_.shape.reserve(length_of(in_.shape()));
  for (uint32_t i = 0; i < length_of(in_.shape()); ++i) {
    // FlatBuffers 2.0 verifies where the length of a vector lies, not that the structs behind it are aligned.
    fbp::SymbolInstr s;
    std::memcpy(static_cast<void*>(&s), in_.shape()->Data() + uint64_t{i} * sizeof s, sizeof s);
    const auto number = static_cast<uint8_t>(s.op());
    place_ = {"symbol instruction", i};
    if (number == 0 || number > kLastSymbolOp) return wrong("operation");
    MLC_RETURN_IF_ERROR(symbol(i, {static_cast<SymbolOp>(number), s.dst(), s.a(), s.b(), s.c(), s.imm()}));
  }
  return ok();
}

Status FunctionDecoder::symbol(uint32_t index, const SymbolInstr& instr) {
  if (instr.dst >= out_.num_symbols || types_[instr.dst] != SymbolType::Unwritten) return wrong("destination");
  MLC_RETURN_IF_ERROR(symbol_of_input(instr));
  const Signature sig = signature_of(instr.op);
  const uint32_t operands[3] = {instr.a, instr.b, instr.c};
  for (uint8_t k = 0; k < sig.reads; ++k)
    if (operands[k] >= out_.num_symbols || types_[operands[k]] == SymbolType::Unwritten)
      return wrong("reads a symbol before it is written");
  SymbolType result = sig.result;
  if (instr.op == SymbolOp::Select) {
    if (types_[instr.a] != SymbolType::Integer || types_[instr.b] != types_[instr.c]) return wrong("types");
    result = types_[instr.b];
  } else {
    for (uint8_t k = 0; k < sig.reads; ++k)
      if (types_[operands[k]] != sig.operand) return wrong("types");
  }
  types_[instr.dst] = result;
  written_at_[instr.dst] = index;
  out_.shape.push_back(instr);
  return ok();
}

Status FunctionDecoder::symbol_of_input(const SymbolInstr& instr) {
  if (instr.op == SymbolOp::InputDim) {
    if (instr.a >= length_of(in_.inputs()) || instr.b >= length_of(in_.inputs()->Get(instr.a)->shape()))
      return wrong("no such input axis");
  }
  if (instr.op == SymbolOp::InputElement) {
    if (instr.a >= length_of(in_.inputs())) return wrong("no such input");
    const fbp::Port& port = *in_.inputs()->Get(instr.a);
    const auto dtype = static_cast<DType>(port.dtype());
    if (!(is_int(dtype) || dtype == DType::Bool) || port.list_depth() > 0) return wrong("an input that is no array of integers");
    out_.elements.push_back({instr.a, instr.b});
  }
  return ok();
}

Status FunctionDecoder::read_checks() {
  for (uint32_t i = 0; i < length_of(in_.checks()); ++i) {
    const fbp::Check& c = *in_.checks()->Get(i);
    place_ = {"check", i};
    if (c.after() > out_.shape.size() || !is_integer(c.condition()) || written_at_[c.condition()] >= c.after())
      return wrong("condition");
    if (c.message()->size() > kMaxTextLen) return wrong("message longer than 4096 bytes");
    out_.checks.push_back({c.condition(), c.after(), shown(*c.message())});
  }
  std::stable_sort(out_.checks.begin(), out_.checks.end(),
                   [](const Check& a, const Check& b) { return a.after < b.after; });
  return ok();
}

}  // namespace mlc::exec
