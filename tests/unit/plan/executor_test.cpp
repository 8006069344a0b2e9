#include "runtime/plan/execute/executor.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "tests/support/containers/any_plan.h"
#include "tests/support/containers/plan_maker.h"
#include "tests/support/source_path.h"

using namespace mlc;
using namespace mlc::exec;
using mlc::test::PlanMaker;
namespace fbp = mlc::fb::plan;

extern std::atomic<uint64_t> allocations;  // of the whole process, see allocations_test.cpp

namespace {

// Kernel 0: y = x + 1. Kernel 1: y = 2 x. A tile is three floats. Kernel 2 faults on tile `bad_tile`.
struct FakeModule final : KernelModule {
  uint32_t kernels = 3, bad_tile = 1;
  int32_t fault = MLRUN_FAULT_INDEX;
  mutable std::atomic<uint64_t> tiles_run{0};
  bool refuse_read_only = false;
  uint64_t symbolic_scratch = 0;  // that kernel 0 writes behind its own
  uint32_t num_kernels() const override { return kernels; }
  uint64_t scratch_bytes(uint32_t k) const override { return k == 0 ? 256 : 0; }
  Status accepts(uint32_t, const LaunchForm& form) const override {
    if (form.writable.size() != 2 || form.num_scalars != 1) return Status(Code::Malformed, "form");
    if (!form.writable[1]) return Status(Code::Malformed, "stores to a read-only buffer");
    return ok();
  }
  int32_t run(uint32_t k, const MlrunLaunch& l, uint32_t begin, uint32_t end, WorkMeter&) const override {
    tiles_run += end - begin;
    if (k == 0) std::memset(static_cast<std::byte*>(l.scratch) + 256, 1, symbolic_scratch);
    const auto* x = static_cast<const float*>(l.buffers[0]);
    auto* y = static_cast<float*>(l.buffers[1]);
    for (uint32_t i = begin * 3; i < end * 3; ++i) {
      if (k == 2 && i / 3 == bad_tile) return fault;
      if (k == 0) static_cast<float*>(l.scratch)[i % 64] = 1;
      y[i] = k == 0 ? x[i] + static_cast<float*>(l.scratch)[i % 64] : 2 * x[i];
    }
    return 0;
  }
};

struct FakeConstants final : Constants {
  alignas(64) float values[16] = {};
  bool fail = false;
  mutable std::atomic<int> acquired{0};
  std::function<void(uint64_t offset, uint64_t length)> prepared;
  void prepare(uint32_t, uint32_t, uint64_t offset, uint64_t length) const override {
    if (prepared) prepared(offset, length);
  }
  Result<const std::byte*> acquire(uint32_t, uint32_t) const override {
    ++acquired;
    if (fail) return Status(Code::BadSignature, "leaf 3 of segment 'weights' is damaged");
    return reinterpret_cast<const std::byte*>(values);
  }
};

struct Rig {
  Plan plan;
  FakeModule module;
  FakeConstants constants;
  std::unique_ptr<WorkerPool> pool;
  std::unique_ptr<Executor> executor;

  explicit Rig(const PlanMaker& m, unsigned workers = 1, uint64_t constant_bytes = 64) {
    auto decoded = decode_plan(m.bytes(), {3, [=](uint32_t t, uint32_t c) {
                                             return t == 0 && c == 0 ? std::optional<uint64_t>(constant_bytes) : std::nullopt;
                                           }});
    REQUIRE_MESSAGE(decoded.ok(), (decoded.ok() ? std::string() : decoded.status().message));
    plan = std::move(*decoded);
    PoolOptions o;
    o.workers = workers;
    pool = WorkerPool::create(o).value();
  }
  Status start(Limits limits = {}) {
    auto e = Executor::create(plan, module, constants, *pool, limits);
    if (!e) return std::move(e).status();
    executor = std::move(*e);
    return ok();
  }
  Status run(const std::vector<float>& x, std::vector<int64_t> shape, OutputArg& out) {
    const InputArg in{DType::F32, shape, x.data(), x.size() * 4};
    return executor->run(0, {&in, 1}, {&out, 1});
  }
};

std::vector<float> iota(int n) {
  std::vector<float> v(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) v[static_cast<size_t>(i)] = float(i);
  return v;
}

}  // namespace

TEST_CASE("two launches through the arena, much and little work, one to five workers") {
  for (int64_t work : {int64_t{-1}, int64_t{1}, int64_t{5000}, INT64_MAX})
    for (unsigned workers : {1u, 2u, 5u}) {
      PlanMaker m = PlanMaker::two_steps();
      for (auto& i : m.body) i.work = m.constant(work);
      Rig rig(m, workers);
      REQUIRE(rig.start().ok());
      for (int n : {1, 7, 100, 7}) {
        rig.module.tiles_run = 0;
        OutputArg out;
        REQUIRE(rig.run(iota(3 * n), {n, 3}, out).ok());
        CHECK(out.shape.size() == 2);
        CHECK(out.shape[0] == n);
        CHECK(out.bytes == static_cast<uint64_t>(12 * n));
        for (int i = 0; i < 3 * n; ++i) CHECK(static_cast<float*>(out.data)[i] == 2.0f * (float(i) + 1));
        CHECK(rig.module.tiles_run == 2u * static_cast<unsigned>(n));
      }
    }
}

