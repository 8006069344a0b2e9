// Programs, written as text: what their steps do, what of them is refused, and that a run like the last allocates nothing
// but what the test itself does.
#include <doctest/doctest.h>

#include <cstring>
#include <limits>

#include "packager/plan/print.h"
#include "packager/plan/text.h"
#include "runtime/plan/execute/executor.h"
#include "tests/support/containers/plan_maker.h"

using namespace mlc;
using namespace mlc::exec;

namespace {

// 0: y = x + 1 (f32). 1: z = x then y (f32). 2: b = first of i64 x < scalar. 3: n = first of i64 x, times scalar.
// 4: y = scalar everywhere (f32). 5: faults.
struct Kernels final : KernelModule {
  mutable int runs = 0;
  uint32_t num_kernels() const override { return 6; }
  uint64_t scratch_bytes(uint32_t) const override { return 0; }
  Status accepts(uint32_t, const LaunchForm&) const override { return ok(); }
  int32_t run(uint32_t k, const MlrunLaunch& l, uint32_t, uint32_t, WorkMeter&) const override {
    ++runs;
    for (uint32_t i = 0; k != 4 && i < 1; ++i)
      if (reinterpret_cast<uintptr_t>(l.buffers[i]) % 64 != 0) return MLRUN_FAULT_BAD_CODE;
    const auto* x = static_cast<const float*>(l.buffers[0]);
    int64_t first = 0;
    if (k == 2 || k == 3) std::memcpy(&first, x, 8);
    switch (k) {
      case 0:
        for (uint64_t i = 0; i < l.lengths[1] / 4; ++i) static_cast<float*>(l.buffers[1])[i] = x[i] + 1;
        return 0;
      case 1:
        if (l.lengths[0]) std::memcpy(l.buffers[2], x, l.lengths[0]);
        if (l.lengths[1]) std::memcpy(static_cast<std::byte*>(l.buffers[2]) + l.lengths[0], l.buffers[1], l.lengths[1]);
        return 0;
      case 2: *static_cast<uint8_t*>(l.buffers[1]) = first < l.scalars[0]; return 0;
      case 3:
        first *= l.scalars[0];
        std::memcpy(l.buffers[1], &first, 8);
        return 0;
      case 4:
        for (uint64_t i = 0; i < l.lengths[0] / 4; ++i) static_cast<float*>(l.buffers[0])[i] = float(l.scalars[0]);
        return 0;
    }
    return MLRUN_FAULT_INDEX;
  }
};

struct NoConstants final : Constants {
  Result<const std::byte*> acquire(uint32_t, uint32_t) const override { return Status(Code::Internal, "none"); }
};

// Segments that the tests call. Names sort behind "main".
const char* const kSegments = R"(
function "s/add" {
  $0 = dim 0 0 $1 = const 4 $2 = mul $0 $1 $3 = const 1 $4 = const 0
  buffer #0 f32 bytes $2 input 0 buffer #1 f32 bytes $2 output 0
  input "x" f32 [$0] #0 output "y" f32 [$0] #1 arena $4
  launch 0 (#0, #1) () tiles $3 "add"
}
function "s/concat" {
  $0 = dim 0 0 $1 = dim 1 0 $2 = add $0 $1 $3 = const 4 $4 = mul $0 $3 $5 = mul $1 $3 $6 = mul $2 $3 $7 = const 1
  buffer #0 f32 bytes $4 input 0 buffer #1 f32 bytes $5 input 1 buffer #2 f32 bytes $6 output 0
  input "x" f32 [$0] #0 input "y" f32 [$1] #1 output "z" f32 [$2] #2 arena $4
  launch 1 (#0, #1, #2) () tiles $7 "concat"
}
function "s/fault" { $0 = const 1 $1 = dim 0 0 $2 = const 0 buffer #0 f32 bytes $2 input 0 input "x" f32 [$1] #0 arena $0
  launch 5 (#0) () tiles $0 "broken" }
function "s/less3" {
  $0 = const 8 $1 = const 1 $2 = const 3
  buffer #0 i64 bytes $0 input 0 buffer #1 bool bytes $1 output 0
  input "n" i64 [] #0 output "less" bool [] #1 arena $0
  launch 2 (#0, #1) ($2) tiles $1 "less"
}
function "s/range" {
  $0 = element 0 0 $1 = const 4 $2 = mul $0 $1 $3 = const 1 $4 = const 8 $5 = const 0 $6 = const 100 $7 = lt $0 $6
  check $7 after 8 "fewer than 100 are wanted"
  buffer #0 i64 bytes $4 input 0 buffer #1 f32 bytes $2 output 0
  input "n" i64 [] #0 output "y" f32 [$0] #1 arena $5
  launch 4 (#1) ($0) tiles $3 "range"
}
function "s/square" {
  $0 = const 8 $1 = element 0 0 $2 = const 1
  buffer #0 i64 bytes $0 input 0 buffer #1 i64 bytes $0 output 0
  input "n" i64 [] #0 output "nn" i64 [] #1 arena $0
  launch 3 (#0, #1) ($1) tiles $2 "square"
}
)";

std::vector<std::byte> bytes_of_text(const std::string& text) {
  auto plan = plan::parse(text);
  REQUIRE_MESSAGE(plan.ok(), (plan.ok() ? std::string() : plan.status().message));
  return plan::encode(*plan);
}

struct Rig {
  Plan plan;
  Kernels kernels;
  NoConstants constants;
  std::unique_ptr<WorkerPool> pool;
  std::unique_ptr<Executor> executor;
  std::vector<OutputArg> outputs;

  explicit Rig(const std::string& functions, Limits limits = {}) {
    auto decoded = decode_plan(bytes_of_text("plan\n" + functions + kSegments), {6, {}});
    REQUIRE_MESSAGE(decoded.ok(), (decoded.ok() ? std::string() : decoded.status().message));
    // The text says all of it.
    const std::string text = plan::print(*decoded);
    auto again = decode_plan(bytes_of_text(text), {6, {}});
    REQUIRE(again.ok());
    CHECK(plan::print(*again) == text);
    plan = std::move(*again);
    PoolOptions o;
    o.workers = 2;
    pool = WorkerPool::create(o).value();
    executor = std::move(Executor::create(plan, kernels, constants, *pool, limits)).value();
  }
  Status run(const std::vector<InputArg>& inputs) {
    const uint32_t main = *plan.find("main");
    outputs.assign(plan.functions[main].outputs.size(), {});
    return executor->run(main, inputs, outputs);
  }
  void good(const std::vector<InputArg>& inputs) {
    const Status s = run(inputs);
    REQUIRE_MESSAGE(s.ok(), s.text());
  }
};

std::vector<float> floats(const OutputArg& o) {
  CHECK(o.dtype == DType::F32);
  std::vector<float> v(o.bytes / 4);
  if (!v.empty()) std::memcpy(v.data(), o.data, o.bytes);
  return v;
}
std::vector<int64_t> numbers(const OutputArg& o) {
  CHECK(o.dtype == DType::I64);
  std::vector<int64_t> v(o.bytes / 8);
  if (!v.empty()) std::memcpy(v.data(), o.data, o.bytes);
  return v;
}
std::vector<int64_t> shape(const OutputArg& o) { return {o.shape.begin(), o.shape.end()}; }

// An array of one axis, or a scalar.
struct In {
  std::vector<float> f;
  std::vector<int64_t> i;
  std::vector<uint8_t> b;
  std::vector<int64_t> extents;
  operator InputArg() const {
    if (!b.empty()) return {DType::Bool, extents, b.data(), b.size()};
    if (!i.empty()) return {DType::I64, extents, i.data(), i.size() * 8};
    return {DType::F32, extents, f.data(), f.size() * 4};
  }
};
In vec(std::vector<float> f) { return {f, {}, {}, {static_cast<int64_t>(f.size())}}; }
In num(int64_t n) { return {{}, {n}, {}, {}}; }
In flag(bool b) { return {{}, {}, {b}, {}}; }

using F = std::vector<float>;
using N = std::vector<int64_t>;

const char* const kBody = R"(
function "main/body" {
  input "i" i64 [] %0
  input "c" bool [] %1
  $0 = dim 2 0
  input "x" f32 [$0] %2
  input "more" f32 [$1] %3
  $1 = dim 3 0
  %4 = call "s/concat" (%2, %3)
  %5 = call "s/less3" (%0) "compare"
  %6 = call "s/square" (%0)
  output "c2" bool rank 0 %5
  output "x2" f32 rank 1 %4
  output "ii" i64 rank 0 %6
  output "x3" f32 rank 1 %3
}
)";
const char* const kLoop = R"(
function "main" {
  input "n" i64 [] %0
  input "go" bool [] %1
  $0 = dim 2 0
  input "x" f32 [$0] %2
  %3, %4, %5 = loop "main/body" carried 1 (%0, %1, %2, %2) "Loop_1"
  output "y" f32 rank 1 %3
  output "squares" i64 rank 1 %4
  output "rows" f32 rank 2 %5
}
)";
std::string loop_text() { return std::string(kLoop) + kBody; }

std::string refusal(const std::string& text) {
  auto plan = plan::parse("plan\n" + text);
  if (!plan) return "text: " + plan.status().message;
  auto decoded = decode_plan(plan::encode(*plan), {6, {}});
  return decoded ? std::string() : decoded.status().message;
}
void refused(const std::string& text, const char* words) {
  const std::string message = refusal(text);
  CHECK_MESSAGE(message.find(words) != std::string::npos, message, " should say ", std::string(words));
}

}  // namespace

TEST_CASE("calls one after the other, sizes that follow from elements, and results in memory of the caller") {
  Rig rig(R"(function "main" {
    input "n" i64 [] %0
    %1 = call "s/range" (%0) "Range_0"
    %2 = call "s/add" (%1)
    %3 = call "s/concat" (%2, %1)
    output "y" f32 rank 1 %3
    output "n2" i64 rank 0 %0
  })");
  for (int64_t n : {3, 0, 5, 3}) {
    rig.good({num(n)});
    F expected(static_cast<size_t>(2 * n), float(n));
    for (int64_t i = 0; i < n; ++i) expected[static_cast<size_t>(i)] += 1;
    CHECK(floats(rig.outputs[0]) == expected);
    CHECK(shape(rig.outputs[0]) == N{2 * n});
    CHECK(numbers(rig.outputs[1]) == N{n});  // an input is a result: a copy that stays
    CHECK(shape(rig.outputs[1]).empty());
  }
  float mine[6];
  const In three = num(3);
  const InputArg in = three;
  OutputArg out{mine, sizeof mine};
  REQUIRE(rig.executor->run(0, {&in, 1}, {&out, 1}).ok());
  CHECK(out.data == mine);
  CHECK(mine[0] == 4);
  CHECK(mine[5] == 3);
  OutputArg small{mine, 23};
  CHECK(rig.executor->run(0, {&in, 1}, {&small, 1}).text().find("takes 24 bytes, 23 are given") != std::string::npos);
  // Errors of a segment name the step.
  const Status checked = rig.run({num(100)});
  CHECK(checked.code == Code::InputMismatch);
  CHECK(checked.message.find("'main', step 0 (Range_0): ") == 0);
  CHECK(checked.message.find("fewer than 100") != std::string::npos);
  CHECK(rig.run({num(-1)}).code != Code::Ok);
  std::vector<std::vector<int64_t>> shapes;
  const Status unknown = rig.executor->infer(0, {&in, 1}, shapes);
  CHECK(unknown.code == Code::Unsupported);
  CHECK(unknown.message.find("known only after a run") != std::string::npos);
}

TEST_CASE("shapes of a segment that reads elements are known where the data is") {
  Rig rig("");
  const uint32_t range = *rig.plan.find("s/range");
  std::vector<std::vector<int64_t>> shapes;
  const In four = num(4);
  InputArg in = four;
  REQUIRE(rig.executor->infer(range, {&in, 1}, shapes).ok());
  CHECK(shapes[0] == N{4});
  in.data = nullptr;
  CHECK(rig.executor->infer(range, {&in, 1}, shapes).message.find("depend on the elements of 'n'") != std::string::npos);
  // Runs with the same extents and other elements are bound anew, those with the same elements are not.
  for (int64_t n : {4, 2, 4}) {
    const In some = num(n);
    const InputArg arg = some;
    OutputArg out;
    REQUIRE(rig.executor->run(range, {&arg, 1}, {&out, 1}).ok());
    CHECK(floats(out) == F(static_cast<size_t>(n), float(n)));
  }
}

TEST_CASE("an element that the input does not have fails the run") {
  const auto text = [](const char* element) {
    return std::string("plan function \"main\" { $0 = dim 0 0 $1 = element 0 ") + element +
           " $2 = const 0 buffer #0 i32 bytes $2 input 0 input \"n\" i32 [$0] #0 arena $2 }";
  };
  for (const char* element : {"1", "2", "4294967295"}) {
    const Plan plan = decode_plan(bytes_of_text(text(element)), {6, {}}).value();
    Kernels kernels;
    NoConstants constants;
    const auto pool = WorkerPool::create({}).value();
    const auto executor = std::move(Executor::create(plan, kernels, constants, *pool, {})).value();
    const std::vector<int32_t> data{7, -8};
    const std::vector<int64_t> extents{2};
    const InputArg in{DType::I32, extents, data.data(), 8};
    const Status s = executor->run(0, {&in, 1}, {});
    CHECK((s.ok() ? std::string("1") : s.message) ==
          (element[0] == '1' ? std::string("1") : "input 'n' has 2 elements, 'main' reads element " + std::string(element)));
  }
}

TEST_CASE("a branch runs one of its bodies") {
  Rig rig(R"(function "main" {
    $0 = dim 1 0
    input "c" bool [] %0
    input "x" f32 [$0] %1
    %2 = branch "main/a" "s/add" (%0, %1) "If_0"
    output "y" f32 rank 1 %2
  }
  function "main/a" { $0 = dim 0 0 input "x" f32 [$0] %0 output "x" f32 rank 1 %0 })");
  rig.good({flag(true), vec({1, 2})});
  CHECK(floats(rig.outputs[0]) == F{1, 2});
  CHECK(rig.kernels.runs == 0);
  rig.good({flag(false), vec({1, 2})});
  CHECK(floats(rig.outputs[0]) == F{2, 3});
  CHECK(rig.kernels.runs == 1);
  const In two{{}, {}, {1, 1}, {2}};
  CHECK(rig.run({two, vec({1})}).code == Code::InputMismatch);
}

TEST_CASE("a loop carries a value that grows and collects scanned ones") {
  Rig rig(loop_text());
  rig.good({num(2), flag(true), vec({1, 2})});  // the trip count ends it
  CHECK(floats(rig.outputs[0]) == F{1, 2, 1, 2, 1, 2});
  CHECK(numbers(rig.outputs[1]) == N{0, 1});
  CHECK(floats(rig.outputs[2]) == F{1, 2, 1, 2});
  CHECK(shape(rig.outputs[2]) == N{2, 2});
  rig.good({num(INT64_MAX), flag(true), vec({7})});  // the condition does: i < 3 after i = 3
  CHECK(floats(rig.outputs[0]) == F{7, 7, 7, 7, 7});
  CHECK(numbers(rig.outputs[1]) == N{0, 1, 4, 9});
  CHECK(shape(rig.outputs[2]) == N{4, 1});
  rig.good({num(9), flag(true), vec({})});  // nothing in it
  CHECK(shape(rig.outputs[0]) == N{0});
  CHECK(shape(rig.outputs[2]) == N{4, 0});
}

TEST_CASE("a loop that does not run gives what was carried, and scanned values without elements") {
  Rig rig(loop_text());
  for (const auto& [n, go] : {std::pair{int64_t{0}, true}, {int64_t{5}, false}, {int64_t{-1}, true}}) {
    rig.good({num(n), flag(go), vec({1, 2})});
    CHECK(floats(rig.outputs[0]) == F{1, 2});
    CHECK(shape(rig.outputs[1]) == N{0});
    CHECK(shape(rig.outputs[2]).size() == 2);
    CHECK(rig.outputs[2].bytes == 0);
  }
}

TEST_CASE("without an iteration the extents of scanned values come from the segment that is the body") {
  const Plan plan = decode_plan(bytes_of_text(R"(plan function "main" {
    $0 = dim 1 0
    input "n" i64 [] %0
    input "x" f32 [$0] %1
    %2 = loop "main/body" carried 0 (%0, -, %1)
    output "rows" f32 rank 2 %2
  }
  function "main/body" {
    $0 = dim 2 0 $1 = const 4 $2 = mul $0 $1 $3 = const 1 $4 = const 0
    buffer #0 i64 bytes $4 input 0 buffer #1 bool bytes $3 input 1 buffer #2 f32 bytes $2 input 2
    buffer #3 bool bytes $3 output 0 buffer #4 f32 bytes $2 output 1
    input "i" i64 [] #0 input "c" bool [] #1 input "x" f32 [$0] #2 output "c" bool [] #3 output "y" f32 [$0] #4 arena $4
    copy (#3, #1) copy (#4, #2)
  })"), {6, {}}).value();
  Kernels kernels;
  NoConstants constants;
  const auto pool = WorkerPool::create({}).value();
  const auto executor = std::move(Executor::create(plan, kernels, constants, *pool, {})).value();
  for (int64_t n : {0, 3}) {
    const In count = num(n), x = vec({1, 2, 3});
    const InputArg in[] = {count, x};
    OutputArg out;
    REQUIRE(executor->run(0, in, {&out, 1}).ok());
    CHECK(shape(out) == N{n, 3});
  }
}

TEST_CASE("a run like the one before takes no memory, and none stays behind after an error") {
  Rig rig(loop_text());
  for (int round = 0; round < 3; ++round) rig.good({num(3), flag(true), vec({1, 2})});
  // All of this fits into two pages of slabs and an arena; a leak of a line per run would not.
  Rig tight(loop_text(), {.max_memory_bytes = 600 << 10});
  for (int round = 0; round < 5000; ++round) {
    tight.good({num(round % 4), flag(true), vec({1, 2, 3})});
    CHECK(tight.run({num(3), flag(true), In{{1}, {}, {}, {1, 1}}}).code == Code::InputMismatch);
  }
  Rig limited(loop_text(), {.max_memory_bytes = 600 << 10});
  CHECK(limited.run({num(3), flag(true), vec(F(100000))}).code == Code::Resource);
  limited.good({num(3), flag(true), vec({1})});
}

TEST_CASE("a run stops at its limit of steps, whatever a plan says") {
  Rig rig(R"(function "main" {
    input "x" f32 [] %0
    %1 = loop "main/body" carried 1 (-, -, %0)
    output "y" f32 rank 0 %1
  }
  function "main/body" { input "i" i64 [] %0 input "c" bool [] %1 input "x" f32 [] %2
    output "c" bool rank 0 %1 output "x" f32 rank 0 %2 })",
          {.max_steps = 1000});
  const Status s = rig.run({In{{1}, {}, {}, {}}});
  CHECK(s.code == Code::Resource);
  CHECK(s.message.find("more than 1000 steps") != std::string::npos);
}

TEST_CASE("a kernel that faults in a program is named with the steps around it") {
  Rig rig(R"(function "main" { $0 = dim 0 0 input "x" f32 [$0] %0 call "main/b" (%0) "If_7" }
             function "main/b" { $0 = dim 0 0 input "x" f32 [$0] %0 call "s/fault" (%0) })");
  const Status s = rig.run({vec({1})});
  CHECK(s.code == Code::InputMismatch);
  CHECK(s.message.find("'main', step 0 (If_7): 'main/b', step 0: kernel 5 (broken) failed") == 0);
}

TEST_CASE("lists: make, insert, erase, at, length") {
  Rig rig(R"(function "main" {
    $0 = dim 0 0 $1 = dim 1 0
    input "a" f32 [$0] %0
    input "b" f32 [$1] %1
    input "p" i64 [] %2
    %3 = list_make f32 list 1 ()
    %4 = list_insert (%3, %0, -)
    %5 = list_insert (%4, %1, %2) "Insert_1"
    %6 = list_at (%5, %2) "At_2"
    %7 = list_length (%5)
    %8 = list_erase (%5, %2)
    %9 = list_make (%5, %8, %3)
    output "item" f32 rank 1 %6
    output "length" i64 rank 0 %7
    output "lists" f32 list 2 %9
  })");
  const auto items = [&](size_t list) {
    std::vector<F> all;
    REQUIRE(rig.outputs[2].items.size() == 3);
    const OutputArg& l = rig.outputs[2].items[list];
    CHECK(l.list_depth == 1);
    CHECK(l.dtype == DType::F32);
    for (const OutputArg& o : l.items) all.push_back(floats(o));
    return all;
  };
  rig.good({vec({1}), vec({2, 3}), num(0)});
  CHECK(floats(rig.outputs[0]) == F{2, 3});
  CHECK(numbers(rig.outputs[1]) == N{2});
  CHECK(items(0) == std::vector<F>{{2, 3}, {1}});
  CHECK(items(1) == std::vector<F>{{1}});
  CHECK(items(2).empty());
  rig.good({vec({1}), vec({2, 3}), num(1)});
  CHECK(items(0) == std::vector<F>{{1}, {2, 3}});
  rig.good({vec({1}), vec({}), num(-1)});  // in front of the last; and then the last of two
  CHECK(floats(rig.outputs[0]) == F{1});
  CHECK(items(0) == std::vector<F>{{}, {1}});
  CHECK(items(1) == std::vector<F>{{}});
  for (int64_t p : {int64_t{2}, int64_t{-2}, INT64_MIN, INT64_MAX}) {
    const Status s = rig.run({vec({1}), vec({2}), num(p)});
    CHECK(s.code == Code::InputMismatch);
    CHECK(s.message == "'main', step 2 (Insert_1): position " + std::to_string(p) + " in a list of 1");
  }
}

