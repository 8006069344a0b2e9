// Procs that are no recurrences, an instance by the lanes of a block: what all of them compute alike, loops that they share or search, and what the
// first one does for all.
#include "packager/nest/facts/uniform.h"

#include "tests/support/nests/device_run.h"
#include "tests/support/nests/recurrences.h"

using namespace mlc;

namespace {

constexpr const char* kTargets[] = {"cuda-sm75", "cuda-sm80", "cuda-sm90"};

// A proc of `instances` over %0 "x" [d, n], %1 "y" [d, n], %2 "z" [d, 4], with locals of n elements. Variables: #0 a count up to n, #1 a bar, #2 whether
// there is one, #3 a sum.
std::string with_statements(int instances, const std::string& n, const std::string& statements) {
  std::string text = "function \"f\"\n";
  if (n == "$n") text += "sym $n 0 1000 multiple 1\n";
  text += "array %0 \"x\" input i32 [" + std::to_string(instances) + ", " + n + "]\narray %1 \"y\" temp i32 [" + std::to_string(instances) + ", " + n + "]\n" +
          "array %2 \"z\" temp i64 [" + std::to_string(instances) + ", 4]\ndim d = " + std::to_string(instances) + "\ninputs %0\noutputs %1 %2\n" +
          "proc \"rows\" (d) reads %0 writes %1 %2 {\n  alloc %16777216 \"key\" i32 [" + n + "]\n  alloc %16777217 \"tally\" i64 [" + n + "]\n";
  text += "  local #0: i64 = 0\n  local #1: i32 = 0:i32\n  local #2: bool = false\n  local #3: i64 = 0\n";
  text += "  for #4 in 0 to " + n + " step 1 {\n    store %1[d, #4] = 0:i32\n    store %16777216[#4] = 7:i32\n    store %16777217[#4] = #4\n  }\n";
  text += statements;
  return text + "  store %2[d, 0] = #0\n  store %2[d, 1] = cast<i64>(#1)\n  store %2[d, 2] = cast<i64>(#2)\n  store %2[d, 3] = #3\n}\n";
}

// Statements of that proc; variables from #10 on are free.
class Rows {
 public:
  Rows(std::mt19937& rng, std::string n) : rng_(rng), n_(std::move(n)) {}

  std::string any(int depth) {
    switch (pick(depth > 2 ? 8 : 11)) {
      case 0: return look();
      case 1: return pushes();
      case 2: return extremes();
      case 3: return filled();
      case 4: return inserted();
      case 5: return read_back();
      case 6: return copied();
      case 7: return "#3 = #3 * 3 + #0\n";
      case 8: return "if " + condition() + " {\n" + any(depth + 1) + any(depth + 1) + "}\n";
      case 9: return "if " + condition() + " {\n" + any(depth + 1) + "} else {\n" + any(depth + 1) + "}\n";
      default: return turns(any(depth + 1) + any(depth + 1));
    }
  }

