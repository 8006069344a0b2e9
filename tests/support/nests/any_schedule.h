// Random changes of schedules: what the verifier accepts computes what the statement says, what it refuses has a message.
#pragma once

#include <initializer_list>
#include <string>

#include "tests/support/nests/lowered.h"
#include "tests/support/nests/nests.h"

namespace mlc::test {

template <class T>
T one_of(std::mt19937& rng, std::initializer_list<T> values) {
  return values.begin()[rng() % values.size()];
}

// Steps, counts, chains, tails, binds and order of the loops.
inline void change_loops(std::mt19937& rng, schedule::Schedule& s) {
  if (s.loops.empty()) return;
  schedule::Loop& l = s.loops[rng() % s.loops.size()];
  switch (rng() % 10) {
    case 0: l.step = one_of<int64_t>(rng, {1, 2, 3, 4, 5, 8, 12, 16}); break;
    case 1: l.count = one_of<unsigned>(rng, {0, 1, 2, 3, 4}); break;
    case 2: l.chains = one_of<unsigned>(rng, {1, 2, 4, 8, 16}); break;
    case 3: l.tail = one_of(rng, {schedule::Tail::Mask, schedule::Tail::Narrow, schedule::Tail::One}); break;
    case 4: l.peel = !l.peel; break;
    case 5: l.even = !l.even; break;
    case 6: l.bind = static_cast<schedule::Bind>(rng() % (static_cast<unsigned>(schedule::Bind::Grid) + 1)); break;
    case 7: std::swap(l, s.loops[rng() % s.loops.size()]); break;
    case 8: {  // all loops over one dim: longer or shorter steps together
      const std::string dim = l.dim;
      const int64_t step = one_of<int64_t>(rng, {1, 2, 4, 5, 8, 16, 32});
      for (schedule::Loop& other : s.loops)
        if (other.dim == dim && (other.bind == schedule::Bind::Cut || other.bind == schedule::Bind::Rows)) other.step = step;
      break;
    }
    case 9: s.loops.erase(s.loops.begin() + static_cast<std::ptrdiff_t>(rng() % s.loops.size())); break;
  }
}

// One number of what a workgroup has of a product, of rows or of queries.
inline void change_tile(std::mt19937& rng, schedule::Schedule& s) {
  switch (rng() % 8) {
    case 0: s.tile.rows = one_of<int64_t>(rng, {1, 2, 4, 8, 16, 32, 64}); break;
    case 1: s.tile.columns = one_of<int64_t>(rng, {1, 2, 4, 8, 16, 32, 64}); break;
    case 2: s.tile.depth = one_of<int64_t>(rng, {1, 2, 3, 4, 8, 16, 32, 64}); break;
    case 3: s.tile.copies = one_of<unsigned>(rng, {0, 1, 2, 4, 8, 16}); break;
    case 4: s.tile.flat = !s.tile.flat; break;
    case 5: s.block = one_of<unsigned>(rng, {0, 32, 64, 128, 256}); break;
    case 6: s.tile.stages = one_of<unsigned>(rng, {0, 1, 2, 3, 4, 5}); break;
    case 7: s.tile.warp = one_of<unsigned>(rng, {0, 16, 24, 32, 64}); break;
  }
}

// Another tile whose numbers suit each other.
inline void change_tile_wholly(std::mt19937& rng, schedule::Schedule& s) {
  const int64_t part = one_of<int64_t>(rng, {1, 2, 4, 8, 16, 32, 64}), lanes = std::max<int64_t>(s.block, 1);
  switch (s.family) {
    case schedule::Family::Lines: s.tile.rows = lanes / part, s.tile.columns = part; break;
    case schedule::Family::Fold:
      if (s.tile.columns == 0) break;
      s.tile.depth = one_of<int64_t>(rng, {2, 4, 8, 16}), s.tile.copies = one_of<unsigned>(rng, {1, 2, 4, 8}), s.block = static_cast<unsigned>(s.tile.columns * s.tile.depth);
      break;
    case schedule::Family::Slices:
      s.tile.columns = part, s.tile.depth = lanes / part, s.tile.copies = one_of<unsigned>(rng, {1, 2, 4, 8});
      break;
    case schedule::Family::Tile:
    case schedule::Family::Attention:
      if (schedule::is_mma(s) && s.family == schedule::Family::Attention) {
        s.tile.warp = one_of<unsigned>(rng, {16, 32}), s.tile.rows = s.tile.warp * one_of<int64_t>(rng, {1, 2, 4}), s.tile.columns = one_of<int64_t>(rng, {16, 32, 64, 128});
        s.block = static_cast<unsigned>(s.tile.rows / s.tile.warp * 32) * one_of<unsigned>(rng, {1, 2, 4});
        break;
      }
      if (schedule::is_mma(s)) {
        const bool is_group = schedule::is_group_mma(s);
        s.tile.rows = one_of<int64_t>(rng, {32, 64, 128}), s.tile.columns = one_of<int64_t>(rng, {32, 64, 128, 256}), s.tile.stages = one_of<unsigned>(rng, {2, 3, 4});
        s.block = static_cast<unsigned>(is_group ? 2 * s.tile.rows : s.tile.rows == 128 && s.tile.columns == 128 ? 256 : 128);
        break;
      }
      if (schedule::is_matrix(s)) {
        s.tile.rows = one_of<int64_t>(rng, {32, 64, 128}), s.tile.columns = one_of<int64_t>(rng, {32, 64, 128});
        break;
      }
      if (schedule::has_one_query(s)) {
        s.tile.depth = one_of<int64_t>(rng, {2, 4, 8, 16, 32}), s.tile.copies = one_of<unsigned>(rng, {1, 2, 3, 4, 8}), s.tile.columns = lanes / s.tile.depth * s.tile.copies;
        break;
      }
      s.tile.rows = one_of<int64_t>(rng, {16, 32, 64}), s.tile.columns = one_of<int64_t>(rng, {16, 32, 64});
      s.tile.depth = one_of<int64_t>(rng, {4, 8, 16, 32, 64}), s.tile.copies = one_of<unsigned>(rng, {1, 2, 4});
      break;
    default: break;
  }
}

inline void change_places(std::mt19937& rng, schedule::Schedule& s) {
  if (s.places.empty()) s.places.push_back({one_of(rng, {"sums", "late", "loads"}), one_of<unsigned>(rng, {1, 1, 2, 4, 8})});
  else s.places.clear();
}

inline void change_blocks(std::mt19937& rng, schedule::Schedule& s) {
  s.blocks = {};
  if (rng() % 2) return;
  s.blocks.steps = one_of<int64_t>(rng, {1, 500, 5000}), s.blocks.bytes = one_of<int64_t>(rng, {16, 4096});
  s.blocks.rows = 1 + int64_t(rng() % 9), s.blocks.passes = 1 + int64_t(rng() % 3);
  s.blocks.shared = one_of<int64_t>(rng, {0, 100}), s.blocks.depth = one_of<int64_t>(rng, {0, 1, 2, 3, 5, 8}), s.blocks.fetch = rng() % 2 == 0;
}

// A few random changes.
inline schedule::Schedule changed(std::mt19937& rng, schedule::Schedule s) {
  if (s.family == schedule::Family::Group) {
    if (rng() % 2) s.blocks.rows = one_of<int64_t>(rng, {0, 1, 2, 3, 7, 16, 48, 100, 2000});
    for (unsigned k = rng() % 3; k-- > 0;) {
      schedule::Schedule& stage = s.stages[rng() % s.stages.size()];
      stage = changed(rng, stage);
    }
    if (rng() % 20 == 0 && s.stages.size() > 1) s.stages.pop_back();
    return s;
  }
  const bool device = s.block != 0;
  if (device && rng() % 2) change_tile_wholly(rng, s);
  for (unsigned k = device ? rng() % 3 : 1 + rng() % 4; k-- > 0;) {
    if (device && rng() % 2) change_tile(rng, s);
    else if (const unsigned what = rng() % 12; what < 10) change_loops(rng, s);
    else if (what == 10) change_places(rng, s);
    else change_blocks(rng, s);
  }
  return s;
}

struct ScheduleCounts {
  int accepted = 0, refused = 0;
  int altered = 0;  // of the accepted ones: no schedule that lowering makes itself
};

// Kernels of the one statement of `f`, or of its group, by the schedule.
inline Result<std::vector<loop::Kernel>> lowered_by(ir::Context& ctx, const nest::Function& f, const targets::Target& target, const schedule::Schedule& how) {
  if (f.body.size() == 1) return lower::lower(ctx, f, f.body[0], target, vanishing_exp, &how);
  const auto group = nest::group_of(f, nest::Lifetimes(f), 0, f.body.size());
  REQUIRE(group);
  MLC_ASSIGN(auto kernels, lower::lower_group(ctx, f, *group, f.body[0].source, target, vanishing_exp, &how));
  REQUIRE(kernels);
  return std::move(*kernels);
}

// What lowering makes itself and what tuning tries: all of these are legal.
inline std::vector<schedule::Schedule> own_schedules(ir::Context& ctx, const nest::Function& f, const targets::Target& target) {
  std::vector<schedule::Schedule> all;
  if (f.body.size() > 1) {
    const auto group = nest::group_of(f, nest::Lifetimes(f), 0, f.body.size());
    REQUIRE(group);
    auto alternatives = lower::group_alternatives(ctx, f, *group, target);
    REQUIRE(alternatives.ok());
    all = std::move(*alternatives);
  } else {
    auto candidates = lower::candidates(ctx, f, f.body[0], target);
    REQUIRE_MESSAGE(candidates.ok(), (candidates.ok() ? "" : candidates.status().text()));
    CHECK(candidates->size() >= (target.is_device() ? 1u : 2u));
    const auto alternatives = lower::alternatives(ctx, f, f.body[0], target);
    REQUIRE(alternatives.ok());
    REQUIRE(!alternatives->empty());
    CHECK(alternatives->front() == candidates->front());
    all = std::move(*candidates);
    all.insert(all.end(), alternatives->begin() + 1, alternatives->end());
  }
  REQUIRE(!all.empty());
  for (const schedule::Schedule& how : all) {
    CAPTURE(schedule::print(how));
    CHECK(lowered_by(ctx, f, target, how).ok());
  }
  return all;
}

// One schedule that was accepted: it is printed and read again, and its kernels compute the same for any cut of the launch and what
// the interpreter of nests says. The interpreter of Loop refuses races between lanes and barriers that not all of them reach.
inline void check_accepted(ir::Context& ctx, const nest::Function& f, const targets::Target& target, const schedule::Schedule& how,
                           std::vector<loop::Kernel> kernels, const std::vector<nest::Tensor>& inputs, const std::vector<nest::Tensor>& want,
                           const Symbols& symbols, bool exact) {
  const auto again = schedule::parse(schedule::print(how));
  REQUIRE(again.ok());
  CHECK(*again == how);
  CHECK(kernels.back().schedule == schedule::print(how));
  const auto same = lowered_by(ctx, f, target, *again);
  REQUIRE(same.ok());
  CHECK(same->back().schedule == kernels.back().schedule);
  Kernels all;
  all.push_back(std::move(kernels));
  const Lowered whole = run_kernels(f, all, inputs, symbols, 1), parts = run_kernels(f, all, inputs, symbols, 3);
  CHECK(whole.fault == 0);
  for (size_t k = 0; k < want.size(); ++k) {
    CHECK(whole.outputs[k].bytes == parts.outputs[k].bytes);
    const Difference d = difference(want[k], whole.outputs[k]);
    CHECK(d.error <= (exact ? 0 : 2e-5 * std::max(d.largest, 1.0)));
  }
}

// `rounds` schedules: two that are not changed, then random changes of what lowering makes and tuning tries.
inline void check_schedules(ir::Context& ctx, const nest::Function& f, const char* name, const Symbols& symbols, std::mt19937& rng,
                            ScheduleCounts& counts, bool exact, int rounds = 24) {
  const targets::Target* target = targets::find_target(name);
  REQUIRE(target);
  CAPTURE(name);
  std::vector<nest::Tensor> inputs;
  for (uint32_t a : f.inputs) inputs.push_back(random_tensor(rng, f.arrays[a].dtype, shape_of(f.arrays[a], symbols)));
  nest::InterpretOptions options;
  options.threads = 1;
  options.symbols = symbols;
  const auto want = nest::interpret(f, inputs, options);
  REQUIRE(want.ok());
  const std::vector<schedule::Schedule> own = own_schedules(ctx, f, *target);
  for (int round = 0; round < rounds; ++round) {
    schedule::Schedule how = own[rng() % own.size()];
    if (round >= 2) how = changed(rng, how);
    CAPTURE(schedule::print(how));
    auto kernels = lowered_by(ctx, f, *target, how);
    if (!kernels.ok()) {
      CHECK(round >= 2);
      CHECK_MESSAGE(kernels.status().message.starts_with("schedule refused: "), kernels.status().text());
      ++counts.refused;
      continue;
    }
    ++counts.accepted;
    counts.altered += std::find(own.begin(), own.end(), how) == own.end();
    check_accepted(ctx, f, *target, how, std::move(*kernels), inputs, *want, symbols, exact);
  }
}

using Extents = std::function<const ir::Expr*(int64_t)>;

// Statements of constant sizes and of sizes that the run decides, each for one of the targets.
inline ScheduleCounts check_many(uint32_t seed, bool exact, std::initializer_list<const char*> targets,
                                 const std::function<void(NestMaker&, std::mt19937&, const Extents&)>& make, int statements = 12) {
  std::mt19937 rng(seed);
  ScheduleCounts counts;
  for (int round = 0; round < statements; ++round) {
    ir::Context ctx;
    NestMaker maker(ctx);
    Symbols symbols;
    const bool free = rng() % 2;
    const Extents extent = [&](int64_t value) -> const ir::Expr* {
      if (!free || rng() % 2) return ctx.integer(value);
      const ir::Sym* sym = ctx.declare_sym("S" + std::to_string(symbols.size()), 0, 4096);
      symbols[sym] = value;
      return ctx.sym(sym);
    };
    make(maker, rng, extent);
    check_schedules(ctx, maker.f, one_of(rng, targets), symbols, rng, counts, exact);
  }
  MESSAGE(counts.accepted, " schedules, ", counts.altered, " of them altered, ", counts.refused, " refused");
  return counts;
}

}  // namespace mlc::test