TEST_CASE("lists go in and out, nested ones as well, and absent optionals are lists of nothing") {
  Rig rig(R"(function "main" {
    input "l" f32 list 2 %0
    input "p" i64 [] %1
    %2 = list_at (%0, %1)
    %3 = list_concat axis 0 (%2)
    output "joined" f32 rank 1 %3
    output "same" f32 list 2 %0
  })");
  const In a = vec({1, 2}), b = vec({3}), p = num(-1);
  const InputArg items[] = {a, b};
  const InputArg lists[] = {{DType::F32, {}, nullptr, 0, {}, 1}, {DType::F32, {}, nullptr, 0, items, 1}};
  InputArg list;
  list.items = lists;
  list.list_depth = 2;
  rig.good({list, p});
  CHECK(floats(rig.outputs[0]) == F{1, 2, 3});
  REQUIRE(rig.outputs[1].items.size() == 2);
  CHECK(rig.outputs[1].items[0].items.empty());
  CHECK(floats(rig.outputs[1].items[1].items[0]) == F{1, 2});
  CHECK(rig.outputs[1].items[1].items[0].data != items[0].data);  // it stays when the caller's memory is gone
  CHECK(rig.run({list, num(0)}).message.find("empty list") != std::string::npos);
  CHECK(rig.run({a, p}).text().find("found an array, expected a list") != std::string::npos);
  list.list_depth = 1;
  CHECK(rig.run({list, p}).code == Code::InputMismatch);
  const InputArg wrong[] = {a, num(1)};
  const InputArg around[] = {{DType::F32, {}, nullptr, 0, wrong, 1}};
  CHECK(rig.run({InputArg{DType::F32, {}, nullptr, 0, around, 2}, p}).message.find("found i64, expected f32") !=
        std::string::npos);
}

