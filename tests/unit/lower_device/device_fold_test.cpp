// Folds on devices whose lanes are shared: long ones where lanes fold by instructions, a block for each point, and those of few points that lie
// together, of which a block has some.
#include <algorithm>

#include "targets/gpu/device_targets.h"
#include "tests/support/nests/device_run.h"
#include "tests/support/nests/nests.h"

using namespace mlc;
using ir::Expr;
using ir::Join;
using ir::Op;
using test::NestMaker;

namespace {

const targets::Target& device() {
  static const targets::Target target = targets::gpu::device_target("vulkan-subgroup");
  return target;
}

size_t num_folds(const std::vector<loop::StmtPtr>& block) {
  size_t n = 0;
  for (const loop::StmtPtr& s : block) n += (s->kind == loop::StmtKind::FoldLanes) + num_folds(s->body) + num_folds(s->orelse);
  return n;
}

std::vector<loop::Kernel> kernels_of(ir::Context& ctx, const nest::Function& f) {
  auto all = lower::lower(ctx, f, f.body[0], device(), test::test_math);
  REQUIRE_MESSAGE(all.ok(), (all.ok() ? "" : all.status().text()));
  return std::move(*all);
}

constexpr const char* kColumnTargets[] = {"vulkan-base", "cuda-sm80"};

// One launch of 32 columns to a block, right by the interpreter and by the executor of what is emitted.
void check_columns(ir::Context& ctx, const nest::Function& f, const test::Symbols& symbols = {}) {
  for (const char* name : kColumnTargets) {
    CAPTURE(name);
    const targets::Target& target = *targets::find_target(name);
    const auto schedules = test::check_lowering(ctx, f, target, symbols);
    REQUIRE(schedules.size() == 1);
    CHECK_MESSAGE(schedules[0].starts_with("fold "), schedules[0]);
    CHECK_MESSAGE(schedules[0].find("; tile 0 x 32 depth ") != std::string::npos, schedules[0]);
    const auto counts = test::check_emitted(ctx, f, target, symbols);
    // SPIR-V has memory of words, of which 64 bits are two accesses.
    const bool by_words = target.name == "vulkan-base" && bits_of(f.arrays[f.outputs[0]].dtype) > 32;
    if (!by_words) CHECK(counts.conflicts == 0);
  }
}

// y[b, c] = join of x[b, k, c] over k
void of_columns(NestMaker& m, DType type, Join join, const Expr* B, const Expr* K, const Expr* C, bool filtered = false) {
  ir::Context& ctx = m.ctx;
  const uint32_t x = m.array("x", type, {B, K, C}), y = m.output("y", type, {B, C});
  const ir::Dim *b = m.dim("b", B), *k = m.dim("k", K), *c = m.dim("c", C);
  const Expr* load = m.load(x, {m.at(b), m.at(k), m.at(c)});
  const Expr* where = filtered ? ctx.binary(Op::Lt, load, ctx.cast(type, ctx.integer(1, DType::I32))) : nullptr;
  m.map({b, c}, y, {m.at(b), m.at(c)}, ctx.binary(Op::Add, m.fold(join, {k}, load, where), ctx.cast(type, ctx.integer(1, DType::I32))));
}

}  // namespace

TEST_CASE("a long fold is one launch, a block for each point, whatever is left over of its lanes") {
  for (const auto& [rows, length] : {std::pair{3, 1024}, {2, 515}, {70, 5000}, {5, 600}})
    for (const bool filtered : {false, true})
      for (const Join join : {Join::Sum, Join::Max, Join::Prod}) {
        CAPTURE(length);
        CAPTURE(filtered);
        ir::Context ctx;
        NestMaker m(ctx);
        auto N = m.n(rows), K = m.n(length);
        uint32_t x = m.array("x", DType::I32, {N, K}), y = m.output("y", DType::I32, {N});
        auto n = m.dim("n", N), k = m.dim("k", K);
        const Expr* load = m.load(x, {m.at(n), m.at(k)});
        const Expr* where = filtered ? ctx.binary(Op::Lt, load, ctx.integer(2, DType::I32)) : nullptr;
        m.map({n}, y, {m.at(n)}, ctx.binary(Op::Add, m.fold(join, {k}, load, where), ctx.integer(1, DType::I32)));
        const auto schedules = test::check_lowering(ctx, m.f, device());
        CHECK(schedules == std::vector<std::string>{"fold n:1 grid ; block 128 ; vectors 1"});
        const auto kernels = kernels_of(ctx, m.f);
        REQUIRE(kernels.size() == 1);
        CHECK(num_folds(kernels[0].body) == 1);
        CHECK(ir::to_string(kernels[0].tiles) == std::to_string(rows));
      }
}

