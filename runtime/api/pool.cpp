#include "runtime/api/pool.h"

#include <algorithm>

#include "runtime/probe/probe.h"

namespace mlc::api {

Result<PoolOptions> pool_options(const probe::Topology& t, unsigned threads, std::span<const int> cpus, bool pin) {
  PoolOptions out;
  std::vector<unsigned> cores;
  std::vector<int> siblings;  // of CPUs that are seats
  for (const int cpu : cpus.empty() ? t.allowed_cpus : cpus) {
    const auto at = std::lower_bound(t.allowed_cpus.begin(), t.allowed_cpus.end(), cpu);
    if (at == t.allowed_cpus.end() || *at != cpu) continue;
    const unsigned core = t.core_of[static_cast<size_t>(at - t.allowed_cpus.begin())];
    const bool is_first = std::find(cores.begin(), cores.end(), core) == cores.end();
    if (is_first) cores.push_back(core);
    (is_first ? out.seats : siblings).push_back(cpu);
    out.cpus.push_back(cpu);
  }
  if (out.cpus.empty())
    return Status(Code::Usage, "the process may use none of the {} CPUs that the pool is given", cpus.size());
  out.workers = threads > 0 ? threads : probe::workers_for(t, static_cast<unsigned>(cores.size()));
  out.pin = pin;
  out.seats.insert(out.seats.end(), siblings.begin(), siblings.end());
  // Processes that leave cores to others do not agree on which: all of them would take the first ones.
  if (!pin && out.workers != t.cores) out.seats.clear();
  return out;
}

}  // namespace mlc::api