TEST_CASE("a profile has the figures of the plan, and where each worker was when") {
  for (unsigned workers : {1u, 3u}) {
    PlanMaker m = PlanMaker::two_steps();
    m.body[0].operations = m.constant(1234);
    m.body[0].read = m.constant(-5);  // whoever wrote that
    m.body[0].of_bytes = true;
    m.body[1].written = m.constant(INT64_MAX);
    Rig rig(m, workers);
    REQUIRE(rig.start().ok());
    CHECK(!rig.executor->profile(0, 0));
    rig.executor->set_profiling(true);
    OutputArg out;
    for (int round = 0; round < 3; ++round) REQUIRE(rig.run(iota(300), {100, 3}, out).ok());
    const auto first = rig.executor->profile(0, 0), second = rig.executor->profile(0, 1);
    REQUIRE((first && second));
    CHECK(!rig.executor->profile(0, 2));
    CHECK(first->runs == 3);
    CHECK(first->function == "main");
    CHECK(first->figures.operations == 1234);
    CHECK(first->figures.read == Executor::kNotKnown);
    CHECK(first->figures.written == Executor::kNotKnown);
    CHECK(first->figures.of_bytes);
    CHECK(second->figures.operations == Executor::kNotKnown);
    CHECK(second->figures.written == INT64_MAX);
    CHECK(first->figures.workers <= workers);
    uint64_t last = 0;
    for (unsigned w = 0; w < workers; ++w) {
      const auto a = rig.executor->moments(0, 0, w), b = rig.executor->moments(0, 1, w);
      REQUIRE((a && b));
      if (a->left == 0) continue;  // it was not asked
      CHECK((a->begin > 0 && a->begin <= a->done && a->done <= a->left && a->left == b->begin && b->begin <= b->done && b->done <= b->left));
      last = std::max(last, a->done);
    }
    for (unsigned w = 0; w < workers; ++w)  // nobody leaves before all are there
      if (const auto a = rig.executor->moments(0, 0, w); a->left > 0) CHECK(a->left >= last);
    CHECK(!rig.executor->moments(0, 0, workers));
    CHECK(!rig.executor->moments(0, 2, 0));
  }
  // Its memory counts.
  Rig rig(PlanMaker::two_steps(), 2);
  REQUIRE(rig.start({.max_memory_bytes = 1 << 20}).ok());
  rig.executor->set_profiling(true);
  OutputArg out;
  CHECK(rig.run(iota(3), {1, 3}, out).ok());
}

TEST_CASE("a run with known shapes allocates nothing") {
  Rig rig(PlanMaker::two_steps(), 2);
  REQUIRE(rig.start().ok());
  const auto x = iota(30), x2 = iota(60);
  const std::vector<int64_t> shape{10, 3}, shape2{20, 3};
  const auto both = [&] {
    OutputArg out, out2;
    const InputArg in{DType::F32, shape, x.data(), 120}, in2{DType::F32, shape2, x2.data(), 240};
    bool good = rig.executor->run(0, {&in, 1}, {&out, 1}).ok();
    return rig.executor->run(0, {&in2, 1}, {&out2, 1}).ok() && good;
  };
  REQUIRE(both());
  REQUIRE(both());
  const uint64_t before = allocations;
  for (int i = 0; i < 50; ++i)
    if (!both()) FAIL("run failed");
  CHECK(allocations == before);
}