TEST_CASE("splits and concatenations undo each other along every axis") {
  const auto text = [](const char* axis, bool one, bool lengths) {  // one: pieces without the axis
    return std::string(R"(function "main" {
    $0 = dim 0 0 $1 = dim 0 1 $2 = dim 0 2 $3 = dim 1 0
    input "x" f32 [$0, $1, $2] %0
    input "n" i64 [$3] %1
    %2 = list_split axis )") + axis + (one ? " drop" : "") + (lengths ? " (%0, %1)" : " (%0, -)") + "%3 = list_concat axis " + axis + (one ? " new" : "") +
           R"( (%2) %4 = list_length (%2) output "y" f32 rank 3 %3 output "n" i64 rank 0 %4 output "l" f32 list 1 %2 })";
  };
  F data(24);
  for (size_t i = 0; i < data.size(); ++i) data[i] = float(i);
  const In x{data, {}, {}, {2, 3, 4}};
  const char* const axes[] = {"0", "1", "2"};
  const N extents{2, 3, 4};
  for (int axis = 0; axis < 3; ++axis) {
    const int64_t extent = extents[static_cast<size_t>(axis)];
    for (const bool one : {false, true}) {
      Rig rig(text(axes[axis], one, false));
      rig.good({x, In{{}, {1}, {}, {1}}});
      CHECK(floats(rig.outputs[0]) == data);
      CHECK(shape(rig.outputs[0]) == extents);
      CHECK(numbers(rig.outputs[1]) == N{extent});
      CHECK(rig.outputs[2].items[0].shape.size() == (one ? 2u : 3u));
    }
    Rig rig(text(axes[axis], false, true));
    rig.good({x, In{{}, {0, extent - 1, 1}, {}, {3}}});
    CHECK(floats(rig.outputs[0]) == data);
    CHECK(rig.outputs[2].items[1].bytes == 96 / static_cast<uint64_t>(extent) * static_cast<uint64_t>(extent - 1));
    for (const N& wrong : {N{1}, N{extent, 1}, N{-1, extent + 1}, N{INT64_MAX, INT64_MAX, 2 + extent}})
      CHECK(rig.run({x, In{{}, wrong, {}, {static_cast<int64_t>(wrong.size())}}}).message.find("do not add up") !=
            std::string::npos);
  }
  // Pieces of one length, of which the last is shorter; and arrays without elements.
  Rig rig(R"(function "main" { $0 = dim 0 0 $1 = dim 0 1 input "x" f32 [$0, $1] %0 input "n" i64 [] %1
             %2 = list_split axis 1 (%0, %1) output "l" f32 list 1 %2 })");
  rig.good({In{F(10), {}, {}, {2, 5}}, num(2)});
  REQUIRE(rig.outputs[0].items.size() == 3);
  CHECK(shape(rig.outputs[0].items[2]) == N{2, 1});
  rig.good({In{{}, {}, {}, {0, 5}}, num(4)});
  CHECK(shape(rig.outputs[0].items[1]) == N{0, 1});
  rig.good({In{{}, {}, {}, {3, 0}}, num(4)});
  CHECK(rig.outputs[0].items.empty());
  CHECK(rig.run({In{F(10), {}, {}, {2, 5}}, num(0)}).message.find("pieces of length 0") != std::string::npos);
  CHECK(rig.run({In{{}, {}, {}, {0, INT64_MAX}}, num(1)}).code == Code::Resource);
}

