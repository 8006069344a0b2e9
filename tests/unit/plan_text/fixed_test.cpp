// Steps that follow from no input are done in a session's first run of their program.
#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "packager/plan/text.h"
#include "runtime/plan/execute/executor.h"

using namespace mlc;
using namespace mlc::exec;

namespace {

struct NoKernels final : KernelModule {
  uint32_t num_kernels() const override { return 0; }
  uint64_t scratch_bytes(uint32_t) const override { return 0; }
  Status accepts(uint32_t, const LaunchForm&) const override { return ok(); }
  int32_t run(uint32_t, const MlrunLaunch&, uint32_t, uint32_t, WorkMeter&) const override { return 0; }
};

// A text of 64 bytes, and where it is cut.
struct Words final : Constants {
  alignas(64) char text[64] = "applebanana";
  alignas(64) int64_t ends[8] = {5, 11};
  Result<const std::byte*> acquire(uint32_t tensor, uint32_t) const override {
    return tensor == 0 ? reinterpret_cast<const std::byte*>(text) : reinterpret_cast<const std::byte*>(ends);
  }
};

// y: the texts of x, numbered; w: those of the constant; `other` has a word of its own.
constexpr const char* kPlan = R"(plan
function "main" {
  $0 = dim 0 0
  input "x" str [$0] %0
  %1 = strings_in (%0)
  %2, %3 = call "words" ()
  %4 = strings_make (%2, %3)
  %5 = strings_out (%4)
  %6 = strings_out (%1)
  output "y" u64 rank 1 %1
  output "w" u64 rank 1 %4
  output "words" str rank 1 %5
  output "texts" str rank 1 %6
}
function "other" {
  %0, %1 = call "words" ()
  %2 = strings_make (%0, %1)
  %3 = string_concat (%2, %2)
  %4 = strings_out (%3)
  output "w" str rank 1 %4
}
function "words" {
  $0 = const 11
  $1 = const 16
  $2 = const 2
  $3 = const 0
  buffer #0 u8 bytes $0 output 0
  buffer #1 i64 bytes $1 output 1
  buffer #2 u8 bytes $0 constant 0 copy 0
  buffer #3 i64 bytes $1 constant 1 copy 0
  output "text" u8 [$0] #0
  output "ends" i64 [$2] #1
  arena $3
  copy (#0, #2)
  copy (#1, #3)
}
)";

struct Rig {
  Plan plan;
  NoKernels kernels;
  Words words;
  std::unique_ptr<WorkerPool> pool;
  std::unique_ptr<Executor> executor;
  std::vector<OutputArg> outputs;

  Rig() {
    auto text = plan::parse(kPlan);
    REQUIRE_MESSAGE(text.ok(), (text.ok() ? std::string() : text.status().message));
    auto decoded = decode_plan(plan::encode(*text), {0, [](uint32_t, uint32_t) { return std::optional<uint64_t>(64); }});
    REQUIRE_MESSAGE(decoded.ok(), (decoded.ok() ? std::string() : decoded.status().message));
    plan = std::move(*decoded);
    PoolOptions o;
    o.workers = 1;
    pool = WorkerPool::create(o).value();
    executor = std::move(Executor::create(plan, kernels, words, *pool, {})).value();
  }
  Status run(const char* function, const std::vector<std::string>& x = {}) {
    const uint32_t index = *plan.find(function);
    std::vector<Text> views;
    for (const std::string& s : x) views.push_back({s.data(), s.size()});
    const auto count = static_cast<int64_t>(x.size());
    std::vector<InputArg> inputs;
    if (!plan.functions[index].inputs.empty()) inputs.push_back({DType::Str, {&count, 1}, views.data(), views.size() * sizeof(Text)});
    outputs.assign(plan.functions[index].outputs.size(), {});
    return executor->run(index, inputs, outputs);
  }
  std::vector<uint64_t> numbers(size_t output) const {
    const auto* from = static_cast<const uint64_t*>(outputs[output].data);
    return {from, from + outputs[output].bytes / 8};
  }
  std::vector<std::string> texts(size_t output) const {
    std::vector<std::string> out;
    const auto* from = static_cast<const Text*>(outputs[output].data);
    for (uint64_t k = 0; k < outputs[output].bytes / sizeof(Text); ++k) out.emplace_back(from[k].data, from[k].bytes);
    return out;
  }
};

using Numbers = std::vector<uint64_t>;
using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("strings of constants are numbered in the first run, before those of inputs") {
  Rig rig;
  for (int round = 0; round < 3; ++round) {
    REQUIRE(rig.run("main", {"cherry", "banana", "", "date", "cherry"}).ok());
    CHECK(rig.numbers(1) == Numbers{1, 2});
    CHECK(rig.numbers(0) == Numbers{3, 2, 0, 4, 3});  // what a run brings is gone with it
    CHECK(rig.texts(2) == Texts{"apple", "banana"});
    CHECK(rig.texts(3) == Texts{"cherry", "banana", "", "date", "cherry"});
    std::memcpy(rig.words.text, "other words", 11);  // not read again
  }
  std::vector<std::string> many;
  for (int k = 0; k < 5000; ++k) many.push_back("word " + std::to_string(k));
  many.push_back("apple");
  REQUIRE(rig.run("main", many).ok());
  CHECK(rig.texts(3) == many);
  CHECK(rig.numbers(0).back() == 1);
  REQUIRE(rig.run("main", {"word 7"}).ok());
  CHECK(rig.numbers(0) == Numbers{3});
}

TEST_CASE("who changes what a run gave does not change what is kept") {
  Rig rig;
  for (int round = 0; round < 3; ++round) {
    REQUIRE(rig.run("main", {"banana"}).ok());
    CHECK(rig.numbers(1) == Numbers{1, 2});
    std::memset(rig.outputs[1].data, 255, rig.outputs[1].bytes);
  }
}

TEST_CASE("programs of one session that take turns have their own") {
  Rig rig;
  for (int round = 0; round < 3; ++round) {
    REQUIRE(rig.run("other").ok());
    CHECK(rig.texts(0) == Texts{"appleapple", "bananabanana"});
    REQUIRE(rig.run("main", {"banana", "bananabanana"}).ok());
    CHECK(rig.numbers(0) == Numbers{2, 3});
  }
}

TEST_CASE("a fixed step that fails does so in every run, until it does not") {
  Rig rig;
  rig.words.ends[0] = 12;
  for (int round = 0; round < 2; ++round) {
    const Status s = rig.run("main", {"banana"});
    CHECK(s.code == Code::InputMismatch);
    CHECK(s.message.find("outside of its text") != std::string::npos);
  }
  rig.words.ends[0] = 5;
  REQUIRE(rig.run("main", {"banana"}).ok());
  CHECK(rig.numbers(0) == Numbers{2});
}
