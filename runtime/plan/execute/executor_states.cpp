// The states of a session, between runs.
#include <cstring>

#include "runtime/plan/execute/binding.h"
#include "runtime/plan/execute/segment_runner.h"

namespace mlc::exec {

void Executor::reset_states() {
  for (uint32_t i = 0; i < num_states(); ++i) {
    memory_.release(states_[i]);
    runner_->drop_state(i);
  }
}

DType Executor::state_type(uint32_t index) const {
  DType found = DType::None;
  for (const Function& f : plan_.functions)
    for (const Buffer& b : f.buffers)
      if (b.kind == BufferKind::State && b.index == index) found = b.dtype;
  return found;
}

uint64_t Executor::state_bytes(uint32_t index) const {
  return states_[index].data() ? states_[index].size() : runner_->state_bytes(index);
}

Result<Bytes> Executor::state(uint32_t index) {
  if (!states_[index].data() && state_bytes(index) > 0) return runner_->read_state(index);
  return Bytes(states_[index].data(), static_cast<size_t>(states_[index].size()));
}

Status Executor::set_states(std::span<const std::optional<Bytes>> values) {
  std::vector<AlignedBlock> fresh(states_.size());
  uint64_t more = 0;  // than now is held, while both are there
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i] || values[i]->empty() || (states_[i].data() && values[i]->size() == states_[i].size())) continue;
    const uint64_t bytes = values[i]->size();
    if (bytes > memory_.budget.available() - more) return memory_.budget.refusal("states", bytes);
    auto block = AlignedBlock::allocate(bytes, memory_.budget.allocator);
    if (!block) return std::move(block).status().note("state");
    fresh[i] = std::move(*block);
    more += bytes;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i]) continue;
    if (fresh[i].data() || values[i]->empty()) {
      memory_.release(states_[i]);
      memory_.budget.held += fresh[i].size();
      states_[i] = std::move(fresh[i]);
    }
    if (!values[i]->empty()) std::memcpy(states_[i].data(), values[i]->data(), values[i]->size());
    else runner_->drop_state(static_cast<uint32_t>(i));
  }
  return ok();
}

}  // namespace mlc::exec
