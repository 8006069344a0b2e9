#include "runtime/plan/execute/session_memory.h"

#include <utility>

#include "runtime/plan/execute/program.h"

namespace mlc::exec {

void SessionMemory::make_room(uint64_t bytes) {
  if (programs && bytes > budget.available()) programs->trim();
}

Status SessionMemory::grow(AlignedBlock& block, uint64_t bytes, std::string_view what) {
  if (block.data() && block.size() >= bytes) return ok();
  release(block);  // the old one goes first, so that both together are never more than the limit
  make_room(bytes);
  if (bytes > budget.available()) return budget.refusal(what, bytes);
  auto bigger = AlignedBlock::allocate(bytes, budget.allocator);
  if (!bigger) return std::move(bigger).status().note(what);
  block = std::move(*bigger);
  budget.held += bytes;
  return ok();
}

void SessionMemory::release(AlignedBlock& block) {
  budget.held -= block.size();
  block = AlignedBlock();
  ++generation_;
}

}  // namespace mlc::exec
