// Attention on tensor cores: what warps compute is what the nests say, for all sizes, types and masks, without races and bank conflicts; f32 is as
// good as multiply-adds are; the assembler keeps all of it in registers.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

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

std::vector<schedule::Schedule> schedules(ir::Context& ctx, const nest::Function& f, const char* name = "cuda-sm80") {
  const auto group = nest::group_of(f, nest::Lifetimes(f), 0, f.body.size());
  REQUIRE(group);
  auto all = lower::group_alternatives(ctx, f, *group, device(name));
  REQUIRE_MESSAGE(all.ok(), (all.ok() ? "" : all.status().text()));
  return *all;
}

const Expr* math(ir::Context& ctx, Op op, const Expr* x) {
  if (op != Op::Tanh) return test::vanishing_exp(ctx, op, x);
  const auto f32 = [&](double v) { return ctx.number(v, DType::F32); };
  const Expr* power = test::vanishing_exp(ctx, Op::Exp, ctx.binary(Op::Mul, x, f32(2)));
  return ctx.binary(Op::Sub, f32(1), ctx.binary(Op::Div, f32(2), ctx.binary(Op::Add, power, f32(1))));
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

// By the best schedule, which has the instruction, or by `how`: what the nests say, and the same bytes on the executor.
void check(ir::Context& ctx, const nest::Function& f, const char* instruction, const test::Symbols& symbols = {}, int64_t first = 0, bool some = false,
           const schedule::Schedule* how = nullptr, double tolerance = 2e-5, const char* target = "cuda-sm80") {
  const auto inputs = inputs_of(f, symbols, first, some);
  nest::InterpretOptions options;
  options.threads = 1;
  options.symbols = symbols;
  const auto want = nest::interpret(f, inputs, options);
  REQUIRE_MESSAGE(want.ok(), (want.ok() ? "" : want.status().text()));
  const test::Lowered got = test::run_lowered(ctx, f, inputs, device(target), symbols, math, 1, how);
  REQUIRE((got.schedules.size() == 1 || got.schedules.front().find("; tile 1 x ") != std::string::npos));  // of few queries that only the run knows
  CAPTURE(got.schedules.back());
  CHECK(got.schedules.back().starts_with("attention "));
  CHECK((got.schedules.back().find("cluster") != std::string::npos) == (targets::find_target(target)->most_cluster_blocks > 1));
  CHECK(got.schedules.back().find(std::string("instr mma.") + instruction) != std::string::npos);
  CHECK(got.fault == 0);
  const test::Difference d = test::difference(want->back(), got.outputs.back());
  CHECK(d.error <= tolerance * std::max(d.largest, 1.0));
  testing::lanes::Counts counts;
  const test::Lowered same = test::run_lowered(ctx, f, inputs, device(target), symbols, math, 1, how, test::on_executor(device(target), counts));
  CHECK(same.fault == 0);
  for (int64_t e = 0; e < got.outputs.back().elements(); ++e) {  // bits of what is no number are any
    const auto number = [&](const test::Lowered& l) { return ir::load_element(DType::F32, l.outputs.back().bytes.data(), static_cast<uint64_t>(e)).f; };
    const double a = number(same), b = number(got);
    if (!(std::isnan(a) && std::isnan(b))) REQUIRE(a == b);
  }
  CHECK(counts.conflicts == 0);
}

// Queries of a block and of a warp, keys of a turn, lanes.
struct Blocks {
  int64_t rows;
  unsigned warp;
  int64_t keys;
  unsigned lanes;
};
constexpr Blocks kBlocks[] = {{32, 16, 32, 64}, {64, 16, 64, 128}, {64, 32, 32, 64}, {128, 32, 32, 128}, {64, 32, 64, 64},                  // each warp has all keys of a turn
                              {16, 16, 32, 64}, {16, 16, 64, 128}, {32, 16, 64, 128}, {64, 16, 64, 256}};  // several share them

schedule::Schedule by(schedule::Schedule how, const Blocks& b) {
  how.tile.rows = b.rows, how.tile.columns = b.keys, how.tile.warp = b.warp, how.block = b.lanes;
  return how;
}

const char* name_of_factors(DType t) { return t == DType::F32 ? "f32" : t == DType::F16 ? "f16" : "bf16"; }
constexpr DType kTypes[] = {DType::F32, DType::F16, DType::BF16};

}  // namespace

