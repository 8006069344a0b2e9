// Blocks of memory that a session holds on the host, counted against its budget. One thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "runtime/memory/aligned_block.h"
#include "runtime/plan/memory_budget.h"

namespace mlc::exec {

class ProgramRunner;

class SessionMemory {
 public:
  explicit SessionMemory(const MemoryBudget& budget) : budget(budget) {}

  MemoryBudget budget;
  ProgramRunner* programs = nullptr;  // that keeps memory for its next values; null: none

  // Has programs give back what they keep, where less than so many bytes are available.
  void make_room(uint64_t bytes);
  // Makes the block at least so long. What it held is lost if it was shorter. Resource.
  Status grow(AlignedBlock& block, uint64_t bytes, std::string_view what);
  void release(AlignedBlock& block);
  // Changes whenever a block moves or is released.
  uint64_t generation() const { return generation_; }

 private:
  uint64_t generation_ = 0;
};

}  // namespace mlc::exec
