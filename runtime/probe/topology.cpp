// How many workers, and on which CPUs. One worker too many turns a wait of 0.1 us into milliseconds, so the answer
// counts what we may really use: the affinity mask, the effective cpuset, one CPU per physical core, and the run-time
// quota rounded down.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/compose.h"
#include "runtime/probe/cgroup.h"
#include "runtime/probe/probe.h"
#include "runtime/probe/text.h"

namespace mlc::probe {
namespace {

std::optional<std::string> cores_of(const Sources& s, int cpu) {
  if (auto t = read_in(s, cpu_dir(cpu), "/topology/core_cpus_list")) return t;
  return read_in(s, cpu_dir(cpu), "/topology/thread_siblings_list");  // its name before Linux 5.x
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

std::string reason_text(const Topology& t) {
  std::string out = compose("{}{}", t.cores, t.cores == 1 ? " core allowed" : " cores allowed");
  if (!t.quota_cpus) return out + ", no quota";
  char quota[48];
  std::snprintf(quota, sizeof quota, ", quota of %.2f CPUs", std::min(*t.quota_cpus, 1e6));
  return out + quota + (*t.quota_cpus < 1 ? ": below one CPU even a single worker is throttled" : "");
}

}  // namespace

unsigned workers_for(const Topology& t, unsigned wanted) {
  unsigned n = std::max(1u, t.cores);
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
  std::sort(t.allowed_cpus.begin(), t.allowed_cpus.end());

  const CgroupLimits limits = read_cgroup_limits(s);
  if (limits.cpus) {
    std::vector<int> both;
    std::set_intersection(t.allowed_cpus.begin(), t.allowed_cpus.end(), limits.cpus->begin(), limits.cpus->end(),
                          std::back_inserter(both));
    if (both.empty())
      record.errors.push_back("topology: cpuset and affinity mask have no CPU in common, cpuset ignored");
    else
      t.allowed_cpus = std::move(both);
  }
  t.quota_cpus = limits.quota_cpus;

  const auto smt = s.read_file("/sys/devices/system/cpu/smt/active");
  const bool no_siblings = smt && trimmed(*smt) == "0";  // one file instead of one for each CPU
  std::vector<std::string> cores;  // the core's CPU list names the core
  for (int cpu : t.allowed_cpus) {
    const auto list = no_siblings ? std::nullopt : cores_of(s, cpu);
    const std::string core = list ? std::string(trimmed(*list)) : compose("cpu{}", cpu);
    const auto known = std::find(cores.begin(), cores.end(), core);
    t.core_of.push_back(static_cast<unsigned>(known - cores.begin()));
    if (known == cores.end()) {
      cores.push_back(core);
      t.worker_cpus.push_back(cpu);
    }
  }
  t.cores = static_cast<unsigned>(t.worker_cpus.size());
  t.workers = workers_for(t, 0);
  t.workers_reason = reason_text(t);
  read_memory(s, limits, record.memory);
}

}  // namespace mlc::probe