 private:
  int pick(int count) { return static_cast<int>(rng_() % static_cast<unsigned>(count)); }
  std::string name() { return "#" + std::to_string(var_++); }
  std::string each(const std::string& v, const std::string& body, const std::string& end = "") { return "for " + v + " in 0 to " + (end.empty() ? n_ : end) + " step 1 {\n" + body + "}\n"; }
  std::string condition() {
    constexpr std::array all{"#2", "not(#2)", "#1 < 3:i32", "0 < #0", "3 < #3"};
    return all[static_cast<size_t>(pick(5))];
  }
  std::string better(const std::string& v) {
    // Half of the iterations, one of four or fewer, one of sixteen.
    const std::string x = "%0?[d, " + v + "]", other = "%0?[d, " + n_ + " - 1 - " + v + "]";
    return std::array{"1:i32 < " + x, "#1 < " + x, "2:i32 < " + x + " and 2:i32 < " + other}[static_cast<size_t>(pick(3))];
  }
  std::string look() {
    const std::string v = name();
    return each(v, "if " + v + " + 1 < " + n_ + " {\n #2 = #2 or #1 < %0[d, " + v + " + 1]\n}\n");
  }
  // Few iterations do something, and it may change what others do.
  std::string pushes() {
    const std::string v = name(), e = name();
    const std::string push = "store %16777216[#0] = " + e + "\nstore %1[d, #0] = " + e + "\n#0 = #0 + 1\n" + (pick(2) ? "#1 = " + e + "\n" : "") + (pick(2) ? read_back() : "");
    return each(v, "let " + e + ": i32 = %0?[d, " + v + "]\nif " + better(v) + " and #0 < " + n_ + " {\n" + push + (pick(2) ? "}\nif 9 < #3 {\n#3 = #3 - 9\n}\n" : "}\n"));
  }
  std::string extremes() {
    const std::string j = name(), low = name();
    return "local " + low + ": i32 = 100:i32\n" + each(j, low + " = min(" + low + ", %16777216?[" + j + "])\n#3 = #3 + cast<i64>(%16777216?[" + j + "])\n", pick(2) ? "#0" : "") + "#1 = " + low + "\n";
  }
  std::string filled() {
    const std::string v = name();
    return each(v, "store %16777217[" + v + "] = %16777217?[" + v + "] + cast<i64>(%0?[d, " + v + "])\n");
  }
  std::string inserted() {
    const std::string p = name();
    return "if 0 < #0 {\nlocal " + p + ": i64 = #0 - 1\nwhile 0 < " + p + " and %16777216?[" + p + " - 1] < #1 within 12 {\nstore %16777216[" + p + "] = %16777216?[" + p + " - 1]\n" + p + " = " + p +
           " - 1\nif " + p + " + 10 < #0 {\n" + p + " = 0\n}\n}\nstore %16777216[" + p + "] = #1\n#3 = #3 + " + p + "\n}\n";
  }
  std::string read_back() {
    const std::string e = name();
    return "if 0 < #0 {\nlet " + e + ": i32 = %16777216?[#0 - 1]\n#1 = min(" + e + ", 50:i32)\n#2 = %16777217?[#0 - 1] < 9\n}\n";
  }
  std::string copied() {
    const std::string v = name(), i = name();
    return each(v, "let " + i + ": i64 = min(max(%16777217?[" + v + "], 0), " + n_ + " - 1)\nstore %1[d, " + v + "] = %0?[d, " + i + "]\n");
  }
  std::string turns(const std::string& body) { return each(name(), body, "3"); }

  std::mt19937& rng_;
  std::string n_;
  int var_ = 10;
};

int count_of(const std::vector<loop::StmtPtr>& block, loop::StmtKind kind) {
  int n = 0;
  for (const loop::StmtPtr& s : block) n += (s->kind == kind) + count_of(s->body, kind) + count_of(s->orelse, kind);
  return n;
}

// The kernel, whose answers are those of the nest to the last bit, interpreted and as it is emitted.
loop::Kernel checked(const std::string& text, const char* target, int64_t n) {
  ir::Context ctx;
  const nest::Function f = test::parsed(ctx, text);
  test::Symbols symbols;
  if (const ir::Expr* extent = f.arrays[0].shape[1]; extent->op == ir::Op::Sym) symbols[extent->sym] = n;
  CAPTURE(text);
  CAPTURE(target);
  const targets::Target& t = *targets::find_target(target);
  auto kernels = test::lower_all(ctx, f, t, test::test_math);
  test::check_kernels(f, kernels, t, symbols, 1, 0);
  test::check_emitted(ctx, f, t, symbols);
  return std::move(kernels[0][0]);
}

// How many lanes a block has that makes these statements.
uint32_t lanes_for(int instances, const std::string& statements, const char* target = "cuda-sm80") {
  ir::Context ctx;
  const nest::Function f = test::parsed(ctx, with_statements(instances, "640", statements));
  return test::lower_all(ctx, f, *targets::find_target(target), test::test_math)[0][0].lanes;
}

struct Executed {
  int32_t interpreted = 0, emitted = 0;  // faults
  testing::lanes::Counts counts;
};
Executed executed(const std::string& statements) {
  ir::Context ctx;
  const nest::Function f = test::parsed(ctx, with_statements(1, "640", statements));
  const targets::Target& target = *targets::find_target("cuda-sm80");
  std::mt19937 rng(3);
  const std::vector<nest::Tensor> inputs{test::random_tensor(rng, DType::I32, {1, 640})};
  Executed r;
  r.interpreted = test::run_lowered(ctx, f, inputs, target, {}, test::test_math, 1).fault;
  r.emitted = test::run_lowered(ctx, f, inputs, target, {}, test::test_math, 1, nullptr, test::on_executor(target, r.counts)).fault;
  return r;
}

// Pushes where `condition` holds.
std::string pushes(const std::string& condition, const std::string& more = "") {
  return "for #10 in 0 to 640 step 1 {\nif " + condition + " {\nstore %1[d, #0] = cast<i32>(#10)\n#0 = #0 + 1\n" + more + "}\n}\n";
}

}  // namespace

