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

std::string cpu_dir(int cpu) { return compose("/sys/devices/system/cpu/cpu{}", cpu); }

std::optional<std::string> cores_of(const Sources& s, int cpu) {
  if (auto t = read_in(s, cpu_dir(cpu), "/topology/core_cpus_list")) return t;
  return read_in(s, cpu_dir(cpu), "/topology/thread_siblings_list");  // its name before Linux 5.x
}

std::vector<Cache> caches_of(const Sources& s, int cpu, const std::vector<int>& allowed) {
  std::vector<Cache> out;
  for (int i = 0; i < 16; ++i) {
    const std::string dir = compose("{}/cache/index{}", cpu_dir(cpu), i);
    const auto level = read_in(s, dir, "/level"), size = read_in(s, dir, "/size");
    if (!level || !size) break;
    const auto level_number = parse_int(*level);
    const auto bytes = parse_size(*size);
    if (!level_number || !bytes || *level_number < 1 || *level_number > 8) continue;
    const std::string type = read_in(s, dir, "/type").value_or("");
    Cache c{static_cast<unsigned>(*level_number), std::string(trimmed(type)), *bytes, 1};
    if (const auto shared = read_in(s, dir, "/shared_cpu_list"))
      if (const auto list = parse_cpu_list(*shared)) {
        const auto is_allowed = [&](int n) { return std::binary_search(allowed.begin(), allowed.end(), n); };
        c.shared_by = static_cast<unsigned>(std::count_if(list->begin(), list->end(), is_allowed));
        c.shared_by = std::max(1u, c.shared_by);
      }
    out.push_back(std::move(c));
  }
  return out;
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

  std::vector<std::string> cores;  // the core's CPU list names the core
  std::vector<int64_t> packages, capacities;
  const auto add_new = [](std::vector<int64_t>& known, std::optional<int64_t> number) {
    if (number && std::find(known.begin(), known.end(), *number) == known.end()) known.push_back(*number);
  };
  for (int cpu : t.allowed_cpus) {
    const auto list = cores_of(s, cpu);
    const std::string core = list ? std::string(trimmed(*list)) : compose("cpu{}", cpu);
    const auto known = std::find(cores.begin(), cores.end(), core);
    t.core_of.push_back(static_cast<unsigned>(known - cores.begin()));
    if (known == cores.end()) {
      cores.push_back(core);
      t.worker_cpus.push_back(cpu);
    }
    add_new(packages, int_in(s, cpu_dir(cpu), "/topology/physical_package_id"));
    add_new(capacities, int_in(s, cpu_dir(cpu), "/cpu_capacity"));
  }
  t.cores = static_cast<unsigned>(t.worker_cpus.size());
  t.packages = std::max(1u, static_cast<unsigned>(packages.size()));
  t.uneven_cores = capacities.size() > 1;
  if (const auto nodes = s.read_file("/sys/devices/system/node/online"))
    if (const auto list = parse_cpu_list(*nodes); list && !list->empty())
      t.numa_nodes = static_cast<unsigned>(list->size());
  t.caches = caches_of(s, t.worker_cpus.front(), t.allowed_cpus);
  t.workers = workers_for(t, 0);
  t.workers_reason = reason_text(t);
  read_memory(s, limits, record.memory);
}

}  // namespace mlc::probe