TEST_CASE("items that do not fit together are not concatenated") {
  Rig rig(R"(function "main" { $0 = dim 0 0 $1 = dim 0 1 $2 = dim 1 0 input "a" f32 [$0, $1] %0 input "b" f32 [$2] %1
             %2 = list_make (%0, %1) %3 = list_concat axis 0 (%2) output "y" f32 rank 2 %3 })");
  CHECK(rig.run({In{{1}, {}, {}, {1, 1}}, vec({1})}).message.find("item 1 does not fit") != std::string::npos);
  Rig other(R"(function "main" { input "l" f32 list 1 %0 %1 = list_concat axis 1 (%0) output "y" f32 rank 2 %1 })");
  const In a{F(6), {}, {}, {2, 3}}, b{F(2), {}, {}, {2, 1}}, c{F(3), {}, {}, {1, 3}};
  const InputArg fits[] = {a, b}, fits_not[] = {a, c};
  other.good({InputArg{DType::F32, {}, nullptr, 0, fits, 1}});
  CHECK(shape(other.outputs[0]) == N{2, 4});
  CHECK(!other.run({InputArg{DType::F32, {}, nullptr, 0, fits_not, 1}}).ok());
}

TEST_CASE("a list that nobody else sees grows in place") {
  Rig rig(R"(function "main" {
    input "n" i64 [] %0
    input "x" f32 [] %1
    %2 = list_make f32 list 1 ()
    %3 = loop "main/body" carried 1 (%0, -, %2, %1)
    %4 = list_length (%3)
    output "n" i64 rank 0 %4
  }
  function "main/body" { input "i" i64 [] %0 input "c" bool [] %1 input "l" f32 list 1 %2 input "x" f32 [] %3
    %4 = list_insert (%2, %3, -) output "c" bool rank 0 %1 output "l" f32 list 1 %4 })");
  rig.good({num(200000), In{{1}, {}, {}, {}}});  // quadratic, this would take minutes
  CHECK(numbers(rig.outputs[0]) == N{200000});
}

