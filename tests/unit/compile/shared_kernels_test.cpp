#include "packager/compile/variant/shared_kernels.h"

#include <doctest/doctest.h>

#include <functional>

#include "packager/loop/build.h"
#include "packager/loop/print.h"
#include "packager/loop/verify.h"

using namespace mlc;
using namespace mlc::compile;
using namespace mlc::loop;
using ir::Expr;
using ir::Op;

namespace {

constexpr ir::Type kF32{DType::F32, 1}, kI64{DType::I64, 1};

struct Kernels {
  Kernel begin() {
    Kernel kernel;
    kernel.name = "k";
    kernel.params = {{"x", DType::F32, false, 0, {}, nullptr}, {"y", DType::F32, true, 1, {}, nullptr}};
    kernel.tile_begin = ctx.fresh_var(kI64);
    kernel.tile_end = ctx.fresh_var(kI64);
    kernel.tiles = ctx.integer(1);
    return kernel;
  }
  // y[i*stride + offset] = x[i // divisor] for i below `count`.
  void copy(int64_t stride, int64_t offset, int64_t count, int64_t divisor = 3) {
    Kernel kernel = begin();
    Builder b(ctx, kernel.body);
    b.with_for(ctx.integer(0), ctx.integer(count), 1, [&](const Expr* i) {
      const Expr* from = ctx.floordiv(i, ctx.integer(divisor));
      b.store(1, ctx.add(ctx.mul(i, ctx.integer(stride)), ctx.integer(offset)), vec_load(ctx, 0, kF32, from));
    });
    kernels.push_back(std::move(kernel));
  }
  // y[to] = the sum of x[i + from] for i below `count`.
  void sum(int64_t from, int64_t to, int64_t count) {
    Kernel kernel = begin();
    Builder b(ctx, kernel.body);
    const Expr* s = b.local(ctx.number(0, DType::F32));
    b.with_for(ctx.integer(0), ctx.integer(count), 1, [&](const Expr* i) {
      b.assign(s, vec_binary(ctx, Op::Add, s, vec_load(ctx, 0, kF32, ctx.add(i, ctx.integer(from)))));
    });
    b.store(1, ctx.integer(to), s);
    kernels.push_back(std::move(kernel));
  }
  std::vector<SharedKernel> share() {
    auto out = share_kernels(ctx, kernels);
    for (const Kernel& kernel : kernels) CHECK_MESSAGE(loop::verify(kernel).ok(), loop::to_string(kernel));
    return out;
  }
  static std::vector<int64_t> told(const SharedKernel& kernel) {
    std::vector<int64_t> values;
    for (const Expr* e : kernel.scalars) values.push_back(e->i);
    return values;
  }

  ir::Context ctx;
  std::vector<Kernel> kernels;
};

}  // namespace

TEST_CASE_FIXTURE(Kernels, "copies that differ in strides, offsets and bounds become one that is told them") {
  for (int64_t k = 0; k < 5; ++k) copy(10 + k, 100 + k, 7 * (k + 2));
  const auto shared = share();
  REQUIRE(kernels.size() == 1);
  CHECK(kernels[0].scalars.size() == 3);
  for (size_t k = 0; k < 5; ++k) {
    CHECK(shared[k].number == 0);
    auto values = told(shared[k]);
    std::sort(values.begin(), values.end());
    const auto n = static_cast<int64_t>(k);
    std::vector<int64_t> expected{10 + n, 100 + n, 7 * (n + 2)};
    std::sort(expected.begin(), expected.end());
    CHECK(values == expected);
  }
}

TEST_CASE_FIXTURE(Kernels, "what is the same in all of them stays a number, and what is always equal is told once") {
  for (int64_t k = 0; k < 4; ++k) copy(8, 20 + k, 20 + k);
  const auto shared = share();
  REQUIRE(kernels.size() == 1);
  CHECK(told(shared[2]) == std::vector<int64_t>{22});
  CHECK(loop::to_string(kernels[0]).find("8") != std::string::npos);
}

