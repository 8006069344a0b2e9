#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "packager/plan/print.h"
#include "packager/plan/text.h"
#include "tests/support/containers/any_plan.h"
#include "tests/support/containers/plan_maker.h"
#include "tests/support/source_path.h"

using namespace mlc;
using mlc::test::PlanMaker;
namespace fbp = mlc::fb::plan;

namespace {

const exec::PlanContext kContext{test::kAnyKernels, test::any_tensor_bytes};

std::vector<std::vector<std::byte>> samples() {
  std::vector<std::vector<std::byte>> out{PlanMaker::two_steps().bytes()};
  for (const auto& file : std::filesystem::directory_iterator(mlc::testing::source_path("tests/fuzz/corpus/plan"))) {
    std::ifstream in(file.path(), std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    const Bytes bytes = std::as_bytes(std::span(text));
    out.emplace_back(bytes.begin(), bytes.end());
  }
  return out;
}

bool same(const exec::Port& a, const exec::Port& b) {
  return a.name == b.name && a.dtype == b.dtype && a.buffer == b.buffer && a.shape == b.shape && a.list_depth == b.list_depth &&
         a.value == b.value && a.rank == b.rank;
}
bool same(const exec::Function& a, const exec::Function& b) {
  const auto all = [](const auto& x, const auto& y, auto one) { return std::equal(x.begin(), x.end(), y.begin(), y.end(), one); };
  return a.name == b.name && a.num_symbols == b.num_symbols && a.arena_bytes == b.arena_bytes &&
         all(a.shape, b.shape, [](const exec::SymbolInstr& x, const exec::SymbolInstr& y) {
           const int reads = plan::operands_of(x.op);
           return x.op == y.op && x.dst == y.dst && x.imm == y.imm && (reads < 1 || x.a == y.a) && (reads < 2 || x.b == y.b) &&
                  (reads < 3 || x.c == y.c) && ((x.op != exec::SymbolOp::InputDim && x.op != exec::SymbolOp::InputElement) || (x.a == y.a && x.b == y.b));
         }) &&
         all(a.checks, b.checks, [](const exec::Check& x, const exec::Check& y) {
           return x.condition == y.condition && x.after == y.after && x.message == y.message;
         }) &&
         all(a.buffers, b.buffers, [](const exec::Buffer& x, const exec::Buffer& y) {
           return x.kind == y.kind && x.dtype == y.dtype && x.index == y.index && x.copy == y.copy && x.bytes == y.bytes &&
                  ((x.kind != exec::BufferKind::Arena && x.kind != exec::BufferKind::OutputPart) || x.offset == y.offset) && x.constant_bytes == y.constant_bytes;
         }) &&
         all(a.inputs, b.inputs, [](const exec::Port& x, const exec::Port& y) { return same(x, y); }) &&
         all(a.outputs, b.outputs, [](const exec::Port& x, const exec::Port& y) { return same(x, y); }) &&
         all(a.body, b.body, [&](const exec::Instr& x, const exec::Instr& y) {
           const auto same_cut = [](const exec::Cut& c, const exec::Cut& d) { return c.units == d.units && c.scalar == d.scalar && c.bytes == d.bytes; };
           const auto same_turns = [](const exec::Turns& s, const exec::Turns& t) {
             return s.turns == t.turns && s.scalar == t.scalar && s.parts == t.parts && s.part_scalar == t.part_scalar;
           };
           if (x.turns.has_value() != y.turns.has_value() || (x.turns && !same_turns(*x.turns, *y.turns))) return false;
           return all(x.cuts, y.cuts, same_cut) && x.op == y.op && x.kernel == y.kernel && x.buffers == y.buffers && x.scalars == y.scalars &&
                  (x.op != exec::InstrOp::Launch || x.tiles == y.tiles) && x.work == y.work && x.scratch == y.scratch &&
                  x.operations == y.operations && x.read == y.read && x.written == y.written && x.of_bytes == y.of_bytes && x.steps == y.steps && x.after == y.after &&
                  x.name == y.name;
         }) &&
         a.num_values == b.num_values && all(a.steps, b.steps, [](const exec::Step& x, const exec::Step& y) {
           return x.op == y.op && x.functions == y.functions && x.inputs == y.inputs && x.outputs == y.outputs &&
                  x.carried == y.carried && x.axis == y.axis && x.new_axis == y.new_axis && x.drop_axis == y.drop_axis &&
                  x.max_cuts == y.max_cuts && x.min_letters == y.min_letters && x.between == y.between &&
                  x.case_change == y.case_change && x.match_case == y.match_case && x.integers == y.integers && x.dtype == y.dtype &&
                  x.list_depth == y.list_depth && x.name == y.name;
         });
}

void says(const std::string& text, const char* words) {
  auto plan = plan::parse(text);
  const std::string message = plan ? std::string() : plan.status().message;
  CHECK_MESSAGE(message.find(words) != std::string::npos, message, " should say ", std::string(words));
}

}  // namespace

TEST_CASE("a plan's text reads back to a plan that the runtime accepts as the same") {
  for (const auto& bytes : samples()) {
    const exec::Plan plan = exec::decode_plan(bytes, kContext).value();
    const std::string text = plan::print(plan);
    auto back = plan::parse(text);
    REQUIRE_MESSAGE(back.ok(), (back.ok() ? std::string() : back.status().message), "\n", text);
    CHECK(plan::print(*back) == text);
    auto again = exec::decode_plan(plan::encode(*back), kContext);
    REQUIRE_MESSAGE(again.ok(), (again.ok() ? std::string() : again.status().message));
    CHECK(again->num_states == plan.num_states);
    REQUIRE(again->functions.size() == plan.functions.size());
    for (size_t i = 0; i < plan.functions.size(); ++i) CHECK(same(again->functions[i], plan.functions[i]));
  }
}

TEST_CASE("the text says what a reader wants to know") {
  const exec::Plan plan = exec::decode_plan(PlanMaker::two_steps().bytes(), kContext).value();
  CHECK(plan::print(plan) ==
        "plan\nfunction \"main\" {\n"
        "  $0 = const 0\n  $1 = const 3\n  $2 = const 4\n  $3 = dim 0 0\n  $4 = mul $3 $1\n  $5 = mul $4 $2\n"
        "  $6 = lt $0 $3\n"
        "  check $6 after 7 \"the batch is empty\"\n"
        "  buffer #0 f32 bytes $5 input 0\n  buffer #1 f32 bytes $5 output 0\n"
        "  buffer #2 f32 bytes $5 arena $0  ; $5, 0\n"
        "  input \"x\" f32 [$3, $1] #0  ; $3, 3\n  output \"y\" f32 [$3, $1] #1  ; $3, 3\n"
        "  arena $5\n"
        "  launch 0 (#0, #2) ($4) tiles $3\n  launch 1 (#2, #1) ($4) tiles $3\n}\n");
}

TEST_CASE("the words for operations are those of the schema") {
  for (int op = 1; op <= kLastStepOp; ++op) {
    const std::string name = fbp::EnumNameStepOp(static_cast<fbp::StepOp>(op));
    std::string words;
    for (char c : name) {
      if (std::isupper(c) && !words.empty()) words += '_';
      words += static_cast<char>(std::tolower(c));
    }
    CHECK(kStepWords[static_cast<size_t>(op)] == words);
  }
  for (int op = 1; op <= exec::kLastSymbolOp; ++op) {
    std::string name = fbp::EnumNameSymbolOp(static_cast<fbp::SymbolOp>(op));
    for (char& c : name) c = static_cast<char>(std::tolower(c));
    if (name.starts_with("input")) name = name.substr(5);
    CHECK(plan::kSymbolOpWords[static_cast<size_t>(op)] == name);
  }
}

TEST_CASE("what is no plan is refused with the line") {
  says("", "expected 'plan'");
  says("plan x", "line 1: expected 'function'");
  says("plan function x {", "expected a text in quotes");
  says("plan function \"f\" {\n$0 = magic 1", "line 2: no operation 'magic'");
  says("plan function \"f\" {\n$0 = const", "expected a number");
  says("plan function \"f\" {\n$0 = const 99999999999999999999", "expected a number in range");
  says("plan function \"f\" {\n$-1 = const 0", "expected a number in range");
  says("plan function \"f\" {\n$0 = add $1 2", "expected '$'");
  says("plan function \"f\" {\nbuffer #1 f32", "numbered in order");
  says("plan function \"f\" {\nbuffer #0 f31", "no element type");
  says("plan function \"f\" {\nbuffer #0 f32 bytes $0 none", "no kind of buffer");
  says("plan function \"f\" {\nlaunch 0 (#0 #1)", "expected ','");
  says("plan function \"f\" {\nlaunch 4294967296 (", "expected a number in range");
  says("plan function \"f\" {\nfill (#0) 1", "unexpected 'fill'");
  says("plan function \"f\" {\nlaunch 0 () () tiles $0 cut $1", "expected a number");
  says("plan function \"f\" {\nlaunch 0 () () tiles $0 cut 0 $1 work", "expected '$'");
  says("plan function \"f\" {\nlaunch 0 () () tiles $0 scratch", "expected '$'");
  says("plan function \"f\" {\nyield", "unexpected 'yield'");
  says("plan function \"f\" {\n", "unexpected ''");
}

TEST_CASE("damaged text is refused or read, and what is read is judged by the runtime's verifier") {
  const std::string good = plan::print(exec::decode_plan(samples().back(), kContext).value());
  for (size_t n = 0; n < good.size(); ++n) (void)plan::parse(good.substr(0, n));
  std::mt19937_64 random(5);
  int accepted = 0, refused = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string text = good;
    for (uint64_t k = 1 + random() % 3; k > 0; --k) {
      const size_t at = random() % text.size();
      text[at] = random() % 2 ? static_cast<char>('0' + random() % 10) : static_cast<char>(random());
    }
    auto plan = plan::parse(text);
    if (!plan) continue;
    ++(exec::decode_plan(plan::encode(*plan), kContext) ? accepted : refused);
  }
  CHECK(accepted > 50);
  CHECK(refused > 50);
}

TEST_CASE("the examples of spec/plan.md are plans that run") {
  std::ifstream in(mlc::testing::source_path("spec/plan.md"));
  const std::string page((std::istreambuf_iterator<char>(in)), {});
  // A segment: batches of one and seven; none is refused by its check. A program: n is large, so the limit of steps ends
  // the run, or the two inputs have different shapes.
  const int successes[] = {2, 0};
  size_t end = 0;
  for (const int expected : successes) {
    const size_t begin = page.find("```\nplan\n", end) + 4;
    end = page.find("```", begin);
    REQUIRE(end != std::string::npos);
    auto plan = plan::parse(std::string_view(page).substr(begin, end - begin));
    REQUIRE_MESSAGE(plan.ok(), (plan.ok() ? std::string() : plan.status().message));
    const auto bytes = plan::encode(*plan);
    auto decoded = exec::decode_plan(bytes, kContext);
    REQUIRE_MESSAGE(decoded.ok(), (decoded.ok() ? std::string() : decoded.status().message));
    const auto pool = WorkerPool::create({}).value();
    const auto outcome = test::run_any_plan(bytes, *pool);
    CHECK(outcome.runs > 0);
    CHECK(outcome.successes >= expected);
  }
}
