// Whether random graphs see faults: plants them in the kernels of graphs, one at a time, and compares what the kernels then
// compute with the oracle (README.md, "Planted faults").
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <thread>

#include "tests/conformance/paths.h"
#include "tests/conformance/run/answers.h"
#include "tests/conformance/run/interpret_kernels.h"
#include "tests/conformance/run/process_pool.h"
#include "tests/random/generate.h"
#include "tests/random/plant.h"
#include "tests/random/rng.h"
#include "tests/random/trial.h"

namespace mlc::random_graphs {
namespace {

constexpr char kUsage[] =
    "usage: planted_faults [--seed N] [--count N] [--places N] [--target NAME] [--fault NAME] [--least PERCENT] [--jobs N] [--verbose]\n"
    "\n"
    "  --seed, --count  graphs, as random_graphs has them (default 1, 24), with fixed extents\n"
    "  --places         in each graph, of each fault, at most (default 2)\n"
    "  --target         whose kernels (default x86-64-v3)\n"
    "  --fault          this one alone\n"
    "  --least          of the faults planted, in all, that must be seen (default 50); a fault may stand where it changes nothing\n"
    "Exit code 1 if a fault is not seen in any of its places, fits nowhere, or too few are seen.\n";

constexpr double kSecondsPerGraph = 240;

struct Options {
  uint64_t seed = 1, count = 24, places = 2, least = 50;
  std::string target = "x86-64-v3", fault;
  unsigned jobs = std::max(1u, std::thread::hardware_concurrency());
  bool verbose = false;
};

bool parse(int argc, char** argv, Options& o) {
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--verbose") {
      o.verbose = true;
      continue;
    }
    const std::string value = i + 1 < argc ? argv[++i] : "";
    if (value.empty()) return false;
    const uint64_t number = std::strtoull(value.c_str(), nullptr, 10);
    if (flag == "--seed") o.seed = number;
    else if (flag == "--count") o.count = number;
    else if (flag == "--places") o.places = number;
    else if (flag == "--least") o.least = number;
    else if (flag == "--target") o.target = value;
    else if (flag == "--fault") o.fault = value;
    else if (flag == "--jobs") o.jobs = static_cast<unsigned>(std::clamp<uint64_t>(number, 1, 256));
    else return false;
  }
  return true;
}

// A graph whose kernels, as they are, answer right.
class Graph {
 public:
  Graph(const lang::Library& library, const Trial& trial) : begun_(begin_trial(library, trial)) {}

  Status lower(const targets::Target& target) {
    if (begun_.failed) return Status(Code::Unsupported, begun_.failed->text);
    MLC_ASSIGN(kernels_, begun_.answers->kernels_for(target));
    const std::string text = wrong(kernels_.texts);
    return text.empty() ? ok() : Status(Code::Internal, "differs without a fault: " + text);
  }

  const std::vector<std::string>& kernels() const { return kernels_.texts; }

  // How the answer of these kernels shows that they are wrong; empty if it does not.
  std::string wrong(const std::vector<std::string>& kernels) const {
    const auto got = conformance::interpret_kernels(kernels_.container, kernels_.plan, kernels, begun_.answers->inputs());
    return got.ok() ? difference(*got, begun_.oracle) : got.status().message;
  }

 private:
  Begun begun_;
  conformance::Answers::Kernels kernels_;
};

// The kernel that has the fault, and its first line that differs, before and after.
std::string change(const std::vector<std::string>& right, const std::vector<std::string>& wrong) {
  for (size_t k = 0; k < right.size(); ++k) {
    if (right[k] == wrong[k]) continue;
    const auto [a, b] = std::mismatch(right[k].begin(), right[k].end(), wrong[k].begin(), wrong[k].end());
    const auto line = [&](const std::string& text, auto at) {
      const size_t place = static_cast<size_t>(at - text.begin()), newline = text.rfind('\n', place ? place - 1 : 0);
      const size_t from = text.find_first_not_of(' ', newline == std::string::npos ? 0 : newline + 1);
      return text.substr(from, text.find('\n', from) - from);
    };
    return right[k].substr(0, right[k].find(" tiles ")) + ": " + line(right[k], a) + " | " + line(wrong[k], b);
  }
  return "nothing changed";
}

