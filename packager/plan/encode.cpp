#include "packager/plan/encode.h"

#include "schema/generated/plan_generated.h"
#include "schema/module_abi.h"

namespace mlc::plan {
namespace {

namespace fbp = fb::plan;
namespace fbs = flatbuffers;

constexpr uint32_t kPlanFormat = 1;

class Encoder {
 public:
  std::vector<std::byte> run(const exec::Plan& plan) {
    std::vector<fbs::Offset<fbp::Function>> functions;
    for (const exec::Function& f : plan.functions) functions.push_back(function(f));
    // What an object refers to is written in statements of its own: compilers evaluate arguments in any order, and the bytes would differ.
    const auto derived = plan.derived.empty() ? 0 : out_.CreateVector(plan.derived);
    const auto all = out_.CreateVector(functions);
    fbp::FinishPlanBuffer(out_, fbp::CreatePlan(out_, kPlanFormat, MLRUN_MODULE_ABI, all, derived, plan.derive));
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
    const auto inputs = ports(f.inputs);
    const auto outputs = ports(f.outputs);
    std::vector<fbs::Offset<fbp::Buffer>> buffers;
    for (const exec::Buffer& b : f.buffers)
      buffers.push_back(fbp::CreateBuffer(out_, static_cast<fbp::BufferKind>(b.kind), static_cast<uint8_t>(b.dtype), b.index,
                                          b.copy, b.bytes, b.offset));
    std::vector<fbs::Offset<fbp::Instr>> body;
    for (const exec::Instr& i : f.body) {
      std::vector<fbs::Offset<fbp::Cut>> cuts;
      for (const exec::Cut& cut : i.cuts) cuts.push_back(fbp::CreateCut(out_, cut.units, cut.scalar, cut.bytes));
      const auto name = out_.CreateString(i.name);
      const auto written_cuts = out_.CreateVector(cuts);
      const auto scalars = out_.CreateVector(i.scalars);
      const auto operands = out_.CreateVector(i.buffers);
      const auto turns = i.turns ? fbp::CreateTurns(out_, i.turns->turns, i.turns->scalar, i.turns->parts, i.turns->part_scalar) : 0;
      body.push_back(fbp::CreateInstr(out_, static_cast<fbp::InstrOp>(i.op), i.kernel, operands, scalars, i.tiles, written_cuts, i.work, i.after,
                                      name, i.scratch, i.operations, i.read, i.written, i.of_bytes, i.steps, turns));
    }
    const auto written_steps = out_.CreateVector(steps(f));
    const auto instructions = out_.CreateVector(body);
    const auto written_buffers = out_.CreateVector(buffers);
    const auto written_checks = out_.CreateVector(checks);
    const auto symbols = out_.CreateVectorOfStructs(shape);
    const auto name = out_.CreateString(f.name);
    return fbp::CreateFunction(out_, name, f.num_symbols, symbols, written_checks, inputs, outputs, written_buffers, f.arena_bytes, instructions,
                               f.num_values, written_steps);
  }

  std::vector<fbs::Offset<fbp::Step>> steps(const exec::Function& f) {
    std::vector<fbs::Offset<fbp::Step>> written;
    for (const exec::Step& s : f.steps) {
      const bool is_host = s.op == StepOp::Host;
      const fbs::Offset<fbs::Vector<int64_t>> results = is_host ? out_.CreateVector(s.results) : 0;
      const fbs::Offset<fbs::String> options = is_host ? out_.CreateString(s.options) : 0;
      const fbs::Offset<fbs::String> service = is_host ? out_.CreateString(s.service) : 0;
      const auto name = out_.CreateString(s.name);
      const auto outputs = out_.CreateVector(s.outputs);
      const auto inputs = out_.CreateVector(s.inputs);
      const auto functions = out_.CreateVector(s.functions);
      written.push_back(fbp::CreateStep(out_, static_cast<fbp::StepOp>(s.op), functions, inputs, outputs, s.carried, s.axis, s.new_axis, name,
                                        static_cast<uint8_t>(s.dtype), s.list_depth, service, options, results, s.drop_axis, s.max_cuts,
                                        s.min_letters, s.between, static_cast<fbp::CaseChange>(s.case_change), s.match_case, s.integers));
    }
    return written;
  }

  fbs::Offset<fbs::Vector<fbs::Offset<fbp::Port>>> ports(const std::vector<exec::Port>& list) {
    std::vector<fbs::Offset<fbp::Port>> written;
    for (const exec::Port& p : list) {
      const auto shape = out_.CreateVector(p.shape);
      const auto name = out_.CreateString(p.name);
      written.push_back(fbp::CreatePort(out_, name, static_cast<uint8_t>(p.dtype), p.buffer, shape, p.list_depth, p.value, p.rank));
    }
    return out_.CreateVector(written);
  }

  fbs::FlatBufferBuilder out_;
};

}  // namespace

std::vector<std::byte> encode(const exec::Plan& plan) { return Encoder().run(plan); }

}  // namespace mlc::plan
