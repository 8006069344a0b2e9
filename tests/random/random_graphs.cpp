// Random ONNX graphs along every path from a model to an answer (README.md).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <thread>

#include "tests/conformance/paths.h"
#include "tests/conformance/run/process_pool.h"
#include "tests/random/generate.h"
#include "tests/random/idioms.h"
#include "tests/random/minimise.h"
#include "tests/random/trial.h"

namespace mlc::random_graphs {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kUsage[] =
    "usage: random_graphs [--seed N] [--count N | --seconds S] [--path NAME]... [--jobs N]\n"
    "                     [--only IDIOM] [--without IDIOM]... [--form fixed|free] [--out DIR] [--dump DIR]\n"
    "                     [--minimise N] [--verbose]\n"
    "       random_graphs --case DIR [--path NAME]...\n"
    "       random_graphs --idioms\n"
    "\n"
    "  --seed      of the first graph, the next has the next (default 1)\n"
    "  --count     graphs (default 100), or with --seconds as many as are done in that time\n"
    "  --path      as onnx_node_tests has them (default portable, native, x86-64-v2, x86-64-v3, vulkan-base:code,\n"
    "              cuda-sm80:code)\n"
    "  --only      an idiom that is in every graph; --idioms lists them\n"
    "  --without   an idiom that is in none: what is known to fail hides the rest\n"
    "  --form      every graph is tried with fixed and with free extents, or in one of both forms\n"
    "  --out       where models that fail are written, small (default random_graphs.out)\n"
    "  --dump      every graph in the layout of ONNX's test data, with the interpreter's outputs\n"
    "  --minimise  how many failures at most (default 20); --jobs: processes (default: one per CPU)\n"
    "  --case      a folder that --out or --dump wrote, again\n"
    "Exit code 0 if nothing failed, 1 if something did.\n";

constexpr double kSecondsPerGraph = 60;
constexpr uint64_t kBatch = 24;  // graphs, after which what failed is made small

struct Options {
  uint64_t seed = 1, count = 100;
  double seconds = 0;
  std::vector<std::string> paths;
  Choice choice;
  std::string form, out = "random_graphs.out", dump, again;
  unsigned jobs = std::max(1u, std::thread::hardware_concurrency());
  uint64_t minimise = 20;
  bool verbose = false, idioms = false;
};

bool parse(int argc, char** argv, Options& o) {
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--verbose") {
      o.verbose = true;
      continue;
    }
    if (flag == "--idioms") {
      o.idioms = true;
      continue;
    }
    const std::string value = i + 1 < argc ? argv[++i] : "";
    if (value.empty()) return false;
    if (flag == "--seed") o.seed = std::strtoull(value.c_str(), nullptr, 10);
    else if (flag == "--count") o.count = std::strtoull(value.c_str(), nullptr, 10);
    else if (flag == "--seconds") o.seconds = std::atof(value.c_str());
    else if (flag == "--path") o.paths.push_back(value);
    else if (flag == "--only") o.choice.only = value;
    else if (flag == "--without") o.choice.without.push_back(value);
    else if (flag == "--form" && (value == "fixed" || value == "free")) o.form = value;
    else if (flag == "--out") o.out = value;
    else if (flag == "--dump") o.dump = value;
    else if (flag == "--case") o.again = value;
    else if (flag == "--minimise") o.minimise = std::strtoull(value.c_str(), nullptr, 10);
    else if (flag == "--jobs") o.jobs = static_cast<unsigned>(std::clamp(std::atoi(value.c_str()), 1, 256));
    else return false;
  }
  if (o.paths.empty()) o.paths = {"portable", "native", "x86-64-v2", "x86-64-v3", "vulkan-base:code", "cuda-sm80:code"};
  return true;
}

// A graph in one of its forms.
struct Subject {
  uint64_t seed = 0;
  bool free = false;

  std::string name() const { return "seed" + std::to_string(seed) + (free ? "_free" : "_fixed"); }
};

struct Found {
  Subject subject;
  Report report;
};

class Campaign {
 public:
  Campaign(const Options& o, const lang::Library& library, std::vector<conformance::Path> paths)
      : o_(o), library_(library), paths_(std::move(paths)), left_(o.minimise) {}

  int run() {
    const auto start = Clock::now();
    const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
    uint64_t done = 0;
    while (o_.seconds > 0 ? elapsed() < o_.seconds : done < o_.count) {
      const uint64_t batch = o_.seconds > 0 ? kBatch : std::min(kBatch, o_.count - done);
      if (!run_batch(o_.seed + done, batch)) return std::fprintf(stderr, "no processes can be started\n"), 2;
      done += batch;
      minimise_new();
    }
    summary(done, elapsed());
    return found_.empty() ? 0 : 1;
  }

