// What the machine looks like around the CPUs that runs may use, and why runs have so many of them: shown, measured by, and never needed to run,
// so no part of libmlrt.
#include <algorithm>
#include <cstdio>

#include "base/compose.h"
#include "runtime/probe/probe.h"
#include "runtime/probe/text.h"

namespace mlc::probe {
namespace {

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
    const size_t sharers = in_both(cpus_in(s, dir, "/shared_cpu_list"), allowed).size();
    c.shared_by = std::max(1u, static_cast<unsigned>(sharers));
    out.push_back(std::move(c));
  }
  return out;
}

size_t num_distinct(std::vector<int64_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return static_cast<size_t>(std::unique(numbers.begin(), numbers.end()) - numbers.begin());
}

std::string cores_text(const Topology& t) {
  if (t.near_cores() == t.cores) return compose("{}{}", t.cores, t.cores == 1 ? " core allowed" : " cores allowed");
  std::string out = compose("the {}{} core{}", t.near_cores(), t.slow_cores > 0 ? " fast" : "", t.near_cores() == 1 ? "" : "s");
  if (t.far_cores > 0) out += " of one NUMA node";
  out += compose(" of {} (", t.cores);
  if (t.slow_cores > 0) out += compose("{} slow", t.slow_cores);
  if (t.far_cores > 0) out += compose("{}{} of other nodes", t.slow_cores > 0 ? " and " : "", t.far_cores);
  return out + " left out)";
}

}  // namespace

Layout probe_layout(const Sources& s, const Topology& t) {
  Layout out;
  std::vector<int64_t> packages, capacities;
  for (const int cpu : t.allowed_cpus) {
    if (const auto package = int_in(s, cpu_dir(cpu), "/topology/physical_package_id")) packages.push_back(*package);
    if (const auto capacity = int_in(s, cpu_dir(cpu), "/cpu_capacity")) capacities.push_back(*capacity);
  }
  out.packages = std::max(1u, static_cast<unsigned>(num_distinct(std::move(packages))));
  const size_t fast = in_both(cpus_in(s, "/sys/devices/cpu_core", "/cpus"), t.allowed_cpus).size();  // of hybrids of x86
  out.uneven_cores = num_distinct(std::move(capacities)) > 1 || (fast > 0 && fast < t.allowed_cpus.size());
  const size_t nodes = cpus_in(s, "/sys/devices/system/node", "/online").size();
  out.numa_nodes = std::max(1u, static_cast<unsigned>(nodes));
  if (!t.worker_cpus.empty()) out.caches = caches_of(s, t.worker_cpus.front(), t.allowed_cpus);
  return out;
}

std::string workers_reason(const Topology& t) {
  if (!t.recorded_reason.empty()) return t.recorded_reason;
  std::string out = cores_text(t);
  if (t.allowed_cpus.size() > t.cores) out += compose(", one thread for all siblings of a core ({} CPUs)", t.allowed_cpus.size());
  if (!t.quota_cpus) return out + ", no quota";
  char quota[48];
  std::snprintf(quota, sizeof quota, ", quota of %.2f CPUs", std::min(*t.quota_cpus, 1e6));
  return out + quota + (*t.quota_cpus < 1 ? ": below one CPU even a single worker is throttled" : "");
}

}  // namespace mlc::probe
