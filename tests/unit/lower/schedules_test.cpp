// Any schedule that the verifier accepts computes what the statement says; others are refused with a message.
#include "tests/support/lowered.h"
#include "tests/support/nests.h"

using namespace mlc;
using test::NestMaker;

namespace {

template <class T>
T one_of(std::mt19937& rng, std::initializer_list<T> values) {
  return values.begin()[rng() % values.size()];
}

// A few random changes: heights, lanes, copies, chains, tails, orders, blocks, widths of vectors.
schedule::Schedule changed(std::mt19937& rng, schedule::Schedule s) {
  for (unsigned k = 1 + rng() % 4; k-- > 0;) {
    if (s.loops.empty()) return s;
    schedule::Loop& l = s.loops[rng() % s.loops.size()];
    switch (rng() % 12) {
      case 0: l.step = one_of<int64_t>(rng, {1, 2, 3, 4, 5, 8, 12, 16}); break;
      case 1: l.count = one_of<unsigned>(rng, {0, 1, 2, 3, 4}); break;
      case 2: l.chains = one_of<unsigned>(rng, {1, 2, 4, 8, 16}); break;
      case 3: l.tail = one_of(rng, {schedule::Tail::Mask, schedule::Tail::Narrow, schedule::Tail::One}); break;
      case 4: l.peel = !l.peel; break;
      case 5: l.even = !l.even; break;
      case 6: l.bind = static_cast<schedule::Bind>(rng() % 5); break;
      case 7: std::swap(l, s.loops[rng() % s.loops.size()]); break;
      case 8: s.places.empty() ? s.places.push_back({one_of(rng, {"sums", "late"}), one_of<unsigned>(rng, {1, 1, 2, 4, 8})}) : s.places.clear(); break;
      case 9:
        s.blocks = rng() % 2 ? schedule::Blocks{} : schedule::Blocks{one_of<int64_t>(rng, {1, 500, 5000}), one_of<int64_t>(rng, {16, 4096}), 1 + int64_t(rng() % 9), 1 + int64_t(rng() % 3),
                                                         one_of<int64_t>(rng, {0, 100}), one_of<int64_t>(rng, {0, 1, 2, 3, 5, 8}), rng() % 2 == 0};
        break;
      case 10: {  // all loops over one dim: longer or shorter steps together
        const std::string dim = l.dim;
        const int64_t step = one_of<int64_t>(rng, {1, 2, 4, 5, 8, 16, 32});
        for (schedule::Loop& other : s.loops)
          if (other.dim == dim && (other.bind == schedule::Bind::Cut || other.bind == schedule::Bind::Rows)) other.step = step;
        break;
      }
      case 11: s.loops.erase(s.loops.begin() + static_cast<std::ptrdiff_t>(rng() % s.loops.size())); break;
    }
  }
  return s;
}

struct Counts {
  int accepted = 0, refused = 0;
};

void check_schedules(ir::Context& ctx, const nest::Function& f, const char* name, const test::Symbols& symbols, std::mt19937& rng, Counts& counts, bool exact) {
  const targets::Target& target = *targets::find_target(name);
  std::vector<nest::Tensor> inputs;
  for (uint32_t a : f.inputs) inputs.push_back(test::random_tensor(rng, f.arrays[a].dtype, test::shape_of(f.arrays[a], symbols)));
  nest::InterpretOptions options;
  options.threads = 1;
  options.symbols = symbols;
  const auto want = nest::interpret(f, inputs, options);
  REQUIRE(want.ok());
  auto all = lower::candidates(ctx, f, f.body[0], target);
  REQUIRE_MESSAGE(all.ok(), (all.ok() ? "" : all.status().text()));
  REQUIRE(all->size() >= 2);
  const auto alternatives = lower::alternatives(ctx, f, f.body[0], target);  // that tuning tries: all of them are legal
  REQUIRE(alternatives.ok());
  REQUIRE(alternatives->size() >= 1);
  CHECK(alternatives->front() == all->front());
  for (const schedule::Schedule& how : *alternatives) {
    CAPTURE(schedule::print(how));
    CHECK(lower::lower(ctx, f, f.body[0], target, test::test_math, &how).ok());
  }
  all->insert(all->end(), alternatives->begin() + 1, alternatives->end());
  for (int round = 0; round < 24; ++round) {
    schedule::Schedule how = (*all)[rng() % all->size()];
    if (round >= 2) how = changed(rng, how);
    CAPTURE(name);
    CAPTURE(schedule::print(how));
    const auto kernels = lower::lower(ctx, f, f.body[0], target, test::test_math, &how);
    if (!kernels.ok()) {
      CHECK(round >= 2);
      CHECK_MESSAGE(kernels.status().message.starts_with("schedule refused: "), kernels.status().text());
      ++counts.refused;
      continue;
    }
    ++counts.accepted;
    const auto again = schedule::parse(schedule::print(how));
    REQUIRE(again.ok());
    CHECK(*again == how);
    CHECK(kernels->back().schedule == schedule::print(how));
    const auto same = lower::lower(ctx, f, f.body[0], target, test::test_math, &*again);
    REQUIRE(same.ok());
    CHECK(same->back().schedule == kernels->back().schedule);
    const test::Lowered whole = test::run_lowered(ctx, f, inputs, target, symbols, test::test_math, 1, &how);
    const test::Lowered parts = test::run_lowered(ctx, f, inputs, target, symbols, test::test_math, 3, &how);
    CHECK(whole.fault == 0);
    CHECK(whole.outputs[0].bytes == parts.outputs[0].bytes);
    const test::Difference d = test::difference((*want)[0], whole.outputs[0]);
    CHECK(d.error <= (exact ? 0 : 2e-5 * std::max(d.largest, 1.0)));
  }
}

const char* any_target(std::mt19937& rng) { return one_of<const char*>(rng, {"x86-64-v2", "x86-64-v3", "x86-64-v4", "armv8-a", "portable"}); }

// Of constant sizes, or of sizes that the run decides.
void check_many(uint32_t seed, bool exact, const std::function<bool(NestMaker&, std::mt19937&, const std::function<const ir::Expr*(int64_t)>&)>& make) {
  std::mt19937 rng(seed);
  Counts counts;
  for (int round = 0; round < 12; ++round) {
    ir::Context ctx;
    NestMaker maker(ctx);
    test::Symbols symbols;
    const bool free = rng() % 2;
    const auto extent = [&](int64_t value) -> const ir::Expr* {
      if (!free || rng() % 2) return ctx.integer(value);
      const ir::Sym* sym = ctx.declare_sym("S" + std::to_string(symbols.size()), 0, 4096);
      symbols[sym] = value;
      return ctx.sym(sym);
    };
    if (make(maker, rng, extent)) check_schedules(ctx, maker.f, any_target(rng), symbols, rng, counts, exact);
  }
  MESSAGE(counts.accepted, " schedules, ", counts.refused, " refused");
  CHECK(counts.accepted > 24);  // more than are not changed at all
  CHECK(counts.refused > 24);
}

}  // namespace