TEST_CASE("programs that break a rule are refused") {
  const std::string identity = R"( function "z" { input "x" f32 [] %0 output "x" f32 rank 0 %0 })";
  const auto main = [&](const std::string& body) {
    return R"(function "main" { input "x" f32 [] %0 input "l" f32 list 1 %1 input "n" i64 [] %2 input "c" bool [] %3 )" + body +
           " }" + identity;
  };
  CHECK(refusal(main(R"(%4 = call "z" (%0))")).empty());
  refused(main(R"(%4 = call "main" (%0, %1, %2, %3))"), "does not come after its own");
  refused(R"(function "a" { input "x" f32 [] %0 %1 = call "b" (%0) output "x" f32 rank 0 %1 }
             function "b" { input "x" f32 [] %0 %1 = call "a" (%0) output "x" f32 rank 0 %1 })", "does not come after its own");
  refused(main(R"(%4 = call "z" "z" (%0))"), "number of functions");
  refused(main(R"(%4 = list_length "z" (%1))"), "number of functions");
  refused(main(R"(%4 = call "z" (%0, %0))"), "operands are not what it takes");
  refused(main(R"(%4 = call "z" ())"), "operands are not what it takes");
  refused(main(R"(%4 = call "z" (%1))"), "operands are not what it takes");
  refused(main(R"(%4, %5 = call "z" (%0))"), "number of results");
  refused(main(R"(call "z" (%0))"), "number of results");
  refused(main(R"(%4 = call "z" (-))"), "before it is written");
  refused(main(R"(%4 = call "z" (%4))"), "before it is written");
  refused(main(R"(%4 = call "z" (%5) %5 = call "z" (%0))"), "before it is written");
  refused(main(R"(%4 = call "z" (%1000000))"), "nothing writes");
  refused(main(R"(%0 = call "z" (%0))"), "writes a value twice");
  refused(main(R"(%5 = call "z" (%0))"), "nothing writes");
  refused(main(R"(output "y" f32 rank 0 %9)"), "nothing writes");
  refused(main(R"(output "y" f32 rank 0 %2)"), "no value of its type");
  refused(main(R"(output "y" f32 list 1 %0)"), "no value of its type");
  refused(main(R"(output "y" f32 rank 9 %0)"), "too many axes");
  refused(main(R"(output "y" f32 list 9 %1)"), "neither an array nor a list");
  refused(main(R"(%4 = branch "z" "z" (%0, %0))"), "operands are not what it takes");
  refused(main(R"(%4 = branch "z" (%3, %0))"), "number of functions");
  refused(main(R"(%4 = loop "z" carried 0 (%2))"), "operands are not what it takes");
  refused(main(R"(%4 = loop "z" carried 4294967295 (%2, %3, %0))"), "operands are not what it takes");
  refused(main("%4 = list_make ()"), "operands are not what it takes");
  refused(main("%4 = list_make none list 1 ()"), "no element type");
  refused(main("%4 = list_make f32 list 0 ()"), "operands are not what it takes");
  refused(main("%4 = list_make f32 list 9 ()"), "operands are not what it takes");
  refused(main("%4 = list_make (%0, %1)"), "operands are not what it takes");
  refused(main("%4 = list_insert (%1, %2, -)"), "operands are not what it takes");
  refused(main("%4 = list_insert (%1, %0)"), "number of operands");
  refused(main("%4 = list_insert (%1, %0, %0)"), "operands are not what it takes");
  refused(main("%4 = list_at (%1, -)"), "before it is written");
  refused(main("%4 = list_at (%0, %2)"), "operands are not what it takes");
  refused(main("%4 = list_erase (%0, -)"), "operands are not what it takes");
  refused(main("%4 = list_length (%0)"), "operands are not what it takes");
  refused(main("%4 = list_concat axis 0 (%0)"), "operands are not what it takes");
  refused(main("%4 = list_split axis 0 (%1, -)"), "operands are not what it takes");
  refused(main("$0 = const 0 buffer #0 f32 bytes $0 arena $0"), "half a program");
  refused(main("$0 = element 0 0"), "no array of integers");
  refused(main("$0 = element 1 0"), "no array of integers");
  refused(main("$0 = element 9 0"), "no such input");
  CHECK(refusal(main("$0 = element 2 4294967295")).empty());
}