TEST_CASE("attention by warps of many sizes and of each type of factors") {
  struct Size {
    int64_t queries, keys, depth, values;
  };
  for (const DType t : kTypes)
    for (const auto& [queries, keys, depth, values] : {Size{32, 32, 8, 8}, {33, 70, 20, 40}, {70, 33, 64, 64}, {130, 96, 48, 7}, {64, 64, 96, 96}, {40, 50, 3, 128}}) {
      CAPTURE(queries);
      CAPTURE(depth);
      ir::Context ctx;
      NestMaker m(ctx);
      test::attention(m, {.heads = 1, .depth = depth, .values = values, .type = t, .value_type = t}, m.n(queries), m.n(keys));
      check(ctx, m.f, name_of_factors(t));
    }
}

TEST_CASE("weights that the nest rounds are one product, and factors of tf32 one each") {
  for (const DType t : kTypes)
    for (const auto& [queries, keys, depth, values, turned] : {std::tuple{64, 96, 64, 64, false}, {40, 70, 20, 40, false}, {35, 67, 24, 7, true}})
      for (const bool masked : {false, true}) {
        CAPTURE(queries);
        ir::Context ctx;
        NestMaker m(ctx);
        test::attention(m, {.masked = masked, .safe = masked, .turned = turned, .heads = 1, .depth = depth, .values = values, .type = t, .value_type = t, .rounded = true}, m.n(queries), m.n(keys));
        // An exponential that is an ulp off may be rounded to the neighbour of what the interpreter has.
        check(ctx, m.f, name_of_factors(t), {}, 0, false, nullptr, t == DType::BF16 ? 4e-3 : 1e-3);
        const schedule::Schedule how = schedules(ctx, m.f).front();
        const auto kernels = lower::lower_group(ctx, m.f, *nest::group_of(m.f, nest::Lifetimes(m.f), 0, m.f.body.size()), "attention", device("cuda-sm80"), math, &how);
        REQUIRE_MESSAGE(kernels.ok(), (kernels.ok() ? "" : kernels.status().text()));
        const auto module = targets::emit_module(device("cuda-sm80"), **kernels);
        REQUIRE(module.ok());
        const auto decoded = gpu::decode(module->bytes);
        REQUIRE(decoded.ok());
        const std::string text(reinterpret_cast<const char*>(decoded->images[0].bytes.data()), decoded->images[0].bytes.size());
        int64_t products = 0;
        for (size_t found = 0; (found = text.find("mma.sync", found)) != text.npos; ++found) ++products;
        const int64_t cells = t == DType::F32 ? 8 : 16, elements = (values + 31) / 32 * 32;
        const int64_t keys = how.tile.columns / schedule::key_shares(how) * (how.tile.warp / 16);  // of a warp, times its tiles of queries
        CHECK(products == keys / 8 * (how.tile.depth / cells) + keys / cells * (elements / 8));
      }
}

TEST_CASE("every tile of attention by warps") {
  for (const DType t : kTypes)
    for (const Blocks& b : kBlocks) {
      CAPTURE(b.rows);
      CAPTURE(b.keys);
      CAPTURE(b.lanes);
      ir::Context ctx;
      NestMaker m(ctx);
      test::attention(m, {.causal = b.keys == 64, .heads = 1, .depth = 24, .values = 36, .type = t, .value_type = t}, m.n(b.rows + 19), m.n(b.keys + 65));
      const schedule::Schedule how = by(schedules(ctx, m.f).front(), b);
      check(ctx, m.f, name_of_factors(t), {}, 0, false, &how);
    }
}