TEST_CASE("extents that only the run knows, also none") {
  ir::Context ctx;
  NestMaker m(ctx);
  const ir::Sym *A = ctx.declare_sym("A", 0, 1000), *B = ctx.declare_sym("B", 2000, 100000);
  uint32_t x = m.array("x", DType::F32, {ctx.sym(A), ctx.sym(B)}), y = m.output("y", DType::F32, {ctx.sym(A)});
  auto a = m.dim("a", ctx.sym(A)), b = m.dim("b", ctx.sym(B));
  m.map({a}, y, {m.at(a)}, m.fold(Join::Min, {b}, m.load(x, {m.at(a), m.at(b)})));
  for (auto [p, q] : {std::pair{0, 2000}, {2, 2048}, {3, 2001}}) {
    const auto schedules = test::check_lowering(ctx, m.f, device(), {{A, p}, {B, q}});
    CHECK(schedules.back() == "fold a:1 grid ; block 128 ; vectors 1");
  }
}

TEST_CASE("norms of rows fold in blocks, and short, scattered or endless folds are left to others") {
  const auto last = [](int rows, int length, bool columns) {
    ir::Context ctx;
    NestMaker m(ctx);
    auto N = m.n(rows), K = m.n(length);
    uint32_t x = m.array("x", DType::F32, columns ? std::vector{K, N} : std::vector{N, K}), y = m.output("y", DType::F32, {N});
    auto n = m.dim("n", N), k = m.dim("k", K);
    m.map({n}, y, {m.at(n)}, m.fold(Join::Sum, {k}, columns ? m.load(x, {m.at(k), m.at(n)}) : m.load(x, {m.at(n), m.at(k)})));
    return kernels_of(ctx, m.f);
  };
  const auto is_fold = [](const loop::Kernel& kernel) { return kernel.schedule.starts_with("fold ") && num_folds(kernel.body) == 1; };
  CHECK(is_fold(last(4, 768, false).back()));
  CHECK(!is_fold(last(4, 300, false).back()));
  CHECK(is_fold(last(5000, 768, false).back()));
  CHECK(!is_fold(last(5000, 768, true).back()));
  const auto endless = last(1, 1200000, false);
  REQUIRE(endless.size() == 2);  // chunks in lanes, then these in a block
  CHECK(!is_fold(endless[0]));
  CHECK(is_fold(endless[1]));
}

TEST_CASE("few points that lie together are folded by slices, whatever is left over of columns and of slices") {
  for (const DType type : {DType::F32, DType::I32, DType::F64, DType::I64})
    for (const Join join : {Join::Sum, Join::Max, Join::Min, Join::Prod})
      for (const auto& [batch, length, columns] : {std::tuple{1, 128, 64}, {3, 49, 40}, {2, 33, 35}}) {
        CAPTURE(length);
        ir::Context ctx;
        NestMaker m(ctx);
        of_columns(m, type, join, m.n(batch), m.n(length), m.n(columns), length == 49);
        check_columns(ctx, m.f);
      }
}

TEST_CASE("of free extents, none and one among them") {
  ir::Context ctx;
  NestMaker m(ctx);
  const ir::Sym *B = ctx.declare_sym("B", 0, 1000), *K = ctx.declare_sym("K", 0, 1000), *C = ctx.declare_sym("C", 0, 1000);
  of_columns(m, DType::F32, Join::Sum, ctx.sym(B), ctx.sym(K), ctx.sym(C));
  for (const auto& [batch, length, columns] : {std::tuple{1, 128, 384}, {0, 5, 5}, {2, 0, 33}, {2, 1, 1}, {1, 7, 0}, {5, 100, 31}})
    check_columns(ctx, m.f, {{B, batch}, {K, length}, {C, columns}});
}

TEST_CASE("points of a fold in two dims are one index, or the longer of them is shared") {
  for (const bool free : {false, true}) {
    ir::Context ctx;
    NestMaker m(ctx);
    const ir::Sym* side = ctx.declare_sym("H", 0, 1000);
    const Expr *H = free ? ctx.sym(side) : m.n(7), *W = m.n(7), *C = m.n(50);
    const uint32_t x = m.array("x", DType::F32, {m.n(2), ctx.mul(H, m.n(2)), W, C}), y = m.output("y", DType::F32, {m.n(2), C});
    const ir::Dim *b = m.dim("b", m.n(2)), *h = m.dim("h", H), *w = m.dim("w", W), *c = m.dim("c", C);
    const Expr* inside = ctx.binary(Op::Lt, m.at(w), ctx.add(m.at(h), m.n(2)));
    m.map({b, c}, y, {m.at(b), m.at(c)}, m.fold(Join::Sum, {h, w}, m.load(x, {m.at(b), ctx.mul(m.at(h), m.n(2)), m.at(w), m.at(c)}), inside));
    for (const int64_t height : {7, 20})
      if (free || height == 7) check_columns(ctx, m.f, {{side, height}});
  }
}

