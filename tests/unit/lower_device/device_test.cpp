#include <algorithm>

#include "packager/nest/proc.h"
#include "packager/passes/passes.h"
#include "targets/gpu/device_targets.h"
#include "tests/support/nests/device_run.h"
#include "tests/support/nests/lowered.h"
#include "tests/support/nests/nests.h"

using namespace mlc;
using ir::Expr;
using ir::Join;
using ir::Op;
using test::NestMaker;

namespace {

const targets::Target& device() {
  static const targets::Target target = targets::gpu::device_target("vulkan-base");
  return target;
}

const Expr* f32(ir::Context& ctx, double v) { return ctx.number(v, DType::F32); }

}  // namespace

TEST_CASE("a map has a lane for each point of what it writes, in memory order") {
  ir::Context ctx;
  NestMaker m(ctx);
  const ir::Sym *A = ctx.declare_sym("A", 0, 1000), *B = ctx.declare_sym("B", 0, 1000);
  auto a = m.dim("a", ctx.sym(A)), b = m.dim("b", ctx.sym(B));
  uint32_t x = m.array("x", DType::F32, {ctx.sym(A), ctx.sym(B)}), y = m.output("y", DType::F32, {ctx.sym(B), ctx.sym(A)});
  m.map({a, b}, y, {m.at(b), m.at(a)}, ctx.binary(Op::Add, m.load(x, {ctx.floormod(ctx.add(m.at(a), m.at(b)), ctx.sym(A)), m.at(b)}), f32(ctx, 1)));
  for (auto [p, q] : {std::pair{0, 5}, {5, 0}, {1, 1}, {7, 33}, {40, 13}}) {
    const auto schedules = test::check_lowering(ctx, m.f, device(), {{A, p}, {B, q}});
    CHECK(schedules.back() == "map b:1 grid | a:1 grid ; block 128 ; vectors 1");
  }
}

TEST_CASE("places that LLVM proves to be never reached end a kernel as others do") {
  for (const char* name : {"cuda-sm80", "vulkan-base"}) {
    const targets::Target& target = *targets::find_target(name);
    ir::Context ctx;
    NestMaker m(ctx);
    auto row = m.dim("row", m.n(588)), column = m.dim("column", m.n(4));  // one element with two zeros before it and one behind
    uint32_t x = m.array("x", DType::F32, {m.n(588), m.n(1)}), y = m.output("y", DType::F32, {m.n(588), m.n(4)});
    const Expr* at = ctx.sub(m.at(column), m.n(2));
    m.map({row, column}, y, {m.at(row), m.at(column)}, ctx.select(m.within(at, m.n(1)), m.load(x, {m.at(row), at}), f32(ctx, 0)));
    test::check_emitted(ctx, m.f, target);
  }
}

namespace {

// The kernels of the one statement.
std::vector<loop::Kernel> kernels_of(ir::Context& ctx, const nest::Function& f, const targets::Target& target = device()) {
  auto all = lower::lower(ctx, f, f.body[0], target, test::test_math);
  REQUIRE_MESSAGE(all.ok(), (all.ok() ? "" : all.status().text()));
  return std::move(*all);
}

size_t num_loops(const std::vector<loop::StmtPtr>& block) {
  size_t n = 0;
  for (const loop::StmtPtr& s : block) n += (s->kind == loop::StmtKind::For) + num_loops(s->body) + num_loops(s->orelse);
  return n;
}

const Expr* sum_of(ir::Context& ctx, const std::vector<const Expr*>& terms) {
  const Expr* sum = terms[0];
  for (size_t k = 1; k < terms.size(); ++k) sum = ctx.binary(Op::Add, sum, terms[k]);
  return sum;
}

constexpr int kMany = 40;  // more arrays than a launch has buffers

}  // namespace

TEST_CASE("signs of halves are taken before they are converted, or behind it") {
  for (const Op op : {Op::Neg, Op::Abs})
    for (const char* name : {"cuda-sm75", "cuda-sm80", "cuda-sm90"}) {
      CAPTURE(name);
      ir::Context ctx;
      NestMaker m(ctx);
      uint32_t x = m.array("x", DType::F16, {m.n(70)}), y = m.output("y", DType::F32, {m.n(70)});
      auto i = m.dim("i", m.n(70));
      const Expr* rounded = ctx.cast(DType::F16, ctx.binary(Op::Mul, ctx.cast(DType::F32, m.load(x, {m.at(i)})), f32(ctx, 3)));
      m.map({i}, y, {m.at(i)}, ctx.unary(op, ctx.cast(DType::F32, rounded)));
      test::check_emitted(ctx, m.f, *targets::find_target(name));
    }
}

