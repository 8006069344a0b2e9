#include <doctest/doctest.h>

#include <functional>
#include <random>

#include "schema/plan/plan.h"
#include "tests/support/containers/plan_maker.h"

using namespace mlc;
using namespace mlc::exec;
using mlc::test::PlanMaker;
namespace fbp = mlc::fb::plan;

namespace {

PlanContext context() {
  return {2, [](uint32_t tensor, uint32_t copy) {
            return tensor == 0 && copy == 0 ? std::optional<uint64_t>(64) : std::nullopt;
          }};
}

std::string refusal(const std::function<void(PlanMaker&)>& change) {
  PlanMaker m = PlanMaker::two_steps();
  change(m);
  auto plan = decode_plan(m.bytes(), context());
  return plan ? std::string() : plan.status().message;
}

}  // namespace

TEST_CASE("the numbers of the schema and of the decoded plan are the same") {
  CHECK(static_cast<int>(fbp::SymbolOp_MAX) == kLastSymbolOp);
  CHECK(static_cast<int>(fbp::BufferKind_MAX) == kLastBufferKind);
  CHECK(static_cast<int>(fbp::InstrOp_MAX) == kLastInstrOp);
  CHECK(static_cast<int>(fbp::StepOp_MAX) == kLastStepOp);
  CHECK(static_cast<int>(fbp::CaseChange_MAX) == kLastCaseChange);
  CHECK(static_cast<int>(fbp::SymbolOp_Select) == static_cast<int>(SymbolOp::Select));
  CHECK(static_cast<int>(fbp::SymbolOp_FTrunc) == static_cast<int>(SymbolOp::FTrunc));
  CHECK(static_cast<int>(fbp::BufferKind_Arena) == static_cast<int>(BufferKind::Arena));
}

TEST_CASE("a good plan decodes to what was written") {
  const auto plan = decode_plan(PlanMaker::two_steps().bytes(), context()).value();
  CHECK(plan.find("main") == 0u);
  CHECK(!plan.find("mai"));
  const Function& f = plan.functions[0];
  CHECK(f.inputs[0].name == "x");
  CHECK(f.body.size() == 2);
  CHECK(f.body[1].kernel == 1);
  CHECK(f.checks[0].message == "the batch is empty");
}

