#include "runtime/plan/device/device_runner.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "base/compose.h"
#include "base/system/clock.h"

namespace mlc::exec {
namespace {

// A run that takes this long, and ten times longer than its plan says, will not end.
constexpr uint64_t kLeastDeadline = 10'000'000'000, kSoftwareDeadline = 600'000'000'000;
// Two buffers in turns are four sets of places at most.
constexpr size_t kKeptTakes = 4;

uint64_t padded(uint64_t bytes) { return checked_align(bytes, 256).value_or(UINT64_MAX); }

// An instruction that does nothing for these shapes, as two of three kernels of a product whose rows only the run knows, orders nothing.
bool does_something(const BoundInstr& s, const Executor::Binding& b) { return s.op == InstrOp::Copy ? b.lengths[s.operands] > 0 : s.tiles > 0; }

const device::Range* input_on_device(const SegmentCall& call, size_t i) { return call.input_args[i].on_device; }
const device::Range* output_on_device(const SegmentCall& call, size_t i) {
  return i < call.output_args.size() ? call.output_args[i].on_device : nullptr;
}

// Where the call's inputs and outputs go through memory that host and device both reach: calls use(is_input, port, bytes, offset) for
// each that does.
template <class Use>
void for_each_on_host(const SegmentCall& call, const Use& use) {
  uint64_t at = 0;
  for (size_t i = 0; i < call.binding.input_bytes.size(); ++i) {
    if (input_on_device(call, i)) continue;
    use(true, i, call.binding.input_bytes[i], at);
    at += padded(call.binding.input_bytes[i]);
  }
  at = 0;
  for (size_t i = 0; i < call.binding.output_bytes.size(); ++i) {
    if (output_on_device(call, i)) continue;
    use(false, i, call.binding.output_bytes[i], at);
    at += padded(call.binding.output_bytes[i]);
  }
}

}  // namespace

// A binding for arrays at certain places: one recording. Where instructions are measured, one for each of them between one of the
// inputs and one of the outputs.
struct DeviceRunner::Take {
  std::vector<std::pair<uint64_t, uint64_t>> places;  // of the arrays of the caller on the device: number of the memory, offset
  std::vector<std::unique_ptr<device::Recording>> recordings;
  uint64_t generation = ~uint64_t{0};
  bool apart = false;
};

// What was recorded of a binding.
struct DeviceRunner::Placed final : Executor::Binding::Placed {
  std::vector<Take> takes;  // the last one is that of the last call; at most kKeptTakes
  Status refused;           // the device cannot do this, and a substitute does
  bool is_ready = false;    // nothing but running it can fail
};

DeviceRunner::DeviceRunner(device::Device& device, std::shared_ptr<device::Module> module, const Plan& plan, const Constants& constants,
                           DeviceConstants& weights, std::unique_ptr<Substitute> substitute)
    : device_(device), module_(std::move(module)), plan_(plan), constants_(constants), weights_(weights), substitute_(std::move(substitute)),
      ports_(plan.functions.size()), derived_(plan.derived.size()), link_(device), states_(link_, plan.num_states) {}

DeviceRunner::~DeviceRunner() = default;

Result<std::unique_ptr<DeviceRunner>> DeviceRunner::create(device::Device& device, std::shared_ptr<device::Module> module, const Plan& plan,
                                                           const Constants& constants, DeviceConstants& weights,
                                                           std::unique_ptr<Substitute> substitute) {
  std::unique_ptr<DeviceRunner> out(new DeviceRunner(device, std::move(module), plan, constants, weights, std::move(substitute)));
  MLC_ASSIGN(out->queue_, device.make_queue());
  return out;
}

Status DeviceRunner::grow(Memory& memory, uint64_t bytes, device::MemoryKind kind, std::string_view what) {
  if (memory && memory->size() >= bytes) return ok();
  memory.reset();  // the old one goes first, so that both together are never more than there is
  ++generation_;
  auto bigger = device_.allocate(bytes, kind);
  if (!bigger.ok()) return std::move(bigger).status().note(what);
  memory = std::move(*bigger);
  return ok();
}

Status DeviceRunner::acquire_constants(const SegmentCall& call) {
  Ports& ports = ports_[call.number];
  if (ports.constants_ready) return ok();
  std::vector<DeviceConstants::Wanted> wanted;
  for (const Buffer& b : call.function.buffers)
    if (b.kind == BufferKind::Constant) wanted.push_back({b.index, b.copy, b.constant_bytes, {}});
  MLC_RETURN_IF_ERROR(weights_.acquire(wanted, constants_, call.meter));
  ports.constants.assign(call.function.buffers.size(), {});
  for (size_t i = 0, next = 0; i < ports.constants.size(); ++i)
    if (call.function.buffers[i].kind == BufferKind::Constant) ports.constants[i] = wanted[next++].at;
  ports.constants_ready = true;
  return ok();
}

// Memory for everything that is not constant.
Status DeviceRunner::make_room(const SegmentCall& call) {
  const Executor::Binding& b = call.binding;
  Ports& ports = ports_[call.number];
  ports.inputs.resize(b.input_bytes.size());
  ports.outputs.resize(b.output_bytes.size());
  uint64_t up = 0, down = 0;
  Status status;
  // Ports are of memory that the host has, so their sums do not overflow; sizes from the plan alone may.
  for_each_on_host(call, [&](bool is_input, size_t i, uint64_t bytes, uint64_t at) {
    if (status.ok()) status = grow((is_input ? ports.inputs : ports.outputs)[i], bytes, device::MemoryKind::Local, is_input ? "input" : "output");
    (is_input ? up : down) = at + padded(bytes);
  });
  MLC_RETURN_IF_ERROR(status);
  bool moved = false;
  status = states_.make_room(b.states, moved);
  generation_ += moved;
  MLC_RETURN_IF_ERROR(status);
  for (const Buffer& buffer : call.function.buffers)
    if (buffer.kind == BufferKind::Derived)
      MLC_RETURN_IF_ERROR(grow(derived_[buffer.index], plan_.derived[buffer.index], device::MemoryKind::Local, "derived constants"));
  // One line behind the arena: a buffer of no bytes at its end begins somewhere, too.
  const auto arena = checked_add(b.arena_bytes, 256);
  MLC_RETURN_IF_ERROR(grow(arena_, arena.value_or(UINT64_MAX), device::MemoryKind::Local, "arena"));
  MLC_RETURN_IF_ERROR(grow(staging_, up, device::MemoryKind::Staging, "inputs of a device"));
  return grow(readback_, down, device::MemoryKind::Readback, "outputs of a device");
}

device::Range DeviceRunner::range_of(const SegmentCall& call, uint32_t buffer) const {
  const Buffer& of = call.function.buffers[buffer];
  const uint64_t bytes = call.binding.buffer_bytes[buffer], offset = call.binding.buffer_offsets[buffer];
  const Ports& ports = ports_[call.number];
  switch (of.kind) {
    case BufferKind::None: break;
    case BufferKind::Input: {
      const device::Range* const there = input_on_device(call, of.index);
      return there ? device::Range{there->memory, there->offset, bytes} : device::Range{ports.inputs[of.index].get(), 0, bytes};
    }
    case BufferKind::Output:
    case BufferKind::OutputPart: {
      const device::Range* const there = output_on_device(call, of.index);
      const uint64_t part = of.kind == BufferKind::OutputPart ? offset : 0;
      return there ? device::Range{there->memory, there->offset + part, bytes} : device::Range{ports.outputs[of.index].get(), part, bytes};
    }
    case BufferKind::Arena: return {arena_.get(), offset, bytes};
    case BufferKind::State: return states_.range(of.index, bytes);
    case BufferKind::Derived: return {derived_[of.index].get(), 0, bytes};
    case BufferKind::Constant: {
      device::Range r = ports.constants[buffer];
      r.length = bytes;  // resolve has compared it with the tensor
      return r;
    }
  }
  return {};
}

Status DeviceRunner::record_step(const SegmentCall& call, uint32_t step, device::Recorder& recorder) {
  const BoundInstr& s = call.binding.steps[step];
  const Instr& in = call.function.body[step];
  std::vector<device::Range> ranges;
  for (size_t k = 0; k < in.buffers.size(); ++k) ranges.push_back(range_of(call, in.buffers[k]));
  switch (s.op) {
    case InstrOp::None: return ok();
    case InstrOp::Copy: recorder.copy(ranges[0], ranges[1]); return ok();
    case InstrOp::Launch: break;
  }
  const std::span<const int64_t> scalars(call.binding.scalars.data() + s.scalars, in.scalars.size());
  Status status = recorder.launch(*module_, {s.kernel, s.tiles, step, ranges, scalars});
  return status.ok() ? ok() : std::move(status).note(in.name);
}

Status DeviceRunner::record(const SegmentCall& call, Take& out) {
  const Executor::Binding& b = call.binding;
  const Ports& ports = ports_[call.number];
  const bool apart = call.moments != nullptr;
  out.recordings.clear();
  MLC_ASSIGN(auto recorder, device_.make_recorder());
  const auto cut = [&]() -> Status {
    MLC_ASSIGN(auto recording, recorder->finish());
    out.recordings.push_back(std::move(recording));
    MLC_ASSIGN(recorder, device_.make_recorder());
    return ok();
  };
  for_each_on_host(call, [&](bool is_input, size_t i, uint64_t bytes, uint64_t at) {
    if (is_input) recorder->copy({ports.inputs[i].get(), 0, bytes}, {staging_.get(), at, bytes});
  });
  recorder->barrier();
  if (apart) MLC_RETURN_IF_ERROR(cut());

  // The plan says how many instructions, from the first, one waits for. Those in front of the last barrier have been waited for.
  constexpr uint32_t kNone = UINT32_MAX;
  uint32_t pending = kNone;  // the first instruction behind the last barrier that does something
  for (uint32_t step = 0; step < b.steps.size(); ++step) {
    if (does_something(b.steps[step], b)) {
      if (pending < b.turns[step].after) recorder->barrier(), pending = kNone;
      pending = std::min(pending, step);
    }
    MLC_RETURN_IF_ERROR(record_step(call, step, *recorder));
    if (apart) MLC_RETURN_IF_ERROR(cut());
  }

  recorder->barrier();
  for_each_on_host(call, [&](bool is_input, size_t i, uint64_t bytes, uint64_t at) {
    if (!is_input) recorder->copy({readback_.get(), at, bytes}, {ports.outputs[i].get(), 0, bytes});
  });
  MLC_ASSIGN(auto recording, recorder->finish());
  out.recordings.push_back(std::move(recording));
  out.generation = generation_;
  out.apart = apart;
  return ok();
}

uint64_t DeviceRunner::deadline_ns(const SegmentCall& call) const {
  uint64_t predicted = 0;
  for (const Instr& in : call.function.body) {
    const int64_t work = in.work == kNoSymbol ? 0 : call.binding.symbols[in.work];
    predicted = checked_add(predicted, work > 0 ? static_cast<uint64_t>(work) : 0).value_or(UINT64_MAX);
  }
  const uint64_t least = device_.info().is_software ? kSoftwareDeadline : kLeastDeadline;
  return std::max(least, checked_mul(predicted, 10).value_or(UINT64_MAX));
}

Status DeviceRunner::fault_of(const SegmentCall& call, const device::Recording& recording) const {
  const device::Fault fault = recording.fault();
  if (fault.code == 0) return ok();
  if (fault.launch >= call.function.body.size()) return Status(call.broken_code, "a kernel failed with fault {}, in no launch", fault.code);
  return fault_status(static_cast<int32_t>(fault.code), call.function, fault.launch, call.broken_code);
}

Status DeviceRunner::submit(const SegmentCall& call, device::Recording& recording) {
  MLC_RETURN_IF_ERROR(queue_->submit(recording));
  Status s = wait_for(device_, *queue_, deadline_ns(call));
  if (!s.ok()) states_.spoil(call.binding.states);
  return s.ok() ? fault_of(call, recording) : s;
}

// A device that ends loops silently must not come to that.
Status DeviceRunner::within_budget(const SegmentCall& call) const {
  const uint64_t budget = device_.limits().loop_budget;
  for (size_t k = 0; budget != 0 && k < call.function.body.size(); ++k) {
    const Instr& in = call.function.body[k];
    if (in.op != InstrOp::Launch || call.binding.steps[k].tiles == 0) continue;
    const int64_t steps = in.steps == kNoSymbol ? INT64_MAX : call.binding.symbols[in.steps];
    if (steps >= 0 && static_cast<uint64_t>(steps) <= budget) continue;
    return Status(Code::Unsupported, "loops of {} may make {} turns, {} ends them after {}", in.name,
                  steps < INT32_MAX ? compose("{}", steps) : std::string("any number of"), device_.info().title, budget);
  }
  return ok();
}

Result<DeviceRunner::Take*> DeviceRunner::prepare(const SegmentCall& call, Placed& placed) {
  MLC_RETURN_IF_ERROR(within_budget(call));
  const auto is_derived = [](const Buffer& b) { return b.kind == BufferKind::Derived; };
  if (!not_derived_.ok() && std::any_of(call.function.buffers.begin(), call.function.buffers.end(), is_derived)) return not_derived_;
  MLC_RETURN_IF_ERROR(acquire_constants(call));
  MLC_RETURN_IF_ERROR(make_room(call));
  std::vector<std::pair<uint64_t, uint64_t>> places;
  const auto add = [&](const device::Range* r) { places.emplace_back(r ? r->memory->number() : 0, r ? r->offset : 0); };
  for (size_t i = 0; i < call.binding.input_bytes.size(); ++i) add(input_on_device(call, i));
  for (size_t i = 0; i < call.binding.output_bytes.size(); ++i) add(output_on_device(call, i));

  std::vector<Take>& takes = placed.takes;
  std::erase_if(takes, [&](const Take& t) { return t.generation != generation_; });
  const bool apart = call.moments != nullptr;
  const auto found = std::find_if(takes.begin(), takes.end(), [&](const Take& t) { return t.places == places && t.apart == apart; });
  if (found != takes.end()) {
    std::rotate(found, found + 1, takes.end());
    return &takes.back();
  }
  if (takes.size() == kKeptTakes) takes.erase(takes.begin());
  Take fresh;
  fresh.places = std::move(places);
  MLC_RETURN_IF_ERROR(record(call, fresh));
  return &takes.emplace_back(std::move(fresh));
}

DeviceRunner::Placed& DeviceRunner::placed_of(const SegmentCall& call) {
  if (!call.binding.placed) call.binding.placed = std::make_unique<Placed>();
  return static_cast<Placed&>(*call.binding.placed);
}

Status DeviceRunner::run(const SegmentCall& call) {
  Placed& placed = placed_of(call);
  placed.is_ready = false;
  Status status = placed.refused.ok() ? run_on_device(call, placed) : placed.refused;
  return status.ok() ? ok() : run_elsewhere(call, placed, std::move(status));
}

Status DeviceRunner::run_elsewhere(const SegmentCall& call, Placed& placed, Status why) {
  if (!substitute_ || (why.code != Code::Unsupported && why.code != Code::Resource)) return why;
  if (!call.meter.poll()) return ok();
  if (!placed.is_ready) placed.refused = why;  // it would be refused again, and what others have on the device would move for it
  if (call.number != plan_.derive) return run_by_substitute(call, placed, why);
  not_derived_ = std::move(why);  // segments that read them go to the substitute, which has its own
  return ok();
}

// Whose arrays are on the host: those that lie on the device are brought there, and taken back.
Status DeviceRunner::run_by_substitute(const SegmentCall& call, Placed& placed, const Status& why) {
  const Executor::Binding& b = call.binding;
  std::vector<AlignedBlock> blocks;
  std::vector<void*> inputs(call.inputs.begin(), call.inputs.end()), outputs(call.outputs.begin(), call.outputs.end());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const device::Range* const there = input_on_device(call, i);
    if (!there) continue;
    MLC_ASSIGN(AlignedBlock block, AlignedBlock::allocate(b.input_bytes[i]));
    MLC_RETURN_IF_ERROR(link_.download(block.data(), {there->memory, there->offset, b.input_bytes[i]}));
    inputs[i] = blocks.emplace_back(std::move(block)).data();
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!output_on_device(call, i)) continue;
    MLC_ASSIGN(AlignedBlock block, AlignedBlock::allocate(b.output_bytes[i]));
    outputs[i] = blocks.emplace_back(std::move(block)).data();
  }
  SegmentCall on_host = call;
  on_host.inputs = inputs;
  on_host.outputs = outputs;
  MLC_RETURN_IF_ERROR(substitute_->run(on_host, states_, why, placed.is_ready));
  if (!call.meter.poll()) return ok();
  for (size_t i = 0; i < outputs.size(); ++i)
    if (const device::Range* const there = output_on_device(call, i))
      MLC_RETURN_IF_ERROR(link_.upload({there->memory, there->offset, b.output_bytes[i]}, static_cast<const std::byte*>(outputs[i])));
  return ok();
}