TEST_CASE("folds that the points of a row share are a launch before, unless the lanes of a block can do them together") {
  for (const int64_t row : {20, 40}) {
    ir::Context ctx;
    NestMaker m(ctx);
    auto N = m.n(5), C = m.n(row);
    uint32_t x = m.array("x", DType::F32, {N, C}), y = m.output("y", DType::F32, {N, C});
    auto n = m.dim("n", N), c = m.dim("c", C), k = m.dim("k", C), j = m.dim("j", C);
    const Expr* largest = m.fold(Join::Max, {j}, m.load(x, {m.at(n), m.at(j)}));
    const auto above = [&](const ir::Dim* d) { return ctx.unary(Op::Exp, ctx.binary(Op::Sub, m.load(x, {m.at(n), m.at(d)}), largest)); };
    m.map({n, c}, y, {m.at(n), m.at(c)}, ctx.binary(Op::Div, above(c), m.fold(Join::Sum, {k}, above(k))));
    test::check_lowering(ctx, m.f, device());
    const auto kernels = kernels_of(ctx, m.f);
    if (row == 40) {
      REQUIRE(kernels.size() == 1);
      CHECK(kernels[0].schedule == "lines n:1 grid | c:1 ; tile 4 x 32 depth 1 copies 1 ; block 128 ; vectors 1");
      continue;
    }
    REQUIRE(kernels.size() == 3);
    CHECK(num_loops(kernels.back().body) == 2);  // tiles and lanes: nothing is left to walk
    for (size_t k = 0; k < 2; ++k) CHECK(ir::to_string(kernels[k].tiles) == "1");  // five lanes of one block
    CHECK(kernels[0].params.back().role == loop::Role::Workspace);
  }
}

TEST_CASE("a fold of every point stays where it is, and so does one that costs less than a launch") {
  ir::Context ctx;
  NestMaker product(ctx);
  product.matmul(product.n(7), product.n(30), product.n(20), /*panels=*/true);
  test::check_lowering(ctx, product.f, device());
  CHECK(kernels_of(ctx, product.f).size() == 1);
  NestMaker few(ctx);
  uint32_t x = few.array("x", DType::F32, {few.n(3)}), y = few.output("y", DType::F32, {few.n(50)});
  auto i = few.dim("i", few.n(50)), k = few.dim("k", few.n(3));
  few.map({i}, y, {few.at(i)}, ctx.binary(Op::Add, few.fold(Join::Sum, {k}, few.load(x, {few.at(k)})), ctx.cast(DType::F32, few.at(i))));
  test::check_lowering(ctx, few.f, device());
  CHECK(kernels_of(ctx, few.f).size() == 1);
}

TEST_CASE("a long fold of few lanes is cut into chunks, and these again") {
  for (const auto& [rows, length] : {std::pair{3, 17000}, {1, 16640}, {1, 1200000}})
    for (const bool filtered : {false, true}) {
      if (filtered && length > 17000) continue;
      CAPTURE(length);
      CAPTURE(filtered);
      ir::Context ctx;
      NestMaker m(ctx);
      auto N = m.n(rows), K = m.n(length);
      uint32_t x = m.array("x", DType::I32, {N, K}), y = m.output("y", DType::I32, {N});
      auto n = m.dim("n", N), k = m.dim("k", K);
      const Expr* load = m.load(x, {m.at(n), m.at(k)});
      const Expr* where = filtered ? ctx.binary(Op::Lt, load, ctx.integer(2, DType::I32)) : nullptr;
      m.map({n}, y, {m.at(n)}, m.fold(Join::Sum, {k}, load, where));
      test::check_lowering(ctx, m.f, device());
      const auto kernels = kernels_of(ctx, m.f);
      CHECK(kernels.size() == (length > 1000000 ? 3u : 2u));
      CHECK(kernels[0].params.back().role == loop::Role::Workspace);
    }
}

TEST_CASE("of a long fold with several fields each chunk has all of them") {
  ir::Context ctx;
  NestMaker m(ctx);
  // The largest value and how often it occurs.
  ir::Combiner c;
  c.name = "most";
  c.join = Join::Custom;
  const auto var = [&](DType t) { return ctx.fresh_var({t, 1}); };
  c.left = {var(DType::I32), var(DType::I64)};
  c.right = {var(DType::I32), var(DType::I64)};
  c.units = {ctx.integer(INT32_MIN, DType::I32), ctx.integer(0)};
  const Expr *same = ctx.binary(Op::Eq, c.left[0], c.right[0]), *less = ctx.binary(Op::Lt, c.left[0], c.right[0]);
  c.joins = {ctx.select(less, c.right[0], c.left[0]), ctx.select(same, ctx.add(c.left[1], c.right[1]), ctx.select(less, c.right[1], c.left[1]))};
  const ir::Combiner* most = ctx.declare_combiner(std::move(c));
  auto K = m.n(20001);
  uint32_t x = m.array("x", DType::I32, {K}), y = m.output("y", DType::I64, {m.n(1)});
  auto n = m.dim("n", m.n(1)), k = m.dim("k", K);
  const Expr* both = ctx.fold({most, {k}, nullptr}, {m.load(x, {m.at(k)}), ctx.integer(1)});
  m.map({n}, y, {m.at(n)}, ctx.add(ctx.field(both, 1), ctx.cast(DType::I64, ctx.field(both, 0))));
  test::check_lowering(ctx, m.f, device());
  const auto kernels = kernels_of(ctx, m.f);
  REQUIRE(kernels.size() == 2);
  CHECK(std::count_if(kernels[0].params.begin(), kernels[0].params.end(), [](const loop::Param& p) { return p.role == loop::Role::Workspace; }) == 2);
}

