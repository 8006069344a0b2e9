// How many workers, and on which CPUs. One worker too many turns a wait of 0.1 us into milliseconds, so the answer
// counts what we may really use: the affinity mask, the effective cpuset, one CPU per physical core, and the run-time
// quota rounded down.
//
// Work is divided into equal shares (runtime/plan/cut.h), so the slowest core decides: of k cores that take part each
// does 1/k of the work, and a run takes as long as the slowest of them needs for that. So the k cores are taken for which
// k times the speed of the slowest is the most, of one NUMA node: others meet and read weights across the link of sockets.
#include <algorithm>
#include <cmath>

#include "base/compose.h"
#include "runtime/probe/cgroup.h"
#include "runtime/probe/probe.h"
#include "runtime/probe/text.h"

namespace mlc::probe {
namespace {

constexpr size_t kMostNodes = 1024;  // as many as Linux can have

// The first CPU of the core that this one is a part of.
int core_of(const Sources& s, int cpu) {
  auto list = read_in(s, cpu_dir(cpu), "/topology/core_cpus_list");
  if (!list) list = read_in(s, cpu_dir(cpu), "/topology/thread_siblings_list");  // its name before Linux 5.x
  if (!list) return cpu;
  const auto first = parse_int(std::string_view(*list).substr(0, list->find_first_of(",-")));
  return first && *first >= 0 && *first < cpu ? static_cast<int>(*first) : cpu;
}

bool has(const std::vector<int>& cpus, int cpu) { return std::binary_search(cpus.begin(), cpus.end(), cpu); }
bool belongs(const std::vector<int>& to, int cpu) { return to.empty() || has(to, cpu); }

// One number in the folder of each CPU. False: one of them has none.
bool read_numbers(const Sources& s, const std::vector<int>& cpus, const char* file, std::vector<int>& out) {
  out.clear();
  for (const int cpu : cpus) {
    const auto number = int_in(s, cpu_dir(cpu), file);
    if (!number || *number <= 0 || *number > INT32_MAX) return false;
    out.push_back(static_cast<int>(*number));
  }
  return true;
}

// What the cores of these CPUs do in the same time, beside each other.
std::vector<int> speeds_of(const Sources& s, const std::vector<int>& cpus) {
  const std::vector<int> fast = cpus_in(s, "/sys/devices/cpu_core", "/cpus");  // of hybrids of x86
  std::vector<int> out;
  if (s.machine() != Machine::X86_64 || !fast.empty()) {  // one file instead of one for each core
    // Kernels have no capacities of hybrids with siblings: all are the same then.
    if (read_numbers(s, cpus, "/cpu_capacity", out) && (fast.empty() || std::count(out.begin(), out.end(), out[0]) < std::ptrdiff_t(out.size())))
      return out;
    if (fast.empty() && read_numbers(s, cpus, "/cpufreq/cpuinfo_max_freq", out)) return out;
  }
  // The others' vector units have half the width, at two thirds of the clock.
  out.clear();
  for (const int cpu : cpus) out.push_back(has(fast, cpu) ? 3 : 1);
  return out;
}

// Some of the cores, and what they do together in equal shares.
struct Crew {
  int slowest = 0;     // the speed from which on cores belong to it
  int64_t speed = 0;
};

// The best of the cores whose CPUs are among `of`; empty: of all.
Crew best_crew(const std::vector<int>& cpus, const std::vector<int>& speeds, const std::vector<int>& of) {
  Crew best;
  for (size_t i = 0; i < cpus.size(); ++i) {
    if (speeds[i] == best.slowest || !belongs(of, cpus[i])) continue;
    int64_t count = 0;
    for (size_t k = 0; k < cpus.size(); ++k) count += speeds[k] >= speeds[i] && belongs(of, cpus[k]);
    const int64_t speed = count * speeds[i];
    if (speed > best.speed || (speed == best.speed && speeds[i] > best.slowest)) best = {speeds[i], speed};
  }
  return best;
}

// The best of the cores of one NUMA node; `home`: its CPUs, none where there is one node.
Crew best_of_nodes(const Sources& s, const std::vector<int>& cpus, const std::vector<int>& speeds, std::vector<int>& home) {
  Crew best;
  auto nodes = cpus_in(s, "/sys/devices/system/node", "/online");
  if (nodes.size() > kMostNodes) nodes.resize(kMostNodes);
  for (const int node : nodes) {
    if (nodes.size() == 1) break;
    std::vector<int> list = cpus_in(s, compose("/sys/devices/system/node/node{}", node), "/cpulist");
    if (list.empty()) continue;  // memory only, or not known
    const Crew here = best_crew(cpus, speeds, list);
    // Of equal nodes the one that we are on: memory that was touched lies there, and processes do not all take the first.
    if (here.speed < best.speed || (here.speed == best.speed && !has(list, s.current_cpu()))) continue;
    best = here;
    home = std::move(list);
  }
  if (best.speed > 0) return best;
  home.clear();
  return best_crew(cpus, speeds, home);
}

// Puts the cores that runs have by default first, and counts the others.
void choose_cores(const Sources& s, Topology& t) {
  const std::vector<int> speeds = speeds_of(s, t.worker_cpus);
  std::vector<int> home, ordered;
  const Crew crew = best_of_nodes(s, t.worker_cpus, speeds, home);
  for (int rank = 0; rank < 3; ++rank)
    for (size_t core = 0; core < speeds.size(); ++core) {
      const int cpu = t.worker_cpus[core];
      if (rank != (!belongs(home, cpu) ? 2 : speeds[core] < crew.slowest ? 1 : 0)) continue;
      ordered.push_back(cpu);
      t.slow_cores += rank == 1;
      t.far_cores += rank == 2;
    }
  for (unsigned& core : t.core_of)
    core = static_cast<unsigned>(std::find(ordered.begin(), ordered.end(), t.worker_cpus[core]) - ordered.begin());
  t.worker_cpus = std::move(ordered);
}

void read_memory(const Sources& s, const CgroupLimits& limits, Memory& m) {
  const auto text = s.read_file("/proc/meminfo");
  std::string_view rest = text ? std::string_view(*text) : std::string_view();
  while (!rest.empty()) {
    std::string_view line = next_field(rest, '\n');
    const std::string_view key = next_field(line, ':');
    if (key != "MemTotal" && key != "MemAvailable") continue;
    line = trimmed(line);
    const auto kib = parse_int(next_field(line, ' '));
    if (kib && *kib >= 0 && *kib < (int64_t{1} << 50))
      (key == "MemTotal" ? m.total_bytes : m.available_bytes) = static_cast<uint64_t>(*kib) << 10;
  }
  m.limit_bytes = limits.memory_limit_bytes;
  m.effective_free_bytes = m.available_bytes;
  if (limits.memory_free_bytes) m.effective_free_bytes = std::min(m.effective_free_bytes, *limits.memory_free_bytes);
}

}  // namespace

unsigned workers_for(const Topology& t, unsigned wanted) {
  unsigned n = wanted > 0 ? t.cores : t.near_cores();
  if (t.quota_cpus) n = std::min(n, static_cast<unsigned>(std::clamp(std::floor(*t.quota_cpus), 1.0, 65536.0)));
  if (wanted > 0) n = std::min(n, wanted);
  return std::max(1u, n);
}

void probe_topology(const Sources& s, Record& record) {
  Topology& t = record.topology;
  if (const CallResult r = s.affinity(t.allowed_cpus); r.error != 0 || t.allowed_cpus.empty()) {
    record.errors.push_back("topology: affinity mask not readable, one CPU assumed");
    t.allowed_cpus = {0};
  }

  const CgroupLimits limits = read_cgroup_limits(s);
  if (!limits.cpus.empty()) {
    std::vector<int> both = in_both(t.allowed_cpus, limits.cpus);
    if (both.empty())
      record.errors.push_back("topology: cpuset and affinity mask have no CPU in common, cpuset ignored");
    else
      t.allowed_cpus = std::move(both);
  }
  t.quota_cpus = limits.quota_cpus;

  const auto smt = s.read_file("/sys/devices/system/cpu/smt/active");
  const bool no_siblings = smt && trimmed(*smt) == "0";  // one file instead of one for each CPU
  std::vector<int> cores;
  for (const int cpu : t.allowed_cpus) {
    const int core = no_siblings ? cpu : core_of(s, cpu);
    const auto known = std::find(cores.begin(), cores.end(), core);
    t.core_of.push_back(static_cast<unsigned>(known - cores.begin()));
    if (known == cores.end()) {
      cores.push_back(core);
      t.worker_cpus.push_back(cpu);
    }
  }
  t.cores = static_cast<unsigned>(t.worker_cpus.size());
  choose_cores(s, t);
  t.workers = workers_for(t, 0);
  read_memory(s, limits, record.memory);
}

}  // namespace mlc::probe
