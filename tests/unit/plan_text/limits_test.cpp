// Programs that would go on for ever, or nearly, in one step or in many: the work of a run ends them. Work is counted, so
// that nothing here depends on a clock.
#include <doctest/doctest.h>

#include <cstring>
#include <string>

#include "packager/plan/text.h"
#include "runtime/plan/execute/executor.h"

using namespace mlc;
using namespace mlc::exec;

namespace {

struct NoKernels final : KernelModule {
  uint32_t num_kernels() const override { return 0; }
  uint64_t scratch_bytes(uint32_t) const override { return 0; }
  Status accepts(uint32_t, const LaunchForm&) const override { return ok(); }
  int32_t run(uint32_t, const MlrunLaunch&, uint32_t, uint32_t, WorkMeter&) const override { return MLRUN_FAULT_BAD_CODE; }
};
struct NoConstants final : Constants {
  Result<const std::byte*> acquire(uint32_t, uint32_t) const override { return Status(Code::Internal, "none"); }
};

constexpr uint64_t kUnits = 1 << 20;  // some milliseconds

// Runs the functions' `main`.
Status run(const std::string& functions, const std::vector<InputArg>& inputs, Limits limits = {.work = {.units = kUnits}}) {
  auto text = plan::parse("plan\n" + functions);
  REQUIRE_MESSAGE(text.ok(), (text.ok() ? std::string() : text.status().message));
  auto plan = decode_plan(plan::encode(*text), {0, {}});
  REQUIRE_MESSAGE(plan.ok(), (plan.ok() ? std::string() : plan.status().message));
  NoKernels kernels;
  NoConstants constants;
  auto pool = WorkerPool::create({}).value();
  auto executor = std::move(Executor::create(*plan, kernels, constants, *pool, limits)).value();
  const uint32_t main = *plan->find("main");
  std::vector<OutputArg> outputs(plan->functions[main].outputs.size());
  const Status first = executor->run(main, inputs, outputs);
  outputs.assign(outputs.size(), {});  // what the first run gave is the executor's
  const Status again = executor->run(main, inputs, outputs);  // each run has the whole budget
  CHECK(again.code == first.code);
  CHECK(again.number == first.number);
  return first;
}

void check_work_ends(const Status& s) {
  CHECK(s.code == Code::Resource);
  CHECK_MESSAGE(s.number == 6005, s.text());
  CHECK(s.message.find("1048576 units of work") != std::string::npos);
  CHECK(s.help.find("--time-limit") != std::string::npos);
}

struct Strings {
  std::vector<std::string> texts;
  std::vector<int64_t> shape{static_cast<int64_t>(texts.size())};
  std::vector<Text> views = {};
  operator InputArg() {
    views.clear();
    for (const std::string& s : texts) views.push_back({s.data(), s.size()});
    return {DType::Str, shape, views.data(), views.size() * sizeof(Text)};
  }
};

// Of texts "a...a" that are not split at anything: a table that accepts a*b.
std::vector<int32_t> a_star_b() {
  constexpr size_t kStates = 3, kClasses = 3;
  std::vector<int32_t> table(258 + kStates + kStates * kClasses);
  table[0] = kStates, table[1] = kClasses;
  table[2 + 'a'] = 1, table[2 + 'b'] = 2;
  int32_t* const ends = table.data() + 258;
  ends[2] = 1;
  int32_t* const next = ends + kStates;
  next[1 * kClasses + 1] = 1, next[1 * kClasses + 2] = 2;
  return table;
}

}  // namespace

TEST_CASE("a loop without end is ended by its work, and by its steps where work has no limit") {
  const std::string endless = R"(function "main" { input "x" f32 [] %0 %1 = loop "main/body" carried 1 (-, -, %0)
    output "y" f32 rank 0 %1 }
    function "main/body" { input "i" i64 [] %0 input "c" bool [] %1 input "x" f32 [] %2
    output "c" bool rank 0 %1 output "x" f32 rank 0 %2 })";
  const float x = 1;
  const InputArg in{DType::F32, {}, &x, 4};
  check_work_ends(run(endless, {in}));
  const Status steps = run(endless, {in}, {.max_steps = 5000});
  CHECK(steps.number == 6005);
  CHECK(steps.message.find("more than 5000 steps") != std::string::npos);
}

