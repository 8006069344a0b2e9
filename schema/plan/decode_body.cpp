#include <algorithm>

#include "schema/plan/decode_function.h"

namespace mlc::exec {

namespace {
constexpr uint32_t kMaxStates = 4096;
}  // namespace

Status FunctionDecoder::read_buffers() {
  out_.arena_bytes = in_.arena_bytes();
  bool uses_arena = false;
  for (uint32_t i = 0; i < length_of(in_.buffers()); ++i) {
    const fbp::Buffer& b = *in_.buffers()->Get(i);
    place_ = {"buffer", i};
    const auto kind = static_cast<uint8_t>(b.kind());
    const auto dtype = dtype_of(b.dtype());
    if (kind == 0 || kind > kLastBufferKind) return wrong("kind");
    if (!dtype || bytes_of(*dtype) == 0) return wrong("element type");
    if (!is_integer(b.bytes())) return wrong("length is not an integer symbol");
    Buffer buffer{static_cast<BufferKind>(kind), *dtype, b.index(), b.copy(), b.bytes(), b.offset()};
    switch (buffer.kind) {
      case BufferKind::None: break;
      case BufferKind::Input:
        if (buffer.index >= length_of(in_.inputs())) return wrong("no such input");
        break;
      case BufferKind::Output:
      case BufferKind::OutputPart:
        if (buffer.index >= length_of(in_.outputs())) return wrong("no such output");
        if (buffer.kind == BufferKind::OutputPart && !is_integer(buffer.offset)) return wrong("offset is not an integer symbol");
        break;
      case BufferKind::Constant: {
        const auto length = context_.constant_bytes(buffer.index, buffer.copy);
        if (!length) return wrong("no such tensor copy");
        buffer.constant_bytes = *length;
        break;
      }
      case BufferKind::Arena:
        if (!is_integer(buffer.offset)) return wrong("offset is not an integer symbol");
        uses_arena = true;
        break;
      case BufferKind::State:
        if (derives_) return wrong("derived constants do not depend on states");
        if (buffer.index >= kMaxStates) return wrong("no such state, the last is 4095");
        break;
      case BufferKind::Derived:
        if (buffer.index >= plan_.derived.size()) return wrong("no such derived constant");
        buffer.constant_bytes = plan_.derived[buffer.index];
        buffer.derives = derives_;
        break;
    }
    out_.buffers.push_back(buffer);
  }
  // A function without symbols has no arena and needs no number for its size.
  if ((uses_arena || (out_.num_symbols > 0 && !is_program())) && !is_integer(out_.arena_bytes)) return bad("size of the arena");
  return ok();
}

Status FunctionDecoder::read_body() {
  out_.body.reserve(length_of(in_.body()));
  for (uint32_t i = 0; i < length_of(in_.body()); ++i) {
    const fbp::Instr& in = *in_.body()->Get(i);
    Instr instr;
    if (in.name()) instr.name = shown(*in.name());
    place_ = {"instruction", i, instr.name};
    const auto op = static_cast<uint8_t>(in.op());
    if (op == 0 || op > kLastInstrOp) return wrong("operation");
    if (length_of(in.buffers()) > kMaxOperands || length_of(in.scalars()) > kMaxOperands)
      return wrong("too many operands, at most 4096 are read");
    instr.op = static_cast<InstrOp>(op);
    instr.after = in.after() == UINT32_MAX ? i : in.after();
    if (instr.after > i) return wrong("waits for an instruction that comes later");
    for (uint32_t k = 0; k < length_of(in.buffers()); ++k) {
      if (in.buffers()->Get(k) >= out_.buffers.size()) return wrong("no such buffer");
      instr.buffers.push_back(in.buffers()->Get(k));
    }
    for (uint32_t k = 0; k < length_of(in.scalars()); ++k) {
      if (!is_integer(in.scalars()->Get(k))) return wrong("scalar is not an integer symbol");
      instr.scalars.push_back(in.scalars()->Get(k));
    }
    switch (instr.op) {
      case InstrOp::None: break;
      case InstrOp::Launch:
        MLC_RETURN_IF_ERROR(read_launch(in, instr));
        break;
      case InstrOp::Copy:
        if (instr.buffers.size() != 2 || !out_.buffers[instr.buffers[0]].writable()) return wrong("operands");
        break;
    }
    out_.body.push_back(std::move(instr));
  }
  return ok();
}

Status FunctionDecoder::read_launch(const fbp::Instr& in, Instr& instr) {
  if (in.index() >= context_.num_kernels) return wrong("no such kernel");
  if (!is_integer(in.tiles())) return wrong("tile count is not an integer symbol");
  instr.kernel = in.index();
  instr.tiles = in.tiles();
  instr.work = in.work();
  instr.scratch = in.scratch();
  instr.operations = in.operations();
  instr.read = in.read();
  instr.written = in.written();
  instr.of_bytes = in.of_bytes();
  instr.steps = in.steps();
  for (const Symbol s : {instr.work, instr.scratch, instr.operations, instr.read, instr.written, instr.steps})
    if (s != kNoSymbol && !is_integer(s)) return wrong("work, scratch, steps or a figure is not an integer symbol");
  MLC_RETURN_IF_ERROR(read_cuts(in, instr));
  return in.turns() ? read_turns(*in.turns(), instr) : ok();
}

Status FunctionDecoder::read_cuts(const fbp::Instr& in, Instr& instr) const {
  if (length_of(in.cut()) > kMaxCuts) return wrong("too many cuts, at most 3 are read");
  for (uint32_t k = 0; k < length_of(in.cut()); ++k) {
    const fbp::Cut& cut = *in.cut()->Get(k);
    const bool again = std::any_of(instr.cuts.begin(), instr.cuts.end(), [&](const Cut& c) { return c.scalar == cut.scalar(); });
    if (cut.scalar() >= instr.scalars.size() || again) return wrong("no scalar of its own for a cut");
    if (!is_integer(cut.units()) || !is_integer(cut.bytes())) return wrong("size of a cut is not an integer symbol");
    instr.cuts.push_back({cut.units(), cut.scalar(), cut.bytes()});
  }
  return ok();
}

Status FunctionDecoder::read_turns(const fbp::Turns& in, Instr& instr) const {
  if (!instr.cuts.empty()) return wrong("turns beside cuts");
  if (in.scalar() >= instr.scalars.size() || in.part_scalar() >= instr.scalars.size() || in.scalar() == in.part_scalar())
    return wrong("no scalar of its own for turns and parts");
  if (!is_integer(in.turns()) || !is_integer(in.parts())) return wrong("number of turns or parts is not an integer symbol");
  instr.turns = Turns{in.turns(), in.scalar(), in.parts(), in.part_scalar()};
  return ok();
}

}  // namespace mlc::exec
