// Attention of few queries, each a block of its own: what the nests say, for all sizes, types and masks, without races; what is loaded is loaded once.
#include "tests/support/nests/any_schedule.h"
#include "tests/support/nests/attention_nests.h"
#include "tests/support/nests/device_run.h"

using namespace mlc;
using ir::Expr;
using ir::Op;
using test::AttentionForm;
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
    for (int64_t e = 0; t.dtype == DType::Bool && e < t.elements(); ++e)
      ir::store_element(DType::Bool, t.bytes.data(), static_cast<uint64_t>(e), {.i = e % t.shape[1] >= first && !(some && e / t.shape[1] % 2)});
  }
  return made;
}

bool has_one_query(const std::string& schedule) { return schedule.starts_with("attention ") && schedule.find("; tile 1 x ") != std::string::npos; }

// Notes the schedules of launches that have blocks.
test::Runner telling(test::Runner run, std::vector<std::string>& taken) {
  return [run = std::move(run), &taken](const loop::Kernel& kernel, const loop::Run& r) {
    if (r.tile_end > r.tile_begin && std::find(taken.begin(), taken.end(), kernel.schedule) == taken.end()) taken.push_back(kernel.schedule);
    return run(kernel, r);
  };
}

// What the nests say, by the interpreter of Loop and, in the same bytes, on the executor. The schedules whose kernels had blocks.
std::vector<std::string> check(ir::Context& ctx, const nest::Function& f, const char* target, const test::Symbols& symbols = {}, int64_t first = 0, bool some = false,
                               testing::lanes::Counts* asked = nullptr) {
  const auto inputs = inputs_of(f, symbols, first, some);
  nest::InterpretOptions options;
  options.threads = 1;
  options.symbols = symbols;
  const auto want = nest::interpret(f, inputs, options);
  REQUIRE_MESSAGE(want.ok(), (want.ok() ? "" : want.status().text()));
  const test::Lowered got = test::run_lowered(ctx, f, inputs, device(target), symbols, test::vanishing_exp, 1);
  CAPTURE(target);
  CAPTURE(got.schedules.front());
  CHECK(got.fault == 0);
  const test::Difference d = test::difference(want->back(), got.outputs.back());
  CHECK(d.error <= 2e-5 * std::max(d.largest, 1.0));
  testing::lanes::Counts counts;
  std::vector<std::string> taken;
  const auto same = test::run_lowered(ctx, f, inputs, device(target), symbols, test::vanishing_exp, 1, nullptr, telling(test::on_executor(device(target), counts), taken));
  CHECK(same.fault == 0);
  for (int64_t e = 0; e < got.outputs.back().elements(); ++e) {  // bits of what is no number are any
    const auto number = [&](const test::Lowered& l) { return ir::load_element(DType::F32, l.outputs.back().bytes.data(), static_cast<uint64_t>(e)).f; };
    const double a = number(same), b = number(got);
    if (!(std::isnan(a) && std::isnan(b))) REQUIRE(a == b);
  }
  if (asked) *asked = counts;
  return taken;
}

void check_row(ir::Context& ctx, const nest::Function& f, const char* target, const test::Symbols& symbols = {}, int64_t first = 0, bool some = false) {
  const auto taken = check(ctx, f, target, symbols, first, some);
  REQUIRE(taken.size() == 1);
  CHECK_MESSAGE(has_one_query(taken[0]), taken[0]);
}

}  // namespace

TEST_CASE("a block has one query, whatever elements and keys there are") {
  for (const char* target : {"cuda-sm75", "cuda-sm80"})
    for (const auto& [queries, depth, values, keys] : {std::array{1, 64, 64, 65}, {2, 3, 8, 9}, {3, 20, 40, 300}, {4, 80, 96, 128}, {1, 256, 200, 40}, {2, 128, 3, 31}}) {
      CAPTURE(depth);
      ir::Context ctx;
      NestMaker m(ctx);
      attention(m, {.depth = depth, .values = values}, m.n(queries), m.n(keys));
      check_row(ctx, m.f, target);
    }
}

TEST_CASE("a query of its own leaves out keys that it may not see, and queries that see none are what the nests say") {
  for (int k = 0; k < 8; ++k) {
    CAPTURE(k);
    const AttentionForm form{.causal = k % 2 == 0, .window = k == 2 || k == 6, .masked = k % 4 != 0, .safe = k >= 4, .heads = 1, .depth = 16};
    ir::Context ctx;
    NestMaker m(ctx);
    attention(m, form, m.n(4), m.n(150));
    check_row(ctx, m.f, "cuda-sm80", {}, 0, form.safe);
    check_row(ctx, m.f, "cuda-sm80", {}, 148, form.safe);  // the first turn sees nothing, queries of a causal one nothing at all
  }
}