TEST_CASE("a concatenation of many arrays is several launches, each of a part") {
  ir::Context ctx;
  NestMaker m(ctx);
  std::vector<uint32_t> parts;
  for (int k = 0; k < kMany; ++k) parts.push_back(m.array("x" + std::to_string(k), DType::F32, {m.n(3), m.n(2)}));
  uint32_t y = m.output("y", DType::F32, {m.n(3), m.n(2 * kMany)});
  auto a = m.dim("a", m.n(3)), b = m.dim("b", m.n(2 * kMany));
  const Expr* value = m.load(parts.back(), {m.at(a), ctx.sub(m.at(b), m.n(2 * kMany - 2))});
  for (int k = kMany - 1; k-- > 0;)
    value = ctx.select(ctx.binary(Op::Lt, m.at(b), m.n(2 * k + 2)), m.load(parts[static_cast<size_t>(k)], {m.at(a), ctx.sub(m.at(b), m.n(2 * k))}), value);
  m.map({a, b}, y, {m.at(a), m.at(b)}, value);
  test::check_lowering(ctx, m.f, device());
  for (const loop::Kernel& kernel : kernels_of(ctx, m.f)) CHECK(kernel.params.size() <= device().most_buffers());
  CHECK(kernels_of(ctx, m.f, targets::gpu::device_target("cuda-sm80")).size() == 1);
}

TEST_CASE("a sum of many arrays passes through workspaces, also where it is pushed, scanned or one arm of a select") {
  for (const int form : {0, 1, 2, 3}) {
    CAPTURE(form);
    ir::Context ctx;
    NestMaker m(ctx);
    auto N = m.n(6), C = m.n(5);
    std::vector<uint32_t> xs;
    for (int k = 0; k < kMany; ++k) xs.push_back(m.array("x" + std::to_string(k), DType::F32, {N, C}));
    uint32_t y = m.output("y", DType::F32, {N, C});
    auto a = m.dim("a", N), b = m.dim("b", C);
    std::vector<const Expr*> terms;
    for (const uint32_t x : xs) terms.push_back(m.load(x, {m.at(a), m.at(b)}));
    const Expr* value = sum_of(ctx, terms);
    if (form == 3) value = ctx.unary(Op::Neg, ctx.select(ctx.binary(Op::Lt, m.at(b), m.n(2)), value, terms[0]));
    nest::Nest& nest = m.map({a, b}, y, {m.at(a), m.at(b)}, value);
    if (form == 1) nest.where = ctx.binary(Op::Lt, ctx.number(-10, DType::F32), terms[0]);
    if (form == 2) nest.scan_dim = b, nest.scan_combiner = ctx.builtin(Join::Sum);
    test::check_lowering(ctx, m.f, device(), {}, 1, 1e-4);
    const auto kernels = kernels_of(ctx, m.f);
    CHECK(kernels.size() > 1);
    for (const loop::Kernel& kernel : kernels) CHECK(kernel.params.size() <= device().most_buffers());
  }
}

TEST_CASE("pushes run in order in one lane where no dim keeps them apart, and in lanes where one does") {
  for (const bool apart : {false, true}) {
    ir::Context ctx;
    NestMaker m(ctx);
    auto N = m.n(200), C = m.n(3);
    uint32_t i = m.array("i", DType::I64, {N}), x = m.array("x", DType::F32, {N, C}), y = m.output("y", DType::F32, {m.n(4), C});
    auto n = m.dim("n", N), c = m.dim("c", C);
    nest::Nest& nest = m.map({n, c}, y, {ctx.max(m.n(0), ctx.min(m.load(i, {m.at(n)}), m.n(3))), apart ? m.at(c) : ctx.floormod(ctx.add(m.at(c), m.at(n)), C)},
                             m.load(x, {m.at(n), m.at(c)}));
    nest.writes[0].push = true;
    nest.writes[0].join = Join::Max;
    const auto schedules = test::check_lowering(ctx, m.f, device());
    CHECK(schedules.back() == (apart ? "map c:1 grid | n:1 ; block 128 ; vectors 1" : "map n:1 | c:1 ; block 128 ; vectors 1"));
  }
}