TEST_CASE("warps that share the keys of a turn join what each has: ends, masks, windows, queries that see no key, free extents") {
  for (const DType t : kTypes)
    for (const Blocks& b : {Blocks{16, 16, 64, 128}, {32, 16, 32, 128}})
      for (const int form : {0, 1, 2, 3}) {
        CAPTURE(b.rows);
        CAPTURE(form);
        const AttentionForm made{.causal = form == 1, .window = form == 2, .masked = form != 1, .safe = form != 3, .heads = 1, .depth = 20, .values = 40, .type = t, .value_type = t};
        ir::Context ctx;
        NestMaker m(ctx);
        const ir::Sym *L = ctx.declare_sym("L", 0, 4096), *U = ctx.declare_sym("U", 0, 4096);
        test::attention(m, made, ctx.sym(L), ctx.sym(U));
        const schedule::Schedule how = by(schedules(ctx, m.f).front(), b);
        for (const auto& [queries, keys] : {std::pair{37, 100}, {16, 16}, {3, 0}}) check(ctx, m.f, name_of_factors(t), {{L, queries}, {U, keys}}, 0, made.safe, &how);
        check(ctx, m.f, name_of_factors(t), {{L, 20}, {U, 90}}, 50, made.safe, &how);  // the first shares see nothing
      }
}

TEST_CASE("blocks of a cluster share the keys of a tile of queries, where blocks are few") {
  const auto sm90 = [](ir::Context& ctx, const nest::Function& f, DType t, int64_t first, bool some) { check(ctx, f, name_of_factors(t), {}, first, some, nullptr, 2e-5, "cuda-sm90"); };
  for (const DType t : kTypes)
    for (const int form : {0, 1, 2, 3}) {
      CAPTURE(form);
      const AttentionForm made{.causal = form == 1, .window = form == 2, .masked = form != 1, .safe = form != 3, .heads = 1, .depth = 20, .values = form == 0 ? 100 : 40, .type = t, .value_type = t};
      ir::Context ctx;
      NestMaker m(ctx);
      test::attention(m, made, m.n(37), m.n(form == 0 ? 256 : 211));
      sm90(ctx, m.f, t, 0, made.safe);
      if (form != 1) sm90(ctx, m.f, t, 150, made.safe);  // the first blocks see nothing
    }
  for (const DType t : {DType::F32, DType::F16}) {  // turns without a condition, all of them whole
    ir::Context ctx;
    NestMaker m(ctx);
    test::attention(m, {.heads = 2, .depth = 64, .values = 64, .type = t, .value_type = t}, m.n(48), m.n(256));
    sm90(ctx, m.f, t, 0, false);
  }
}

TEST_CASE("a query whose keys are all of one share has what they say, and one that is no number has no other") {
  for (const DType t : {DType::F32, DType::F16}) {
    ir::Context ctx;
    NestMaker m(ctx);
    test::attention(m, {.masked = true, .safe = true, .heads = 1, .type = t, .value_type = t}, m.n(32), m.n(64));
    auto inputs = inputs_of(m.f, {}, 48, true);  // the last of four shares; odd queries see no key
    for (size_t k = 0; k < inputs.size(); ++k)
      if (m.f.arrays[m.f.inputs[k]].name == "q") ir::store_element(t, inputs[k].bytes.data(), 4 * 8, {.f = std::nan("")});
    const schedule::Schedule how = by(schedules(ctx, m.f).front(), {16, 16, 64, 128});
    const nest::Tensor y = test::run_lowered(ctx, m.f, inputs, device("cuda-sm80"), {}, math, 1, &how).outputs.back();
    for (int64_t e = 0; e < 32 * 8; ++e) {
      const double got = ir::load_element(DType::F32, y.bytes.data(), static_cast<uint64_t>(e)).f;
      CHECK(std::isfinite(got) == (e / 8 != 4));
      CHECK((got == 0) == (e / 8 % 2 == 1));
    }
  }
}