TEST_CASE("heads that share keys, soft caps, keys along their number, and factors of two types, query by query") {
  const AttentionForm forms[] = {{.heads = 4, .sharing = 2}, {.turned = true, .depth = 24}, {.type = DType::F16, .value_type = DType::F16}, {.depth = 24, .type = DType::F16},
                                 {.depth = 24, .value_type = DType::BF16}, {.turned = true, .type = DType::F16, .value_type = DType::BF16}};
  for (const AttentionForm& form : forms) {
    ir::Context ctx;
    NestMaker m(ctx);
    attention(m, form, m.n(3), m.n(67));
    check_row(ctx, m.f, "cuda-sm80");
  }
}

TEST_CASE("few queries that only the run knows are blocks of their own, and more are tiles") {
  for (const char* target : {"cuda-sm80", "cuda-sm75"}) {
    ir::Context ctx;
    NestMaker m(ctx);
    const ir::Sym *L = ctx.declare_sym("L", 0, 4096), *U = ctx.declare_sym("U", 1, 4096);
    attention(m, {.depth = 20, .values = 40}, ctx.sym(L), ctx.sym(U));
    for (const int queries : {1, 4}) check_row(ctx, m.f, target, {{L, queries}, {U, 1}});
    check_row(ctx, m.f, target, {{L, 2}, {U, 200}});
    for (const int queries : {5, 33}) {
      const auto taken = check(ctx, m.f, target, {{L, queries}, {U, 70}});
      REQUIRE(taken.size() == 1);
      CHECK_MESSAGE((taken[0].starts_with("attention ") && !has_one_query(taken[0])), taken[0]);
    }
    CHECK(check(ctx, m.f, target, {{L, 0}, {U, 5}}).empty());
  }
}

TEST_CASE("blocks of a cluster share the keys of a query, where they are many and blocks are few") {
  const auto in_cluster = [](const std::vector<std::string>& taken) { return taken.size() == 1 && has_one_query(taken[0]) && taken[0].find(":1 cluster") != std::string::npos; };
  const AttentionForm forms[] = {{.depth = 64, .values = 64}, {.causal = true, .masked = true, .safe = true, .heads = 2, .depth = 16}, {.heads = 4, .depth = 20, .values = 9, .sharing = 2},
                                 {.causal = true, .masked = true, .depth = 16}, {.turned = true, .depth = 24}, {.depth = 80, .values = 200, .type = DType::F16, .value_type = DType::BF16}};
  for (const AttentionForm& form : forms)
    for (const int64_t keys : {1024, 1931}) {
      CAPTURE(keys);
      ir::Context ctx;
      NestMaker m(ctx);
      attention(m, form, m.n(3), m.n(keys));
      const auto taken = check(ctx, m.f, "cuda-sm90", {}, form.masked ? keys - 3 : 0, form.safe);
      CHECK_MESSAGE(in_cluster(taken), taken.front());
      const auto without = check(ctx, m.f, "cuda-sm80", {}, form.masked ? keys - 3 : 0, form.safe);
      CHECK(without.front().find("cluster") == std::string::npos);
    }
  // Where only the run knows: few keys are a block's, and so are many of many queries, which fill the device.
  ir::Context ctx;
  NestMaker m(ctx);
  const ir::Sym *L = ctx.declare_sym("L", 0, 4096), *U = ctx.declare_sym("U", 1, 100000);
  attention(m, {.depth = 20, .values = 40}, ctx.sym(L), ctx.sym(U));
  CHECK(in_cluster(check(ctx, m.f, "cuda-sm90", {{L, 1}, {U, 1500}})));
  CHECK(in_cluster(check(ctx, m.f, "cuda-sm90", {{L, 4}, {U, 1023}})));
  const auto few = check(ctx, m.f, "cuda-sm90", {{L, 1}, {U, 40}});
  REQUIRE(few.size() == 1);
  CHECK(has_one_query(few[0]));
  CHECK(!in_cluster(few));
  CHECK(check(ctx, m.f, "cuda-sm90", {{L, 0}, {U, 2000}}).empty());
}

