// Plans that say anything: damaged bytes, damaged values, parts that share bytes, structs out of alignment. Each is
// refused, or binds and runs within the memory of its buffers.
#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "tests/support/containers/any_plan.h"
#include "tests/support/containers/plan_maker.h"
#include "tests/support/source_path.h"

using namespace mlc;
using namespace mlc::exec;
using mlc::test::PlanMaker;
namespace fbp = mlc::fb::plan;

namespace {

std::unique_ptr<WorkerPool> pool_of(unsigned workers) {
  PoolOptions o;
  o.workers = workers;
  return WorkerPool::create(o).value();
}

// A plan that uses every kind of buffer, instruction and share.
PlanMaker everything() {
  PlanMaker m = PlanMaker::two_steps();
  const uint32_t hundred = m.constant(100), half = m.op(fbp::SymbolOp_FloorDiv, hundred, m.constant(2));
  const uint32_t real = m.op(fbp::SymbolOp_FSqrt, m.op(fbp::SymbolOp_ToDouble, half));
  const uint32_t root = m.op(fbp::SymbolOp_FCeil, real), zero = m.constant(0);
  m.arena_bytes = m.op(fbp::SymbolOp_Add, m.op(fbp::SymbolOp_Mul, hundred, hundred), m.arena_bytes);
  const uint32_t weights = m.buffer(fbp::BufferKind_Constant, DType::F32, 1, hundred);
  const uint32_t state = m.buffer(fbp::BufferKind_State, DType::F32, 2, hundred);
  const uint32_t work = m.buffer(fbp::BufferKind_Arena, DType::F32, 0, hundred, m.constant(6400));
  m.body.push_back({fbp::InstrOp_Copy, 0, {work, weights}, {}, 0});
  m.body.push_back({fbp::InstrOp_Launch, 2, {state, work}, {root, half}, root, {{hundred, 1, half}, {root, 0, zero}}, half, false});
  m.body.push_back({fbp::InstrOp_Launch, 3, {work, state, 0}, {}, zero});
  m.body.push_back({fbp::InstrOp_Launch, 2, {state, work}, {root, half}, root, {}, hundred});
  m.body.back().turns = {hundred, 1, half, 0};
  m.body.push_back({fbp::InstrOp_Copy, 0, {work, state}, {}, 0});
  return m;
}

const int64_t kNumbers[] = {0,  1,  2,   3,          7,          63,        64,        65,      4096,    -1,
                            -2, 64 << 20, INT32_MAX, INT64_MAX, INT64_MIN, int64_t{1} << 31, int64_t{1} << 62, 0x7fffffffffffffc0};

}  // namespace

TEST_CASE("the plan that the mutations start from runs, with one worker and with three") {
  for (unsigned workers : {1u, 3u}) {
    const auto outcome = test::run_any_plan(everything().bytes(), *pool_of(workers));
    CHECK(outcome.decoded);
    CHECK(outcome.successes >= 2);  // batches of 1 and 7; an empty one fails the plan's own check
  }
}

