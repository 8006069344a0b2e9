#include "packager/passes/forms/winograd.h"

#include <algorithm>
#include <cmath>

#include "packager/ir/typical.h"
#include "packager/passes/forms/convolution.h"
#include "packager/passes/forms/winograd_tiles.h"
#include "targets/machines.h"

namespace mlc::passes {
namespace {

using ir::Dim;

// What a layer is weighed by, on a machine that is like most of its class. Only differences between ways to do it matter, and these are
// large or do not count.
struct Rates {
  double operations;                              // of products, in a unit of time
  double near, shared, memory, weights;           // bytes in a unit of time: written or read by transforms, by where they are; constants
  double near_bytes, shared_bytes;                // that are near, and in what is shared
  double launch;                                  // units of time
};
constexpr double kOperationsOfFma = 2, kProductsOfTf32 = 3;  // of f32

constexpr Rates rates_of(const targets::ProcessorRow& m) {
  return {m.flops_per_ns, m.near_bytes_per_ns, m.shared_bytes_per_ns, m.memory_bytes_per_ns, m.weight_bytes_per_ns, m.near_bytes, m.shared_bytes, m.launch_ns};
}
// In cycles. All of a layer is in the cache of a device, and its kernels wait for memory once.
constexpr Rates rates_of(const targets::DeviceRow& m) {
  return {kOperationsOfFma * m.multiprocessors * std::max(m.fmas_per_cycle, m.mma_cells_per_cycle / kProductsOfTf32), m.cache_bytes_per_cycle, m.cache_bytes_per_cycle, m.memory_bytes_per_cycle, m.memory_bytes_per_cycle, 1e300, 1e300,
          m.launch_cycles + m.latency_cycles};
}
constexpr int64_t kLeastChannels = 16;                       // fewer fill no panel

struct Choice {
  int64_t points = 0;     // along an axis
  double saved = 0;       // units of time
  uint64_t bytes = 0;     // of the weights

