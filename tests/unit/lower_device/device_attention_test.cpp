// What passes fuse for devices: attention whose scores stay in a block, softmax and norms whose rows lanes share.
#include "packager/passes/passes.h"
#include "tests/support/nests/attention_nests.h"
#include "tests/support/nests/device_run.h"
#include "tests/support/nests/nests.h"

using namespace mlc;
using ir::Expr;
using ir::Join;
using ir::Op;
using test::attention;
using test::join_all;
using test::NestMaker;

namespace {

const targets::Target& device(const char* name) {
  const targets::Target* t = targets::find_target(name);
  REQUIRE(t);
  return *t;
}

// Random numbers; keys from `first` on are seen, of even queries only where `some`.
std::vector<nest::Tensor> inputs_of(const nest::Function& f, const test::Symbols& symbols, int64_t first, bool some) {
  std::mt19937 rng(5);
  std::vector<nest::Tensor> made;
  for (uint32_t a : f.inputs) {
    made.push_back(test::random_tensor(rng, f.arrays[a].dtype, test::shape_of(f.arrays[a], symbols)));
    nest::Tensor& t = made.back();
    if (t.dtype != DType::Bool) continue;
    for (int64_t e = 0; e < t.elements(); ++e) {
      ir::Scalar v;
      const int64_t query = e / std::max<int64_t>(t.shape[1], 1), key = e % std::max<int64_t>(t.shape[1], 1);
      v.i = key >= first && !(some && query % 2);
      ir::store_element(DType::Bool, t.bytes.data(), static_cast<uint64_t>(e), v);
    }
  }
  return made;
}

// The schedules of all its kernels.
std::vector<std::string> check(ir::Context& ctx, const nest::Function& f, const char* target, const test::Symbols& symbols = {}, int64_t first = 0, bool some = false,
                               const schedule::Schedule* how = nullptr) {
  const auto inputs = inputs_of(f, symbols, first, some);
  nest::InterpretOptions options;
  options.threads = 1;
  options.symbols = symbols;
  const auto want = nest::interpret(f, inputs, options);
  REQUIRE_MESSAGE(want.ok(), (want.ok() ? "" : want.status().text()));
  const test::Lowered got = test::run_lowered(ctx, f, inputs, device(target), symbols, test::vanishing_exp, 1, how);
  CHECK(got.fault == 0);
  for (size_t k = 0; k < want->size(); ++k) {
    const test::Difference d = test::difference((*want)[k], got.outputs[k]);
    CAPTURE(target);
    CAPTURE(got.schedules.back());
    CAPTURE(d.worst);
    CHECK(d.error <= 2e-5 * std::max(d.largest, 1.0));
  }
  return got.schedules;
}

void check_attention(ir::Context& ctx, const nest::Function& f, const char* target, const test::Symbols& symbols = {}, int64_t first = 0, bool some = false) {
  const auto schedules = check(ctx, f, target, symbols, first, some);
  CHECK(schedules.size() == 1);
  CHECK_MESSAGE(schedules.back().starts_with("attention "), schedules.back());
}

std::optional<nest::Group> group(const nest::Function& f) { return nest::group_of(f, nest::Lifetimes(f), 0, f.body.size()); }

}  // namespace

TEST_CASE("attention is one kernel, with weights as quotients or a quotient of sums") {
  for (const char* target : {"vulkan-base", "cuda-sm80"})
    for (const auto& [queries, keys] : {std::pair{8, 9}, {33, 70}, {70, 33}}) {
      CAPTURE(queries);
      CAPTURE(keys);
      ir::Context ctx;
      NestMaker quotients(ctx), sums(ctx);
      quotients.attention(4, 2, quotients.n(queries), quotients.n(keys), 8);
      join_all(quotients.f);
      check_attention(ctx, quotients.f, target);
      attention(sums, {.values = 20}, sums.n(queries), sums.n(keys));
      check_attention(ctx, sums.f, target);
    }
}

