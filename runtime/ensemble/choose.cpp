#include "runtime/ensemble/choose.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/compose.h"
#include "base/counted.h"

namespace mlc::ensemble {
namespace {

constexpr double kLeastGain = 0.1;  // of several parts over the best one

std::optional<Assignment> best_alone(const Problem& problem) {
  std::optional<Assignment> best;
  for (uint32_t part = 0; part < problem.parts.size(); ++part) {
    auto alone = assignment_of(problem, std::vector<uint32_t>(problem.segments.size(), part));
    if (alone && (!best || alone->ns < best->ns)) best = std::move(alone);
  }
  return best;
}

std::string ms_text(double ns) {
  const auto microseconds = static_cast<uint64_t>(ns / 1000);
  return compose("{}.{}{} ms", microseconds / 1000, microseconds / 100 % 10, microseconds / 10 % 10);
}

Choice of_stages(Assignment assignment, std::string why) {
  Choice out;
  out.mode = assignment.stages.size() == 1 ? Mode::OneDevice : Mode::Path;
  out.assignment = std::move(assignment);
  out.why = std::move(why);
  return out;
}

std::vector<double> each_alone(const Problem& problem) {
  std::vector<double> out;
  for (uint32_t part = 0; part < problem.parts.size(); ++part) {
    const auto alone = assignment_of(problem, std::vector<uint32_t>(problem.segments.size(), part));
    out.push_back(alone ? alone->ns : kImpossible);
  }
  return out;
}

// None where its rows are not divided, or only one part would get some.
std::optional<Choice> by_rows(const Problem& problem) {
  Choice out;
  out.mode = Mode::Rows;
  out.rows = row_costs(problem);
  const std::vector<uint64_t> shares = divide_rows(out.rows, problem.rows);
  if (std::count(shares.begin(), shares.end(), uint64_t{0}) + 1 >= static_cast<std::ptrdiff_t>(shares.size())) return std::nullopt;
  out.assignment.ns = divided_ns(out.rows, shares);
  out.alone = each_alone(problem);
  return out;
}

std::optional<Choice> least_latency(const Problem& problem) {
  auto path = cheapest(problem);
  if (!path) return std::nullopt;
  auto alone = best_alone(problem);
  std::optional<Choice> several = by_rows(problem);
  if (!several || path->ns <= several->assignment.ns) several = of_stages(std::move(*path), "");
  if (!alone) {
    several->why = "no device holds all of it";
  } else if (several->mode == Mode::OneDevice) {
    several->why = "the fastest of all ways";
  } else if (several->assignment.ns > alone->ns * (1 - kLeastGain)) {
    return of_stages(std::move(*alone), compose("several together would take {}, which gains less than a tenth", ms_text(several->assignment.ns)));
  } else {
    several->why = compose("{} alone", ms_text(alone->ns));
  }
  return several;
}

double per_second(double ns) { return 1e9 / std::max(ns, 1.0); }
std::string rate_text(double rate) {
  const auto tenths = static_cast<uint64_t>(rate * 10);
  return compose("{}.{} requests a second", tenths / 10, tenths % 10);
}

std::optional<Choice> most_throughput(const Problem& problem) {
  std::vector<double> alone = each_alone(problem);
  double copies_rate = 0;
  for (const double ns : alone) copies_rate += ns < kImpossible ? per_second(ns) : 0;
  auto pipeline = best_pipeline(problem);
  const double stages_rate = pipeline ? per_second(pipeline->slowest_ns()) : 0;
  if (stages_rate * (1 - kLeastGain) > copies_rate && pipeline->stages.size() > 1) {
    Choice out = of_stages(std::move(*pipeline), copies_rate > 0 ? compose("{}, whole programs {}", rate_text(stages_rate), rate_text(copies_rate))
                                                                 : std::string("no device holds all of it"));
    out.mode = Mode::Pipeline;
    return out;
  }
  const auto able = std::count_if(alone.begin(), alone.end(), [](double ns) { return ns < kImpossible; });
  if (able == 0) {  // a path may come back to a part, which stages of a pipeline do not
    auto path = cheapest(problem);
    return path ? std::optional(of_stages(std::move(*path), "no device holds all of it")) : std::nullopt;
  }
  if (able == 1) return of_stages(std::move(*best_alone(problem)), "the only device that holds all of it");
  Choice out;
  out.mode = Mode::Replicate;
  out.alone = std::move(alone);
  out.why = compose("{} together", rate_text(copies_rate));
  return out;
}

// Of the sets of so many parts, with the processor among them or without, the one that does it fastest.
std::optional<Assignment> best_of_size(const Problem& problem, int size, bool with_processor) {
  std::optional<Assignment> best;
  std::vector<bool> set(problem.parts.size());
  const size_t parts = std::min(problem.parts.size(), kMostPipelined);
  for (uint32_t bits = 1; bits < 1u << parts; ++bits) {
    if (std::popcount(bits) != size) continue;
    bool has_processor = false;
    for (size_t d = 0; d < parts; ++d) {
      set[d] = bits >> d & 1;
      has_processor |= set[d] && problem.parts[d].is_processor;
    }
    if (has_processor != with_processor) continue;
    auto found = cheapest(problem, set);
    if (found && (!best || found->ns < best->ns)) best = std::move(found);
  }
  return best;
}

std::optional<Choice> least_memory(const Problem& problem) {
  for (const bool with_processor : {false, true})
    for (size_t size = 1; size <= std::min(problem.parts.size(), kMostPipelined); ++size)
      if (auto found = best_of_size(problem, static_cast<int>(size), with_processor))
        return of_stages(std::move(*found), compose("{} hold it", counted(size, "device")));
  return std::nullopt;
}

}  // namespace

std::optional<Objective> objective_named(std::string_view name) {
  if (name == "latency") return Objective::Latency;
  if (name == "memory") return Objective::Memory;
  if (name == "throughput") return Objective::Throughput;
  return std::nullopt;
}

std::string_view name_of(Mode mode) {
  switch (mode) {
    case Mode::OneDevice: return "one device";
    case Mode::Path: return "latency path";
    case Mode::Rows: return "split batch";
    case Mode::Replicate: return "replicate";
    case Mode::Pipeline: return "pipeline";
  }
  return "";
}

std::optional<Choice> choose(const Problem& problem, Objective objective) {
  switch (objective) {
    case Objective::Latency: return least_latency(problem);
    case Objective::Memory: return least_memory(problem);
    case Objective::Throughput: return most_throughput(problem);
  }
  return std::nullopt;
}

}  // namespace mlc::ensemble