 private:
  // An item of the pool: a graph, its form, and the first path that is still to be run.
  Subject subject_of(uint64_t item) const { return {item / (2 * stride()), item / stride() % 2 != 0}; }
  uint64_t stride() const { return paths_.size() + 1; }

  bool run_batch(uint64_t seed, uint64_t count) {
    conformance::PoolWork work;
    work.processes = o_.jobs;
    work.seconds_per_item = kSecondsPerGraph;
    for (uint64_t k = 0; k < count; ++k) {
      for (const std::string& idiom : generate(seed + k, false, o_.choice).idioms) ++idioms_[idiom];
      for (const bool free : {false, true})
        if (o_.form.empty() || (o_.form == "free") == free) work.items.push_back(((seed + k) * 2 + free) * stride());
    }
    std::map<uint64_t, size_t> reported;  // paths of an item's graph that are known, for those that crash
    work.work = [&](uint64_t item, const std::function<void(const std::string&)>& emit) {
      const Subject s = subject_of(item);
      const Made made = generate(s.seed, s.free, o_.choice);
      const Trial trial{made.model, made.inputs};
      run_trial(
          library_, trial, paths_, item % stride(),
          [&](const Report& r) { emit(std::to_string(static_cast<int>(r.sort)) + r.path + "\t" + r.text); },
          [&](const Oracle& oracle) {
            emit(note(oracle));
            if (!o_.dump.empty() && item % stride() == 0) save_trial(o_.dump + "/" + s.name(), trial, oracle.outputs);
          });
    };
    work.line = [&](uint64_t item, const std::string& line) {
      if (line[0] == '#') return take_note(line);
      const size_t tab = line.find('\t');
      ++reported[item - item % stride()];
      take(subject_of(item), {line.substr(1, tab - 1), static_cast<Sort>(line[0] - '0'), line.substr(tab + 1)});
    };
    work.lost = [&](uint64_t item, const std::string& why, std::vector<uint64_t>& more) {
      const uint64_t first = item - item % stride();
      const size_t path = reported[first]++;
      take(subject_of(item), {path < paths_.size() ? paths_[path].name : "oracle", Sort::Crash, why});
      if (path + 1 < paths_.size()) more.push_back(first + path + 1);
    };
    return conformance::run_pool(work);
  }

  // How much of a graph can be compared sharply: outputs that rounding moves visibly tell little.
  static std::string note(const Oracle& oracle) {
    size_t moved = 0;
    for (size_t k = 0; k < oracle.outputs.size(); ++k) moved += moves(oracle.outputs[k], oracle.bounds[k]);
    return "#" + std::to_string(oracle.outputs.size()) + " " + std::to_string(moved);
  }
  void take_note(const std::string& line) {
    outputs_ += std::strtoull(line.c_str() + 1, nullptr, 10);
    moved_ += std::strtoull(line.c_str() + line.find(' '), nullptr, 10);
  }

  void take(const Subject& subject, Report report) {
    ++counts_[report.path][static_cast<size_t>(report.sort)];
    const bool failed = report.sort != Sort::Pass && report.sort != Sort::Refused;
    if (o_.verbose || failed)
      std::printf("%-8s %s on %s: %s\n", kSortNames[static_cast<size_t>(report.sort)], subject.name().c_str(),
                  report.path.c_str(), report.text.c_str());
    if (failed) found_.push_back({subject, std::move(report)});
  }

  // Of the failures since the last time, the first of every graph.
  void minimise_new() {
    const auto before = [](const Found& a, const Found& b) {
      return std::pair(a.subject.seed, a.subject.free) < std::pair(b.subject.seed, b.subject.free);
    };
    std::stable_sort(found_.begin() + static_cast<ptrdiff_t>(minimised_), found_.end(), before);
    uint64_t last = UINT64_MAX;
    for (; minimised_ < found_.size(); ++minimised_) {
      const Found& f = found_[minimised_];
      if (f.subject.seed == last || left_ == 0) continue;
      last = f.subject.seed;
      --left_;
      minimise_one(f);
    }
  }