TEST_CASE("calls nest as deep as the limit and no deeper") {
  const auto chain = [](int depth) {
    std::string text;
    char name[16], next[16];
    for (int i = 0; i < depth; ++i) {
      std::snprintf(name, sizeof name, "m%04d", i);
      std::snprintf(next, sizeof next, "m%04d", i + 1);
      text += std::string("function \"") + name + R"(" { input "x" f32 [] %0 )";
      text += i + 1 < depth ? std::string("%1 = call \"") + next + R"(" (%0) output "y" f32 rank 0 %1 })"
                            : std::string(R"(output "y" f32 rank 0 %0 })");
    }
    return text;
  };
  CHECK(refusal(chain(64)).empty());
  refused(chain(65), "calls nest deeper than 64");
  refused(chain(4096), "calls nest deeper than 64");
  refused(chain(4097), "number of functions");
  Plan plan = decode_plan(bytes_of_text("plan " + chain(64)), {6, {}}).value();
  Kernels kernels;
  NoConstants constants;
  const auto pool = WorkerPool::create({}).value();
  const auto executor = std::move(Executor::create(plan, kernels, constants, *pool, {})).value();
  const In x{{5}, {}, {}, {}};
  const InputArg in = x;
  OutputArg out;
  REQUIRE(executor->run(0, {&in, 1}, {&out, 1}).ok());
  CHECK(floats(out) == F{5});
}