TEST_CASE("attention of extents that only the run knows, one and none among them") {
  ir::Context ctx;
  NestMaker m(ctx);
  const ir::Sym *L = ctx.declare_sym("L", 0, 4096), *U = ctx.declare_sym("U", 1, 4096);
  attention(m, {.depth = 20, .values = 40}, ctx.sym(L), ctx.sym(U));
  for (const auto& [queries, keys] : {std::pair{1, 1}, {0, 5}, {17, 32}, {65, 3}}) check_attention(ctx, m.f, "vulkan-base", {{L, queries}, {U, keys}});
}

TEST_CASE("keys that a query may not see: behind it, before its window, where a mask says so; queries that see none") {
  for (int k = 0; k < 8; ++k) {
    CAPTURE(k);
    const test::AttentionForm form{.causal = k % 2 == 0, .window = k == 2 || k == 6, .masked = k % 4 != 0, .safe = k >= 4};
    ir::Context ctx;
    NestMaker m(ctx);
    attention(m, form, m.n(70), m.n(75));
    check_attention(ctx, m.f, "vulkan-base", {}, 0, form.safe);
    check_attention(ctx, m.f, "vulkan-base", {}, 40, form.safe);  // the first turn sees nothing, queries of a causal one nothing at all
  }
}

TEST_CASE("what scores read out of range is a fault, and lanes go on to their barriers") {
  for (const char* target : {"vulkan-base", "cuda-sm80"}) {
    ir::Context ctx;
    NestMaker m(ctx);
    attention(m, {.masked = true, .checked = true}, m.n(20), m.n(40));  // needed where the mask says so
    const ir::Sym* biased = ctx.declare_sym("biased", 0, 4096);
    check_attention(ctx, m.f, target, {{biased, 40}}, 0, false);
    testing::lanes::Counts counts;
    const auto inputs = inputs_of(m.f, {{biased, 39}}, 0, false);
    const test::Lowered got = test::run_lowered(ctx, m.f, inputs, device(target), {{biased, 39}}, test::vanishing_exp, 1, nullptr, test::on_executor(device(target), counts));
    CHECK(got.fault == 1);
  }
}

TEST_CASE("scores that somebody else reads are written, and few queries are a product as others are") {
  ir::Context ctx;
  NestMaker shared(ctx), few(ctx);
  attention(shared, {.shares = true}, shared.n(20), shared.n(30));
  attention(few, {.depth = 64}, few.n(1), few.n(80));
  for (const nest::Function* f : {&shared.f, &few.f})
    for (const std::string& s : check(ctx, *f, "vulkan-base")) CHECK_MESSAGE(!s.starts_with("attention "), s);
}

TEST_CASE("all legal schedules of attention give what the nests say") {
  size_t accepted = 0, refused = 0;
  for (const int64_t values : {8, 16, 40, 96}) {
    ir::Context ctx;
    NestMaker m(ctx);
    attention(m, {.causal = values == 16, .heads = 1, .values = values}, m.n(37), m.n(50));
    const auto g = group(m.f);
    REQUIRE(g);
    const auto all = lower::group_alternatives(ctx, m.f, *g, device("vulkan-base"));
    REQUIRE(all.ok());
    REQUIRE(!all->empty());
    schedule::Schedule how = all->front();
    for (const int64_t rows : {16, 32, 64, 48})
      for (const int64_t columns : {16, 32, 64})
        for (const int64_t depth : {4, 8, 16, 32}) {
          how.tile = {rows, columns, depth, static_cast<unsigned>(depth == 8 ? 8 : 2), values == 40};
          CHECK(schedule::parse(schedule::print(how)).value() == how);
          const auto kernels = lower::lower_group(ctx, m.f, *g, "attention", device("vulkan-base"), test::vanishing_exp, &how);
          kernels.ok() ? ++accepted : ++refused;
          if (kernels.ok()) check(ctx, m.f, "vulkan-base", {}, 0, false, &how);
          else CHECK(kernels.status().code == Code::Malformed);
        }
  }
  CHECK(accepted > 40);
  CHECK(refused > 40);
}

