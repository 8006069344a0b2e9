// The states of a session, between runs.
#include <cstring>

#include "runtime/plan/binding.h"

namespace mlc::exec {

void Executor::reset_states() {
  for (AlignedBlock& s : states_) {
    budget_->held -= s.size();
    s = AlignedBlock();
  }
  ++generation_;
}

StateView Executor::state(uint32_t index) const {
  StateView out{DType::None, {states_[index].data(), static_cast<size_t>(states_[index].size())}};
  for (const Function& f : plan_.functions)
    for (const Buffer& b : f.buffers)
      if (b.kind == BufferKind::State && b.index == index) out.dtype = b.dtype;
  return out;
}

Status Executor::set_states(std::span<const Bytes> values) {
  std::vector<AlignedBlock> fresh(states_.size());
  uint64_t more = 0;  // than now is held, while both are there
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].empty() || (states_[i].data() && values[i].size() == states_[i].size())) continue;
    const uint64_t bytes = values[i].size();
    if (bytes > budget_->available() - more) return budget_->refusal("states", bytes);
    auto block = AlignedBlock::allocate(bytes, budget_->allocator);
    if (!block) return std::move(block).status().note("state");
    fresh[i] = std::move(*block);
    more += bytes;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (fresh[i].data() || values[i].empty()) {
      budget_->held += fresh[i].size();
      budget_->held -= states_[i].size();
      states_[i] = std::move(fresh[i]);
    }
    if (!values[i].empty()) std::memcpy(states_[i].data(), values[i].data(), values[i].size());
  }
  ++generation_;
  return ok();
}

}  // namespace mlc::exec