TEST_CASE("functions of some programs are kept, and do what they did") {
  const std::string other = R"(function "apart" { $0 = dim 0 0 input "x" f32 [$0] %0 %1 = call "s/add" (%0) output "y" f32 rank 1 %1 } )";
  const auto bytes = bytes_of_text("plan\n" + other + loop_text() + kSegments);
  const auto names = [](const Plan& plan) {
    std::vector<std::string> out;
    for (const Function& f : plan.functions) out.push_back(f.name);
    return out;
  };
  const auto kept = [&](std::vector<std::string_view> programs) {
    Plan plan = decode_plan(bytes, {6, {}}).value();
    keep_programs(plan, programs);
    return plan;
  };
  CHECK(names(kept({"apart"})) == std::vector<std::string>{"apart", "s/add"});
  CHECK(names(kept({"apart", "main"})) == std::vector<std::string>{"apart", "main", "main/body", "s/add", "s/concat", "s/less3", "s/square"});
  CHECK(kept({"absent"}).functions.empty());
  const Plan plan = kept({"main"});
  CHECK(names(plan) == std::vector<std::string>{"main", "main/body", "s/concat", "s/less3", "s/square"});
  const auto pool = WorkerPool::create({}).value();
  std::vector<F> rows;
  for (const Plan& one : {decode_plan(bytes, {6, {}}).value(), plan}) {
    Kernels kernels;
    NoConstants constants;
    const auto executor = std::move(Executor::create(one, kernels, constants, *pool, {})).value();
    const In n = num(3), go = flag(true), x = vec({1, 2});
    const std::vector<InputArg> inputs{n, go, x};
    std::vector<OutputArg> outputs(3);
    REQUIRE(executor->run(*one.find("main"), inputs, outputs).ok());
    rows.push_back(floats(outputs[0]));
  }
  CHECK(rows[0].size() > 2);
  CHECK(rows[0] == rows[1]);
}