TEST_CASE("schedules of attention are refused where memory, registers or lanes do not do") {
  ir::Context ctx;
  NestMaker m(ctx);
  attention(m, {.heads = 1, .values = 128}, m.n(40), m.n(50));
  const auto g = group(m.f);
  REQUIRE(g);
  const auto by = [&](const std::string& tile) {
    const auto how = schedule::parse("attention h:1 grid | i:1 grid | f:1 || j:1 | e:1 ; tile " + tile + " ; instr mul.f32 ; block 64 ; vectors 1");
    REQUIRE_MESSAGE(how.ok(), (how.ok() ? "" : how.status().text()));
    const auto kernels = lower::lower_group(ctx, m.f, *g, "attention", device("vulkan-base"), test::vanishing_exp, &*how);
    return kernels.ok() ? "" : kernels.status().message;
  };
  CHECK(by("32 x 32 depth 8 copies 2") == "");
  CHECK(by("32 x 24 depth 8 copies 2").find("16, 32 or 64") != std::string::npos);
  CHECK(by("32 x 32 depth 64 copies 2").find("whole pieces") != std::string::npos);
  CHECK(by("64 x 64 depth 16 copies 2").find("larger than the memory") != std::string::npos);
  CHECK(by("32 x 32 depth 8 copies 3").find("copies divide") != std::string::npos);
}

TEST_CASE("emitters write attention, whose causal queries load less; lanes meet in banks where vectors are stored one by one") {
  for (const char* name : {"vulkan-base", "vulkan-subgroup", "cuda-sm80"}) {
    CAPTURE(name);
    uint64_t loads[2] = {};
    for (const bool causal : {false, true}) {
      ir::Context ctx;
      NestMaker m(ctx);
      attention(m, {.causal = causal, .heads = 1, .depth = 16, .values = 32}, m.n(128), m.n(128));
      const auto all = lower::group_alternatives(ctx, m.f, group(m.f).value(), device(name)).value();
      auto how = *std::find_if(all.begin(), all.end(), [](const schedule::Schedule& s) { return !schedule::is_mma(s); });
      how.tile.rows = 32;
      const auto counts = test::check_emitted(ctx, m.f, device(name), {}, &how, test::vanishing_exp);
      const uint64_t turns = causal ? 10 : 16, words = 32 * 32 * turns + 128 * 32;  // scores, and sums on their way out
      CHECK(counts.conflicts == (name == std::string("cuda-sm80") ? 0 : words / 32 * 3));
      loads[causal] = counts.global_loads;
      // Each turn reads the queries of the block, 32 keys and their values.
      CHECK(counts.global_loads <= turns * (32 * 16 + 32 * 16 + 32 * 32));
    }
    CHECK(loads[1] < loads[0]);
  }
}

TEST_CASE("attention asks less of global memory than its nests one by one") {
  for (const char* name : {"vulkan-base", "cuda-sm80"}) {
    ir::Context ctx;
    NestMaker m(ctx);
    attention(m, {.heads = 1, .depth = 16, .values = 32}, m.n(128), m.n(128));
    const auto together = test::check_emitted(ctx, m.f, device(name), {}, nullptr, test::vanishing_exp);
    for (nest::Statement& s : m.f.body) s.joins = false;
    const auto apart = test::check_emitted(ctx, m.f, device(name), {}, nullptr, test::vanishing_exp);
    MESSAGE(std::string(name), ": loads ", together.global_loads, " of ", apart.global_loads, ", stores ", together.global_stores, " of ", apart.global_stores);
    CHECK(together.global_loads * 3 < apart.global_loads * 2);
    CHECK(together.global_stores * 6 < apart.global_stores);
  }
}

