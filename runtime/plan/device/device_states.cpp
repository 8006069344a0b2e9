#include "runtime/plan/device/device_states.h"

#include <optional>
#include <utility>

#include "base/compose.h"

namespace mlc::exec {

namespace {

Status spoilt(uint32_t state) {
  return Status(Code::Resource, "state {} was being written when the device failed", state).hint("reset the state, or restore one that was saved");
}

}  // namespace

Status DeviceStates::make_room(Uses uses, bool& moved) {
  for (const auto& use : uses) {
    State& s = states_[use.state];
    if (s.memory && s.memory->size() >= use.bytes) continue;
    s.memory.reset();  // of a state that has a value this is as long as every call wants it
    moved = true;
    auto memory = link_.device().allocate(use.bytes, device::MemoryKind::Local);
    if (!memory.ok()) return std::move(memory).status().note("state");
    s.memory = std::move(*memory);
  }
  return ok();
}

Status DeviceStates::bring(const SegmentCall& call) {
  for (const auto& use : call.binding.states) {
    const State& s = states_[use.state];
    const device::Range to = range(use.state, use.bytes);
    if (const AlignedBlock& newest = call.states[use.state]; newest.data()) {
      MLC_RETURN_IF_ERROR(link_.upload(to, newest.data()));
    } else if (s.bytes == 0) {
      MLC_RETURN_IF_ERROR(link_.clear(to));
    } else if (s.other) {
      MLC_ASSIGN(const Bytes now, s.other->state(use.state));
      if (now.size() != use.bytes) return Status(Code::Internal, "{} bytes of state {} come back, {} are expected", now.size(), use.state, use.bytes);
      MLC_RETURN_IF_ERROR(link_.upload(to, now.data()));
    } else if (s.is_spoilt) {
      return spoilt(use.state);
    }
  }
  return ok();
}

void DeviceStates::keep(Uses uses) {
  for (const auto& use : uses) {
    State& s = states_[use.state];
    s.bytes = use.bytes;
    s.other = nullptr;
    s.is_spoilt = false;
    s.on_host = AlignedBlock();
  }
}

void DeviceStates::spoil(Uses uses) {
  for (const auto& use : uses)
    if (State& s = states_[use.state]; s.bytes != 0 && !s.other) s.is_spoilt = true;
}

Status DeviceStates::bring_to(Executor& other, const SegmentCall& call) {
  std::vector<std::optional<Bytes>> values(other.num_states());
  for (const auto& use : call.binding.states) {
    if (use.state >= values.size()) return Status(Code::Internal, "the other variant has no state {}", use.state);
    const State& s = states_[use.state];
    if (const AlignedBlock& newest = call.states[use.state]; newest.data()) {
      values[use.state] = Bytes(newest.data(), static_cast<size_t>(newest.size()));
    } else if (s.bytes == 0) {
      values[use.state] = Bytes();
    } else if (s.other != &other) {
      MLC_ASSIGN(values[use.state], read(use.state));
    }
  }
  return call.binding.states.empty() ? ok() : other.set_states(values);
}

void DeviceStates::keep_at(Executor& other, Uses uses) {
  keep(uses);
  for (const auto& use : uses) states_[use.state].other = &other;
}

Result<Bytes> DeviceStates::read(uint32_t state) {
  State& s = states_[state];
  if (s.is_spoilt) return spoilt(state);
  if (s.other) return s.other->state(state);
  MLC_ASSIGN(s.on_host, AlignedBlock::allocate(s.bytes));
  MLC_RETURN_IF_ERROR(link_.download(s.on_host.data(), range(state, s.bytes)));
  return Bytes(s.on_host.data(), static_cast<size_t>(s.bytes));
}

void DeviceStates::drop(uint32_t state) {
  State& s = states_[state];
  s.bytes = 0;
  s.other = nullptr;
  s.is_spoilt = false;
  s.on_host = AlignedBlock();
}

}  // namespace mlc::exec