Status DeviceRunner::begin(const SegmentCall& call) {
  MLC_RETURN_IF_ERROR(states_.bring(call));
  for_each_on_host(call, [&](bool is_input, size_t i, uint64_t bytes, uint64_t at) {
    if (is_input && bytes > 0) std::memcpy(staging_->data() + at, call.inputs[i], bytes);
  });
  return ok();
}

Status DeviceRunner::end(const SegmentCall& call) {
  for_each_on_host(call, [&](bool is_input, size_t i, uint64_t bytes, uint64_t at) {
    if (!is_input && bytes > 0) std::memcpy(call.outputs[i], readback_->data() + at, bytes);
  });
  states_.keep(call.binding.states);
  return ok();
}

Status DeviceRunner::run_on_device(const SegmentCall& call, Placed& placed) {
  MLC_ASSIGN(Take* const take, prepare(call, placed));
  placed.is_ready = true;
  MLC_RETURN_IF_ERROR(begin(call));
  for (size_t i = 0; i < take->recordings.size(); ++i) {
    if (!call.meter.poll()) return ok();
    const bool is_step = take->apart && i > 0 && i + 1 < take->recordings.size();
    if (is_step) call.moments[i - 1].begin = now_ns();
    MLC_RETURN_IF_ERROR(submit(call, *take->recordings[i]));
    if (is_step) call.moments[i - 1].done = call.moments[i - 1].left = now_ns();
  }
  return end(call);
}