TEST_CASE("what scores of a single query read out of range is a fault, and lanes go on to their barriers") {
  ir::Context ctx;
  NestMaker m(ctx);
  attention(m, {.masked = true, .checked = true}, m.n(2), m.n(40));  // needed where the mask says so
  const ir::Sym* biased = ctx.declare_sym("biased", 0, 4096);
  check_row(ctx, m.f, "cuda-sm80", {{biased, 40}});
  testing::lanes::Counts counts;
  const auto inputs = inputs_of(m.f, {{biased, 39}}, 0, false);
  const test::Lowered got = test::run_lowered(ctx, m.f, inputs, device("cuda-sm80"), {{biased, 39}}, test::vanishing_exp, 1, nullptr, test::on_executor(device("cuda-sm80"), counts));
  CHECK(got.fault == 1);
}

TEST_CASE("a block of one query loads 16 bytes at once, each key and each value once, and lanes do not meet in banks") {
  ir::Context ctx;
  NestMaker m(ctx);
  attention(m, {.heads = 12, .depth = 64, .values = 64}, m.n(1), m.n(128));
  testing::lanes::Counts counts;
  CHECK(check(ctx, m.f, "cuda-sm90", {}, 0, false, &counts).size() == 1);
  CHECK(counts.conflicts == 0);
  // Keys and values of a head by sixteen lanes each, or eight twice; and the query by each group of them.
  CHECK(counts.global_loads <= 12 * (2 * 128 * 16 + 256 * 2));
}

TEST_CASE("blocks of one query are refused where lanes do not divide keys, or have too much of them") {
  ir::Context ctx;
  NestMaker m(ctx);
  attention(m, {.heads = 1, .depth = 64, .values = 64}, m.n(2), m.n(50));
  const auto g = nest::group_of(m.f, nest::Lifetimes(m.f), 0, m.f.body.size());
  REQUIRE(g);
  const auto by = [&](const std::string& tile, const char* target, int block = 256) {
    const auto how = schedule::parse("attention h:1 grid | i:1 grid | f:1 || j:1 | e:1 ; tile " + tile + " ; instr fma.f32 ; block " + std::to_string(block) + " ; vectors 1");
    REQUIRE_MESSAGE(how.ok(), (how.ok() ? "" : how.status().text()));
    const auto kernels = lower::lower_group(ctx, m.f, *g, "attention", device(target), test::vanishing_exp, &*how);
    return kernels.ok() ? "" : kernels.status().message;
  };
  CHECK(by("1 x 128 depth 8 copies 4 flat", "cuda-sm80") == "");
  CHECK(by("1 x 128 depth 16 copies 8 flat", "cuda-sm80") == "");
  CHECK(by("1 x 128 depth 8 copies 4 flat", "cuda-sm80", 64).find("256 lanes") != std::string::npos);
  CHECK(by("1 x 128 depth 64 copies 32 flat", "cuda-sm80").find("2 to 32 lanes") != std::string::npos);
  CHECK(by("1 x 128 depth 12 copies 6 flat", "cuda-sm80").find("power of two") != std::string::npos);
  CHECK(by("1 x 64 depth 8 copies 4 flat", "cuda-sm80").find("each group") != std::string::npos);
  CHECK(by("1 x 128 depth 8 copies 4", "cuda-sm80").find("each group") != std::string::npos);
  CHECK(by("1 x 512 depth 8 copies 16 flat", "cuda-sm80").find("too many elements") != std::string::npos);
  CHECK(by("1 x 128 depth 2 copies 1 flat", "cuda-sm80").find("each group") == std::string::npos);
}

TEST_CASE("legal schedules of attention of few queries") {
  const auto counts = test::check_many(31, false, {"cuda-sm75", "cuda-sm80", "cuda-sm90"}, [](NestMaker& m, std::mt19937& rng, const test::Extents& extent) {
    AttentionForm form{.causal = rng() % 2 == 0, .masked = rng() % 2 == 0, .safe = true, .heads = 1};
    form.depth = test::one_of<int64_t>(rng, {8, 20, 64}), form.values = test::one_of<int64_t>(rng, {8, 20, 40});
    form.type = form.value_type = test::one_of(rng, {DType::F32, DType::F16, DType::BF16});
    attention(m, form, m.n(test::one_of<int64_t>(rng, {2, 3, 4})), extent(test::one_of<int64_t>(rng, {32, 50, 150})));
  });
  CHECK(counts.altered > 12);
  CHECK(counts.refused > 24);
}