  void minimise_one(const Found& f) {
    const Made made = generate(f.subject.seed, f.subject.free, o_.choice);
    MinimiseOptions options;
    options.library = &library_;
    options.jobs = o_.jobs;
    options.on_oracle = f.report.path == "oracle";
    for (const conformance::Path& path : paths_)
      if (path.name == f.report.path) options.path = path;
    Report report = f.report;
    const Trial small = minimise(options, {made.model, made.inputs}, report);
    const std::string folder = o_.out + "/" + f.subject.name();
    std::vector<nest::Tensor> outputs;
    run_trial(
        library_, small, {}, 0, [](const Report&) {}, [&](const Oracle& oracle) { outputs = oracle.outputs; });
    if (!save_trial(folder, small, outputs)) std::fprintf(stderr, "%s cannot be written\n", folder.c_str());
    ++kinds_[operators_of(small.model.graph())];
    std::string idioms;
    for (const std::string& idiom : made.idioms) idioms += " " + idiom;
    std::printf("\n%s/model.onnx\n  seed %llu, %s extents%s%s; idioms:%s\n  %s on %s: %s\n  operators: %s\n",
                folder.c_str(), static_cast<unsigned long long>(f.subject.seed), f.subject.free ? "free" : "fixed",
                o_.choice.only.empty() ? "" : ", --only ", o_.choice.only.c_str(), idioms.c_str(),
                kSortNames[static_cast<size_t>(report.sort)], report.path.c_str(), report.text.c_str(),
                operators_of(small.model.graph()).c_str());
  }

  void summary(uint64_t graphs, double seconds) const {
    std::printf("\nidioms:");
    for (const auto& [idiom, count] : idioms_)
      std::printf(" %s %llu", idiom.c_str(), static_cast<unsigned long long>(count));
    std::printf("\n");
    for (const auto& [path, counts] : counts_) {
      std::printf("%-22s", path.c_str());
      for (size_t k = 0; k < std::size(kSortNames); ++k)
        std::printf(" %s %llu", kSortNames[k], static_cast<unsigned long long>(counts[k]));
      std::printf("\n");
    }
    for (const auto& [operators, count] : kinds_)
      std::printf("%llu come to: %s\n", static_cast<unsigned long long>(count), operators.c_str());
    std::map<uint64_t, bool> failed;
    for (const Found& f : found_) failed[f.subject.seed] = true;
    std::printf("%llu outputs, of which %llu hang on ties or rounding; %.1f s\n%llu graphs, %zu failed\n",
                static_cast<unsigned long long>(outputs_), static_cast<unsigned long long>(moved_), seconds,
                static_cast<unsigned long long>(graphs), failed.size());
  }

  const Options& o_;
  const lang::Library& library_;
  std::vector<conformance::Path> paths_;
  std::map<std::string, uint64_t> idioms_;
  std::map<std::string, uint64_t[std::size(kSortNames)]> counts_;
  std::vector<Found> found_;
  std::map<std::string, uint64_t> kinds_;  // failures by what they were made small to
  size_t minimised_ = 0;                   // of found_
  uint64_t left_;                          // failures that are still to be made small
  uint64_t outputs_ = 0, moved_ = 0;
};

// A saved graph on all paths, in this process: a debugger finds what crashes.
int run_saved(const lang::Library& library, const std::string& folder, const std::vector<conformance::Path>& paths) {
  Trial trial;
  const Status loaded = load_trial(folder, trial);
  if (!loaded.ok()) return std::fprintf(stderr, "%s\n", loaded.text().c_str()), 2;
  bool failed = false;
  run_trial(library, trial, paths, 0, [&](const Report& r) {
    std::printf("%-8s on %s: %s\n", kSortNames[static_cast<size_t>(r.sort)], r.path.c_str(), r.text.c_str());
    failed = failed || (r.sort != Sort::Pass && r.sort != Sort::Refused);
  });
  return failed ? 1 : 0;
}

int run(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  Options o;
  if (!parse(argc, argv, o)) return std::fprintf(stderr, "%s", kUsage), 2;
  if (o.idioms) {
    for (const Idiom& idiom : all_idioms()) std::printf("%s\n", std::string(idiom.name).c_str());
    return 0;
  }
  std::vector<conformance::Path> paths;
  for (const std::string& name : o.paths) {
    auto path = conformance::path_named(name);
    if (!path.ok()) return std::fprintf(stderr, "--path %s\n", path.status().message.c_str()), 2;
    const auto same = [&](const conformance::Path& other) { return other.name == path->name; };
    if (std::none_of(paths.begin(), paths.end(), same)) paths.push_back(std::move(*path));
  }
  auto library = lang::Library::parse(lang::Library::builtin_files());
  if (!library.ok()) return std::fprintf(stderr, "%s\n", library.status().text().c_str()), 2;
  if (!o.again.empty()) return run_saved(*library, o.again, paths);
  return Campaign(o, *library, std::move(paths)).run();
}

}  // namespace
}  // namespace mlc::random_graphs

int main(int argc, char** argv) { return mlc::random_graphs::run(argc, argv); }