TEST_CASE("two folds of a value have memory each, and what no column has its own of is read by all of them") {
  ir::Context ctx;
  NestMaker m(ctx);
  const Expr *K = m.n(60), *J = m.n(48), *C = m.n(70);
  const uint32_t x = m.array("x", DType::F32, {K, C}), z = m.array("z", DType::F32, {J, C}), w = m.array("w", DType::F32, {K, m.n(2)}), y = m.output("y", DType::F32, {C});
  const ir::Dim *k = m.dim("k", K), *j = m.dim("j", J), *c = m.dim("c", C);
  const Expr* weighted = m.fold(Join::Sum, {k}, ctx.binary(Op::Mul, ctx.binary(Op::Max, m.load(x, {m.at(k), m.at(c)}), ctx.number(0.5, DType::F32)), m.load(w, {m.at(k), m.n(1)})));
  m.map({c}, y, {m.at(c)}, ctx.binary(Op::Sub, weighted, m.fold(Join::Max, {j}, m.load(z, {m.at(j), m.at(c)}))));
  check_columns(ctx, m.f);
  const auto kernels = lower::lower(ctx, m.f, m.f.body[0], *targets::find_target("cuda-sm80"), test::test_math);
  REQUIRE(kernels.ok());
  CHECK(kernels->back().locals.size() == 2);
}

TEST_CASE("many points, short folds, loads that lie apart, folds under a condition and those of other types have no slices") {
  const auto is_shared = [](int64_t columns, int64_t length, DType type, int64_t apart, bool conditional) {
    ir::Context ctx;
    NestMaker m(ctx);
    const Expr *C = m.n(columns), *K = m.n(length);
    const uint32_t x = m.array("x", type, {K, m.n(columns * apart)}), y = m.output("y", type, {C});
    const ir::Dim *c = m.dim("c", C), *k = m.dim("k", K);
    const Expr* fold = m.fold(Join::Max, {k}, m.load(x, {m.at(k), ctx.mul(m.at(c), m.n(apart))}));
    if (conditional) fold = ctx.select(ctx.binary(Op::Lt, m.at(c), m.n(9)), fold, ctx.cast(type, ctx.integer(1, DType::I32)));
    m.map({c}, y, {m.at(c)}, fold);
    const auto kernels = lower::lower(ctx, m.f, m.f.body[0], *targets::find_target("cuda-sm80"), test::test_math);
    REQUIRE(kernels.ok());
    test::check_lowering(ctx, m.f, *targets::find_target("cuda-sm80"));
    return kernels->back().schedule.starts_with("fold ");
  };
  CHECK(is_shared(100, 64, DType::F32, 1, false));
  CHECK(!is_shared(4096, 64, DType::F32, 1, false));
  CHECK(!is_shared(100, 31, DType::F32, 1, false));
  CHECK(!is_shared(100, 64, DType::F32, 3, false));
  CHECK(!is_shared(100, 64, DType::F32, 1, true));
  CHECK(!is_shared(100, 64, DType::I16, 1, false));
  CHECK(!is_shared(8, 64, DType::F32, 1, false));
}

TEST_CASE("schedules of columns are read and refused as others are") {
  ir::Context ctx;
  NestMaker m(ctx);
  of_columns(m, DType::F32, Join::Sum, m.n(2), m.n(64), m.n(40));
  const auto by = [&](const char* target, const std::string& rest) {
    auto how = schedule::parse("fold b:1 grid | c:1 grid ; " + rest + " ; vectors 1");
    REQUIRE_MESSAGE(how.ok(), (how.ok() ? "" : how.status().text()));
    auto kernels = lower::lower(ctx, m.f, m.f.body[0], *targets::find_target(target), test::test_math, &*how);
    return kernels.ok() ? "" : kernels.status().message;
  };
  CHECK(by("cuda-sm80", "tile 0 x 32 depth 16 copies 4 ; block 512") == "");
  CHECK(by("vulkan-base", "tile 0 x 32 depth 4 copies 4 ; block 128") == "");
  CHECK(by("vulkan-base", "tile 0 x 32 depth 8 copies 4 ; block 256").find("blocks have 128 lanes") != std::string::npos);
  CHECK(by("cuda-sm80", "tile 0 x 32 depth 4 copies 4 ; block 256").find("blocks have 128 lanes") != std::string::npos);
  for (const char* rest : {"block 512", "tile 0 x 32 depth 6 copies 4 ; block 512", "tile 0 x 16 depth 8 copies 4 ; block 512", "tile 0 x 32 depth 32 copies 4 ; block 512"})
    CHECK(by("cuda-sm80", rest).find("columns times 2 to 16 slices") != std::string::npos);
  CHECK(by("cuda-sm80", "tile 1 x 32 depth 8 copies 4 ; block 256").find("no rows") != std::string::npos);
  CHECK(by("cuda-sm80", "tile 0 x 32 depth 8 copies 0 ; block 256").find("not so many copies") != std::string::npos);
}
