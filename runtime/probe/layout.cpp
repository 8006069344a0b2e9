// What the machine looks like around the CPUs that runs may use: shown, measured by, and never needed to run.
#include <algorithm>

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

size_t num_distinct(std::vector<int64_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return static_cast<size_t>(std::unique(numbers.begin(), numbers.end()) - numbers.begin());
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
  out.uneven_cores = num_distinct(std::move(capacities)) > 1;
  if (const auto nodes = s.read_file("/sys/devices/system/node/online"))
    if (const auto list = parse_cpu_list(*nodes); list && !list->empty()) out.numa_nodes = static_cast<unsigned>(list->size());
  if (!t.worker_cpus.empty()) out.caches = caches_of(s, t.worker_cpus.front(), t.allowed_cpus);
  return out;
}

}  // namespace mlc::probe
