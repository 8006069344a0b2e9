// Which CPUs and threads a pool is made of.
#pragma once

#include <span>

#include "base/status.h"
#include "runtime/probe/record.h"
#include "runtime/threads/worker_pool.h"

namespace mlc::api {

// `threads` 0: one per physical core of those that may be used, as far as the process has run time for them. `cpus` empty:
// all that the process may use; else those of them that it may use. Usage if there is none.
Result<PoolOptions> pool_options(const probe::Topology& topology, unsigned threads = 0, std::span<const int> cpus = {},
                                 bool pin = false);

}  // namespace mlc::api