TEST_CASE("a program's run like the one before allocates nothing, lists and loops included") {
  std::ifstream file(mlc::testing::source_path("tests/fuzz/corpus/plan/program.plan"), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  const Plan plan = decode_plan(std::as_bytes(std::span(bytes)), {4, {}}).value();
  test::AnyModule module;
  test::AnyConstants constants;
  PoolOptions o;
  o.workers = 2;
  const auto pool = WorkerPool::create(o).value();
  const auto executor = std::move(Executor::create(plan, module, constants, *pool, {})).value();
  const auto memory = test::any_block(64);  // whose last line may be read to its end
  const auto* x = reinterpret_cast<const float*>(memory.get());
  const std::vector<int64_t> extents{6};
  const uint8_t yes = 1;
  const InputArg item{DType::F32, extents, x, 24};
  const InputArg items[] = {item, item};
  const InputArg inputs[] = {item, {DType::Bool, {}, &yes, 1}, {DType::F32, {}, nullptr, 0, items, 1}};
  OutputArg outputs[4];
  const auto run = [&] {
    for (OutputArg& out : outputs) out = {};
    return executor->run(0, inputs, outputs);
  };
  for (int i = 0; i < 2; ++i) {
    const Status s = run();
    REQUIRE_MESSAGE(s.ok(), s.text());
  }
  const uint64_t before = allocations;
  for (int i = 0; i < 50; ++i)
    if (!run().ok()) FAIL("run failed");
  CHECK(allocations == before);
  CHECK(outputs[1].shape.size() == 2);
  CHECK(outputs[1].shape[0] == 3);
  CHECK(outputs[2].items.size() == 6);
  REQUIRE(outputs[3].items.size() == 3);
  CHECK(outputs[3].items[0].items.size() == 3);
  CHECK(outputs[3].items[1].items.size() == 2);
  CHECK(outputs[3].items[2].items.empty());
}

TEST_CASE("inputs and outputs of the caller: aligned in place, unaligned copied, too small refused") {
  Rig rig(PlanMaker::two_steps());
  REQUIRE(rig.start().ok());
  alignas(64) float x[64], y[64];
  for (int i = 0; i < 64; ++i) x[i] = float(i), y[i] = -1;
  const std::vector<int64_t> shape{4, 3};
  for (int shift : {0, 1}) {
    const InputArg in{DType::F32, shape, x + shift, 48};
    OutputArg out{y + shift, 48};
    REQUIRE(rig.executor->run(0, {&in, 1}, {&out, 1}).ok());
    CHECK(out.data == y + shift);
    for (int i = 0; i < 12; ++i) CHECK(y[i + shift] == 2 * (float(i + shift) + 1));
    CHECK(y[12 + shift] == -1);
  }
  const InputArg in{DType::F32, shape, x, 48};
  OutputArg small{y, 47};
  CHECK(rig.executor->run(0, {&in, 1}, {&small, 1}).code == Code::InputMismatch);
  CHECK(rig.executor->run(0, {&in, 1}, {}).ok());  // outputs nobody wants
  OutputArg two[2];
  CHECK(rig.executor->run(0, {&in, 1}, two).code == Code::Usage);
}

TEST_CASE("inputs that do not fit are named with what was found and expected") {
  Rig rig(PlanMaker::two_steps());
  REQUIRE(rig.start().ok());
  const auto x = iota(30);
  const auto run = [&](DType t, std::vector<int64_t> shape, uint64_t bytes) {
    const InputArg in{t, shape, x.data(), bytes};
    return rig.executor->run(0, {&in, 1}, {}).text();
  };
  CHECK(run(DType::I32, {10, 3}, 120).find("x   found i32, expected f32") != std::string::npos);
  CHECK(run(DType::F32, {30}, 120).find("found 1 axis, expected 2") != std::string::npos);
  CHECK(run(DType::F32, {10, 3}, 119).find("has 119 bytes, its shape takes 120") != std::string::npos);
  CHECK(run(DType::F32, {-1, 3}, 120).find("negative") != std::string::npos);
  CHECK(run(DType::F32, {INT64_MAX, INT64_MAX}, 120).find("too large") != std::string::npos);
  CHECK(run(DType::F32, {0, 3}, 0).find("the batch is empty") != std::string::npos);
  CHECK(rig.executor->run(0, {}, {}).code == Code::InputMismatch);
}

TEST_CASE("a kernel's fault ends the run with its name, and the executor stays usable") {
  PlanMaker m = PlanMaker::two_steps();
  m.body[1].index = 2;
  m.body[1].name = "conv_7";
  for (unsigned workers : {1u, 3u}) {
    Rig rig(m, workers);
    REQUIRE(rig.start().ok());
    OutputArg out;
    const Status s = rig.run(iota(30), {10, 3}, out);
    CHECK(s.code == Code::InputMismatch);
    CHECK(s.number == 4005);
    CHECK(s.message.find("conv_7") != std::string::npos);
    CHECK(s.message.find("outside its array") != std::string::npos);
    rig.module.bad_tile = 1000;
    CHECK(rig.run(iota(30), {10, 3}, out).ok());
  }
}

TEST_CASE("a fault that values can cause is the inputs', another one the code's: ours, or the file's that nobody vouches for") {
  PlanMaker m = PlanMaker::two_steps();
  m.body[1].index = 2;
  for (const Code of_code : {Code::Internal, Code::Malformed}) {
    Rig rig(m);
    Limits limits;
    limits.broken_code = of_code;
    REQUIRE(rig.start(limits).ok());
    for (const auto& [fault, code] : {std::pair<int32_t, Code>{MLRUN_FAULT_INDEX, Code::InputMismatch},
                                      {MLRUN_FAULT_DIVISION, Code::InputMismatch},
                                      {MLRUN_FAULT_BOUND, of_code},
                                      {MLRUN_FAULT_BAD_CODE, of_code},
                                      {MLRUN_FAULT_VECTORS, Code::NoVariant},
                                      {12345, of_code}}) {
      rig.module.fault = fault;
      OutputArg out;
      CHECK(rig.run(iota(30), {10, 3}, out).code == code);
    }
  }
}

TEST_CASE("ranges that only the shapes reveal are refused before anything runs") {
  const auto fails = [](const std::function<void(PlanMaker&)>& change) {
    PlanMaker m = PlanMaker::two_steps();
    change(m);
    Rig rig(m);
    REQUIRE(rig.start().ok());
    OutputArg out;
    const Status s = rig.run(iota(30), {10, 3}, out);
    CHECK(rig.module.tiles_run == 0);
    return s.ok() ? std::string() : s.message;
  };
  const auto says = [](const std::string& message, const char* text) {
    CHECK_MESSAGE(message.find(text) != std::string::npos, message, " should say ", std::string(text));
  };
  says(fails([](PlanMaker& m) { m.arena_bytes = m.constant(119); }), "beyond the arena");
  says(fails([](PlanMaker& m) { m.buffers[2].offset = m.constant(64); }), "beyond the arena");
  says(fails([](PlanMaker& m) { m.buffers[2].offset = m.constant(4); }), "unaligned");
  says(fails([](PlanMaker& m) { m.buffers[2].offset = m.constant(-64); }), "negative");
  says(fails([](PlanMaker& m) { m.buffers[2].bytes = m.constant(INT64_MAX); }), "beyond the arena");
  says(fails([](PlanMaker& m) { m.buffers[2].bytes = m.constant(-1); }), "negative");
  says(fails([](PlanMaker& m) { m.arena_bytes = m.constant(-1); }), "negative");
  says(fails([](PlanMaker& m) { m.buffers[0].bytes = m.constant(121); }), "longer than its input");
  says(fails([](PlanMaker& m) { m.buffers[1].bytes = m.constant(121); }), "longer than its output");
  says(fails([](PlanMaker& m) { m.body[0].tiles = m.constant(-1); }), "tiles");
  says(fails([](PlanMaker& m) { m.body[0].tiles = m.constant(int64_t{1} << 31); }), "tiles");
  says(fails([](PlanMaker& m) { m.outputs[0].shape[0] = m.constant(-1); }), "out of range");
  says(fails([](PlanMaker& m) { m.outputs[0].shape[0] = m.outputs[0].shape[1] = m.constant(INT64_MAX); }), "range");
  says(fails([](PlanMaker& m) {
         m.buffers.push_back({fbp::BufferKind_Constant, DType::F32, 0, 0, m.constant(65), 0});
       }),
       "longer than its tensor");
  says(fails([](PlanMaker& m) {
         m.buffers.push_back({fbp::BufferKind_Arena, DType::F32, 0, 0, 0, 0});
         m.body.push_back({fbp::InstrOp_Copy, 0, {3, 0}, {}, 0});
       }),
       "different lengths");
}

TEST_CASE("memory beyond the limit is refused, not tried") {
  PlanMaker m = PlanMaker::two_steps();
  m.arena_bytes = m.constant(int64_t{1} << 40);
  Rig rig(m);
  REQUIRE(rig.start({.max_memory_bytes = 1 << 20}).ok());
  OutputArg out;
  CHECK(rig.run(iota(30), {10, 3}, out).code == Code::Resource);
}

TEST_CASE("scratch that a launch asks for is there behind the kernel's own, and is refused where it is too much or negative") {
  for (const auto& [bytes, code] : {std::pair{int64_t{1} << 12, Code::Ok}, {int64_t{1} << 40, Code::Resource}, {INT64_MAX, Code::Resource}, {int64_t{-64}, Code::Malformed}}) {
    PlanMaker m = PlanMaker::two_steps();
    m.body[0].scratch = m.constant(bytes);
    Rig rig(m);
    rig.module.symbolic_scratch = 1 << 12;
    REQUIRE(rig.start({.max_memory_bytes = 1 << 20}).ok());
    OutputArg out;
    const Status s = rig.run(iota(30), {10, 3}, out);
    CHECK_MESSAGE(s.code == code, bytes, ": ", s.message);
  }
}

TEST_CASE("a module that does not accept a launch stops the load") {
  PlanMaker m = PlanMaker::two_steps();
  m.body[0].buffers = {2, 0};  // stores to the input
  Rig rig(m);
  CHECK(rig.start().message.find("read-only") != std::string::npos);
  PlanMaker more = PlanMaker::two_steps();
  more.body[0].scalars.clear();
  Rig rig2(more);
  CHECK(!rig2.start().ok());
}

TEST_CASE("constants are acquired once, before the first run, and a damaged one fails it") {
  PlanMaker m = PlanMaker::two_steps();
  m.buffers.push_back({fbp::BufferKind_Constant, DType::F32, 0, 0, m.constant(64), 0});
  m.buffers[1].bytes = m.buffers[1].bytes;
  m.body.push_back({fbp::InstrOp_Copy, 0, {4, 3}, {}, 0});
  m.buffers.push_back({fbp::BufferKind_Output, DType::F32, 0, 0, m.constant(64), 0});
  Rig rig(m, 2);
  for (int i = 0; i < 16; ++i) rig.constants.values[i] = 100 + float(i);
  REQUIRE(rig.start().ok());
  CHECK(rig.constants.acquired == 0);
  OutputArg out;
  REQUIRE(rig.run(iota(30), {10, 3}, out).ok());
  CHECK(static_cast<float*>(out.data)[15] == 115);
  CHECK(static_cast<float*>(out.data)[16] == 34);
  REQUIRE(rig.run(iota(30), {10, 3}, out).ok());
  CHECK(rig.constants.acquired == 1);
  Rig damaged(m, 2);
  damaged.constants.fail = true;
  REQUIRE(damaged.start().ok());
  const Status s = damaged.run(iota(30), {10, 3}, out);
  CHECK(s.code == Code::BadSignature);
  CHECK(s.message.find("leaf 3") != std::string::npos);
}

TEST_CASE("the workers prepare a large constant together, each byte once") {
  PlanMaker m = PlanMaker::two_steps();
  m.buffers.push_back({fbp::BufferKind_Constant, DType::F32, 0, 0, m.constant(64), 0});
  m.body.push_back({fbp::InstrOp_Copy, 0, {4, 3}, {}, 0});
  m.buffers.push_back({fbp::BufferKind_Output, DType::F32, 0, 0, m.constant(64), 0});
  const uint64_t bytes = (5u << 20) + 100;
  Rig rig(m, 3, bytes);
  REQUIRE(rig.start().ok());
  std::mutex mu;
  std::condition_variable arrived;
  std::set<std::thread::id> threads;
  std::map<uint64_t, uint64_t> pieces;
  rig.constants.prepared = [&](uint64_t offset, uint64_t length) {
    std::unique_lock lock(mu);
    CHECK(pieces.emplace(offset, length).second);
    threads.insert(std::this_thread::get_id());
    arrived.notify_all();
    arrived.wait_for(lock, std::chrono::seconds(30), [&] { return threads.size() == 3; });  // nobody goes on alone
  };
  OutputArg out;
  REQUIRE(rig.run(iota(30), {10, 3}, out).ok());
  CHECK(threads.size() == 3);
  uint64_t end = 0;
  for (const auto& [offset, length] : pieces) {
    CHECK(offset == end);
    end += length;
  }
  CHECK(end == bytes);
  CHECK(rig.constants.acquired == 1);
  const size_t before = pieces.size();
  REQUIRE(rig.run(iota(30), {10, 3}, out).ok());
  CHECK(pieces.size() == before);
}

TEST_CASE("states start as zeros, live across runs and can be reset; copies are shared out") {
  PlanMaker m;
  const uint32_t zero = m.constant(0), bytes = m.constant(400), hundred = m.constant(100);
  const uint32_t x = m.buffer(fbp::BufferKind_Input, DType::F32, 0, bytes);
  const uint32_t y = m.buffer(fbp::BufferKind_Output, DType::F32, 0, bytes);
  const uint32_t old = m.buffer(fbp::BufferKind_State, DType::F32, 0, bytes);
  m.arena_bytes = zero;
  m.inputs = {{"x", DType::F32, x, {hundred}}};
  m.outputs = {{"y", DType::F32, y, {hundred}}};
  m.body.push_back({fbp::InstrOp_Copy, 0, {y, x}, {}, 0});
  m.body.push_back({fbp::InstrOp_Copy, 0, {y, old}, {}, 0});
  m.body.push_back({fbp::InstrOp_Copy, 0, {old, x}, {}, 0});
  for (unsigned workers : {1u, 3u}) {
    Rig rig(m, workers);
    REQUIRE(rig.start().ok());
    OutputArg out;
    REQUIRE(rig.run(iota(100), {100}, out).ok());
    CHECK(static_cast<float*>(out.data)[99] == 0);
    REQUIRE(rig.run(std::vector<float>(100, 5), {100}, out).ok());
    CHECK(static_cast<float*>(out.data)[99] == 99);
    rig.executor->reset_states();
    REQUIRE(rig.run(iota(100), {100}, out).ok());
    CHECK(static_cast<float*>(out.data)[99] == 0);
  }
}

TEST_CASE("more sets of shapes than are kept still work, and shapes can be inferred without a run") {
  Rig rig(PlanMaker::two_steps(), 2);
  REQUIRE(rig.start().ok());
  for (int round = 0; round < 2; ++round)
    for (int n = 1; n <= 20; ++n) {
      OutputArg out;
      REQUIRE(rig.run(iota(3 * n), {n, 3}, out).ok());
      CHECK(static_cast<float*>(out.data)[3 * n - 1] == float(6 * n));
    }
  std::vector<std::vector<int64_t>> shapes;
  const std::vector<int64_t> shape{9, 3};
  const InputArg in{DType::F32, shape, nullptr, 0};
  REQUIRE(rig.executor->infer(0, {&in, 1}, shapes).ok());
  CHECK(shapes == std::vector<std::vector<int64_t>>{{9, 3}});
}

TEST_CASE("what is kept for each set of shapes counts against the limit, and goes when others need the room") {
  PlanMaker m = PlanMaker::two_steps();
  auto launch = m.body[1];
  m.body.resize(1);
  for (int i = 0; i < 5000; ++i) m.body.push_back(launch);  // more than 100 bytes each
  Rig rig(m);
  OutputArg out;
  REQUIRE(rig.start({.max_memory_bytes = 500'000}).ok());
  CHECK(rig.run(iota(3), {1, 3}, out).code == Code::Resource);
  REQUIRE(rig.start({.max_memory_bytes = 2'000'000}).ok());
  for (int round = 0; round < 2; ++round)
    for (int n = 1; n <= 6; ++n) {
      out = {};
      const Status s = rig.run(iota(3 * n), {n, 3}, out);
      REQUIRE_MESSAGE(s.ok(), s.text());
      CHECK(static_cast<float*>(out.data)[3 * n - 1] == float(6 * n));
    }
}

TEST_CASE("an executor for whose shapes the memory does not suffice runs smaller ones afterwards") {
  Rig rig(PlanMaker::two_steps());
  REQUIRE(rig.start({.max_memory_bytes = 1'000'000}).ok());
  for (int n : {20'000, 25'000, 50'000, 20'000, 25'000, 1}) {  // input, arena and output: 36 bytes a row
    OutputArg out;
    const Status s = rig.run(iota(3 * n), {n, 3}, out);
    REQUIRE_MESSAGE(s.ok() == (n < 50'000), s.text());
    if (s.ok()) CHECK(static_cast<float*>(out.data)[3 * n - 1] == 2 * float(3 * n));
  }
}

namespace {

// One kernel, cut along rows and columns: scalars rows, columns, chunk of columns, chunk of rows. It adds 1 to each point.
struct GridModule final : KernelModule {
  mutable std::atomic<uint64_t> calls{0};
  uint32_t num_kernels() const override { return 1; }
  uint64_t scratch_bytes(uint32_t) const override { return 0; }
  Status accepts(uint32_t, const LaunchForm&) const override { return ok(); }
  int32_t run(uint32_t, const MlrunLaunch& l, uint32_t begin, uint32_t end, WorkMeter&) const override {
    ++calls;
    const int64_t rows = l.scalars[0], columns = l.scalars[1], width = l.scalars[2], height = l.scalars[3];
    const int64_t across = (columns + width - 1) / width;
    for (int64_t t = begin; t < end; ++t)
      for (int64_t r = t / across * height; r < std::min(rows, (t / across + 1) * height); ++r)
        for (int64_t c = t % across * width; c < std::min(columns, (t % across + 1) * width); ++c)
          static_cast<float*>(l.buffers[1])[r * columns + c] += 1;
    return 0;
  }
};

}  // namespace

TEST_CASE("every point of a launch that is cut is done once, by any number of workers") {
  PlanMaker m;
  const uint32_t one = m.constant(1), four = m.constant(4), rows = m.dim(0, 0), columns = m.dim(0, 1);
  const uint32_t bytes = m.op(fbp::SymbolOp_Mul, m.op(fbp::SymbolOp_Mul, rows, columns), four);
  const uint32_t x = m.buffer(fbp::BufferKind_Input, DType::F32, 0, bytes);
  const uint32_t y = m.buffer(fbp::BufferKind_Output, DType::F32, 0, bytes);
  m.arena_bytes = m.constant(0);
  m.inputs = {{"x", DType::F32, x, {rows, columns}}};
  m.outputs = {{"y", DType::F32, y, {rows, columns}}};
  m.body.push_back({fbp::InstrOp_Copy, 0, {y, x}, {}, 0});
  m.body.push_back({fbp::InstrOp_Launch, 0, {x, y}, {rows, columns, one, one}, one, {{rows, 3, columns}, {columns, 2, rows}}});
  const Plan plan = decode_plan(m.bytes(), {1, {}}).value();
  for (unsigned workers : {1u, 2u, 3u, 7u}) {
    PoolOptions o;
    o.workers = workers;
    const auto pool = WorkerPool::create(o).value();
    GridModule module;
    FakeConstants constants;
    const auto executor = std::move(Executor::create(plan, module, constants, *pool, {})).value();
    for (auto [height, width] : {std::pair<int64_t, int64_t>{19, 24}, {1, 100}, {5, 1}, {1, 1}, {0, 3}, {7, 7}}) {
      const std::vector<float> values(static_cast<size_t>(height * width) + 1, 0.0f);
      const std::vector<int64_t> shape{height, width};
      const InputArg in{DType::F32, shape, values.data(), static_cast<uint64_t>(height * width * 4)};
      OutputArg out;
      module.calls = 0;
      const Status s = executor->run(0, {&in, 1}, {&out, 1});
      REQUIRE_MESSAGE(s.ok(), s.text());
      for (int64_t i = 0; i < height * width; ++i) CHECK(static_cast<float*>(out.data)[i] == 1);
      CHECK(module.calls <= workers);
      if (height * width >= 100) CHECK(module.calls == workers);
    }
  }
}

namespace {

// Tile t has cells x[t, ..], one for each part. A turn makes every cell of y out of all cells of the turn before.
struct TurnsModule final : KernelModule {
  int64_t tiles = 0;
  mutable std::atomic<uint64_t> calls{0};
  uint32_t num_kernels() const override { return 1; }
  uint64_t scratch_bytes(uint32_t) const override { return 0; }
  Status accepts(uint32_t, const LaunchForm&) const override { return ok(); }
  int32_t run(uint32_t, const MlrunLaunch& l, uint32_t begin, uint32_t end, WorkMeter&) const override {
    ++calls;
    const auto* x = static_cast<const float*>(l.buffers[0]);
    auto* y = static_cast<float*>(l.buffers[1]);
    const int64_t turns = l.scalars[0], parts = l.scalars[1], of_turns = l.scalars[2], of_parts = l.scalars[3];
    const int64_t chunks = (parts + of_parts - 1) / of_parts;
    for (int64_t number = begin; number < end; ++number) {
      const int64_t chunk = number % chunks, tile = number / chunks % tiles, first = number / chunks / tiles * of_turns;
      for (int64_t t = first; t < std::min(first + of_turns, turns); ++t)
        for (int64_t p = chunk * of_parts; p < std::min((chunk + 1) * of_parts, parts); ++p) {
          float sum = static_cast<float>(p + t);
          for (int64_t q = 0; q < parts; ++q) sum += t ? y[((t - 1) * tiles + tile) * parts + q] : x[tile * parts + q];
          y[(t * tiles + tile) * parts + p] = std::fmod(sum, 251.0f);
        }
    }
    return 0;
  }
};

PlanMaker turns_plan() {
  PlanMaker m;
  const uint32_t four = m.constant(4), tiles = m.dim(0, 0), parts = m.dim(0, 1), turns = m.dim(1, 0), work = m.dim(2, 0);
  const uint32_t cells = m.op(fbp::SymbolOp_Mul, tiles, parts), bytes = m.op(fbp::SymbolOp_Mul, cells, four);
  const uint32_t x = m.buffer(fbp::BufferKind_Input, DType::F32, 0, bytes);
  const uint32_t u = m.buffer(fbp::BufferKind_Input, DType::U8, 1, turns), v = m.buffer(fbp::BufferKind_Input, DType::U8, 2, work);
  const uint32_t all_bytes = m.op(fbp::SymbolOp_Mul, bytes, turns);
  const uint32_t y = m.buffer(fbp::BufferKind_Output, DType::F32, 0, all_bytes);
  const uint32_t zeros = m.buffer(fbp::BufferKind_State, DType::F32, 0, all_bytes);  // it begins so, and stays so
  m.arena_bytes = m.constant(0);
  m.inputs = {{"x", DType::F32, x, {tiles, parts}}, {"turns", DType::U8, u, {turns}}, {"work", DType::U8, v, {work}}};
  m.outputs = {{"y", DType::F32, y, {turns, tiles, parts}}};
  m.body.push_back({fbp::InstrOp_Copy, 0, {y, zeros}});
  const uint32_t no_chunk = m.constant(0);  // which is not read
  m.body.push_back({fbp::InstrOp_Launch, 0, {x, y}, {turns, parts, no_chunk, no_chunk}, tiles, {}, m.op(fbp::SymbolOp_Mul, work, m.constant(1000))});
  m.body.back().turns = {turns, 2, parts, 3};
  m.body.push_back({fbp::InstrOp_Copy, 0, {y, y}});
  return m;
}

}  // namespace

TEST_CASE("workers make the turns of a launch together, or tiles as a whole where that takes less: the same answer") {
  const Plan plan = decode_plan(turns_plan().bytes(), {1, {}}).value();
  struct Shape { int64_t tiles, parts, turns; };
  for (auto [tiles, parts, turns] : {Shape{1, 40, 9}, {1, 1, 5}, {2, 7, 30}, {3, 64, 4}, {5, 3, 1}, {0, 4, 4}, {2, 0, 3}, {2, 3, 0}, {1, 8, 16385}}) {
    std::vector<float> expected;
    for (unsigned workers : {1u, 2u, 3u, 7u})
      for (int64_t work : {1, 200}) {
        PoolOptions o;
        o.workers = workers;
        const auto pool = WorkerPool::create(o).value();
        TurnsModule module;
        module.tiles = tiles;
        FakeConstants constants;
        const auto executor = std::move(Executor::create(plan, module, constants, *pool, {})).value();
        std::vector<float> values;
        for (int64_t i = 0; i < tiles * parts; ++i) values.push_back(static_cast<float>(i % 13));
        values.push_back(0);
        const std::vector<uint8_t> none(static_cast<size_t>(std::max(turns, work)));
        const std::vector<int64_t> shapes[] = {{tiles, parts}, {turns}, {work}};
        const InputArg in[] = {{DType::F32, shapes[0], values.data(), static_cast<uint64_t>(tiles * parts * 4)},
                               {DType::U8, shapes[1], none.data(), static_cast<uint64_t>(turns)}, {DType::U8, shapes[2], none.data(), static_cast<uint64_t>(work)}};
        OutputArg out;
        const Status s = executor->run(0, in, {&out, 1});
        REQUIRE_MESSAGE(s.ok(), s.text());
        const auto* y = static_cast<const float*>(out.data);
        const std::vector<float> got(y, y + tiles * parts * turns);
        if (workers == 1) expected = got;
        CHECK_MESSAGE(got == expected, tiles << " tiles, " << parts << " parts, " << turns << " turns, " << workers << " workers, work " << work);
        const bool is_shared = workers > 1 && tiles == 1 && parts > 1 && turns > 1 && turns <= 16384 && work == 200;
        if (tiles <= 1) CHECK_MESSAGE((module.calls > workers) == is_shared, module.calls.load() << " calls, " << tiles << " tiles, " << parts << " parts, " << turns << " turns, " << workers << " workers, work " << work);
      }
  }
}

TEST_CASE("units that are no count are refused when shapes are bound") {
  for (int64_t units : {int64_t{-1}, (int64_t{1} << 53) + 1, INT64_MIN}) {
    PlanMaker m = PlanMaker::two_steps();
    m.body[0].cuts = {{m.constant(units), 0, m.constant(INT64_MIN)}};
    Rig rig(m, 3);
    REQUIRE(rig.start().ok());
    OutputArg out;
    const Status s = rig.run(iota(30), {10, 3}, out);
    CHECK(s.code == Code::Malformed);
    CHECK(s.message.find("units") != std::string::npos);
  }
  for (int64_t parts : {int64_t{-1}, (int64_t{1} << 53) + 1}) {
    PlanMaker m = turns_plan();
    m.body[1].turns->parts = m.constant(parts);
    const Plan plan = decode_plan(m.bytes(), {1, {}}).value();
    const auto pool = WorkerPool::create({}).value();
    const TurnsModule module;
    const FakeConstants constants;
    const auto executor = std::move(Executor::create(plan, module, constants, *pool, {})).value();
    const std::vector<int64_t> shapes[] = {{1, 1}, {1}};
    const float none = 0;
    const InputArg in[] = {{DType::F32, shapes[0], &none, 4}, {DType::U8, shapes[1], &none, 1}, {DType::U8, shapes[1], &none, 1}};
    OutputArg out;
    const Status s = executor->run(0, in, {&out, 1});
    CHECK(s.code == Code::Malformed);
    CHECK(s.message.find("turns or parts") != std::string::npos);
  }
}

TEST_CASE("parts of an output are written where they lie, and lie inside of it") {
  struct Asked { int64_t bytes, offset; const char* refusal; };
  for (const Asked& asked : {Asked{120, 128, ""}, {120, 192, ""}, {120, 0, ""}, {120, 256, "reaches beyond its output"}, {120, 100, "unaligned"},
                             {120, -64, "negative"}, {120, INT64_MAX - 63, "reaches beyond its output"}, {312 + 1, 0, "reaches beyond its output"}}) {
    PlanMaker m;
    const uint32_t thirty = m.constant(30), bytes = m.constant(120), all = m.constant(78), all_bytes = m.constant(312), ten = m.constant(10);
    const uint32_t x = m.buffer(fbp::BufferKind_Input, DType::F32, 0, bytes);
    const uint32_t y = m.buffer(fbp::BufferKind_Output, DType::F32, 0, all_bytes);
    const uint32_t zeros = m.buffer(fbp::BufferKind_State, DType::F32, 0, all_bytes);  // it begins so, and stays so
    const uint32_t part = m.buffer(fbp::BufferKind_OutputPart, DType::F32, 0, m.constant(asked.bytes), m.constant(asked.offset));
    m.arena_bytes = m.constant(0);
    m.inputs = {{"x", DType::F32, x, {thirty}}};
    m.outputs = {{"y", DType::F32, y, {all}}};
    m.body.push_back({fbp::InstrOp_Copy, 0, {y, zeros}});
    m.body.push_back({fbp::InstrOp_Launch, 0, {x, part}, {thirty}, ten});
    for (unsigned workers : {1u, 3u}) {
      Rig rig(m, workers);
      REQUIRE(rig.start().ok());
      alignas(64) float given[80];
      for (float* data : {static_cast<float*>(nullptr), given, given + 1}) {  // ours, the caller's, the caller's by a copy
        OutputArg out{data, 312};
        const Status status = rig.run(iota(30), {30}, out);
        CHECK(status.message.find(asked.refusal) != std::string::npos);
        CHECK(status.ok() == (*asked.refusal == 0));
        if (!status.ok()) continue;
        for (int64_t i = 0; i < 78; ++i) {
          const int64_t at = i - asked.offset / 4;
          CHECK(static_cast<float*>(out.data)[i] == (at >= 0 && at < 30 ? float(at) + 1 : 0.0f));
        }
      }
    }
  }
}

TEST_CASE("copies within an output must not overlap") {
  for (const auto& [offset, good] : {std::pair{0, true}, {64, false}, {128, true}}) {
    PlanMaker m;
    const uint32_t zero = m.constant(0), bytes = m.constant(128), all = m.constant(64), all_bytes = m.constant(256);
    const uint32_t y = m.buffer(fbp::BufferKind_Output, DType::F32, 0, all_bytes);
    const uint32_t a = m.buffer(fbp::BufferKind_OutputPart, DType::F32, 0, bytes, zero);
    const uint32_t b = m.buffer(fbp::BufferKind_OutputPart, DType::F32, 0, bytes, m.constant(offset));
    m.arena_bytes = zero;
    m.outputs = {{"y", DType::F32, y, {all}}};
    m.body.push_back({fbp::InstrOp_Copy, 0, {a, b}});
    Rig rig(m, 2);
    REQUIRE(rig.start().ok());
    OutputArg out;
    CHECK(rig.executor->run(0, {}, {&out, 1}).ok() == good);
  }
}
