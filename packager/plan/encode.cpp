#include "packager/plan/print.h"
#include "schema/generated/plan_generated.h"
#include "schema/module_abi.h"

namespace mlc::plan {
namespace {

namespace fbp = fb::plan;
namespace fbs = flatbuffers;

class Encoder {
 public:
  std::vector<std::byte> run(const exec::Plan& plan) {
    std::vector<fbs::Offset<fbp::Function>> functions;
    for (const exec::Function& f : plan.functions) functions.push_back(function(f));
    fbp::FinishPlanBuffer(out_, fbp::CreatePlan(out_, 1, MLRUN_MODULE_ABI, out_.CreateVector(functions), plan.derived.empty() ? 0 : out_.CreateVector(plan.derived), plan.derive));
    const auto* bytes = reinterpret_cast<const std::byte*>(out_.GetBufferPointer());
    return {bytes, bytes + out_.GetSize()};
  }

 private:
  fbs::Offset<fbp::Function> function(const exec::Function& f) {
    std::vector<fbp::SymbolInstr> shape;
    for (const exec::SymbolInstr& i : f.shape)
      shape.emplace_back(static_cast<fbp::SymbolOp>(i.op), i.dst, i.a, i.b, i.c, i.imm);
    std::vector<fbs::Offset<fbp::Check>> checks;
    for (const exec::Check& c : f.checks)
      checks.push_back(fbp::CreateCheck(out_, c.condition, c.after, out_.CreateString(c.message)));
    const auto inputs = ports(f.inputs), outputs = ports(f.outputs);
    std::vector<fbs::Offset<fbp::Buffer>> buffers;
    for (const exec::Buffer& b : f.buffers)
      buffers.push_back(fbp::CreateBuffer(out_, static_cast<fbp::BufferKind>(b.kind), static_cast<uint8_t>(b.dtype), b.index,
                                          b.copy, b.bytes, b.offset));
    std::vector<fbs::Offset<fbp::Instr>> body;
    for (const exec::Instr& i : f.body) {
      std::vector<fbs::Offset<fbp::Cut>> cuts;
      for (const exec::Cut& cut : i.cuts) cuts.push_back(fbp::CreateCut(out_, cut.units, cut.scalar, cut.bytes));
      body.push_back(fbp::CreateInstr(out_, static_cast<fbp::InstrOp>(i.op), i.kernel, out_.CreateVector(i.buffers),
                                      out_.CreateVector(i.scalars), i.tiles, out_.CreateVector(cuts), i.work, i.after,
                                      i.fill, out_.CreateString(i.name), i.scratch, i.operations, i.read, i.written, i.of_bytes, i.steps));
    }
    return fbp::CreateFunction(out_, out_.CreateString(f.name), f.num_symbols, out_.CreateVectorOfStructs(shape),
                               out_.CreateVector(checks), inputs, outputs, out_.CreateVector(buffers), f.arena_bytes,
                               out_.CreateVector(body), f.num_values, out_.CreateVector(steps(f)));
  }

  std::vector<fbs::Offset<fbp::Step>> steps(const exec::Function& f) {
    std::vector<fbs::Offset<fbp::Step>> written;
    for (const exec::Step& s : f.steps)
      written.push_back(fbp::CreateStep(out_, static_cast<fbp::StepOp>(s.op), out_.CreateVector(s.functions),
                                        out_.CreateVector(s.inputs), out_.CreateVector(s.outputs), s.carried, s.axis,
                                        s.new_axis, out_.CreateString(s.name), static_cast<uint8_t>(s.dtype),
                                        s.list_depth, out_.CreateString(s.service), out_.CreateString(s.options),
                                        out_.CreateVector(s.results), s.drop_axis, s.max_cuts, s.min_letters, s.between,
                                        static_cast<fbp::CaseChange>(s.case_change), s.match_case, s.integers));
    return written;
  }

  fbs::Offset<fbs::Vector<fbs::Offset<fbp::Port>>> ports(const std::vector<exec::Port>& list) {
    std::vector<fbs::Offset<fbp::Port>> written;
    for (const exec::Port& p : list)
      written.push_back(fbp::CreatePort(out_, out_.CreateString(p.name), static_cast<uint8_t>(p.dtype), p.buffer,
                                        out_.CreateVector(p.shape), p.list_depth, p.value, p.rank));
    return out_.CreateVector(written);
  }

  fbs::FlatBufferBuilder out_;
};

}  // namespace

std::vector<std::byte> encode(const exec::Plan& plan) { return Encoder().run(plan); }

}  // namespace mlc::plan
