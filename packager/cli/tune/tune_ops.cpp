#include "packager/cli/tune/tune_ops.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>

#include "base/files/unfinished.h"
#include "packager/cli/tune/tune_runs.h"
#include "packager/compile/cache/code_cache.h"
#include "runtime/probe/probe.h"
#include "signing/hash_tree.h"

namespace mlc::cli {
namespace {

constexpr size_t kFewestRuns = 5;
constexpr double kSameAnswer = 1e-2;  // relative to the largest value; sums in another order move it by far less

using Clock = std::chrono::steady_clock;

uint64_t median_of(std::vector<uint64_t>& samples) {
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

// A file that goes when this does.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string path) : path_(std::move(path)), unfinished_(path_) {}
  ~TemporaryFile() { ::unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  const Unfinished unfinished_;
};

// The model built with alternative `number` of each nest that has one.
struct Built {
  std::vector<compile::CompiledLaunch> launches;
  std::map<std::string, size_t> alternatives;  // of each nest, how many
  bool is_new = false;                         // some nest has that alternative
};

Result<Built> build_with(const TuneOptions& options, size_t number, const std::string& path) {
  Built out;
  compile::BuildOptions build = options.build;
  build.output_path = path;
  build.targets = {options.target};
  build.sign = false;
  build.golden_seconds = 0;
  build.choose = [&](const targets::Target& target, const std::string& nest, const std::vector<schedule::Schedule>& all) -> std::optional<schedule::Schedule> {
    if (&target != options.target) return std::nullopt;
    out.alternatives[nest] = all.size();
    out.is_new |= number < all.size();
    if (number == 0 || number >= all.size()) return std::nullopt;
    return all[number];
  };
  MLC_ASSIGN(compile::BuildReport report, compile::build(build));
  for (compile::BuildReport::Variant& variant : report.variants)
    if (variant.name == options.target->name) out.launches = std::move(variant.in_order);
  return out;
}

// What the launches of each statement take together; a statement may have several.
struct Statement {
  std::string nest, source, schedule;
  std::vector<uint64_t> samples;
};
using Statements = std::map<std::pair<std::string, size_t>, Statement>;

Statements statements_of(const std::vector<compile::CompiledLaunch>& launches) {
  Statements out;
  for (const compile::CompiledLaunch& launch : launches) {
    Statement& s = out[{launch.function, launch.statement}];
    s.nest = launch.nest, s.source = launch.source, s.schedule = launch.schedule;  // of the last, which computes it
  }
  return out;
}

void add_run(const std::map<LaunchPlace, uint64_t>& took, const std::vector<compile::CompiledLaunch>& launches, Statements& statements) {
  std::map<std::string, size_t> numbers;
  std::map<std::pair<std::string, size_t>, uint64_t> sums;
  for (const compile::CompiledLaunch& launch : launches) {
    const auto found = took.find({launch.function, numbers[launch.function]++});
    if (found != took.end()) sums[{launch.function, launch.statement}] += found->second;
  }
  for (const auto& [place, ns] : sums) statements.at(place).samples.push_back(ns);
}

// All statements of a nest together, least and median.
struct Took {
  uint64_t least = 0, median = 0, samples = 0;
  std::string source, schedule;
};
std::map<std::string, Took> by_nest(Statements& statements) {
  std::map<std::string, Took> out;
  for (auto& [place, s] : statements) {
    if (s.nest.empty() || s.samples.empty()) continue;
    Took& t = out[s.nest];
    t.median += median_of(s.samples);
    t.least += s.samples.front();
    t.samples = s.samples.size();
    if (t.source.empty()) t.source = s.source;
    t.schedule = s.schedule;
  }
  return out;
}

class Tuner {
 public:
  explicit Tuner(const TuneOptions& options) : options_(options) {}

  Result<TuneReport> run() {
    const TemporaryFile base_file(file_name(0));
    MLC_ASSIGN(base_, build_with(options_, 0, base_file.path()));
    MLC_ASSIGN(MeasuredModel base, MeasuredModel::open(base_file.path(), options_.target->name, options_.threads));
    MLC_RETURN_IF_ERROR(base.make_inputs(options_.extents));
    size_t most = 1;
    for (const auto& [nest, count] : base_.alternatives) most = std::max(most, count);
    for (size_t number = 1; number < most; ++number) {
      if (options_.build.progress) options_.build.progress({"measure", "alternatives", number, most});
      MLC_RETURN_IF_ERROR(try_alternative(number, base));
    }
    return report();
  }

 private:
  std::string file_name(size_t number) const { return options_.build.output_path + ".tune" + std::to_string(::getpid()) + "." + std::to_string(number); }

  Status try_alternative(size_t number, MeasuredModel& base) {
    const TemporaryFile file(file_name(number));
    MLC_ASSIGN(const Built built, build_with(options_, number, file.path()));
    if (!built.is_new) return ok();
    MLC_ASSIGN(MeasuredModel other, MeasuredModel::open(file.path(), options_.target->name, options_.threads));
    MLC_RETURN_IF_ERROR(other.take_inputs(base));
    if (const double apart = other.difference(base); !(apart <= kSameAnswer)) {
      report_.warnings.push_back("alternative " + std::to_string(number) + " answers otherwise, by " + std::to_string(apart) + " of the largest value: left out");
      return ok();
    }
    Statements own = statements_of(base_.launches), others = statements_of(built.launches);
    const auto end = Clock::now() + std::chrono::duration<double>(options_.seconds);
    for (size_t run = 0; run < kFewestRuns || Clock::now() < end; ++run) {
      MLC_ASSIGN(const auto base_took, base.once());
      MLC_ASSIGN(const auto other_took, other.once());
      add_run(base_took, base_.launches, own);
      add_run(other_took, built.launches, others);
    }
    keep(by_nest(own), by_nest(others));
    return ok();
  }

  // Times of both; of the other only where its schedule is another one.
  void keep(const std::map<std::string, Took>& own, const std::map<std::string, Took>& others) {
    for (const auto& [nest, mine] : own) {
      if (mine.schedule.size() > tune::Records::kMostSchedule) continue;
      Own& known = own_[nest];
      known.took.source = mine.source, known.took.schedule = mine.schedule;
      known.took.samples += mine.samples;
      known.took.least = known.rounds == 0 ? mine.least : std::min(known.took.least, mine.least);
      known.medians.push_back(mine.median);
      ++known.rounds;
      const auto found = others.find(nest);
      if (found == others.end() || found->second.schedule == mine.schedule || found->second.schedule.size() > tune::Records::kMostSchedule) continue;
      known.ratios.push_back({found->second.schedule, ratio(found->second.least, mine.least), ratio(found->second.median, mine.median), found->second.samples});
    }
  }
  static double ratio(uint64_t a, uint64_t b) { return static_cast<double>(a) / static_cast<double>(std::max<uint64_t>(b, 1)); }

  TuneReport report() {
    const tune::Setup setup{options_.target->name, options_.threads, compiler_name(), extents_text(), probe::host().cpu_model};
    for (auto& [nest, known] : own_) {
      const uint64_t median = median_of(known.medians);
      tune::Record record{setup, nest, known.took.source, {{known.took.least, std::max(median, known.took.least), known.took.samples, known.took.schedule}}};
      for (const Ratio& r : known.ratios) {
        const auto least = static_cast<uint64_t>(r.least * static_cast<double>(known.took.least));
        record.timings.push_back({least, std::max(least, static_cast<uint64_t>(r.median * static_cast<double>(median))), r.samples, r.schedule});
      }
      report_.before_ns += known.took.least;
      report_.after_ns += known.took.least;
      if (record.timings.size() < 2) continue;
      ++report_.nests;
      report_.records.add(record);
      const auto best = report_.records.best(setup.target, nest);
      if (!best) continue;
      ++report_.gaining;
      for (const tune::Timing& t : record.timings)
        if (t.schedule == *best) report_.after_ns -= known.took.least - t.least_ns;
    }
    return std::move(report_);
  }

  std::string extents_text() const {
    std::string out;
    for (const auto& [name, value] : options_.extents) out += (out.empty() ? "" : ",") + name + "=" + std::to_string(value);
    for (char& c : out)  // names are the model's: one word of one line
      if (static_cast<unsigned char>(c) <= ' ' || c == 127) c = '_';
    return out;
  }

  struct Ratio {
    std::string schedule;
    double least, median;
    uint64_t samples;
  };
  struct Own {
    Took took;
    size_t rounds = 0;
    std::vector<uint64_t> medians;
    std::vector<Ratio> ratios;
  };

  const TuneOptions& options_;
  Built base_;
  std::map<std::string, Own> own_;  // by nest
  TuneReport report_;
};

}  // namespace

std::string compiler_name() { return to_hex(sha256(compile::compiler_identity())); }

Result<TuneReport> tune_model(const TuneOptions& options) { return Tuner(options).run(); }

void follow(const tune::Records& records, compile::BuildOptions& build) {
  build.choose = [&records](const targets::Target& target, const std::string& nest, const std::vector<schedule::Schedule>&) -> std::optional<schedule::Schedule> {
    const auto best = records.best(target.name, nest);
    if (!best) return std::nullopt;
    auto how = schedule::parse(*best);
    return how.ok() ? std::optional(std::move(how).value()) : std::nullopt;
  };
  build.followed = [&records](const compile::CompiledVariant& variant) {
    std::set<std::string> nests;
    for (const compile::CompiledLaunch& launch : variant.launches)
      if (const auto best = records.best(variant.target->name, launch.nest); best && *best == launch.schedule) nests.insert(launch.nest);
    const tune::Records used = records.of(variant.target->name, nests);
    return compile::TuningText{used.all().size(), used.print()};
  };
}

}  // namespace mlc::cli