TEST_CASE("each rule of a plan is enforced") {
  CHECK(refusal([](PlanMaker&) {}).empty());
  const auto says = [&](const char* text, const std::function<void(PlanMaker&)>& change) {
    const std::string r = refusal(change);
    CHECK_MESSAGE(r.find(text) != std::string::npos, r, " should say ", std::string(text));
  };
  using M = PlanMaker;
  says("format 2", [](M& m) { m.format = 2; });
  says("newer", [](M& m) { m.abi = MLRUN_MODULE_ABI + 1; });
  says("newer", [](M& m) { m.abi = 0; });
  says("name of a function", [](M& m) { m.name.clear(); });
  says("name of a function", [](M& m) { m.name.assign(1100, 'x'); });
  says("nothing writes", [](M& m) { m.extra_symbols = 1; });
  says("nothing writes", [](M& m) { m.extra_symbols = -1; });
  says("operation", [](M& m) { m.symbols[4] = {fbp::SymbolOp(0), 4, 3, 1, 0, 0}; });
  says("operation", [](M& m) { m.symbols[4] = {fbp::SymbolOp(99), 4, 3, 1, 0, 0}; });
  says("destination", [](M& m) { m.symbols[4] = {fbp::SymbolOp_Mul, 3, 3, 1, 0, 0}; });
  says("destination", [](M& m) { m.symbols[4] = {fbp::SymbolOp_Mul, 4000000000u, 3, 1, 0, 0}; });
  says("before it is written", [](M& m) { m.symbols[4] = {fbp::SymbolOp_Mul, 4, 3, 5, 0, 0}; });
  says("before it is written", [](M& m) { m.symbols[4] = {fbp::SymbolOp_Mul, 4, 3, 4, 0, 0}; });
  says("before it is written", [](M& m) { m.symbols[4] = {fbp::SymbolOp_Mul, 4, 3, ~0u, 0, 0}; });
  says("no such input axis", [](M& m) { m.symbols[3] = {fbp::SymbolOp_InputDim, 3, 1, 0, 0, 0}; });
  says("no such input axis", [](M& m) { m.symbols[3] = {fbp::SymbolOp_InputDim, 3, 0, 2, 0, 0}; });
  says("types", [](M& m) { m.op(fbp::SymbolOp_FAdd, 0, 0); });
  says("types", [](M& m) { m.op(fbp::SymbolOp_Add, m.op(fbp::SymbolOp_FConst), 0); });
  says("types", [](M& m) { m.op(fbp::SymbolOp_Select, 0, m.op(fbp::SymbolOp_FConst), 0); });
  says("check 0", [](M& m) { m.checks[0].condition = 99; });
  says("check 0", [](M& m) { m.checks[0].after = 99; });
  says("check 0", [](M& m) { m.checks[0].after = m.checks[0].condition; });
  says("check 0", [](M& m) { m.checks[0].message.assign(5000, 'x'); });
  says("buffer 0: kind", [](M& m) { m.buffers[0].kind = fbp::BufferKind(0); });
  says("buffer 0: kind", [](M& m) { m.buffers[0].kind = fbp::BufferKind(77); });
  says("element type", [](M& m) { m.buffers[0].dtype = DType(0); });
  says("element type", [](M& m) { m.buffers[0].dtype = DType::Str; });
  says("element type", [](M& m) { m.buffers[0].dtype = DType(static_cast<uint8_t>(kLastDType) + 1); });
  says("length is not", [](M& m) { m.buffers[0].bytes = 1000; });
  says("length is not", [](M& m) { m.buffers[0].bytes = m.op(fbp::SymbolOp_FConst); });
  says("no such input", [](M& m) { m.buffers[0].index = 1; });
  says("no such output", [](M& m) { m.buffers[1].index = 7; });
  says("no such tensor", [](M& m) { m.buffers.push_back({fbp::BufferKind_Constant, DType::F32, 1, 0, 0, 0}); });
  says("no such tensor", [](M& m) { m.buffers.push_back({fbp::BufferKind_Constant, DType::F32, 0, 1, 0, 0}); });
  says("offset is not", [](M& m) { m.buffers[2].offset = 1000; });
  says("no such output", [](M& m) { m.buffers.push_back({fbp::BufferKind_OutputPart, DType::F32, 1, 0, 0, 0}); });
  says("offset is not", [](M& m) { m.buffers.push_back({fbp::BufferKind_OutputPart, DType::F32, 0, 0, 0, 1000}); });
  says("another one", [](M& m) { m.buffers[1].kind = fbp::BufferKind_OutputPart; });
  says("no such state", [](M& m) { m.buffers.push_back({fbp::BufferKind_State, DType::F32, ~0u, 0, 0, 0}); });
  says("size of the arena", [](M& m) { m.arena_bytes = 1000; });
  says("input 0: no such buffer", [](M& m) { m.inputs[0].buffer = 9; });
  says("another one", [](M& m) { m.inputs[0].buffer = 1; });
  says("another one", [](M& m) { m.inputs[0].dtype = DType::I32; });
  says("another one", [](M& m) { m.outputs[0].buffer = 2; });
  says("extent is not", [](M& m) { m.inputs[0].shape[0] = 1000; });
  says("too many axes", [](M& m) { m.inputs[0].shape.assign(9, 0); });
  says("its name is none", [](M& m) { m.outputs[0].name.assign(1100, 'y'); });
  for (int op : {0, 3, 4, 255}) says("instruction 0: operation", [op](M& m) { m.body[0] = {fbp::InstrOp(op), 0, {1}}; });  // 3 was one
  says("instruction 1: work, scratch, steps or a figure is not", [](M& m) { m.body[1].work = 1000; });
  says("instruction 1: work, scratch", [](M& m) { m.body[1].scratch = 1000; });
  says("instruction 1: waits for an instruction that comes later", [](M& m) { m.body[1].after = 2; });
  says("instruction 0: waits for an instruction that comes later", [](M& m) { m.body[0].after = UINT32_MAX - 1; });
  says("instruction 1: work, scratch", [](M& m) { m.body[1].operations = 1000; });
  says("instruction 1: work, scratch", [](M& m) { m.body[1].read = 1000; });
  says("instruction 0: work, scratch", [](M& m) { m.body[0].written = 1000; });
  says("instruction 0: work, scratch", [](M& m) { m.body[0].steps = 1000; });
  says("no scalar of its own", [](M& m) { m.body[0].cuts = {{3, 1, 0}}; });
  says("no scalar of its own", [](M& m) { m.body[0].cuts = {{3, 0, 0}, {3, 0, 0}}; });
  says("size of a cut", [](M& m) { m.body[0].cuts = {{1000, 0, 0}}; });
  says("size of a cut", [](M& m) { m.body[0].cuts = {{3, 0, 1000}}; });
  says("turns beside cuts", [](M& m) { m.body[0].cuts = {{3, 0, 0}}, m.body[0].turns = {3, 0, 3, 0}; });
  says("no scalar of its own for turns", [](M& m) { m.body[0].turns = {3, 0, 3, 0}; });
  says("no scalar of its own for turns", [](M& m) { m.body[0].turns = {3, 0, 3, 1}; });
  says("number of turns or parts", [](M& m) { m.body[0].scalars = {3, 3}, m.body[0].turns = {1000, 0, 3, 1}; });
  says("number of turns or parts", [](M& m) { m.body[0].scalars = {3, 3}, m.body[0].turns = {3, 0, 1000, 1}; });
  says("too many cuts", [](M& m) {
    m.body[0].scalars.assign(4, 3);
    m.body[0].cuts = {{3, 0, 0}, {3, 1, 0}, {3, 2, 0}, {3, 3, 0}};
  });
  says("no such kernel", [](M& m) { m.body[0].index = 2; });
  says("instruction 0: no such buffer", [](M& m) { m.body[0].buffers[1] = 3; });
  says("scalar is not", [](M& m) { m.body[0].scalars[0] = 1000; });
  says("tile count", [](M& m) { m.body[0].tiles = 1000; });
  says("too many operands", [](M& m) { m.body[0].buffers.assign(5000, 0); });
  says("operands", [](M& m) { m.body[0] = {fbp::InstrOp_Copy, 0, {0, 2}, {}, 0}; });  // into an input
  says("operands", [](M& m) { m.body[0] = {fbp::InstrOp_Copy, 0, {2}, {}, 0}; });
}

TEST_CASE("truncated anywhere and with any byte changed a plan is refused or stays within its bounds") {
  const auto good = PlanMaker::two_steps().bytes();
  for (size_t n = 0; n < good.size(); ++n)
    (void)decode_plan(Bytes(good).first(n), context());
  int refused = 0;
  for (size_t at = 0; at < good.size(); ++at)
    for (unsigned v : {0u, 1u, 0x7fu, 0x80u, 0xffu}) {
      auto changed = good;
      changed[at] = std::byte(v);
      if (!decode_plan(changed, context())) ++refused;
    }
  CHECK(refused > 100);
  std::mt19937_64 random(7);
  for (int round = 0; round < 20000; ++round) {
    auto changed = good;
    for (uint64_t k = 1 + random() % 6; k > 0; --k) changed[random() % changed.size()] = std::byte(random());
    (void)decode_plan(changed, context());
  }
}
