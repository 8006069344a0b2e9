// Runs ONNX's backend test data through import, expansion and every path to an answer (README.md).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>

#include "targets/target.h"
#include "tests/conformance/expected.h"
#include "tests/conformance/model_tool.h"
#include "tests/conformance/paths.h"
#include "tests/conformance/results.h"
#include "tests/conformance/run/known_devices.h"
#include "tests/conformance/run/process_pool.h"
#include "tests/conformance/run_case.h"

namespace mlc::conformance {
namespace {

constexpr char kUsage[] =
    "usage: onnx_node_tests [--set NAME=DIR]... [--path NAME]... [--only TEXT] [--op NAME] [--every N] [--ops DIR] [--jobs N] [--seconds N] [--rtol X]\n"
    "                       [--most-work N] [--emulator ARCH=COMMAND]... [--expect DIR [--update]] [--save FILE] [--table FILE] [--verbose]\n"
    "                       [--print] [--check]\n"
    "       onnx_node_tests --from FILE... [--expect DIR [--update]] [--table FILE]\n"
    "       onnx_node_tests --model FILE [--dim NAME=N]... [--shapes] [--print] [--check] [--ops DIR]\n"
    "\n"
    "  --set       test data (default 1.12=/usr/share/libonnx-testdata/data)\n"
    "  --path      interpreter, portable, native, or a target (default the first three); kernels of devices are interpreted,\n"
    "              with \"TARGET:code\" executed as they were emitted (\"TARGET:code16\": in subgroups of 16, 8 if\n"
    "              nothing is said), with \"TARGET:device\" run by the first device of this machine\n"
    "  --emulator  runs targets of a machine (x86-64, aarch64, riscv64) by COMMAND, words parted by spaces\n"
    "  --only      cases whose name contains TEXT; --op: cases of an operator\n"
    "  --rtol      relative tolerance instead of the cases' own\n"
    "  --most-work of cases for executors, in units of the interpreter's work (about nanoseconds): larger ones are left out as unsupported\n"
    "  --every     of those the N-th, 2N-th, ... only\n"
    "  --jobs      processes (default: one per CPU); --seconds: limit of a case (default 120)\n"
    "  --save      results, one per line; --from reads them again\n"
    "  --expect    DIR/SET.txt lists what each case does; a case that does otherwise fails the run, and --update rewrites the list\n"
    "  --table     replaces the table in a page like README.md\n"
    "  --check     verifies index ranges and interprets before and after every pass\n"
    "Exit code 0 if nothing failed and all is as expected, 77 if there is no data or no device; unsupported cases do not fail, they are counted and listed.\n";

struct Options {
  std::vector<std::pair<std::string, std::string>> sets, emulators;
  std::vector<std::string> paths, from;
  std::string ops, only, op, expect, save, table;
  unsigned jobs = 0;
  size_t every = 1;
  double seconds = 120;
  bool verbose = false, update = false;
  RunOptions run;
  ModelOptions model;
};

struct Item {
  std::string set;
  Case test;
};

bool split(const std::string& text, std::string& left, std::string& right) {
  const size_t eq = text.find('=');
  if (eq == std::string::npos || eq == 0) return false;
  left = text.substr(0, eq), right = text.substr(eq + 1);
  return true;
}

// False after a message.
bool parse(int argc, char** argv, Options& o) {
  const auto refuse = [](const std::string& what) {
    std::fprintf(stderr, "%s\n%s", what.c_str(), kUsage);
    return false;
  };
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--verbose") { o.verbose = true; continue; }
    if (flag == "--update") { o.update = true; continue; }
    if (flag == "--print") { o.run.print = o.model.print = true; continue; }
    if (flag == "--check") { o.run.check = o.model.check = true; continue; }
    if (flag == "--shapes") { o.model.shapes = true; continue; }
    if (flag == "--every" && i + 1 < argc) { o.every = static_cast<size_t>(std::max(1, std::atoi(argv[++i]))); continue; }
    if (flag == "--help") return refuse("");
    if (i + 1 >= argc) return refuse(flag + ": unknown, or without its value");
    const std::string value = argv[++i];
    std::string left, right;
    if (flag == "--set" && split(value, left, right)) o.sets.emplace_back(left, right);
    else if (flag == "--emulator" && split(value, left, right)) o.emulators.emplace_back(left, right);
    else if (flag == "--dim" && split(value, left, right)) o.model.dims[left] = std::atoll(right.c_str());
    else if (flag == "--path") o.paths.push_back(value);
    else if (flag == "--from") o.from.push_back(value);
    else if (flag == "--ops") o.ops = value;
    else if (flag == "--only") o.only = value;
    else if (flag == "--op") o.op = value;
    else if (flag == "--rtol") o.run.relative = std::atof(value.c_str());
    else if (flag == "--most-work") o.run.most_work = std::atof(value.c_str());
    else if (flag == "--expect") o.expect = value;
    else if (flag == "--save") o.save = value;
    else if (flag == "--table") o.table = value;
    else if (flag == "--model") o.model.model = value;
    else if (flag == "--jobs") o.jobs = static_cast<unsigned>(std::clamp(std::atoi(value.c_str()), 1, 256));
    else if (flag == "--seconds") o.seconds = std::max(1.0, std::atof(value.c_str()));
    else return refuse(flag + " " + value + ": unknown, or not of its form");
  }
  if (o.update && o.expect.empty()) return refuse("--update: which lists? --expect DIR says it");
  if (o.sets.empty()) o.sets.emplace_back("1.12", "/usr/share/libonnx-testdata/data");
  if (o.paths.empty()) o.paths = {"interpreter", "portable", "native"};
  // Compiling takes the function that the interpreter runs.
  std::stable_partition(o.paths.begin(), o.paths.end(), [](const std::string& path) { return path == "interpreter"; });
  if (o.jobs == 0) o.jobs = std::max(1u, std::thread::hardware_concurrency());
  return true;
}

bool find_paths(Options& o) {
  for (const std::string& name : o.paths) {
    auto found = path_named(name);
    if (!found.ok()) {
      std::fprintf(stderr, "--path %s\n", found.status().message.c_str());
      return false;
    }
    Path path = std::move(found).value();
    for (const auto& [machine, command] : o.emulators) {
      if (!path.target || machine != name_of(path.target->machine)) continue;
      std::vector<std::string> words(1);
      for (char c : command) {
        if (c != ' ') words.back() += c;
        else if (!words.back().empty()) words.emplace_back();
      }
      path.emulator = std::make_shared<Emulated>(std::move(words));
      path.name += "-emulated";  // by a program with fewer services than one built for that processor has
    }
    o.run.paths.push_back(std::move(path));
  }
  return true;
}

Result<lang::Library> load_library(const std::string& folder) {
  if (folder.empty()) return lang::Library::parse(lang::Library::builtin_files());
  MLC_ASSIGN(const std::vector<lang::SourceFile> files, lang::Library::read_directory(folder));
  return lang::Library::parse(files);
}

void say(const Options& o, const Outcome& outcome) {
  if (o.verbose || outcome.kind == Kind::Fail)
    std::printf("%-11s %-11s %s  %.2f s  %s %s\n", std::string(kKindNames[static_cast<size_t>(outcome.kind)]).c_str(), outcome.path.c_str(), outcome.test.c_str(), outcome.seconds,
                outcome.reason.c_str(), std::string(kGivenNames[static_cast<size_t>(outcome.given)]).c_str());
}

// Every case on every path. An item of the pool is a case and the first path that is still to be run: after a crash the
// paths behind it get their turn in a new process.
std::vector<Outcome> run_all(const Options& o, const std::vector<Item>& items) {
  const size_t paths = o.run.paths.size();
  std::vector<std::vector<Outcome>> outcomes(items.size());
  PoolWork work;
  work.processes = o.jobs;
  work.seconds_per_item = o.seconds;
  for (size_t k = 0; k < items.size(); ++k) work.items.push_back(k * paths);
  work.work = [&](uint64_t item, const std::function<void(const std::string&)>& emit) {
    const Item& it = items[item / paths];
    run_case(o.run, it.set, it.test, item % paths, [&](const Outcome& outcome) { emit(line_of(outcome)); });
  };
  const auto take = [&](uint64_t item, Outcome outcome) {
    say(o, outcome);
    outcomes[item / paths].push_back(std::move(outcome));
  };
  work.line = [&](uint64_t item, const std::string& line) {
    auto outcome = outcome_of(line);
    if (outcome.ok()) take(item, std::move(outcome).value());
  };
  work.lost = [&](uint64_t item, const std::string& why, std::vector<uint64_t>& more) {
    const Item& it = items[item / paths];
    const size_t path = outcomes[item / paths].size();  // they are reported in order
    if (path >= paths) return;
    take(item, {it.set, it.test.name, operator_of(it.test), o.run.paths[path].name, Kind::Fail, Given::Nothing, 0, why});
    if (path + 1 < paths) more.push_back(item / paths * paths + path + 1);
  };
  if (!run_pool(work)) std::fprintf(stderr, "no processes can be started\n");
  std::vector<Outcome> all;
  for (size_t k = 0; k < items.size(); ++k) {
    if (outcomes[k].size() != paths) all.push_back({items[k].set, items[k].test.name, "?", o.run.paths[0].name, Kind::Fail, Given::Nothing, 0, "lost"});
    for (Outcome& outcome : outcomes[k]) all.push_back(std::move(outcome));
  }
  return all;
}

int finish(const Options& o, const std::vector<Outcome>& outcomes) {
  std::printf("%s", summary(outcomes).c_str());
  const auto done = [](const Status& status) {
    if (!status.ok()) std::fprintf(stderr, "%s\n", status.text().c_str());
    return status.ok();
  };
  if (!o.save.empty() && !done(save(o.save, outcomes))) return 2;
  if (!o.table.empty() && !done(write_table(o.table, outcomes))) return 2;
  const bool failed = std::any_of(outcomes.begin(), outcomes.end(), [](const Outcome& x) { return x.kind == Kind::Fail; });
  if (o.expect.empty()) return failed ? 1 : 0;
  const bool complete = o.only.empty() && o.op.empty() && o.every == 1;
  const auto changed = check_expected(o.expect, outcomes, complete, o.update);
  if (!changed.ok()) return done(changed.status()), 2;
  for (const std::string& sentence : *changed) std::printf("%s\n", sentence.c_str());
  if (!changed->empty()) std::printf("%zu results are not those of the lists in %s; if they are right, --update rewrites the lists\n", changed->size(), o.expect.c_str());
  return failed || !changed->empty() ? 1 : 0;
}

int run(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  Options o;
  if (!parse(argc, argv, o) || !find_paths(o)) return 2;
  if (!o.from.empty()) {
    std::vector<Outcome> outcomes;
    for (const std::string& path : o.from) {
      auto more = load_outcomes(path);
      if (!more.ok()) {
        std::fprintf(stderr, "%s\n", more.status().text().c_str());
        return 2;
      }
      for (Outcome& outcome : *more) outcomes.push_back(std::move(outcome));
    }
    return finish(o, outcomes);
  }
  for (const char* api : {"cuda", "vulkan"}) {
    if (std::none_of(o.run.paths.begin(), o.run.paths.end(), [&](const Path& p) { return p.way == Way::OnDevice && p.name.starts_with(api); })) continue;
    const auto device = learn_devices(api);
    std::printf(device.ok() ? "device: %s\n" : "skipped: %s\n", device.ok() ? device->c_str() : device.status().message.c_str());
    if (!device.ok()) return 77;
  }
  auto library = load_library(o.ops);
  if (!library.ok()) {
    std::fprintf(stderr, "%s\n", library.status().text().c_str());
    return 1;
  }
  o.run.library = &*library;
  if (!o.model.model.empty()) return run_model(*library, o.model);
  std::vector<Item> items;
  size_t seen = 0;
  for (const auto& [name, folder] : o.sets)
    for (const Case& c : find_cases(folder)) {
      if (!o.only.empty() && c.name.find(o.only) == std::string::npos) continue;
      if (!o.op.empty() && operator_of(c) != o.op) continue;
      if (++seen % o.every != 0) continue;
      items.push_back({name, c});
    }
  if (items.empty()) {
    std::printf("skipped: no such cases below the folder of a set\n");
    return o.only.empty() && o.op.empty() ? 77 : 2;
  }
  const auto start = std::chrono::steady_clock::now();
  const std::vector<Outcome> outcomes = run_all(o, items);
  const int code = finish(o, outcomes);
  std::printf("%zu cases, %zu paths, %u processes: %.1f s\n", items.size(), o.run.paths.size(), o.jobs,
              std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return code;
}

}  // namespace
}  // namespace mlc::conformance

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "probe-child") == 0) return mlc::conformance::answer_probe(argv[2]);
  return mlc::conformance::run(argc, argv);
}
