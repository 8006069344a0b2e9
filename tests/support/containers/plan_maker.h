// Plans for tests, good and impossible ones, without the packager.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "schema/generated/plan_generated.h"
#include "schema/module_abi.h"

namespace mlc::test {

namespace fbp = mlc::fb::plan;

struct PlanMaker {
  struct PortSpec {
    std::string name;
    DType dtype;
    uint32_t buffer;
    std::vector<uint32_t> shape;
  };
  struct CutSpec {
    uint32_t units, scalar, bytes;
  };
  struct TurnsSpec {
    uint32_t turns, scalar, parts, part_scalar;
  };
  struct InstrSpec {
    fbp::InstrOp op = fbp::InstrOp_Launch;
    uint32_t index = 0;
    std::vector<uint32_t> buffers, scalars;
    uint32_t tiles = 0;
    std::vector<CutSpec> cuts = {};
    uint32_t work = UINT32_MAX;
    uint32_t after = UINT32_MAX;
    std::string name = {};
    uint32_t scratch = UINT32_MAX;
    uint32_t operations = UINT32_MAX, read = UINT32_MAX, written = UINT32_MAX;
    bool of_bytes = false;
    uint32_t steps = UINT32_MAX;
    std::optional<TurnsSpec> turns = {};
  };
  struct BufferSpec {
    fbp::BufferKind kind;
    DType dtype;
    uint32_t index, copy, bytes, offset;
  };
  struct CheckSpec {
    uint32_t condition, after;
    std::string message;
  };

  std::string name = "main";
  uint32_t format = 1, abi = MLRUN_MODULE_ABI;
  std::vector<fbp::SymbolInstr> symbols;
  std::vector<CheckSpec> checks;
  std::vector<PortSpec> inputs, outputs;
  std::vector<BufferSpec> buffers;
  uint32_t arena_bytes = 0;
  std::vector<InstrSpec> body;
  int extra_symbols = 0;

  uint32_t constant(int64_t v) { return op(fbp::SymbolOp_Const, 0, 0, 0, v); }
  uint32_t dim(uint32_t input, uint32_t axis) { return op(fbp::SymbolOp_InputDim, input, axis); }
  uint32_t op(fbp::SymbolOp o, uint32_t a = 0, uint32_t b = 0, uint32_t c = 0, int64_t imm = 0) {
    const auto dst = static_cast<uint32_t>(symbols.size());
    symbols.emplace_back(o, dst, a, b, c, imm);
    return dst;
  }
  uint32_t buffer(fbp::BufferKind kind, DType t, uint32_t index, uint32_t bytes, uint32_t offset = 0) {
    buffers.push_back({kind, t, index, 0, bytes, offset});
    return static_cast<uint32_t>(buffers.size() - 1);
  }

  std::vector<std::byte> bytes() const {
    flatbuffers::FlatBufferBuilder b;
    std::vector<flatbuffers::Offset<fbp::Check>> cs;
    for (const auto& c : checks) cs.push_back(fbp::CreateCheck(b, c.condition, c.after, b.CreateString(c.message)));
    const auto ports = [&](const std::vector<PortSpec>& specs) {
      std::vector<flatbuffers::Offset<fbp::Port>> out;
      for (const auto& p : specs)
        out.push_back(fbp::CreatePort(b, b.CreateString(p.name), static_cast<uint8_t>(p.dtype), p.buffer,
                                      b.CreateVector(p.shape)));
      return b.CreateVector(out);
    };
    const auto in = ports(inputs), out = ports(outputs);
    std::vector<flatbuffers::Offset<fbp::Buffer>> bs;
    for (const auto& x : buffers)
      bs.push_back(fbp::CreateBuffer(b, x.kind, static_cast<uint8_t>(x.dtype), x.index, x.copy, x.bytes, x.offset));
    std::vector<flatbuffers::Offset<fbp::Instr>> is;
    for (const auto& i : body) {
      std::vector<flatbuffers::Offset<fbp::Cut>> cuts;
      for (const CutSpec& c : i.cuts) cuts.push_back(fbp::CreateCut(b, c.units, c.scalar, c.bytes));
      const auto turns = i.turns ? fbp::CreateTurns(b, i.turns->turns, i.turns->scalar, i.turns->parts, i.turns->part_scalar) : 0;
      is.push_back(fbp::CreateInstr(b, i.op, i.index, b.CreateVector(i.buffers), b.CreateVector(i.scalars), i.tiles,
                                    b.CreateVector(cuts), i.work, i.after, b.CreateString(i.name), i.scratch, i.operations, i.read,
                                    i.written, i.of_bytes, i.steps, turns));
    }
    const auto f = fbp::CreateFunction(
        b, b.CreateString(name), static_cast<uint32_t>(static_cast<int>(symbols.size()) + extra_symbols),
        b.CreateVectorOfStructs(symbols), b.CreateVector(cs), in, out, b.CreateVector(bs), arena_bytes,
        b.CreateVector(is));
    fbp::FinishPlanBuffer(b, fbp::CreatePlan(b, format, abi, b.CreateVector(std::vector{f})));
    const auto* p = reinterpret_cast<const std::byte*>(b.GetBufferPointer());
    return {p, p + b.GetSize()};
  }

  // y[n,3] = kernel 0 of x[n,3] through an arena buffer, then kernel 1; n > 0 is checked.
  static PlanMaker two_steps() {
    PlanMaker m;
    const uint32_t zero = m.constant(0), three = m.constant(3), four = m.constant(4), n = m.dim(0, 0);
    const uint32_t elements = m.op(fbp::SymbolOp_Mul, n, three), size = m.op(fbp::SymbolOp_Mul, elements, four);
    const uint32_t positive = m.op(fbp::SymbolOp_Lt, zero, n);
    m.checks.push_back({positive, positive + 1, "the batch is empty"});
    const uint32_t x = m.buffer(fbp::BufferKind_Input, DType::F32, 0, size);
    const uint32_t y = m.buffer(fbp::BufferKind_Output, DType::F32, 0, size);
    const uint32_t t = m.buffer(fbp::BufferKind_Arena, DType::F32, 0, size, zero);
    m.arena_bytes = size;
    m.inputs = {{"x", DType::F32, x, {n, three}}};
    m.outputs = {{"y", DType::F32, y, {n, three}}};
    m.body.push_back({fbp::InstrOp_Launch, 0, {x, t}, {elements}, n});
    m.body.push_back({fbp::InstrOp_Launch, 1, {t, y}, {elements}, n});
    return m;
  }
};

}  // namespace mlc::test