TEST_CASE("schedules of a device are read and refused as others are") {
  ir::Context ctx;
  NestMaker m(ctx);
  auto N = m.n(6), C = m.n(50);
  uint32_t x = m.array("x", DType::F32, {N, C}), y = m.output("y", DType::F32, {C, N});
  auto a = m.dim("a", N), b = m.dim("b", C);
  m.map({a, b}, y, {m.at(b), m.at(a)}, m.load(x, {m.at(a), m.at(b)}));
  const auto by = [&](const char* text, const targets::Target& target) {
    auto how = schedule::parse(text);
    REQUIRE_MESSAGE(how.ok(), (how.ok() ? "" : how.status().text()));
    CHECK(schedule::print(*how) == text);
    auto kernels = lower::lower(ctx, m.f, m.f.body[0], target, test::test_math, &*how);
    return kernels.ok() ? "" : kernels.status().message;
  };
  CHECK(by("map a:1 grid | b:1 grid ; block 128 ; vectors 1", device()) == "");
  CHECK(by("map a:1 grid | b:1 ; block 128 ; vectors 1", device()) == "");
  CHECK(by("map a:1 grid | b:1 grid ; vectors 1", device()).find("128 lanes") != std::string::npos);
  CHECK(by("map a:1 cut | b:1 ; block 128 ; vectors 1", device()).find("cannot be cut") != std::string::npos);
  CHECK(by("map a:2 grid | b:1 ; block 128 ; vectors 1", device()).find("one point") != std::string::npos);
  const targets::Target& processor = *targets::find_target("x86-64-v3");
  CHECK(by("map a:1 grid | b:1 ; vectors 4", processor).find("over a grid") != std::string::npos);
  CHECK(by("map a:1 | b:1 ; block 128 ; vectors 4", processor).find("no blocks") != std::string::npos);
}

TEST_CASE("a block that takes more arrays than a launch has bindings is refused with their number") {
  ir::Context ctx;
  NestMaker m(ctx);
  auto proc = std::make_unique<nest::Proc>();
  for (int k = 0; k < kMany; ++k) proc->reads.push_back(m.array("x" + std::to_string(k), DType::F32, {m.n(3)}));
  nest::Statement s;
  s.source = "wide";
  s.proc = std::move(proc);
  m.f.body.push_back(std::move(s));
  const auto kernels = lower::lower(ctx, m.f, m.f.body[0], device(), test::test_math);
  REQUIRE_FALSE(kernels.ok());
  CHECK(kernels.status().code == Code::Unsupported);
  CHECK(kernels.status().message == "it takes 40 bindings at once, a launch has at most 16");
}

TEST_CASE("a choice of two loads along an axis, and a write of each of two arrays, are one launch that reads nothing that does not exist") {
  ir::Context ctx;
  NestMaker m(ctx);
  const ir::Sym *past = ctx.declare_sym("past", 0, 1024), *fresh = ctx.declare_sym("new", 0, 16);
  auto N = ctx.sym(past), M = ctx.sym(fresh), A = m.n(3), B = m.n(8), all = ctx.add(N, M);
  const auto copies = [&](const char* name) {
    const uint32_t old = m.array(std::string(name) + " past", DType::F32, {A, N, B}), one = m.array(std::string(name) + " new", DType::F32, {A, M, B}), y = m.output(name, DType::F32, {A, all, B});
    for (const bool is_new : {false, true}) {
      auto a = m.dim("a", A), n = m.dim("n", is_new ? M : N), b = m.dim("b", B);
      m.map({a, n, b}, y, {m.at(a), is_new ? ctx.add(m.at(n), N) : m.at(n), m.at(b)}, m.load(is_new ? one : old, {m.at(a), m.at(n), m.at(b)}));
    }
  };
  copies("keys"), copies("values");
  REQUIRE(passes::run(ctx, m.f, {.pipeline = {"join-copies"}, .check = true}).ok());
  REQUIRE(m.f.body.size() == 1);
  for (const char* name : {"vulkan-base", "cuda-sm80"})
    for (const auto& [n, k] : {std::pair{0, 1}, {5, 1}, {64, 3}, {7, 0}, {0, 0}}) {
      test::check_lowering(ctx, m.f, *targets::find_target(name), {{past, n}, {fresh, k}});
      test::check_emitted(ctx, m.f, *targets::find_target(name), {{past, n}, {fresh, k}});
    }
}
