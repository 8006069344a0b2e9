#include "runtime/api/session/pool.h"

#include <algorithm>

#include "runtime/api/session/handles.h"
#include "runtime/api/sizes.h"
#include "runtime/api/table.h"
#include "runtime/probe/probe.h"

namespace mlc::api {

Result<PoolOptions> pool_options(const probe::Topology& t, unsigned threads, std::span<const int> cpus, bool pin) {
  PoolOptions out;
  std::vector<int> cores;
  std::vector<int> siblings;  // of CPUs that are seats
  for (const int cpu : cpus.empty() ? t.allowed_cpus : cpus) {
    const auto at = std::lower_bound(t.allowed_cpus.begin(), t.allowed_cpus.end(), cpu);
    if (at == t.allowed_cpus.end() || *at != cpu) continue;
    const int core = static_cast<int>(t.core_of[static_cast<size_t>(at - t.allowed_cpus.begin())]);
    const bool is_first = std::find(cores.begin(), cores.end(), core) == cores.end();
    if (is_first) cores.push_back(core);
    (is_first ? out.seats : siblings).push_back(cpu);
    out.cpus.push_back(cpu);
    if (static_cast<unsigned>(core) < t.near_cores()) out.near_cpus.push_back(cpu);
  }
  if (cpus.empty()) out.seats = t.worker_cpus;  // as above, those that runs have by default first
  if (out.cpus.empty())
    return Status(Code::Usage, "the process may use none of the {} CPUs that the pool is given", cpus.size());
  out.workers = threads > 0 ? threads : probe::workers_for(t, static_cast<unsigned>(cores.size()));
  out.pin = pin;
  for (const int cpu : siblings) out.seats.push_back(cpu);
  // Processes that leave cores to others do not agree on which: all of them would take the first ones.
  if (!pin && out.workers != t.cores) out.seats.clear();
  return out;
}

namespace table {

int pool_create(const MlcPoolOptions* o, MlcPool** out, MlcError** error) {
  if (!out) return fail(Status(Code::Usage, "pool_create: no place for the result"), error);
  *out = nullptr;
  const auto given = read_options(o, "MlcPoolOptions");
  if (!given) return fail(given.status(), error);
  const std::span<const int> cpus(given->cpus, given->cpus ? given->num_cpus : 0);
  auto options = pool_options(probe::host().topology, given->threads, cpus, given->pin != 0);
  if (!options) return fail(std::move(options).status(), error);
  auto pool = WorkerPool::create(*options);
  if (!pool) return fail(std::move(pool).status(), error);
  *out = new MlcPool{std::move(*pool)};
  return MLC_OK;
}

void pool_release(MlcPool* pool) { delete pool; }

}  // namespace table
}  // namespace mlc::api
