#include "runtime/ensemble/parts_runner.h"

#include <algorithm>
#include <cstring>
#include <utility>


namespace mlc::ensemble {

PartsRunner::PartsRunner(std::vector<Part> parts, std::vector<uint32_t> place, std::unique_ptr<WorkerPool> pool)
    : pool_(std::move(pool)), parts_(std::move(parts)), place_(std::move(place)) {}

Result<std::unique_ptr<PartsRunner>> PartsRunner::create(std::vector<Part> parts, std::vector<uint32_t> place) {
  PoolOptions alone;
  alone.workers = 1;
  MLC_ASSIGN(auto pool, WorkerPool::create(alone));
  return std::unique_ptr<PartsRunner>(new PartsRunner(std::move(parts), std::move(place), std::move(pool)));
}

uint64_t PartsRunner::arena_bytes() const {
  uint64_t bytes = 0;
  for (const Part& part : parts_) bytes += part.executor->arena_bytes();
  return bytes;
}

Status PartsRunner::bring_states(const exec::SegmentCall& call, exec::Executor& to) const {
  std::vector<Bytes> values(to.num_states());
  for (const auto& use : call.binding.states) values[use.state] = {call.states[use.state].data(), static_cast<size_t>(use.bytes)};
  return to.set_states(values);
}

void PartsRunner::fetch_states(const exec::SegmentCall& call, const exec::Executor& from) {
  for (const auto& use : call.binding.states) {
    const Bytes value = from.state(use.state).bytes;
    std::memcpy(call.states[use.state].data(), value.data(), std::min<uint64_t>(value.size(), use.bytes));
  }
}

Status PartsRunner::run(const exec::SegmentCall& call) {
  const Part& part = parts_[place_[call.number]];
  // Each part derives its constants by itself, before the first segment of its own that reads them.
  if (call.number == part.plan->derive) return ok();
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
  if (has_states) MLC_RETURN_IF_ERROR(bring_states(call, *part.executor));

  exec::RunOptions how{call.meter.cancelled(), WorkLimits()};
  if (const uint64_t limit = call.meter.limits().time_ns; limit != WorkLimits::kNone) {
    const uint64_t used = call.meter.ns_used();
    how.work->time_ns = limit > used ? limit - used : 0;
  }
  if (Status s = part.executor->run(call.number, inputs_, outputs_, how); !s.ok())
    return std::move(s).note("'{}' on {}", call.function.name, part.name);
  if (has_states) fetch_states(call, *part.executor);
  for (size_t i = 0; i < outputs_.size(); ++i)
    if (outputs_[i].bytes != bound.output_bytes[i])
      return Status(Code::Malformed, "'{}' gives {} bytes on {}, expected {}", call.function.outputs[i].name, outputs_[i].bytes, part.name, bound.output_bytes[i]);
  return ok();
}

}  // namespace mlc::ensemble
