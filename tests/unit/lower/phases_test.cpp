// Recurrences that several workers make together, turn by turn: the same to the last bit as by one worker, and what the nest says.
#include "packager/nest/facts/phases.h"

#include <algorithm>
#include <array>

#include "tests/support/nests/lowered.h"
#include "tests/support/nests/recurrences.h"

using namespace mlc;
using test::parsed;
using test::recurrence;
using test::Statements;

namespace {

std::optional<nest::Phases> phases(const std::string& statements) {
  ir::Context ctx;
  const nest::Function f = parsed(ctx, recurrence("200", statements));
  return nest::phases_of(ctx, *f.body[0].proc);
}

// Whether workers share it. Answers of any number of these are equal. `h`: of the run, where it is free.
bool check(const std::string& text, const char* target, int64_t h) {
  ir::Context ctx;
  const nest::Function f = parsed(ctx, text);
  test::Symbols symbols;
  if (const ir::Expr* extent = f.arrays[0].shape[1]; extent->op == ir::Op::Sym) symbols[extent->sym] = h;
  CAPTURE(text);
  CAPTURE(target);
  const targets::Target& t = *targets::find_target(target);
  const auto kernels = test::lower_all(ctx, f, t, test::test_math);
  test::check_kernels(f, kernels, t, symbols, 1, 2e-5);
  std::mt19937 rng(3);
  std::vector<nest::Tensor> inputs;
  for (uint32_t a : f.inputs) inputs.push_back(test::random_tensor(rng, f.arrays[a].dtype, test::shape_of(f.arrays[a], symbols)));
  const auto whole = test::run_kernels(f, kernels, inputs, symbols, 1);
  for (int64_t parts : {2, 3, 1 << 20}) {
    CAPTURE(parts);
    const auto shared = test::run_kernels(f, kernels, inputs, symbols, parts);
    for (size_t k = 0; k < shared.outputs.size(); ++k) CHECK(shared.outputs[k].bytes == whole.outputs[k].bytes);
  }
  return !kernels[0][0].cuts.empty();
}

}  // namespace

TEST_CASE("phases end where a worker would need what another one computes") {
  Statements s("200", 10);
  const auto counts = [](const std::string& statements) {
    const auto p = phases(statements);
    return p ? std::array<uint32_t, 3>{p->before, p->inside, p->behind} : std::array<uint32_t, 3>{};
  };
  using Counts = std::array<uint32_t, 3>;
  CHECK(counts(s.product(1, 0) + s.update(0, 1) + s.out(0)) == Counts{1, 2, 1});
  CHECK(counts(s.product(1, 0) + s.product(2, 0) + s.update(0, 1) + s.out(2)) == Counts{1, 2, 1});
  CHECK(counts(s.product(1, 0) + s.product(2, 1) + s.update(0, 2)) == Counts{1, 2, 1});
  CHECK(counts(s.product(1, 0) + s.product(2, 1) + s.product(0, 2)) == Counts{1, 3, 1});
  CHECK(counts(s.turned(1, 0) + s.turned(0, 1)) == Counts{1, 2, 1});
  CHECK(counts(s.when(5, s.product(1, 0) + s.update(0, 1)) + s.out(0)) == Counts{1, 2, 1});
  CHECK(counts(s.when(5, s.update(1, 0), s.update(2, 0)) + s.product(0, 1)) == Counts{1, 2, 1});
  // In place, every element of which needs all others.
  CHECK(counts(s.product(0, 0)) == Counts{});
  // What all workers compute would read what one of them stores; and a register that goes from turn to turn.
  CHECK(counts("let #7: f32 = %16777216?[0]\nfor #8 in 0 to 200 step 1 {\n store %16777216[#8] = #7 + 1.0\n}\n") == Counts{});
  CHECK(counts("store %16777216[5] = 1.0\n" + s.product(1, 0) + s.update(0, 1)) == Counts{});
  // One value for all.
  CHECK(counts("let #7: i64 = #1 * 2\nfor #8 in 0 to 200 step 1 {\n store %16777216[#8] = %16777216?[#8] + cast<f32>(#7)\n}\n" + s.product(1, 0)) == Counts{1, 2, 1});
}

TEST_CASE("as many parts as turns") {
  Statements s("176", 10);  // 11 parts of 16; a turn before the loop, nine in it, one behind it
  CHECK(check(recurrence("176", "  for #5 in 0 to 176 step 1 {\n    store %16777217[#5] = exp(exp(exp(exp(exp(exp(%16777217?[#5] - %16777216?[#5]))))))\n    store %2[#1, #5] = %16777217[#5]\n  }\n"), "x86-64-v1", 176));
}

TEST_CASE("any recurrence is the same by any number of workers") {
  std::mt19937 rng(7);
  int shared = 0, all = 0;
  for (int round = 0; round < 10; ++round) {
    const int64_t h = std::array{160, 200, 131, 256, 97}[static_cast<size_t>(round % 5)];
    const bool is_free = round >= 5;
    const std::string extent = is_free ? "$h" : std::to_string(h);
    const std::string text = test::random_recurrence(rng, extent);
    constexpr std::array kTargets{"x86-64-v1", "x86-64-v3", "x86-64-v4", "armv8-a", "portable"};
    for (size_t k : {0, 2}) {
      ++all;
      shared += check(text, kTargets[(static_cast<size_t>(round) + k) % kTargets.size()], h);
    }
  }
  CHECK(shared > all / 2);
}