TEST_CASE("legal schedules of products") {
  check_many(11, false, [](NestMaker& m, std::mt19937& rng, const auto& extent) {
    m.matmul(extent(one_of<int64_t>(rng, {0, 1, 5, 13, 29})), extent(one_of<int64_t>(rng, {1, 8, 24, 31})), extent(one_of<int64_t>(rng, {1, 3, 16, 31, 53})), rng() % 2);
    return true;
  });
}

TEST_CASE("legal schedules of convolutions") {
  check_many(12, false, [](NestMaker& m, std::mt19937& rng, const auto& extent) {
    NestMaker::Conv c{.h = 5 + int64_t(rng() % 5), .w = 5 + int64_t(rng() % 9), .c = 1 + int64_t(rng() % 6), .m = one_of<int64_t>(rng, {3, 16, 20})};
    c.stride = 1 + int64_t(rng() % 2);
    const bool free = rng() % 3 == 0;
    m.conv(c, free ? extent(c.h) : nullptr, free ? extent(c.w) : nullptr);
    return true;
  });
}

TEST_CASE("legal schedules of windows") {
  check_many(13, false, [](NestMaker& m, std::mt19937& rng, const auto& extent) {
    const int64_t channels = one_of<int64_t>(rng, {4, 16, 21, 37});
    NestMaker::Conv c{.h = 3 + int64_t(rng() % 5), .w = 3 + int64_t(rng() % 17), .c = channels, .m = channels};
    c.group = channels;
    const bool free = rng() % 2;
    m.conv(c, free ? extent(c.h) : nullptr, free ? extent(c.w) : nullptr);
    return true;
  });
}

TEST_CASE("legal schedules of maps and transposes are right to the last bit") {
  check_many(14, true, [](NestMaker& m, std::mt19937& rng, const auto& extent) {
    const ir::Expr *r = extent(one_of<int64_t>(rng, {0, 1, 17, 35})), *c = extent(one_of<int64_t>(rng, {1, 19, 40}));
    const bool across = rng() % 2;
    const uint32_t x = m.array("x", DType::F32, across ? std::vector{c, r} : std::vector{r, c}), y = m.output("y", DType::F32, {r, c});
    const ir::Dim *i = m.dim("i", r), *j = m.dim("j", c);
    const ir::Expr* v = m.load(x, across ? std::vector{m.at(j), m.at(i)} : std::vector{m.at(i), m.at(j)});
    m.map({i, j}, y, {m.at(i), m.at(j)}, m.ctx.binary(ir::Op::Max, v, m.ctx.number(0.25, DType::F32)));
    return true;
  });
}

TEST_CASE("legal schedules of channels that are put side by side are right to the last bit") {
  check_many(15, true, [](NestMaker& m, std::mt19937& rng, const auto& extent) {
    const ir::Expr *points = extent(one_of<int64_t>(rng, {33, 64, 77})), *rows = m.n(1 + int64_t(rng() % 2)), *c = m.n(one_of<int64_t>(rng, {2, 3, 4}));
    const uint32_t x = m.array("x", DType::F32, {rows, c, points}), y = m.output("y", DType::F32, {rows, points, c});
    const ir::Dim *r = m.dim("r", rows), *p = m.dim("p", points), *k = m.dim("k", c);
    m.map({r, k, p}, y, {m.at(r), m.at(p), m.at(k)}, m.ctx.binary(ir::Op::Max, m.load(x, {m.at(r), m.at(k), m.at(p)}), m.ctx.number(0.25, DType::F32)));
    return true;
  });
}