TEST_CASE("plans with any values anywhere are refused or run within their buffers") {
  const auto pool = pool_of(2);
  std::mt19937_64 random(11);
  const auto number = [&] { return kNumbers[random() % std::size(kNumbers)]; };
  int decoded = 0, runs = 0, successes = 0;
  for (int round = 0; round < 4000; ++round) {
    PlanMaker m = everything();
    for (uint64_t k = 1 + random() % 3; k > 0; --k) {
      const auto any = [&](size_t n) { return static_cast<uint32_t>(random() % n); };
      const auto symbol = [&] { return any(m.symbols.size()); };
      switch (random() % 14) {
        case 0: case 1: case 2: case 3: case 4: {
          fbp::SymbolInstr& s = m.symbols[symbol()];
          const auto what = random() % 4;
          s = {what == 0 ? fbp::SymbolOp(random() % (fbp::SymbolOp_MAX + 1)) : s.op(), s.dst(),
               what == 1 ? symbol() : s.a(), what == 2 ? symbol() : s.b(), s.c(), what == 3 ? number() : s.imm()};
          break;
        }
        case 5: m.buffers[any(m.buffers.size())].bytes = symbol(); break;
        case 6: m.buffers[any(m.buffers.size())].offset = symbol(); break;
        case 7: m.buffers[any(m.buffers.size())].kind = fbp::BufferKind(1 + random() % fbp::BufferKind_MAX); break;
        case 8: m.arena_bytes = symbol(); break;
        case 9: {
          auto& i = m.body[any(m.body.size())];
          if (!i.buffers.empty()) i.buffers[any(i.buffers.size())] = any(m.buffers.size());
          break;
        }
        case 10: m.body[any(m.body.size())].tiles = symbol(); break;
        case 11: (any(2) ? m.body[any(m.body.size())].work : m.body[any(m.body.size())].scratch) = symbol(); m.body[any(m.body.size())].read = symbol(); break;
        case 12: {
          if (any(3) == 0) m.body[5].turns = {symbol(), any(3), symbol(), any(3)};
          auto& cuts = m.body[3].cuts;
          cuts[any(2)] = {symbol(), any(3), symbol()};
          break;
        }
        default: {
          auto& port = random() % 2 ? m.inputs[0] : m.outputs[0];
          port.shape[any(port.shape.size())] = symbol();
        }
      }
    }
    const auto outcome = test::run_any_plan(m.bytes(), *pool, round % 2 ? test::kAnyMemory : test::kTightMemory);
    decoded += outcome.decoded, runs += outcome.runs, successes += outcome.successes;
  }
  CHECK(decoded > 1000);  // the loop reaches what it is for
  CHECK(runs > successes);
  CHECK(successes > 500);
}

TEST_CASE("plans with any bytes anywhere are refused or run within their buffers") {
  std::ifstream in(mlc::testing::source_path("tests/fuzz/corpus/plan/program.plan"), std::ios::binary);
  const std::string program((std::istreambuf_iterator<char>(in)), {});
  const auto bytes = std::as_bytes(std::span(program));
  for (const auto& good : {everything().bytes(), std::vector<std::byte>(bytes.begin(), bytes.end())}) {
    const auto pool = pool_of(1);
    std::mt19937_64 random(13);
    int decoded = 0;
    for (int round = 0; round < 20000; ++round) {
      auto changed = good;
      for (uint64_t k = 1 + random() % 3; k > 0; --k) {
        if (random() % 2) {
          changed[random() % changed.size()] = std::byte(random());
        } else {
          const int64_t value = kNumbers[random() % std::size(kNumbers)];
          const size_t width = random() % 2 ? 4 : 8;
          std::memcpy(changed.data() + random() % (changed.size() - width), &value, width);
        }
      }
      decoded += test::run_any_plan(changed, *pool, round % 2 ? test::kAnyMemory : test::kTightMemory).decoded;
    }
    CHECK(decoded > 1000);
  }
}

TEST_CASE("a plan at an odd address reads like any other") {
  const auto good = everything().bytes();
  for (size_t shift = 0; shift < 8; ++shift) {
    std::vector<std::byte> moved(good.size() + shift);
    std::memcpy(moved.data() + shift, good.data(), good.size());
    CHECK(decode_plan(Bytes(moved).subspan(shift), {test::kAnyKernels, test::any_tensor_bytes}).ok());
  }
}

TEST_CASE("symbol instructions out of alignment are read all the same") {
  // The vector's length may lie at any multiple of four: move it and what follows by four bytes.
  PlanMaker m;
  m.constant(41);
  const auto good = m.bytes();
  flatbuffers::FlatBufferBuilder b;
  const auto name = b.CreateString("main");
  b.ForceVectorAlignment(1, sizeof(fbp::SymbolInstr), 8);
  b.PushElement(uint32_t{0});  // now the end of the structs is 4 modulo 8
  b.TrackMinAlign(8);
  const fbp::SymbolInstr instr(fbp::SymbolOp_Const, 0, 0, 0, 0, 41);
  b.PushBytes(reinterpret_cast<const uint8_t*>(&instr), sizeof instr);
  b.PushElement(uint32_t{1});
  const flatbuffers::Offset<flatbuffers::Vector<const fbp::SymbolInstr*>> symbols(b.GetSize());
  const auto f = fbp::CreateFunction(b, name, 1, symbols);
  fbp::FinishPlanBuffer(b, fbp::CreatePlan(b, 1, MLRUN_MODULE_ABI, b.CreateVector(std::vector{f})));
  const auto* found = fbp::GetPlan(b.GetBufferPointer())->functions()->Get(0)->shape();
  const auto address = reinterpret_cast<uintptr_t>(found->Data());
  CHECK(address % 8 == 4);  // or this test shows nothing
  const auto plan = decode_plan(std::as_bytes(std::span(b.GetBufferPointer(), b.GetSize())), {});
  REQUIRE(plan.ok());
  CHECK(plan->functions[0].shape[0].imm == 41);
}