TEST_CASE("attention by warps of extents that only the run knows, none and one among them") {
  for (const DType t : kTypes) {
    ir::Context ctx;
    NestMaker m(ctx);
    const ir::Sym *L = ctx.declare_sym("L", 0, 4096), *U = ctx.declare_sym("U", 0, 4096);
    test::attention(m, {.safe = true, .depth = 20, .values = 40, .type = t, .value_type = t}, ctx.sym(L), ctx.sym(U));
    for (const auto& [queries, keys] : {std::pair{1, 1}, {0, 5}, {17, 32}, {65, 3}, {70, 0}}) check(ctx, m.f, name_of_factors(t), {{L, queries}, {U, keys}});
  }
}

TEST_CASE("warps leave out keys that a query may not see: behind it, before its window, where a mask says so; queries that see none") {
  for (const DType t : {DType::F32, DType::F16})
    for (int k = 0; k < 8; ++k) {
      CAPTURE(k);
      const AttentionForm form{.causal = k % 2 == 0, .window = k == 2 || k == 6, .masked = k % 4 != 0, .safe = k >= 4, .heads = 1, .type = t, .value_type = t};
      ir::Context ctx;
      NestMaker m(ctx);
      test::attention(m, form, m.n(70), m.n(75));
      check(ctx, m.f, name_of_factors(t), {}, 0, form.safe);
      check(ctx, m.f, name_of_factors(t), {}, 40, form.safe);  // the first turn sees nothing, queries of a causal one nothing at all
    }
}

TEST_CASE("what scores of warps read out of range is a fault, and lanes go on to their barriers") {
  ir::Context ctx;
  NestMaker m(ctx);
  test::attention(m, {.masked = true, .checked = true}, m.n(40), m.n(40));  // needed where the mask says so
  const ir::Sym* biased = ctx.declare_sym("biased", 0, 4096);
  check(ctx, m.f, "f32", {{biased, 40}});
  testing::lanes::Counts counts;
  const auto inputs = inputs_of(m.f, {{biased, 39}}, 0, false);
  const test::Lowered got = test::run_lowered(ctx, m.f, inputs, device("cuda-sm80"), {{biased, 39}}, math, 1, nullptr, test::on_executor(device("cuda-sm80"), counts));
  CHECK(got.fault == 1);
}

TEST_CASE("warps have heads that share keys, soft caps, keys along their number, and factors of two types as f32") {
  const AttentionForm forms[] = {{.heads = 4, .sharing = 2}, {.softcap = 2}, {.turned = true, .depth = 24}, {.turned = true, .type = DType::F16, .value_type = DType::F16},
                                 {.depth = 24, .type = DType::F16}, {.depth = 24, .value_type = DType::BF16}, {.type = DType::F16, .value_type = DType::BF16}};
  for (const AttentionForm& form : forms) {
    ir::Context ctx;
    NestMaker m(ctx);
    test::attention(m, form, m.n(35), m.n(67));
    check(ctx, m.f, form.type == form.value_type ? name_of_factors(form.type) : "f32");
  }
}