TEST_CASE("states, and what derives constants, are those of the functions that are kept") {
  const std::string text =
      "plan derive \"derive\" 64 function \"a\" { $0 = const 64 $1 = const 0 buffer #0 u8 bytes $0 state 3 buffer #1 u8 bytes $0 output 0 output \"y\" u8 [$0] #1 arena $1 copy (#1, #0) }"
      " function \"b\" { $0 = const 64 $1 = const 0 buffer #0 u8 bytes $0 output 0 buffer #1 u8 bytes $0 input 0 input \"x\" u8 [$0] #1 output \"y\" u8 [$0] #0 arena $1 copy (#0, #1) }"
      " function \"derive\" { $0 = const 64 $1 = const 0 buffer #0 u8 bytes $0 derived 0 arena $1 copy (#0, #0) }";
  auto parsed = plan::parse(text);
  REQUIRE_MESSAGE(parsed.ok(), (parsed.ok() ? std::string() : parsed.status().message));
  const auto bytes = plan::encode(*parsed);
  Plan plan = decode_plan(bytes, {}).value();
  CHECK(plan.num_states == 4);
  const std::string_view b[] = {"b"}, a[] = {"a"};
  keep_programs(plan, b);
  CHECK(plan.num_states == 0);
  REQUIRE(plan.functions.size() == 2);
  CHECK(plan.functions[plan.derive].name == "derive");
  plan = decode_plan(bytes, {}).value();
  keep_programs(plan, a);
  CHECK(plan.num_states == 4);
  CHECK(plan.functions[plan.derive].name == "derive");
}