TEST_CASE("parts that share bytes do not expand") {
  // Many launches naming one list of operands, many functions naming one list of symbols.
  const auto refused = [](bool share_operands) {
    flatbuffers::FlatBufferBuilder b;
    std::vector<flatbuffers::Offset<fbp::Instr>> body;
    std::vector<fbp::SymbolInstr> instrs;
    for (uint32_t i = 0; i < 4000; ++i) instrs.emplace_back(fbp::SymbolOp_Const, i, 0, 0, 0, 0);
    const auto symbols = b.CreateVectorOfStructs(instrs);
    if (share_operands) {
      const auto scalars = b.CreateVector(std::vector<uint32_t>(4000, 0));
      for (int i = 0; i < 4000; ++i) body.push_back(fbp::CreateInstr(b, fbp::InstrOp_Launch, 0, 0, scalars));
    }
    const auto launches = b.CreateVector(body);
    std::vector<flatbuffers::Offset<fbp::Function>> functions;
    for (int i = 0; i < (share_operands ? 1 : 200); ++i)
      functions.push_back(fbp::CreateFunction(b, b.CreateString("f" + std::to_string(100 + i)), 4000, symbols, 0, 0, 0,
                                              0, 0, launches));
    fbp::FinishPlanBuffer(b, fbp::CreatePlan(b, 1, MLRUN_MODULE_ABI, b.CreateVector(functions)));
    const auto plan = decode_plan(std::as_bytes(std::span(b.GetBufferPointer(), b.GetSize())), {1, {}});
    return plan.ok() ? std::string() : plan.status().message;
  };
  CHECK(refused(true).find("share bytes") != std::string::npos);
  CHECK(refused(false).find("share bytes") != std::string::npos);
}