TEST_CASE("infinite values behind the last key of a block do not matter to it, and a query that is no number has no other") {
  for (const DType t : {DType::F32, DType::F16}) {
    ir::Context ctx;
    NestMaker m(ctx);
    test::attention(m, {.causal = true, .heads = 1, .type = t, .value_type = t}, m.n(64), m.n(72));  // the first 32 queries see 40 keys, in two turns
    auto inputs = inputs_of(m.f, {}, 0, false);
    const schedule::Schedule how = by(schedules(ctx, m.f).front(), {32, 16, 32, 64});
    const auto set = [&](const char* name, int64_t at, double value) {
      for (size_t k = 0; k < inputs.size(); ++k)
        if (m.f.arrays[m.f.inputs[k]].name == name) ir::store_element(t, inputs[k].bytes.data(), static_cast<uint64_t>(at), {.f = value});
    };
    set("q", 3 * 8, std::nan(""));
    set("v", 45 * 8 + 2, INFINITY);
    const nest::Tensor y = test::run_lowered(ctx, m.f, inputs, device("cuda-sm80"), {}, math, 1, &how).outputs.back();
    for (int64_t e = 0; e < 32 * 8; ++e) CHECK(std::isfinite(ir::load_element(DType::F32, y.bytes.data(), static_cast<uint64_t>(e)).f) == (e / 8 != 3));
    CHECK(!std::isfinite(ir::load_element(DType::F32, y.bytes.data(), 40 * 8 + 2).f));
  }
}

TEST_CASE("scores of any size have weights of at most one: the largest one takes all") {
  for (const DType t : {DType::F32, DType::BF16}) {
    ir::Context ctx;
    NestMaker m(ctx);
    test::attention(m, {.heads = 1, .type = t, .value_type = t}, m.n(40), m.n(70));
    auto inputs = inputs_of(m.f, {}, 0, false);
    const nest::Tensor* v = nullptr;
    for (size_t k = 0; k < inputs.size(); ++k) {
      const std::string& name = m.f.arrays[m.f.inputs[k]].name;
      if (name == "v") v = &inputs[k];
      for (int64_t e = 0; (name == "q" || name == "k") && e < inputs[k].elements(); ++e)  // scores are 2.2e10 apart, of both signs
        ir::store_element(t, inputs[k].bytes.data(), static_cast<uint64_t>(e), {.f = name == "q" ? 8e6 : 1e3 * static_cast<double>(e / 8 - 35)});
    }
    const nest::Tensor y = test::run_lowered(ctx, m.f, inputs, device("cuda-sm80"), {}, math, 1).outputs.back();
    const auto element = [](const nest::Tensor& x, int64_t at) { return ir::load_element(x.dtype, x.bytes.data(), static_cast<uint64_t>(at)).f; };
    for (int64_t e = 0; e < 40 * 8; ++e) CHECK(element(y, e) == doctest::Approx(element(*v, 69 * 8 + e % 8)).epsilon(1e-6));
  }
}

TEST_CASE("warps are for devices that have them, enough queries and keys, and lanes that can keep their sums") {
  const auto first = [](const char* name, int64_t queries, int64_t keys, int64_t width, DType t = DType::F32) {
    ir::Context ctx;
    NestMaker m(ctx);
    test::attention(m, {.depth = width, .values = width, .type = t, .value_type = t}, m.n(queries), m.n(keys));
    return schedules(ctx, m.f, name).front().instruction;
  };
  CHECK(first("cuda-sm75", 64, 64, 64) == "fma.f32");
  CHECK(first("vulkan-base", 64, 64, 64) == "mul.f32");
  CHECK(first("cuda-sm80", 64, 64, 64) == "mma.f32");
  CHECK(first("cuda-sm90", 64, 64, 64, DType::BF16) == "mma.bf16");
  CHECK(first("cuda-sm80", 16, 64, 64) == "fma.f32");
  CHECK(first("cuda-sm80", 64, 16, 64) == "fma.f32");
  CHECK(first("cuda-sm80", 64, 64, 128) == "fma.f32");
  CHECK(first("cuda-sm80", 64, 64, 128, DType::F16) == "mma.f16");
}