TEST_CASE_FIXTURE(Kernels, "divisors are not told") {
  for (int64_t k = 0; k < 5; ++k) copy(10, 100, 60, 3 + k);
  share();
  CHECK(kernels.size() == 5);
}

TEST_CASE_FIXTURE(Kernels, "three kernels keep their numbers") {
  for (int64_t k = 0; k < 3; ++k) copy(10 + k, 100 + k, 7);
  const auto shared = share();
  CHECK(kernels.size() == 3);
  CHECK(shared[2].number == 2);
  CHECK(shared[2].scalars.empty());
}

TEST_CASE_FIXTURE(Kernels, "sums are told one offset, and no bound") {
  for (int64_t k = 0; k < 4; ++k) sum(5 + k, 9, 16);
  copy(3, 4, 5);
  for (int64_t k = 0; k < 4; ++k) sum(5 + k, 9 * k, 17);  // two
  for (int64_t k = 0; k < 4; ++k) sum(5, 9, 32 + k);
  const auto shared = share();
  CHECK(kernels.size() == 1 + 1 + 4 + 4);
  CHECK(told(shared[3]) == std::vector<int64_t>{8});
  CHECK(shared[4].number == 1);
  CHECK(shared[8].number == 5);
}

TEST_CASE_FIXTURE(Kernels, "a kernel's own scalars come first") {
  const ir::Sym* n = ctx.declare_sym("n");
  for (int64_t k = 0; k < 4; ++k) {
    Kernel kernel = begin();
    kernel.scalars = {n};
    Builder b(ctx, kernel.body);
    b.with_for(ctx.integer(0), ctx.sym(n), 1, [&](const Expr* i) { b.store(1, ctx.add(i, ctx.integer(50 + k)), vec_load(ctx, 0, kF32, i)); });
    kernels.push_back(std::move(kernel));
  }
  const auto shared = share();
  REQUIRE(kernels.size() == 1);
  REQUIRE(kernels[0].scalars.size() == 2);
  CHECK(kernels[0].scalars[0] == n);
  CHECK(told(shared[3]) == std::vector<int64_t>{53});
}

TEST_CASE_FIXTURE(Kernels, "kernels of a device that differ in clusters, in blocks of a multiprocessor or in where an array lies are not one") {
  const auto copies = [&](const std::function<void(Kernel&)>& change) {
    for (int64_t k = 0; k < 4; ++k) {
      Kernel kernel = begin();
      kernel.lanes = 32;
      kernel.tiles = ctx.integer(2);
      kernel.locals = {{"own", DType::F32, ctx.integer(32), {}, Space::Shared}};
      Builder b(ctx, kernel.body);
      b.with_for(kernel.tile_begin, kernel.tile_end, 1, [&](const Expr* tile) {
        b.with_for(ctx.integer(0), ctx.integer(32), 1, [&](const Expr* lane) {
          b.store(2, ctx.integer(0), vec_load(ctx, 0, kF32, tile));  // the same of all lanes, as it would have to be of a block's
          b.store(1, ctx.add(ctx.add(ctx.mul(tile, ctx.integer(32)), lane), ctx.integer(50 + k)), vec_load(ctx, 2, kF32, ctx.integer(0)));
        });
      });
      kernel.body[0]->body[0]->for_kind = ForKind::Lanes;
      change(kernel);
      kernels.push_back(std::move(kernel));
    }
  };
  copies([](Kernel&) {});
  copies([](Kernel& kernel) { kernel.cluster = 2; });
  copies([](Kernel& kernel) { kernel.resident = 4; });
  copies([](Kernel& kernel) { kernel.locals[0].space = Space::Private; });
  copies([](Kernel&) {});
  const auto shared = share();
  REQUIRE(kernels.size() == 4);
  for (size_t k = 0; k < 20; ++k) CHECK(shared[k].number == (k < 16 ? k / 4 : 0));
  CHECK(kernels[1].cluster == 2);
  CHECK(kernels[2].resident == 4);
  CHECK(kernels[3].locals[0].space == Space::Private);
}
