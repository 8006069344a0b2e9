// The constants that a plan derives from those of the container: one set for each opened model and variant, which all of its
// sessions read. The executor that needs them first computes them.
#pragma once

#include <mutex>
#include <vector>

#include "runtime/memory/aligned_block.h"

namespace mlc::exec {

struct DerivedConstants {
  explicit DerivedConstants(const Allocator* allocator = nullptr) : allocator(allocator) {}

  const Allocator* const allocator;   // of `blocks`; outlives this; null: the system
  std::timed_mutex mu;                // held by the thread that computes them
  bool is_ready = false;              // guarded by mu
  std::vector<AlignedBlock> blocks;   // by number; guarded by mu until they are ready, constant from then on
};

}  // namespace mlc::exec