TEST_CASE("schedules of attention by warps are refused where memory, registers or lanes do not do") {
  ir::Context ctx;
  NestMaker m(ctx);
  test::attention(m, {.heads = 1, .depth = 20, .values = 128}, m.n(40), m.n(50));
  const auto group = nest::group_of(m.f, nest::Lifetimes(m.f), 0, m.f.body.size());
  REQUIRE(group);
  const auto by = [&](const std::string& tile, const std::string& lanes) {
    const auto how = schedule::parse("attention h:1 grid | i:1 grid | f:1 || j:1 | e:1 ; tile " + tile + " ; instr mma.f32 ; block " + lanes + " ; vectors 16");
    REQUIRE_MESSAGE(how.ok(), (how.ok() ? "" : how.status().text()));
    const auto kernels = lower::lower_group(ctx, m.f, *group, "attention", device("cuda-sm80"), math, &*how);
    return kernels.ok() ? "" : kernels.status().message;
  };
  const auto refused = [&](const std::string& tile, const std::string& lanes, const char* why) { CHECK_MESSAGE(by(tile, lanes).find(why) != std::string::npos, tile << ", " << lanes << ": " << by(tile, lanes)); };
  CHECK(by("64 x 32 depth 32 copies 1 flat warp 16", "128") == "");
  CHECK(by("32 x 32 depth 32 copies 1 flat warp 16", "128") == "");
  refused("64 x 32 depth 32 copies 1 flat", "128", "16 or 32 queries");
  refused("64 x 32 depth 32 copies 1 flat warp 64", "128", "16 or 32 queries");
  refused("48 x 32 depth 32 copies 1 flat warp 16", "96", "one, two or four warps are a block's");
  refused("64 x 32 depth 32 copies 1 flat warp 16", "64", "share the keys");
  refused("32 x 32 depth 32 copies 1 flat warp 16", "96", "share the keys");
  refused("16 x 32 depth 32 copies 1 flat warp 16", "256", "share the keys");
  refused("16 x 32 depth 32 copies 1 flat warp 16", "32", "two, four or eight warps");
  refused("64 x 32 depth 32 copies 1 flat warp 16", "256", "brings a part of a turn");
  refused("64 x 16 depth 32 copies 1 flat warp 16", "64", "share the keys");
  refused("32 x 16 depth 32 copies 1 flat warp 16", "64", "32, 64 or 128 keys");
  refused("16 x 32 depth 32 copies 1 flat warp 16", "128", "16 to 64 keys");
  refused("64 x 128 depth 32 copies 1 flat warp 16", "128", "16 to 64 keys");
  refused("64 x 32 depth 16 copies 1 flat warp 16", "128", "wholly");
  refused("64 x 32 depth 32 copies 1 warp 16", "128", "wholly");
  refused("32 x 64 depth 32 copies 1 flat warp 32", "64", "share keys have 16 queries");
  refused("64 x 64 depth 32 copies 1 flat warp 32", "64", "too many sums");
  refused("16 x 128 depth 32 copies 1 flat warp 16", "128", "larger than the memory");
}

