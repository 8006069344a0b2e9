// What a program may grow to, whatever it does to its values.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "packager/plan/text.h"
#include "runtime/plan/execute/executor.h"
#include "tests/support/containers/any_plan.h"

using namespace mlc;
using namespace mlc::exec;

namespace {

// Runs "main" of a plan in text form on one f32, with so much memory.
struct Run {
  Plan plan;
  test::AnyModule module;
  test::AnyConstants constants;
  std::unique_ptr<WorkerPool> pool = WorkerPool::create({}).value();
  std::unique_ptr<Executor> executor;
  std::vector<OutputArg> outputs;

  explicit Run(const std::string& text, uint64_t memory) {
    auto parsed = plan::parse(text);
    REQUIRE_MESSAGE(parsed.ok(), (parsed.ok() ? std::string() : parsed.status().message));
    auto decoded = decode_plan(plan::encode(*parsed), {test::kAnyKernels, test::any_tensor_bytes});
    REQUIRE_MESSAGE(decoded.ok(), (decoded.ok() ? std::string() : decoded.status().message));
    plan = std::move(*decoded);
    executor = std::move(Executor::create(plan, module, constants, *pool, {.max_memory_bytes = memory})).value();
  }
  Status operator()() {
    alignas(64) static const float x[16] = {};
    const int64_t one = 1;
    const uint32_t main = *plan.find("main");
    const InputArg input{DType::F32, {&one, 1}, x, sizeof(float)};
    outputs.assign(plan.functions[main].outputs.size(), {});
    return executor->run(main, {&input, 1}, outputs);
  }
};

std::string number(uint64_t n) { return std::to_string(n); }

// x; a list of `width` x; a list of `width` such lists; ...
std::string nested_lists(uint64_t width, uint64_t depth, const char* type = "f32") {
  std::string text = "plan function \"main\" { $0 = const 1 input \"x\" f32 [$0] %0\n";
  uint64_t value = 0;
  if (type == std::string("str")) text += "%1 = string_from_number (%0)\n", value = 1;
  for (uint64_t d = 0; d < depth; ++d, ++value) {
    text += "%" + number(value + 1) + " = list_make (";
    for (uint64_t i = 0; i < width; ++i) text += (i ? ", %" : "%") + number(value);
    text += ")\n";
  }
  if (type == std::string("str")) text += "%" + number(value + 1) + " = strings_out (%" + number(value) + ")\n", ++value;
  return text + "output \"y\" " + type + " list " + number(depth) + " %" + number(value) + " }";
}

}  // namespace

TEST_CASE("results whose lists share their items are counted as who gets them sees them") {
  Run good(nested_lists(60, 2), 64 << 20);
  const Status fine = good();
  REQUIRE_MESSAGE(fine.ok(), fine.text());
  REQUIRE(good.outputs[0].items.size() == 60);
  CHECK(good.outputs[0].items[59].items.size() == 60);
  CHECK(good.outputs[0].items[59].items[59].bytes == 4);

  // 4096^8 items: nobody may even try to count them.
  const Status s = Run(nested_lists(4096, 8), uint64_t{1} << 40)();
  CHECK_MESSAGE(s.message.find("more than 1048576 items") != std::string::npos, s.text());
  CHECK(Run(nested_lists(1000, 3, "str"), 64 << 20)().code == Code::Resource);
  // What describes them is memory of the run, too.
  CHECK(Run(nested_lists(1000, 2), 16 << 20)().code == Code::Resource);
  CHECK(Run(nested_lists(1000, 2), 256 << 20)().ok());
}

TEST_CASE("the values of programs that call each other count against the limit") {
  // Each of 40 programs calls the next one, and then one of 20,000 values: so many have room at each depth.
  std::string text = "plan\n";
  const auto name = [](uint64_t i) { return i == 0 ? std::string("main") : "p" + number(100 + i); };
  for (uint64_t i = 0; i < 40; ++i) {
    text += "function \"" + name(i) + "\" { $0 = const 1 input \"x\" f32 [$0] %0\n";
    if (i + 1 < 40) text += "call \"" + name(i + 1) + "\" (%0)\n";
    text += "call \"q\" (%0) }\n";
  }
  text += "function \"q\" { $0 = const 1 input \"x\" f32 [$0] %0\n";
  for (uint64_t i = 1; i < 20'000; ++i) text += "%" + number(i) + " = list_make (%0)\n";
  text += "}";
  CHECK(Run(text, 4 << 20)().code == Code::Resource);  // 40 times 20,000 times 8 bytes are 6.4 MB
  Run enough(text, 16 << 20);
  for (int i = 0; i < 2; ++i) {
    const Status s = enough();
    CHECK_MESSAGE(s.ok(), s.text());
  }
}
