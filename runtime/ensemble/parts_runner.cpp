#include "runtime/ensemble/parts_runner.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/compose.h"


namespace mlc::ensemble {

PartsRunner::PartsRunner(std::vector<Part> parts, std::vector<uint32_t> place, std::unique_ptr<WorkerPool> pool,
                         std::function<void(const std::string&)> tell)
    : pool_(std::move(pool)), parts_(std::move(parts)), place_(std::move(place)),
      homes_(parts_.front().plan->num_states), tell_(std::move(tell)) {}

Result<std::unique_ptr<PartsRunner>> PartsRunner::create(std::vector<Part> parts, std::vector<uint32_t> place,
                                                         std::function<void(const std::string&)> tell) {
  PoolOptions alone;
  alone.workers = 1;
  MLC_ASSIGN(auto pool, WorkerPool::create(alone));
  return std::unique_ptr<PartsRunner>(new PartsRunner(std::move(parts), std::move(place), std::move(pool), std::move(tell)));
}

uint64_t PartsRunner::arena_bytes() const {
  uint64_t bytes = 0;
  for (const Part& part : parts_) bytes += part.executor->arena_bytes();
  return bytes;
}

uint64_t PartsRunner::state_bytes(uint32_t state) const { return homes_[state] ? homes_[state]->state_bytes(state) : 0; }

Status PartsRunner::bring_states(const exec::SegmentCall& call, const Part& to) const {
  std::vector<std::optional<Bytes>> values(to.executor->num_states());
  for (const auto& use : call.binding.states) {
    exec::Executor* const home = homes_[use.state];
    if (const AlignedBlock& newest = call.states[use.state]; newest.data()) {
      values[use.state] = Bytes(newest.data(), static_cast<size_t>(newest.size()));
    } else if (!home) {
      values[use.state] = Bytes();
    } else if (home != to.executor) {
      MLC_ASSIGN(values[use.state], home->state(use.state));
    }
  }
  return to.executor->set_states(values);
}

Status PartsRunner::run(const exec::SegmentCall& call) {
  // Each part derives its constants by itself, before the first segment of its own that reads them.
  if (call.number == parts_.front().plan->derive) return ok();
  tried_.assign(parts_.size(), 0);
  for (;;) {
    Status status = run_on(parts_[place_[call.number]], call);
    // Values are on the host, as they were. States are with the part that had them, which says so where it has lost them.
    const bool may_move = status.code == Code::Unsupported || status.code == Code::Resource;
    if (!may_move || call.meter.why() != WorkMeter::Stop::None || !move(call, status)) return status;
  }
}

bool PartsRunner::move(const exec::SegmentCall& call, const Status& why) {
  const uint32_t from = place_[call.number];
  tried_[from] = 1;
  if (!parts_[from].device) return false;
  uint32_t to = 0;
  while (to < parts_.size() && (tried_[to] || !parts_[to].is_alive())) ++to;
  if (to == parts_.size()) return false;
  if (parts_[from].is_alive()) {
    place_[call.number] = to;
    tell_(compose("'{}' runs on {}: {}", call.function.name, parts_[to].name, why.message));
  } else {
    std::replace(place_.begin(), place_.end(), from, to);
    tell_(compose("{} goes on in place of {}: {}", parts_[to].name, parts_[from].name, why.message));
  }
  return true;
}

Status PartsRunner::run_on(const Part& part, const exec::SegmentCall& call) {
  const exec::Executor::Binding& bound = call.binding;
  inputs_.clear();
  outputs_.clear();
  std::span<const int64_t> extents = bound.key;
  for (size_t i = 0; i < call.function.inputs.size(); ++i) {
    const exec::Port& port = call.function.inputs[i];
    inputs_.push_back({port.dtype, extents.first(port.axes()), call.inputs[i], bound.input_bytes[i]});
    extents = extents.subspan(port.axes());
  }
  for (size_t i = 0; i < call.function.outputs.size(); ++i) outputs_.emplace_back().data = call.outputs[i], outputs_.back().capacity = bound.output_bytes[i];
  const bool has_states = !bound.states.empty();
  if (has_states) MLC_RETURN_IF_ERROR(bring_states(call, part));

  exec::RunOptions how{call.meter.cancelled(), WorkLimits()};
  if (const uint64_t limit = call.meter.limits().time_ns; limit != WorkLimits::kNone) {
    const uint64_t used = call.meter.ns_used();
    how.work->time_ns = limit > used ? limit - used : 0;
  }
  if (Status s = part.executor->run(call.number, inputs_, outputs_, how); !s.ok())
    return std::move(s).note("'{}' on {}", call.function.name, part.name);
  for (const auto& use : bound.states) homes_[use.state] = part.executor;
  for (size_t i = 0; i < outputs_.size(); ++i)
    if (outputs_[i].bytes != bound.output_bytes[i])
      return Status(Code::Malformed, "'{}' gives {} bytes on {}, expected {}", call.function.outputs[i].name, outputs_[i].bytes, part.name, bound.output_bytes[i]);
  return ok();
}

}  // namespace mlc::ensemble