namespace {

// An exponential as good as f32 is, of no number above zero.
const Expr* good_exp(ir::Context& ctx, Op op, const Expr* x) {
  if (op != Op::Exp) return nullptr;
  const auto f32 = [&](double v) { return ctx.number(v, DType::F32); };
  const auto times = [&](const Expr* a, const Expr* b) { return ctx.binary(Op::Mul, a, b); };
  const Expr* least = ctx.binary(Op::Max, x, f32(-80));
  const Expr* n = ctx.unary(Op::Floor, ctx.binary(Op::Add, times(least, f32(1.44269504)), f32(0.5)));
  const Expr* r = ctx.binary(Op::Add, ctx.binary(Op::Sub, least, times(n, f32(0.693359375))), times(n, f32(2.12194440e-4)));
  const Expr* sum = f32(1);
  for (int k = 8; k >= 1; --k) sum = ctx.binary(Op::Add, f32(1), times(times(r, f32(1.0 / k)), sum));
  const Expr* exponent = ctx.binary(Op::Shl, ctx.binary(Op::Add, ctx.cast(DType::I32, n), ctx.integer(127, DType::I32)), ctx.integer(23, DType::I32));
  return ctx.select(ctx.binary(Op::Lt, x, f32(-80)), f32(0), times(sum, ctx.convert(Op::Bitcast, {DType::F32, 1}, exponent)));
}

// The largest error of attention with one head, over the largest result, both in f64.
double error_of(const nest::Function& f, const std::vector<nest::Tensor>& inputs, const nest::Tensor& y, int64_t queries, int64_t keys, int64_t width) {
  const auto element = [&](const char* name, int64_t at) {
    for (size_t k = 0; k < inputs.size(); ++k)
      if (f.arrays[f.inputs[k]].name == name) return ir::load_element(inputs[k].dtype, inputs[k].bytes.data(), static_cast<uint64_t>(at)).f;
    return std::nan("");
  };
  double error = 0, largest = 0;
  for (int64_t i = 0; i < queries; ++i) {
    std::vector<double> sums(static_cast<size_t>(width));
    double all = 0;
    for (int64_t j = 0; j < keys; ++j) {
      double score = 0;
      for (int64_t d = 0; d < width; ++d) score += element("q", i * width + d) * element("k", j * width + d);
      const double weight = std::exp(score * static_cast<float>(0.35));
      all += weight;
      for (int64_t d = 0; d < width; ++d) sums[static_cast<size_t>(d)] += weight * element("v", j * width + d);
    }
    for (int64_t d = 0; d < width; ++d) {
      const double want = sums[static_cast<size_t>(d)] / all;
      error = std::max(error, std::abs(want - ir::load_element(DType::F32, y.bytes.data(), static_cast<uint64_t>(i * width + d)).f));
      largest = std::max(largest, std::abs(want));
    }
  }
  return error / largest;
}

}  // namespace

TEST_CASE("attention by warps is as good as f32, whatever its factors are") {
  constexpr int64_t kQueries = 64, kKeys = 512, kWidth = 64;
  for (const DType t : kTypes) {
    ir::Context ctx;
    NestMaker m(ctx);
    test::attention(m, {.heads = 1, .depth = kWidth, .values = kWidth, .type = t, .value_type = t}, m.n(kQueries), m.n(kKeys));
    std::mt19937 rng(7);
    std::normal_distribution<double> normal;
    auto inputs = inputs_of(m.f, {}, 0, false);
    for (nest::Tensor& x : inputs)
      for (int64_t e = 0; is_float(x.dtype) && e < x.elements(); ++e) ir::store_element(x.dtype, x.bytes.data(), static_cast<uint64_t>(e), {.f = ir::round_to(x.dtype, normal(rng) / 2)});
    const auto all = schedules(ctx, m.f);
    const auto lanes = std::find_if(all.begin(), all.end(), [](const schedule::Schedule& s) { return !schedule::is_mma(s); });
    REQUIRE(lanes != all.end());
    const auto error = [&](const schedule::Schedule& s) {
      const test::Lowered got = test::run_lowered(ctx, m.f, inputs, device("cuda-sm80"), {}, good_exp, 1, &s);
      return error_of(m.f, inputs, got.outputs.back(), kQueries, kKeys, kWidth);
    };
    const double by_warps = error(all.front()), by_lanes = error(*lanes);
    MESSAGE(std::string(name_of_factors(t)) << ": error by warps " << by_warps << ", by multiply-adds " << by_lanes);
    CHECK(by_warps <= 1e-6);
    CHECK(by_warps <= 2 * by_lanes);
  }
}