TEST_CASE("steps are charged more than the entries that name them") {
  // 20,000 steps that are one table, in a file with so many bytes to spare: memory for steps is what would grow.
  const auto decoded = [](size_t spare) {
    flatbuffers::FlatBufferBuilder b;
    b.CreateString(std::string(spare, 'x'));
    const auto name = b.CreateString("main");
    const auto values = b.CreateVector(std::vector<uint32_t>{0});
    const auto step = fbp::CreateStep(b, fbp::StepOp_ListMake, 0, 0, values);
    const auto steps = b.CreateVector(std::vector(20'000, step));
    const auto f = fbp::CreateFunction(b, name, 0, 0, 0, 0, 0, 0, 0, 0, 1, steps);
    fbp::FinishPlanBuffer(b, fbp::CreatePlan(b, 1, MLRUN_MODULE_ABI, b.CreateVector(std::vector{f})));
    const auto plan = decode_plan(std::as_bytes(std::span(b.GetBufferPointer(), b.GetSize())), {1, {}});
    return plan.ok() ? std::string() : plan.status().message;
  };
  CHECK(decoded(20'000 * 12).find("share bytes") != std::string::npos);
  CHECK(decoded(20'000 * 17).find("operands are not what it takes") != std::string::npos);
}

TEST_CASE("a change of case that there is not is refused") {
  const auto refusal = [](uint8_t change) {
    flatbuffers::FlatBufferBuilder b;
    const auto name = b.CreateString("main");
    const auto outputs = b.CreateVector(std::vector<uint32_t>{0});
    fbp::StepBuilder step(b);
    step.add_outputs(outputs);
    step.add_op(fbp::StepOp_StringNormalize);
    step.add_case_change(static_cast<fbp::CaseChange>(change));
    const auto steps = b.CreateVector(std::vector{step.Finish()});
    const auto f = fbp::CreateFunction(b, name, 0, 0, 0, 0, 0, 0, 0, 0, 1, steps);
    fbp::FinishPlanBuffer(b, fbp::CreatePlan(b, 1, MLRUN_MODULE_ABI, b.CreateVector(std::vector{f})));
    return decode_plan(std::as_bytes(std::span(b.GetBufferPointer(), b.GetSize())), {1, {}}).status().message;
  };
  CHECK(refusal(2).find("number of operands") != std::string::npos);
  CHECK(refusal(3).find("change of case") != std::string::npos);
}

TEST_CASE("names: no two ports of one name, nothing that a terminal would obey") {
  const auto refusal = [](const std::function<void(PlanMaker&)>& change) {
    PlanMaker m = everything();
    change(m);
    auto plan = decode_plan(m.bytes(), {test::kAnyKernels, test::any_tensor_bytes});
    return plan ? std::string() : plan.status().message;
  };
  CHECK(refusal([](PlanMaker&) {}).empty());
  CHECK(refusal([](PlanMaker& m) { m.inputs.push_back(m.inputs[0]); }).find("there twice") != std::string::npos);
  CHECK(refusal([](PlanMaker& m) { m.inputs[0].name = "a\x1b[2J"; }).find("name") != std::string::npos);
  CHECK(refusal([](PlanMaker& m) { m.inputs[0].name.clear(); }).find("name") != std::string::npos);
  CHECK(refusal([](PlanMaker& m) { m.name = "ma\nin"; }).find("name") != std::string::npos);
  PlanMaker m = everything();
  m.body[0].name = "conv\x1b[2J";
  m.checks[0].message = "no\rbatch";
  const auto plan = decode_plan(m.bytes(), {test::kAnyKernels, test::any_tensor_bytes}).value();
  CHECK(plan.functions[0].body[0].name == "\"conv\\x1b[2J\"");
  CHECK(plan.functions[0].checks[0].message == "\"no\\x0dbatch\"");
}

TEST_CASE("all memory of an executor together is limited, not each block") {
  PlanMaker m;
  const uint32_t bytes = m.constant(700'000), zero = m.constant(0);
  m.arena_bytes = zero;
  for (uint32_t s = 0; s < 3; ++s) {
    const uint32_t state = m.buffer(fbp::BufferKind_State, DType::U8, s, bytes);
    m.body.push_back({fbp::InstrOp_Copy, 0, {state, state}, {}, 0});
  }
  const auto plan = decode_plan(m.bytes(), {}).value();
  const auto pool = pool_of(1);
  test::AnyModule module;
  test::AnyConstants constants;
  const auto run = [&](uint64_t limit) {
    auto executor = Executor::create(plan, module, constants, *pool, {.max_memory_bytes = limit});
    return (*executor)->run(0, {}, {}).code;
  };
  CHECK(run(2'104'000) == Code::Ok);  // a few bytes are what the executor writes down about the shapes
  CHECK(run(2'099'999) == Code::Resource);
  CHECK(run(0) == Code::Resource);
}

TEST_CASE("a copy between ranges that lie across each other is refused") {
  const auto run = [](int64_t offset) {
    PlanMaker m;
    const uint32_t bytes = m.constant(256), zero = m.constant(0), at = m.constant(offset);
    m.arena_bytes = m.constant(1024);
    const uint32_t a = m.buffer(fbp::BufferKind_Arena, DType::U8, 0, bytes, zero);
    const uint32_t b = m.buffer(fbp::BufferKind_Arena, DType::U8, 0, bytes, at);
    m.body.push_back({fbp::InstrOp_Copy, 0, {a, b}, {}, 0});
    const auto plan = decode_plan(m.bytes(), {}).value();
    const auto pool = pool_of(2);
    test::AnyModule module;
    test::AnyConstants constants;
    return (*Executor::create(plan, module, constants, *pool, {}))->run(0, {}, {}).message;
  };
  CHECK(run(256).empty());
  CHECK(run(0).empty());
  CHECK(run(64).find("overlap") != std::string::npos);
  CHECK(run(192).find("overlap") != std::string::npos);
}

TEST_CASE("the seeds of the plan fuzzer are plans that run") {
  const auto pool = pool_of(1);
  int seeds = 0;
  for (const auto& file : std::filesystem::directory_iterator(mlc::testing::source_path("tests/fuzz/corpus/plan"))) {
    std::ifstream in(file.path(), std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), {});
    const auto outcome = test::run_any_plan(std::as_bytes(std::span(bytes)), *pool);
    CHECK_MESSAGE(outcome.successes > 0, file.path().string());
    ++seeds;
  }
  CHECK(seeds >= 4);
}