TEST_CASE("functions that call the next one twice, and so on, are ended") {
  std::string plan = "function \"main\" { input \"x\" f32 [] %0 call \"t10\" (%0) }\n";
  for (int k = 10; k < 50; ++k) {
    const std::string next = "call \"t" + std::to_string(k + 1) + "\" (%0) ";
    plan += "function \"t" + std::to_string(k) + "\" { input \"x\" f32 [] %0 " + next + next + "}\n";
  }
  plan += "function \"t50\" { input \"x\" f32 [] %0 %1 = list_make (%0) }";
  const float x = 1;
  check_work_ends(run(plan, {InputArg{DType::F32, {}, &x, 4}}));
}

TEST_CASE("texts that double are ended by the memory of the session") {
  Strings x{{"some text"}};
  const Status s = run(R"(function "main" { $0 = const 1 input "x" str [$0] %0 %1 = strings_in (%0)
    %2 = loop "main/body" carried 1 (-, -, %1) %3 = strings_out (%2) output "y" str rank 1 %3 }
    function "main/body" { $0 = const 1 input "i" i64 [] %0 input "c" bool [] %1 input "x" u64 [$0] %2
    %3 = string_concat (%2, %2) output "c" bool rank 0 %1 output "x" u64 rank 1 %3 })",
                       {x}, {.max_memory_bytes = 16 << 20, .work = {.units = kUnits * 1024}});
  CHECK(s.code == Code::Resource);
  CHECK_MESSAGE(s.number == 6006, s.text());
  CHECK(s.help.find("--memory-limit") != std::string::npos);
}

TEST_CASE("a pattern that looks to the end of a text at every place of it is ended") {
  Strings x{{std::string(400'000, 'a')}};
  const std::vector<int32_t> table = a_star_b();
  const std::vector<int64_t> shape{static_cast<int64_t>(table.size())};
  const InputArg by{DType::I32, shape, table.data(), table.size() * 4};
  const char* const plan = R"(function "main" { $0 = const 1 $1 = dim 1 0 input "x" str [$0] %0 input "t" i32 [$1] %1
    %2 = strings_in (%0) %3, %4 = string_tokens letters 1 (%2, %1) output "n" i64 rank 1 %4 })";
  check_work_ends(run(plan, {x, by}));
  Strings words;
  words.texts = {""};
  for (int k = 0; k < 100'000; ++k) words.texts[0] += "aaab";
  words.shape = {1};
  CHECK(run(plan, {words, by}, {.work = {.units = 8 * kUnits}}).ok());  // an honest text costs what it is long
}

TEST_CASE("a separator is searched in linear time") {
  const std::string a(300'000, 'a');
  Strings x{{a}}, by{{a.substr(0, 150'000) + "b"}}, comma{{","}}, list{{""}};
  const char* const plan = R"(function "main" { $0 = const 1 input "x" str [$0] %0 input "by" str [$0] %1
    %2 = strings_in (%0) %3 = strings_in (%1) %4, %5 = string_split cuts 1000000 (%2, %3) output "n" i64 rank 1 %5 })";
  CHECK(run(plan, {x, by}).ok());
  for (int k = 0; k < 50'000; ++k) list.texts[0] += "word,";
  CHECK(run(plan, {list, comma}, {.work = {.units = 4 * kUnits}}).ok());
}

TEST_CASE("rows of many items without elements are ended") {
  const int64_t rows = 200'000;
  const std::vector<uint8_t> column(rows);
  const std::vector<int64_t> one{rows, 1}, none{rows, 0};
  std::vector<InputArg> items{{DType::U8, one, column.data(), column.size()}};
  for (int k = 0; k < 20'000; ++k) items.push_back({DType::U8, none, nullptr, 0});
  InputArg list{DType::U8, {}, nullptr, 0, items, 1};
  check_work_ends(run(R"(function "main" { input "l" u8 list 1 %0 %1 = list_concat axis 1 (%0) output "y" u8 rank 2 %1 })", {list}));
}

TEST_CASE("copies of large arrays are charged by their bytes") {
  const std::vector<float> x(1 << 20);
  const std::vector<int64_t> shape{1 << 20};
  const InputArg in{DType::F32, shape, x.data(), x.size() * 4};
  const char* const plan = R"(function "main" { $0 = dim 0 0 input "x" f32 [$0] %0
    %1 = loop "main/body" carried 1 (-, -, %0) output "y" f32 rank 1 %1 }
    function "main/body" { $0 = dim 2 0 input "i" i64 [] %0 input "c" bool [] %1 input "x" f32 [$0] %2
    %3 = list_make (%2, %2) %4 = list_concat axis 0 (%3) %5 = list_split axis 0 (%4, -) %6 = list_length (%5)
    output "c" bool rank 0 %1 output "x" f32 rank 1 %2 })";
  check_work_ends(run(plan, {in}, {.max_memory_bytes = uint64_t{1} << 32, .work = {.units = kUnits}}));
}