TEST_CASE("lanes of a block make an instance of a random proc as one lane does") {
  int alike = 0, folds = 0, barriers = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 rng(seed);
    const int64_t n = std::array{64, 131, 33, 640, 300, 1}[seed % 6];
    const std::string extent = seed % 4 == 3 ? "$n" : std::to_string(n);
    std::string statements;
    Rows rows(rng, extent);
    for (int k = 0; k < 6; ++k) statements += rows.any(0);
    const loop::Kernel kernel = checked(with_statements(1 + static_cast<int>(seed % 3), extent, statements), kTargets[seed % 3], n);
    alike += kernel.lanes == 32;
    folds += count_of(kernel.body, loop::StmtKind::FoldLanes);
    barriers += count_of(kernel.body, loop::StmtKind::Barrier);
  }
  CHECK(alike >= 40);
  CHECK(folds >= 150);
  CHECK(barriers >= 100);
}

TEST_CASE("instances that all run at once have the lanes of a block each, where there is something to share") {
  const std::string found = pushes("1:i32 < %0[d, #10]");
  CHECK(lanes_for(1, found) == 32);
  CHECK(lanes_for(108 * 64, found) == 32);
  CHECK(lanes_for(108 * 64 + 1, found) == 128);
  CHECK(lanes_for(1, found, "vulkan-base") == 128);
  CHECK(lanes_for(1, found, "vulkan-subgroup") == 128);
}

TEST_CASE("iterations that do nothing are passed over by all lanes together") {
  const Executed none = executed(pushes("1000000:i32 < %0[d, #10]")), all = executed(pushes("-1000000:i32 < %0[d, #10]"));
  CHECK(none.interpreted == 0);
  CHECK(none.emitted == 0);
  CHECK(none.counts.instructions < 640 * 3);
  CHECK(none.counts.global_loads == 640);
  CHECK(all.counts.instructions > 640 * 10);
}

TEST_CASE("lanes load all that they join, without waiting for what was found before") {
  const std::string looks = "for #10 in 0 to 10 step 1 {\nfor #11 in 0 to 64 step 1 {\n#2 = #2 or -1000000:i32 < %0[d, #10 * 64 + #11]\n}\n}\n";
  const Executed all = executed(looks);
  CHECK(all.interpreted == 0);
  CHECK(all.emitted == 0);
  CHECK(all.counts.global_loads == 640);
  CHECK(all.counts.instructions < executed("for #10 in 0 to 640 step 1 {\n#3 = #3 + cast<i64>(%0[d, #10])\n}\n").counts.instructions * 2);
}

TEST_CASE("a fault ends what stands beside it, of one lane or of all") {
  const std::string beyond = pushes("-1000000:i32 < %0[d, #10]", "store %16777216[#0 + 3] = 1:i32\n");
  const std::string unended = pushes("1:i32 < %0[d, #10]", "local #11: i64 = 0\nwhile 0 <= #11 within 5 {\n#11 = #11 + 1\nstore %16777217[#11] = #11\n}\n");
  const std::string unread = pushes("%0?[d, #10 + 9] < 1000000:i32");
  for (const std::string& statements : {beyond, unended, unread}) {
    CAPTURE(statements);
    REQUIRE(lanes_for(1, statements) == 32);
    const Executed r = executed(statements);
    CHECK(r.interpreted != 0);
    CHECK(r.emitted == r.interpreted);
  }
}

TEST_CASE("a condition that is asked too early is asked again in its turn") {
  // The first push ends the loads, which are beyond the array from the 40th iteration on.
  const std::string statements = "for #10 in 0 to 640 step 1 {\nif #0 < 1 {\nif %0?[d, #10 + 600] < 1000000:i32 {\nstore %1[d, #0] = 5:i32\n#0 = #0 + 1\n}\n}\n}\n";
  CHECK(checked(with_statements(2, "640", statements), "cuda-sm80", 640).lanes == 32);
}

TEST_CASE("folds of real numbers, whose order counts, are no lanes' to share") {
  ir::Context ctx;
  const std::string text =
      "function \"f\"\narray %0 \"x\" input f32 [2, 640]\narray %1 \"y\" temp f32 [2, 2]\ndim d = 2\ninputs %0\noutputs %1\nproc \"sums\" (d) reads %0 writes %1 {\n"
      "  local #0: f32 = 0.0\n  local #1: f32 = 0.0\n  for #2 in 0 to 640 step 1 {\n    #0 = #0 + %0[d, #2]\n    #1 = min(#1, %0[d, #2])\n  }\n  store %1[d, 0] = #0\n  store %1[d, 1] = #1\n}\n";
  const nest::Function f = test::parsed(ctx, text);
  CHECK(test::lower_all(ctx, f, *targets::find_target("cuda-sm80"), test::test_math)[0][0].lanes == 128);
}