Result<bool> DeviceRunner::start(const SegmentCall& call) {
  Placed& placed = placed_of(call);
  if (!placed.refused.ok()) return false;
  placed.is_ready = false;
  const auto begun = [&]() -> Status {
    MLC_ASSIGN(Take* const take, prepare(call, placed));
    MLC_RETURN_IF_ERROR(begin(call));
    return queue_->submit(*take->recordings.front());
  };
  Status status = begun();
  started_ns_ = now_ns();
  if (status.ok()) return true;
  // `run` will see it again, and has a substitute.
  if (substitute_ && (status.code == Code::Unsupported || status.code == Code::Resource)) return false;
  return status;
}

Result<bool> DeviceRunner::wait(const SegmentCall& call, uint64_t timeout_ns) {
  const uint64_t deadline = deadline_ns(call), passed = now_ns() - started_ns_;
  Placed& placed = placed_of(call);
  placed.is_ready = true;
  auto done = queue_->wait(std::min(timeout_ns, deadline - std::min(deadline, passed)));
  if (done.ok() && !*done && now_ns() - started_ns_ < deadline) return false;
  Status status = !done.ok() ? std::move(done).status() : *done ? fault_of(call, *placed.takes.back().recordings.front()) : give_up(device_, deadline);
  if (status.ok()) status = end(call);
  else if (status.code == Code::Resource) states_.spoil(call.binding.states);
  if (!status.ok()) MLC_RETURN_IF_ERROR(run_elsewhere(call, placed, std::move(status)));
  return true;
}

}  // namespace mlc::exec