  double rank() const { return saved / static_cast<double>(bytes); }
};
struct Candidate {
  Convolution conv;
  std::vector<Choice> choices;  // best first
};

double points(const Expr* extent, ir::Guess guess) { return static_cast<double>(std::max<int64_t>(ir::typical(extent, guess).value_or(1), 1)); }

// Whether there are tiles of more than one result, with `points` along each axis. Tiles of eight points lose too much accuracy in 2-D, and save
// too little for two taps.
bool has_tiles(const Convolution& c, int64_t points) {
  const int64_t least = points == 8 ? 3 : 2;
  return (points <= 6 || c.axes.size() == 1) &&
         std::all_of(c.axes.begin(), c.axes.end(), [&](const Convolution::Axis& axis) { return taps_of_phase(axis) >= least && taps_of_phase(axis) < points; });
}

double usual_points(const Convolution& c, size_t k) { return points(c.axes[k].out->extent, c.axes.size() == 1 ? ir::Guess::Length : ir::Guess::Side); }

double with_weights(const Rates& rates, const Convolution& c, double products, double places) {
  return std::max(products, 4 * places * static_cast<double>(c.c->extent->i * c.m->extent->i) / rates.weights);
}

double direct_time(const Rates& rates, const Convolution& c) {
  double inside = 1, taps = 1;
  for (const Dim* d : c.batch) inside *= points(d->extent, ir::Guess::Batch);
  for (size_t k = 0; k < c.axes.size(); ++k) {
    const auto all = static_cast<double>(c.axes[k].tap->extent->i), half = std::floor((all - 1) / 2);
    const double left_out = c.conditions.empty() ? 0 : half * (half + 1) / static_cast<double>(c.axes[k].stride);  // taps outside of the image
    inside *= std::max(1.0, all * usual_points(c, k) - left_out);
    taps *= all;
  }
  return with_weights(rates, c, 2 * inside * static_cast<double>(c.c->extent->i * c.m->extent->i) / rates.operations, taps) + rates.launch;
}

double time_in_tiles(ir::Context& ctx, const Rates& rates, const Convolution& c, int64_t side) {
  double batch = 1, places = 1, weighed = 1, tiles = 1, phases = 1, taps = 1;  // weighed: places and phases with weights
  for (const Dim* d : c.batch) batch *= points(d->extent, ir::Guess::Batch);
  bool is_whole = true;
  for (size_t k = 0; k < c.axes.size(); ++k) {
    const auto tile = static_cast<double>(side - taps_of_phase(c.axes[k]) + 1);
    places *= static_cast<double>(side);
    tiles *= std::ceil(usual_points(c, k) / tile);
    phases *= static_cast<double>(c.axes[k].stride);
    weighed *= static_cast<double>((side - 1) * c.axes[k].stride + c.axes[k].tap->extent->i - c.axes[k].stride * (taps_of_phase(c.axes[k]) - 1));
    taps *= static_cast<double>(c.axes[k].tap->extent->i);
    is_whole &= std::fmod(usual_points(c, k), tile) == 0;
  }
  const auto channels = static_cast<double>(c.c->extent->i), results = static_cast<double>(c.m->extent->i);
  const double held = 4 * places * batch * tiles * (phases * channels + results);
  const double moved = 2 * held / (held <= rates.near_bytes ? rates.near : held <= rates.shared_bytes ? rates.shared : rates.memory);
  double time = with_weights(rates, c, 2 * weighed * batch * tiles * channels * results / rates.operations, weighed) + moved + 3 * rates.launch;
  if (!is_whole) time += 3 * rates.launch;
  for (size_t k = 0; k < c.axes.size(); ++k) {  // what is left over, if that is not known, is half a tile in the old way
    const int64_t tile = side - taps_of_phase(c.axes[k]) + 1;
    const double across = c.axes.size() == 1 ? 1 : usual_points(c, 1 - k);
    if (!knows_rest(ctx, c.axes[k].out, tile)) time += batch * static_cast<double>(tile) * across * taps * channels * results / rates.operations;
  }
  return time;
}

// The numbers of points that are worth it.
std::vector<Choice> choices_for(ir::Context& ctx, const Rates& rates, const Convolution& conv) {
  std::vector<Choice> choices;
  if (conv.c->extent->i < kLeastChannels || conv.m->extent->i < kLeastChannels) return choices;
  const double direct = direct_time(rates, conv);
  for (const int64_t side : {8, 6, 4}) {
    if (!has_tiles(conv, side)) continue;
    const double saved = direct - time_in_tiles(ctx, rates, conv, side);
    if (saved < (1 - targets::kAnyProcessor.winograd_times) * direct) continue;
    uint64_t weights = 4 * static_cast<uint64_t>((conv.m->extent->i + 15) / 16 * 16) * static_cast<uint64_t>(conv.c->extent->i);
    for (const Convolution::Axis& axis : conv.axes) weights *= static_cast<uint64_t>(side * axis.stride);
    choices.push_back({side, saved, weights});
  }
  std::stable_sort(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) { return a.saved > b.saved; });
  return choices;
}

// The statements of `f`, some of them replaced by others.
void replace(nest::Function& f, std::vector<std::vector<nest::Statement>> instead) {
  std::vector<nest::Statement> body;
  for (size_t i = 0; i < instead.size(); ++i) {
    if (instead[i].empty()) body.push_back(std::move(f.body[i]));
    for (nest::Statement& s : instead[i]) body.push_back(std::move(s));
  }
  f.body = std::move(body);
}

}  // namespace

bool winograd_at_points(ir::Context& ctx, nest::Function& f, size_t statement, int64_t points) {
  Convolution conv;
  if (!find_convolution(ctx, f, statement, conv) || !has_tiles(conv, points)) return false;
  std::vector<std::vector<nest::Statement>> instead(f.body.size());
  instead[statement] = in_tiles(ctx, f, conv, points);
  replace(f, std::move(instead));
  return true;
}

Status winograd(ir::Context& ctx, nest::Function& f, uint64_t most_derived, const targets::DeviceRow* device) {
  const Rates rates = device ? rates_of(*device) : rates_of(targets::kAnyProcessor);
  most_derived -= std::min(most_derived, derived_bytes(ctx, f));
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < f.body.size(); ++i) {
    Candidate candidate;
    if (!find_convolution(ctx, f, i, candidate.conv)) continue;
    candidate.choices = choices_for(ctx, rates, candidate.conv);
    if (!candidate.choices.empty()) candidates.push_back(std::move(candidate));
  }
  std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) { return a.choices[0].rank() > b.choices[0].rank(); });
  std::vector<std::vector<nest::Statement>> instead(f.body.size());
  for (const Candidate& candidate : candidates) {
    const auto fits = std::find_if(candidate.choices.begin(), candidate.choices.end(), [&](const Choice& c) { return c.bytes <= most_derived; });
    if (fits == candidate.choices.end()) continue;
    most_derived -= fits->bytes;
    instead[candidate.conv.statement] = in_tiles(ctx, f, candidate.conv, fits->points);
  }
  replace(f, std::move(instead));
  return ok();
}

}  // namespace mlc::passes
