// A kernel is the same text whatever was lowered before it, in whatever order and for whatever target.
#include <doctest/doctest.h>

#include "packager/loop/print.h"
#include "packager/lower/lower.h"
#include "targets/gpu/device_targets.h"
#include "tests/support/nests/nests.h"

using namespace mlc;
using test::NestMaker;

namespace {

std::vector<targets::Target> all_targets() {
  std::vector<targets::Target> all;
  for (const char* name : {"x86-64-v2", "x86-64-v4", "armv8-a", "portable"}) all.push_back(*targets::find_target(name));
  for (const char* name : {"vulkan-base", "cuda-sm80"}) all.push_back(targets::gpu::device_target(name));
  return all;
}

// A network: convolutions, windows, a product, a sum of two values, most of them twice, for pictures of a fixed size or of any.
void network(NestMaker& m, bool free) {
  const ir::Expr *H = free ? m.ctx.sym(m.ctx.declare_sym("H", 1, 4096)) : m.n(14), *W = free ? m.ctx.sym(m.ctx.declare_sym("W", 1, 4096)) : m.n(9);
  for (const int64_t channels : {24, 48}) {
    m.conv({.c = 3, .m = channels, .stride = 2}, H, W);
    m.conv({.c = channels, .m = channels, .group = channels, .panels = false}, H, W);
    m.conv({.c = channels, .m = channels, .kh = 5, .kw = 5, .stride = 2, .pad = 2, .group = channels, .panels = false}, H, W);
    m.conv({.c = channels, .m = channels, .kh = 1, .kw = 1, .pad = 0, .residual = true}, H, W);
    m.matmul(m.ctx.mul(H, W), m.n(channels), m.n(33));
    const std::vector<const ir::Expr*> shape{m.ctx.floordiv(H, m.n(2)), m.ctx.add(W, m.n(1)), m.n(channels)};
    const uint32_t a = m.array("a", DType::F32, shape), b = m.array("b", DType::F32, {m.n(channels)}), y = m.output("y", DType::F32, shape);
    const ir::Dim *i = m.dim("i", shape[0]), *j = m.dim("j", shape[1]), *c = m.dim("c", shape[2]);
    const std::vector<const ir::Expr*> at{m.at(i), m.at(j), m.at(c)};
    m.map({i, j, c}, y, at, m.ctx.binary(ir::Op::Mul, m.load(b, {m.at(c)}), m.ctx.binary(ir::Op::Add, m.load(b, {m.n(0)}), m.load(a, at))));
  }
}

std::string text_of(NestMaker& m, size_t statement, const targets::Target& target) {
  auto kernels = lower::lower(m.ctx, m.f, m.f.body[statement], target, {});
  if (!kernels.ok()) return kernels.status().message;
  std::string text;
  for (const loop::Kernel& kernel : *kernels) text += kernel.schedule + "\n" + loop::to_string(kernel);
  return text;
}

}  // namespace

TEST_CASE("what a statement becomes does not depend on what was lowered before it") {
  const std::vector<targets::Target> targets = all_targets();
  for (const bool free : {false, true}) {
    ir::Context ctx;
    NestMaker used(ctx);
    network(used, free);
    for (const targets::Target& target : targets)
      for (size_t k = used.f.body.size(); k-- > 0;) text_of(used, k, target);
    size_t differ = 0;
    for (const targets::Target& target : targets)
      for (size_t k = 0; k < used.f.body.size(); ++k) {
        ir::Context fresh;
        NestMaker alone(fresh);
        network(alone, free);
        const std::string want = text_of(alone, k, target), found = text_of(used, k, target);
        REQUIRE(want.size() > 100);
        differ += want != found;
        CHECK_MESSAGE(want == found, target.name, ", statement ", k);
      }
    CHECK(differ == 0);
  }
}