TEST_CASE("the assembler keeps attention by warps in registers, and its loop has each product once") {
  const auto has = [](const char* tool) { return std::system((std::string(tool) + " --version >/dev/null 2>&1").c_str()) == 0; };
  if (!has("ptxas")) {
    MESSAGE("skipped: 1 test, no ptxas here");
    return;
  }
  const bool disassembles = has("nvdisasm");
  if (!disassembles) MESSAGE("products are not counted: no nvdisasm here");
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / ("mlc-attention-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const auto text_of = [](const std::filesystem::path& path) {
    std::ifstream file(path);
    return std::string((std::istreambuf_iterator<char>(file)), {});
  };
  for (const char* name : {"cuda-sm80", "cuda-sm90"})
    for (const DType t : kTypes)
      for (const int64_t width : {64, t == DType::F32 ? 96 : 128})
        for (const bool causal : {false, true}) {
          ir::Context ctx;
          NestMaker m(ctx);
          test::attention(m, {.causal = causal, .safe = true, .heads = 16, .depth = width, .values = width, .type = t, .value_type = t}, m.n(1024), m.n(1024));
          const auto group = nest::group_of(m.f, nest::Lifetimes(m.f), 0, m.f.body.size());
          REQUIRE(group);
          const schedule::Schedule how = schedules(ctx, m.f, name).front();
          const auto kernels = lower::lower_group(ctx, m.f, *group, "attention", device(name), good_exp, &how);
          REQUIRE_MESSAGE(kernels.ok(), (kernels.ok() ? "" : kernels.status().text()));
          const auto module = targets::emit_module(device(name), **kernels);
          REQUIRE_MESSAGE(module.ok(), (module.ok() ? "" : module.status().text()));
          const auto decoded = gpu::decode(module->bytes);
          REQUIRE(decoded.ok());
          const std::vector<std::byte>& text = decoded->images[0].bytes;
          std::ofstream(folder / "a.ptx", std::ios::binary).write(reinterpret_cast<const char*>(text.data()), std::streamsize(text.size() - 1));
          const std::string architecture = std::string(name).substr(std::string(name).size() - 2), at = (folder / "").string();
          CHECK(std::system(("ptxas -v -arch=sm_" + architecture + " -o " + at + "a.cubin " + at + "a.ptx >" + at + "log 2>&1").c_str()) == 0);
          const std::string said = text_of(folder / "log");
          const std::string what = std::string(name) + " " + name_of_factors(t) + " " + std::to_string(width) + (causal ? " causal" : "");
          const size_t spills = said.find(" bytes spill stores"), used = said.find("Used ");
          REQUIRE(spills != std::string::npos);
          REQUIRE(used != std::string::npos);
          // So that one more block fits, the assembler stores a few numbers that the loop does not need.
          CHECK_MESSAGE(std::stoi(said.substr(said.rfind(' ', spills - 1))) <= (width == 64 ? 16 : 40), what << ": " << said);
          MESSAGE(what << ": " << said.substr(used, said.find('\n', used) - used));
          if (!disassembles) continue;
          CHECK(std::system(("nvdisasm " + at + "a.cubin >" + at + "sass 2>&1").c_str()) == 0);
          const std::string sass = text_of(folder / "sass");
          const std::string loop = sass.substr(sass.find("HMMA"), sass.rfind("HMMA") - sass.find("HMMA"));
          CHECK_MESSAGE((sass.find("LDGSTS.E.BYPASS.128") != sass.npos && sass.find(" LDG.E.64", sass.find("LDGSTS")) == sass.npos), what << " loads keys or values itself");
          if (width == 64) CHECK_MESSAGE((loop.find(" LDL") == loop.npos && loop.find(" STL") == loop.npos), what << " spills between its products");
          int64_t products = 0;
          for (size_t found = 0; (found = sass.find("HMMA", found)) != sass.npos; ++found) ++products;
          // Of each 16 queries and the keys of a turn, twice; three, one and two, or one and three of each.
          const int64_t cells = t == DType::F32 ? 8 : 16, each = how.tile.columns / schedule::key_shares(how) / 8 * (how.tile.warp / 16) * (width / cells);
          CHECK(products == each * (t == DType::F32 ? 3 + 3 : t == DType::F16 ? 1 + 2 : 1 + 3));
        }
  std::filesystem::remove_all(folder);
}