TEST_CASE("the nests of a softmax are one kernel") {
  for (const char* target : {"vulkan-base", "vulkan-subgroup", "cuda-sm75"})
    for (const int64_t points : {40, 300}) {
      ir::Context ctx;
      NestMaker m(ctx);
      auto R = m.n(50), C = m.n(points);
      const auto temp = [&](const char* name, std::vector<const Expr*> shape) { return m.array(name, DType::F32, std::move(shape), nest::Array::Kind::Temp); };
      const uint32_t x = m.array("x", DType::F32, {R, C}), top = temp("top", {R}), part = temp("part", {R, C}), all = temp("all", {R}), y = m.output("y", DType::F32, {R, C});
      auto r = m.dim("r", R), c = m.dim("c", C);
      m.map({r}, top, {m.at(r)}, m.fold(Join::Max, {c}, m.load(x, {m.at(r), m.at(c)})), "softmax");
      r = m.dim("r", R), c = m.dim("c", C);
      m.map({r, c}, part, {m.at(r), m.at(c)}, ctx.unary(Op::Exp, ctx.binary(Op::Sub, m.load(x, {m.at(r), m.at(c)}), m.load(top, {m.at(r)}))));
      r = m.dim("r", R), c = m.dim("c", C);
      m.map({r}, all, {m.at(r)}, m.fold(Join::Sum, {c}, m.load(part, {m.at(r), m.at(c)})));
      r = m.dim("r", R), c = m.dim("c", C);
      m.map({r, c}, y, {m.at(r), m.at(c)}, ctx.binary(Op::Div, m.load(part, {m.at(r), m.at(c)}), m.load(all, {m.at(r)})));
      REQUIRE(passes::run(ctx, m.f, {.pipeline = {"join-rows"}, .check = true}).ok());
      const auto schedules = check(ctx, m.f, target);
      CHECK(schedules.size() == 1);
      CHECK(schedules.back().starts_with("lines "));
      const auto counts = test::check_emitted(ctx, m.f, device(target));
      CHECK(counts.global_loads <= static_cast<uint64_t>(3 * 52 * points));
    }
}

TEST_CASE("what others read of a norm is written, and the rest is one kernel") {
  ir::Context ctx;
  NestMaker m(ctx);
  auto R = m.n(20), C = m.n(64);
  const uint32_t x = m.array("x", DType::F32, {R, C}), mean = m.output("mean", DType::F32, {R});
  const uint32_t power = m.array("power", DType::F32, {R}, nest::Array::Kind::Temp), y = m.output("y", DType::F32, {R, C});
  const auto off = [&](const ir::Dim* r, const ir::Dim* c) { return ctx.binary(Op::Sub, m.load(x, {m.at(r), m.at(c)}), m.load(mean, {m.at(r)})); };
  auto r = m.dim("r", R), c = m.dim("c", C);
  m.map({r}, mean, {m.at(r)}, m.fold(Join::Sum, {c}, ctx.binary(Op::Mul, m.load(x, {m.at(r), m.at(c)}), ctx.number(1.0 / 64, DType::F32))), "norm");
  r = m.dim("r", R), c = m.dim("c", C);
  m.map({r}, power, {m.at(r)}, m.fold(Join::Sum, {c}, ctx.binary(Op::Mul, off(r, c), off(r, c))));
  r = m.dim("r", R), c = m.dim("c", C);
  m.map({r, c}, y, {m.at(r), m.at(c)}, ctx.binary(Op::Div, off(r, c), ctx.binary(Op::Add, m.load(power, {m.at(r)}), ctx.number(1, DType::F32))));
  REQUIRE(passes::run(ctx, m.f, {.pipeline = {"join-rows"}, .check = true}).ok());
  CHECK(check(ctx, m.f, "vulkan-base").size() == 2);
}

TEST_CASE("passes find attention, whatever its weights are") {
  for (int form = 0; form < 8; ++form) {
    CAPTURE(form);
    ir::Context ctx;
    NestMaker m(ctx);
    if (form == 0) m.attention(4, 2, m.n(33), m.n(70), 8);
    else attention(m, {.causal = form % 2 == 0, .masked = form > 3, .safe = form > 5}, m.n(33), m.n(70));
    for (nest::Statement& s : m.f.body) s.joins = false;
    REQUIRE(passes::run(ctx, m.f, {.pipeline = {"join-rows", "attention"}, .check = true}).ok());
    check_attention(ctx, m.f, "cuda-sm80");
  }
}

TEST_CASE("scores that an output gives, or another part of a function reads, are no attention") {
  for (const bool in_parts : {false, true}) {
    ir::Context ctx;
    NestMaker m(ctx);
    attention(m, {.shares = !in_parts}, m.n(33), m.n(70));
    if (in_parts) m.f.body.back().part = 1;
    REQUIRE(passes::run(ctx, m.f, {.pipeline = {"join-rows", "attention"}, .check = true}).ok());
    for (const nest::Statement& s : m.f.body) CHECK(!s.joins);
  }
}
