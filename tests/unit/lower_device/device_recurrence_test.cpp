// Recurrences whose turns the lanes of a block make together.
#include "tests/support/nests/device_run.h"
#include "tests/support/nests/recurrences.h"

using namespace mlc;

namespace {

// How many lanes the block of an instance has; 0: each lane has an instance.
uint32_t lanes_that_share(const std::string& text, const char* target, int64_t h) {
  ir::Context ctx;
  const nest::Function f = test::parsed(ctx, text);
  test::Symbols symbols;
  if (const ir::Expr* extent = f.arrays[0].shape[1]; extent->op == ir::Op::Sym) symbols[extent->sym] = h;
  CAPTURE(text);
  CAPTURE(target);
  const auto kernels = test::lower_all(ctx, f, *targets::find_target(target), test::test_math);
  test::check_kernels(f, kernels, *targets::find_target(target), symbols, 1, 2e-5);
  test::check_emitted(ctx, f, *targets::find_target(target), symbols);
  bool meets = false;
  const std::function<void(const std::vector<loop::StmtPtr>&)> look = [&](const std::vector<loop::StmtPtr>& block) {
    for (const loop::StmtPtr& s : block) meets |= s->kind == loop::StmtKind::Barrier, look(s->body), look(s->orelse);
  };
  look(kernels[0][0].body);
  return meets ? kernels[0][0].lanes : 0;
}

}  // namespace

TEST_CASE("the lanes of a block make the turns of a recurrence together") {
  std::mt19937 rng(9);
  int shared = 0;
  for (int round = 0; round < 6; ++round) {
    const int64_t h = std::array{16, 40, 131, 7, 64, 200}[static_cast<size_t>(round)];
    const std::string extent = round % 2 ? "$h" : std::to_string(h);
    const std::string text = test::random_recurrence(rng, extent);
    const uint32_t cuda = lanes_that_share(text, "cuda-sm80", h), vulkan = lanes_that_share(text, "vulkan-base", h);
    CHECK((cuda == 512 || cuda == 32 || cuda == 0));  // 32: no phases, but loops that the lanes of a warp share
    CHECK(vulkan == (cuda == 512 ? 128 : 0));
    shared += cuda == 512;
  }
  CHECK(shared >= 4);
}

TEST_CASE("lanes that could stop at a fault have an instance each") {
  test::Statements s("40", 10);
  const std::string reads_beyond = "for #5 in 0 to 40 step 1 {\n store %16777216[#5] = %0?[#1 + 1, #5]\n}\n" + s.product(1, 0);
  ir::Context ctx;
  const nest::Function f = test::parsed(ctx, test::recurrence("40", reads_beyond));
  const auto kernels = test::lower_all(ctx, f, *targets::find_target("cuda-sm80"), test::test_math);
  CHECK(kernels[0][0].lanes == 128);
}
