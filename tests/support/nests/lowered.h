// Runs the lowered form of a nest function with the Loop interpreter and compares it with the Nest interpreter.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "packager/ir/numeric.h"
#include "packager/loop/print.h"
#include "packager/lower/lower.h"
#include "packager/nest/evaluate/tensor.h"
#include "packager/nest/interpret/interpret.h"
#include "tests/support/nests/placement.h"
#include "tests/text/loop_interpret.h"

namespace mlc::test {

using Symbols = std::unordered_map<const ir::Sym*, int64_t>;

inline int64_t extent_value(const ir::Expr* e, const Symbols& symbols) {
  auto v = ir::evaluate_extent(e, [&](const ir::Sym* s) -> std::optional<int64_t> {
    auto it = symbols.find(s);
    return it == symbols.end() ? std::nullopt : std::optional(it->second);
  });
  REQUIRE(v.has_value());
  return *v;
}

inline std::vector<int64_t> shape_of(const nest::Array& a, const Symbols& symbols) {
  std::vector<int64_t> shape;
  for (const ir::Expr* e : a.shape) shape.push_back(extent_value(e, symbols));
  return shape;
}

inline nest::Tensor random_tensor(std::mt19937& rng, DType t, std::vector<int64_t> shape, int64_t below = 4) {
  nest::Tensor x = nest::Tensor::zeros(t, std::move(shape));
  for (int64_t k = 0; k < x.elements(); ++k) {
    ir::Scalar v;
    if (is_float(t)) v.f = ir::round_to(t, static_cast<double>(static_cast<int32_t>(rng() % 2001) - 1000) / 500.0);
    else v.i = static_cast<int64_t>(rng() % static_cast<uint64_t>(t == DType::Bool ? 2 : below));
    ir::store_element(t, x.bytes.data(), static_cast<uint64_t>(k), v);
  }
  return x;
}

struct Lowered {
  std::vector<std::string> schedules;
  int32_t fault = 0;
  std::vector<nest::Tensor> outputs;
};

// The kernels of the statement, and how many statements they are.
inline std::vector<loop::Kernel> lowered_at(ir::Context& ctx, const nest::Function& f, const nest::Lifetimes& lifetimes, size_t first,
                                            const targets::Target& target, const lower::MathExpander& expand, size_t& count,
                                            const schedule::Schedule* how = nullptr) {
  count = nest::marked_group(f, first);
  if (const auto group = count > 1 ? nest::group_of(f, lifetimes, first, count) : std::nullopt) {
    auto kernels = lower::lower_group(ctx, f, *group, f.body[first].source, target, expand, target.is_device() ? how : nullptr);
    REQUIRE_MESSAGE(kernels.ok(), (kernels.ok() ? "" : kernels.status().text()));
    if (*kernels) return std::move(**kernels);
  }
  count = 1;
  auto kernels = lower::lower(ctx, f, f.body[first], target, expand, how);
  REQUIRE_MESSAGE(kernels.ok(), (kernels.ok() ? "" : kernels.status().text()));
  return std::move(*kernels);
}

// What is computed begins as no number: an element that nothing stores, or that is read before it is stored, shows. Where a nest
// says itself that it leaves elements out they are zeros, as the interpreter has them.
inline std::byte starts_as(const nest::Function& f, uint32_t array) {
  if (f.arrays[array].data || std::find(f.inputs.begin(), f.inputs.end(), array) != f.inputs.end()) return std::byte{0};
  for (const nest::Statement& s : f.body)
    for (const nest::Write& w : s.nest ? s.nest->writes : std::vector<nest::Write>())
      if (w.array == array && (w.push || s.nest->where)) return std::byte{0};
  return std::byte{0xFF};
}

// How a kernel is executed.
using Runner = std::function<Result<int32_t>(const loop::Kernel&, const loop::Run&)>;

// The kernels of each statement, a group being one.
using Kernels = std::vector<std::vector<loop::Kernel>>;

inline Kernels lower_all(ir::Context& ctx, const nest::Function& f, const targets::Target& target, const lower::MathExpander& expand,
                         const schedule::Schedule* how = nullptr) {
  Kernels all;
  const nest::Lifetimes lifetimes(f);
  for (size_t s = 0, count = 1; s < f.body.size(); s += count) all.push_back(lowered_at(ctx, f, lifetimes, s, target, expand, count, how));
  return all;
}

inline bool is_cut(const Kernels& all) {
  return std::any_of(all.begin(), all.end(), [](const auto& kernels) {
    return std::any_of(kernels.begin(), kernels.end(), [](const loop::Kernel& k) { return !k.cuts.empty(); });
  });
}

// The memory of each array before anything has run.
inline std::vector<std::vector<std::byte>> memory_of(const nest::Function& f, const std::vector<nest::Tensor>& inputs, const Symbols& symbols) {
  std::vector<std::vector<std::byte>> memory(f.arrays.size());
  for (size_t a = 0; a < f.arrays.size(); ++a) {
    Placement place(f.arrays[a], shape_of(f.arrays[a], symbols));
    memory[a].resize(static_cast<size_t>(place.elements) * bytes_of(f.arrays[a].dtype), starts_as(f, static_cast<uint32_t>(a)));
    const auto fill = [&](std::span<const std::byte> from_bytes) {
      place.each([&](int64_t from, int64_t to) {
        ir::store_element(f.arrays[a].dtype, memory[a].data(), static_cast<uint64_t>(to),
                          ir::load_element(f.arrays[a].dtype, from_bytes.data(), static_cast<uint64_t>(from)));
      });
    };
    for (size_t k = 0; k < f.inputs.size(); ++k)
      if (f.inputs[k] == a) fill(inputs[k].bytes);
    if (f.arrays[a].data) fill(f.arrays[a].data->bytes);
  }
  return memory;
}

// Runs the kernels, cut into so many parts along each axis. Tiles are run in two calls, as two workers would.
inline Lowered run_kernels(const nest::Function& f, const Kernels& all, const std::vector<nest::Tensor>& inputs, const Symbols& symbols,
                           int64_t parts, const Runner& runner = loop::interpret) {
  Lowered result;
  auto memory = memory_of(f, inputs, symbols);
  auto value = [&](const ir::Sym* s) -> std::optional<int64_t> {
    auto it = symbols.find(s);
    return it == symbols.end() ? std::nullopt : std::optional(it->second);
  };
  for (const std::vector<loop::Kernel>& kernels : all) {
    std::unordered_map<uint32_t, std::vector<std::byte>> workspaces;
    for (const loop::Kernel& k : kernels) {
      result.schedules.push_back(k.schedule);
      loop::Run run;
      run.value = value;
      for (const loop::Param& p : k.params) {
        if (p.role == loop::Role::Array) {
          run.buffers.emplace_back(memory[p.array]);
          continue;
        }
        auto& w = workspaces[p.array];
        w.resize(static_cast<size_t>(extent_value(p.elements, symbols)) * bytes_of(p.dtype), std::byte{0xEE});
        run.buffers.emplace_back(w);
      }
      const bool in_turns = parts > 1 && !k.cuts.empty() && k.cuts[0].in_turns;
      for (const loop::Cut& cut : k.cuts)
        run.chunks.push_back(in_turns && cut.in_turns ? 1 : std::max<int64_t>(1, (extent_value(cut.units, symbols) + parts - 1) / parts));
      // Turn by turn, the last tiles of each first.
      const int64_t turns = in_turns ? std::max<int64_t>(1, extent_value(k.cuts[0].units, symbols)) : 1, tiles = loop::divide(k, run).value().tiles / turns;
      for (int64_t turn = 0; turn < 2 * turns; ++turn) {
        const int64_t first = turn / 2 * tiles, half = first + tiles / 2 / k.cluster * k.cluster;
        run.tile_begin = turn % 2 ? first : half;
        run.tile_end = turn % 2 ? half : first + tiles;
        auto r = runner(k, run);
        CAPTURE(k.schedule);
        REQUIRE_MESSAGE(r.ok(), (r.ok() ? "" : r.status().text() + "\n" + loop::to_string(k)));
        if (*r) result.fault = *r;
      }
    }
  }
  for (uint32_t a : f.outputs) {
    nest::Tensor t = nest::Tensor::zeros(f.arrays[a].dtype, shape_of(f.arrays[a], symbols));
    Placement(f.arrays[a], t.shape).each([&](int64_t to, int64_t from) {
      ir::store_element(t.dtype, t.bytes.data(), static_cast<uint64_t>(to),
                        ir::load_element(t.dtype, memory[a].data(), static_cast<uint64_t>(from)));
    });
    result.outputs.push_back(std::move(t));
  }
  return result;
}

// Lowers every statement and runs the kernels.
inline Lowered run_lowered(ir::Context& ctx, const nest::Function& f, const std::vector<nest::Tensor>& inputs,
                           const targets::Target& target, const Symbols& symbols, const lower::MathExpander& expand, int64_t parts = 3,
                           const schedule::Schedule* how = nullptr, const Runner& runner = loop::interpret) {
  return run_kernels(f, lower_all(ctx, f, target, expand, how), inputs, symbols, parts, runner);
}

// Exp by a Taylor polynomial: good to a few units in the last place for |x| <= 8.
inline const ir::Expr* test_math(ir::Context& ctx, ir::Op op, const ir::Expr* x) {
  if (op != ir::Op::Exp) return nullptr;
  DType t = x->type.dtype;
  const ir::Expr* r = ctx.binary(ir::Op::Mul, x, ctx.number(1.0 / 16, t));
  const ir::Expr* sum = ctx.number(1, t);
  for (int k = 10; k >= 1; --k)
    sum = ctx.binary(ir::Op::Add, ctx.number(1, t),
                     ctx.binary(ir::Op::Mul, ctx.binary(ir::Op::Mul, r, ctx.number(1.0 / k, t)), sum));
  for (int k = 0; k < 4; ++k) sum = ctx.binary(ir::Op::Mul, sum, sum);
  return sum;
}

// An exponential that is zero where it is small, as real ones are.
inline const ir::Expr* vanishing_exp(ir::Context& ctx, ir::Op op, const ir::Expr* x) {
  if (op != ir::Op::Exp) return nullptr;
  const DType t = x->type.dtype;
  const ir::Expr *r = ctx.binary(ir::Op::Mul, ctx.binary(ir::Op::Max, x, ctx.number(-32, t)), ctx.number(1.0 / 64, t)), *sum = ctx.number(1, t);
  for (int k = 8; k >= 1; --k)
    sum = ctx.binary(ir::Op::Add, ctx.number(1, t), ctx.binary(ir::Op::Mul, ctx.binary(ir::Op::Mul, r, ctx.number(1.0 / k, t)), sum));
  for (int k = 0; k < 6; ++k) sum = ctx.binary(ir::Op::Mul, sum, sum);
  return ctx.select(ctx.binary(ir::Op::Lt, x, ctx.number(-30, t)), ctx.number(0, t), sum);
}

struct Difference {
  double error = 0, largest = 1e-30;  // largest finite value
  int64_t worst = 0;                  // element
  int64_t apart = 0;                  // elements that are not nearly equal
};

inline Difference difference(const nest::Tensor& want, const nest::Tensor& got) {
  Difference r;
  for (int64_t e = 0; e < want.elements(); ++e) {
    ir::Scalar x = ir::load_element(want.dtype, want.bytes.data(), static_cast<uint64_t>(e));
    ir::Scalar y = ir::load_element(got.dtype, got.bytes.data(), static_cast<uint64_t>(e));
    if (!is_float(want.dtype)) {
      x.f = static_cast<double>(x.i);
      y.f = static_cast<double>(y.i);
    }
    if (std::isnan(x.f) && std::isnan(y.f)) continue;
    if (std::isfinite(x.f)) r.largest = std::max(r.largest, std::abs(x.f));
    if (x.f == y.f) continue;
    const double d = std::isfinite(x.f) && std::isfinite(y.f) ? std::abs(x.f - y.f) : 1e30;
    if (d > r.error) r.error = d, r.worst = e;
    r.apart += d > 2e-5 * std::max(1.0, std::abs(x.f));
  }
  return r;
}

// Random inputs, oracle, kernels, comparison.
inline void check_kernels(const nest::Function& f, const Kernels& all, const targets::Target& target, const Symbols& symbols, uint32_t seed,
                          double tolerance) {
  std::mt19937 rng(seed);
  std::vector<nest::Tensor> inputs;
  for (uint32_t a : f.inputs) inputs.push_back(random_tensor(rng, f.arrays[a].dtype, shape_of(f.arrays[a], symbols)));
  nest::InterpretOptions options;
  options.threads = 1;
  options.symbols = symbols;
  auto want = nest::interpret(f, inputs, options);
  REQUIRE_MESSAGE(want.ok(), (want.ok() ? "" : want.status().text()));
  const Lowered got = run_kernels(f, all, inputs, symbols, 3);
  CHECK(got.fault == 0);
  if (is_cut(all)) {
    const Lowered uncut = run_kernels(f, all, inputs, symbols, 1);
    for (size_t k = 0; k < uncut.outputs.size(); ++k)
      CHECK_MESSAGE(got.outputs[k].bytes == uncut.outputs[k].bytes, "results depend on how a launch is cut: ", got.schedules.back());
  }
  for (size_t k = 0; k < want->size(); ++k) {
    const nest::Tensor &w = (*want)[k], &g = got.outputs[k];
    REQUIRE(w.shape == g.shape);
    const Difference d = difference(w, g);
    CAPTURE(target.name);
    CAPTURE(got.schedules.back());
    CAPTURE(d.worst);
    CAPTURE(seed);
    CHECK(d.error <= (is_float(w.dtype) ? tolerance * std::max(d.largest, 1.0) : 0));
  }
}

inline std::vector<std::string> schedules_of(const Kernels& all) {
  std::vector<std::string> names;
  for (const auto& kernels : all)
    for (const loop::Kernel& k : kernels) names.push_back(k.schedule);
  return names;
}

// Lowers, and checks against the interpreter of nests. Returns the schedules for further checks.
inline std::vector<std::string> check_lowering(ir::Context& ctx, const nest::Function& f, const targets::Target& target,
                                               const Symbols& symbols = {}, uint32_t seed = 1, double tolerance = 2e-5) {
  const Kernels all = lower_all(ctx, f, target, test_math);
  check_kernels(f, all, target, symbols, seed, tolerance);
  return schedules_of(all);
}

// Lowers once for several values of the free extents.
inline void check_free_lowering(ir::Context& ctx, const nest::Function& f, const targets::Target& target, const std::vector<Symbols>& several) {
  const Kernels all = lower_all(ctx, f, target, test_math);
  for (const Symbols& symbols : several) check_kernels(f, all, target, symbols, 1, 2e-5);
}

}  // namespace mlc::test