// In a child, a line for each fault planted: its number, whether it was seen, how or where.
void plant_all(const Options& o, const lang::Library& library, const targets::Target& target, uint64_t seed,
               const std::function<void(const std::string&)>& emit) {
  const Made made = generate(seed, false, {});
  const Trial trial{made.model, made.inputs};
  Graph graph(library, trial);
  const Status lowered = graph.lower(target);
  if (!lowered.ok()) return emit("- " + lowered.message);
  for (size_t f = 0; f < all_faults().size(); ++f) {
    const Fault& fault = all_faults()[f];
    if (!o.fault.empty() && o.fault != fault.name) continue;
    const auto places = places_of(fault, graph.kernels());
    if (!places.ok()) return emit("- " + places.status().message);
    Random r(seed * 1000 + f);
    std::set<size_t> chosen;
    while (chosen.size() < std::min<uint64_t>(*places, o.places)) chosen.insert(static_cast<size_t>(r.below(static_cast<int64_t>(*places))));
    for (const size_t place : chosen) {
      const auto texts = planted(fault, graph.kernels(), place);
      if (!texts.ok()) return emit("- " + texts.status().message);
      const std::string how = graph.wrong(*texts);
      emit(std::to_string(f) + (how.empty() ? " 0 " : " 1 ") + "place " + std::to_string(place) + " of " + std::to_string(*places) + ", " +
           change(graph.kernels(), *texts) + (how.empty() ? "" : ": " + how));
    }
  }
}

struct Tally {
  uint64_t planted = 0, seen = 0;
};

class Campaign {
 public:
  explicit Campaign(const Options& o) : o_(o), tallies_(all_faults().size()) {}

  int run(const lang::Library& library, const targets::Target& target) {
    conformance::PoolWork work;
    work.processes = o_.jobs;
    work.seconds_per_item = kSecondsPerGraph;
    for (uint64_t k = 0; k < o_.count; ++k) work.items.push_back(o_.seed + k);
    work.work = [&](uint64_t seed, const std::function<void(const std::string&)>& emit) { plant_all(o_, library, target, seed, emit); };
    work.line = [&](uint64_t seed, const std::string& line) { take(seed, line); };
    work.lost = [&](uint64_t seed, const std::string& why, std::vector<uint64_t>&) { take(seed, "- " + why); };
    if (!conformance::run_pool(work)) return std::fprintf(stderr, "no processes can be started\n"), 2;
    return verdict() ? 0 : 1;
  }

 private:
  void take(uint64_t seed, const std::string& line) {
    if (line[0] == '-') {
      ++unusable_;
      std::printf("seed %llu cannot be used: %s\n", static_cast<unsigned long long>(seed), line.c_str() + 2);
      return;
    }
    const size_t space = line.find(' ');
    const size_t fault = std::strtoull(line.c_str(), nullptr, 10);
    const bool seen = line[space + 1] == '1';
    ++tallies_[fault].planted, tallies_[fault].seen += seen;
    if (o_.verbose || !seen)
      std::printf("%-8s %s, seed %llu, %s\n", seen ? "seen" : "not seen", std::string(all_faults()[fault].name).c_str(),
                  static_cast<unsigned long long>(seed), line.c_str() + space + 3);
  }

  bool verdict() const {
    Tally all;
    bool good = true;
    for (size_t f = 0; f < tallies_.size(); ++f) {
      const Fault& fault = all_faults()[f];
      if (!o_.fault.empty() && o_.fault != fault.name) continue;
      const Tally& tally = tallies_[f];
      all.planted += tally.planted, all.seen += tally.seen;
      good = good && tally.seen > 0;
      std::printf("%-12s %4llu of %4llu seen%s  %s\n", std::string(fault.name).c_str(), static_cast<unsigned long long>(tally.seen),
                  static_cast<unsigned long long>(tally.planted), tally.seen ? "" : " FAIL", std::string(fault.what).c_str());
    }
    std::printf("%llu of %llu faults seen, %llu of %llu graphs used\n", static_cast<unsigned long long>(all.seen),
                static_cast<unsigned long long>(all.planted), static_cast<unsigned long long>(o_.count - unusable_),
                static_cast<unsigned long long>(o_.count));
    return good && all.seen * 100 >= all.planted * o_.least;
  }

  const Options& o_;
  std::vector<Tally> tallies_;  // by fault
  uint64_t unusable_ = 0;
};

int run(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  Options o;
  if (!parse(argc, argv, o)) return std::fprintf(stderr, "%s", kUsage), 2;
  const auto path = conformance::path_named(o.target);
  if (!path.ok() || !path->target) return std::fprintf(stderr, "--target %s: no target\n", o.target.c_str()), 2;
  auto library = lang::Library::parse(lang::Library::builtin_files());
  if (!library.ok()) return std::fprintf(stderr, "%s\n", library.status().text().c_str()), 2;
  return Campaign(o).run(*library, *path->target);
}

}  // namespace
}  // namespace mlc::random_graphs

int main(int argc, char** argv) { return mlc::random_graphs::run(argc, argv); }
