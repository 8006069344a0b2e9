#include "runtime/plan/execute/executor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/compose.h"
#include "base/on_exit.h"
#include "runtime/memory/poison.h"
#include "runtime/plan/execute/binding.h"
#include "runtime/plan/execute/program.h"
#include "runtime/plan/execute/worker_runner.h"

namespace mlc::exec {
namespace {

void clear_line_behind(std::byte* data, uint64_t bytes) {
  if (bytes % 64 != 0) std::memset(data + bytes, 0, 64 - bytes % 64);
}

}  // namespace

Executor::Executor(const Plan& plan, const TeamOptions& team, const Limits& limits)
    : plan_(plan), team_(team), limits_(limits),
      memory_({limits.max_memory_bytes, 0, limits.allocator}) {
  states_.resize(plan.num_states);
  functions_.resize(plan.functions.size());
  if (plan.call_depth > 0) programs_ = std::make_unique<ProgramRunner>(*this, plan, limits, memory_.budget);
  memory_.programs = programs_.get();
}

Executor::~Executor() = default;

Result<std::unique_ptr<Executor>> Executor::create(const Plan& plan, const KernelModule& module,
                                                   const Constants& constants, const TeamOptions& team,
                                                   const Limits& limits, std::span<const Service> services,
                                                   std::shared_ptr<DerivedConstants> derived) {
  std::unique_ptr<Executor> e(new Executor(plan, team, limits));
  if (!derived) derived = std::make_shared<DerivedConstants>(limits.allocator);
  e->runner_ = std::make_unique<WorkerRunner>(plan, module, constants, std::move(derived), e->team_, e->memory_);
  MLC_RETURN_IF_ERROR(e->check_plan(services));
  return e;
}

Result<std::unique_ptr<Executor>> Executor::create(const Plan& plan, std::unique_ptr<SegmentRunner> runner, const TeamOptions& team,
                                                   const Limits& limits, std::span<const Service> services) {
  std::unique_ptr<Executor> e(new Executor(plan, team, limits));
  e->runner_ = std::move(runner);
  MLC_RETURN_IF_ERROR(e->check_plan(services));
  return e;
}

uint64_t Executor::arena_bytes() const { return runner_->arena_bytes(); }

Status Executor::check_plan(std::span<const Service> services) {
  for (const Function& f : plan_.functions)
    for (const Step& s : f.steps)
      if (s.op == StepOp::Host && !find_service(services, s.service))
        return Status(Code::NoVariant, 2001, compose("the application does not offer the service '{}'", s.service));
  services_ = services;
  // Every launch of every function is judged before the first one runs.
  for (uint32_t f = 0; f < plan_.functions.size(); ++f) MLC_RETURN_IF_ERROR(check_kernels(f));
  return ok();
}

const KernelSet& Executor::kernels() const { return runner_->kernels(); }

Status Executor::check_kernels(uint32_t function) {
  const KernelSet& kernels = this->kernels();
  std::vector<uint8_t> writable;
  for (const Instr& i : plan_.functions[function].body) {
    if (i.op != InstrOp::Launch) continue;
    if (i.kernel >= kernels.num_kernels()) return Status(Code::Malformed, "plan: no kernel {}", i.kernel);
    writable.clear();
    for (uint32_t b : i.buffers) writable.push_back(plan_.functions[function].buffers[b].writable());
    Status s = kernels.accepts(i.kernel, {writable, static_cast<uint32_t>(i.scalars.size())});
    if (!s.ok()) return std::move(s).note("kernel {} ({})", i.kernel, i.name);
  }
  return ok();
}

Status Executor::why_stopped() const {
  const WorkLimits& limits = meter_.limits();
  Status s;
  switch (meter_.why()) {
    case WorkMeter::Stop::None: return s;
    case WorkMeter::Stop::Cancelled: return Status(Code::Cancelled, "the run was cancelled");
    case WorkMeter::Stop::Time:
      s = Status(Code::Cancelled, 6004, "the run took longer than its time limit of {} ms", limits.time_ns / 1'000'000);
      break;
    case WorkMeter::Stop::Work:
      s = Status(Code::Resource, 6005, "the run took more than its limit of {} units of work", limits.units);
      break;
  }
  if (limits.units != WorkLimits::kNone) s = std::move(s).fact("used: {} units of work", meter_.units_used());
  return std::move(s)
      .fact("used: {} ms, {} bytes of memory", meter_.ns_used() / 1'000'000, memory_.budget.held)
      .hint("mlrun --time-limit 10s, or time_limit, lets it run longer, and do more work in that time");
}

Status Executor::run(uint32_t function, std::span<const InputArg> inputs, std::span<OutputArg> outputs,
                     const RunOptions& options) {
  meter_.start(options.work.value_or(limits_.work), options.cancelled);
  return with_memory_used(run_with_team(function, inputs, outputs));
}

Status Executor::charge(std::string_view what, uint64_t bytes, Charge& out) {
  return with_memory_used(Charge::take(memory_.budget, what, bytes, out));
}

Status Executor::with_memory_used(Status status) const {
  if (status.code != Code::Resource || status.number != 0) return status;
  status.number = 6006;
  if (memory_.budget.limit == UINT64_MAX) return std::move(status).fact("used: {} bytes of memory, the session has no limit", memory_.budget.held);
  status = std::move(status).fact("used: {} of the {} bytes of memory that the session may hold", memory_.budget.held, memory_.budget.limit);
  // Larger limits are what this machine has, or what the user has said.
  return memory_.budget.limit < uint64_t{1} << 30 ? std::move(status).hint("mlrun --memory-limit 1G, or memory_limit, lets it hold more") : status;
}

Status Executor::run_with_team(uint32_t function, std::span<const InputArg> inputs, std::span<OutputArg> outputs) {
  team_.start_run();
  const OnExit end([&] { team_.end_run(); });
  return meter_.poll() ? run_function(function, inputs, outputs) : why_stopped();
}

Status Executor::check_call(uint32_t function, std::span<const InputArg> inputs, std::span<OutputArg> outputs) const {
  const Function& f = plan_.functions[function];
  if (function == plan_.derive) return Status(Code::Usage, "'{}' derives the constants of the others, and is not run by itself", f.name);
  MLC_RETURN_IF_ERROR(check_arguments(f, inputs));
  if (outputs.size() > f.outputs.size())
    return Status(Code::Usage, "{} outputs given, '{}' has {}", outputs.size(), f.name, f.outputs.size());
  return ok();
}

Status Executor::run_function(uint32_t function, std::span<const InputArg> inputs, std::span<OutputArg> outputs) {
  const Function& f = plan_.functions[function];
  MLC_RETURN_IF_ERROR(check_call(function, inputs, outputs));
  if (f.is_program()) {
    MLC_RETURN_IF_ERROR(check_lists(f, inputs));
    return programs_->run(function, inputs, outputs);
  }
  MLC_ASSIGN(Binding * binding, bind(function, inputs));
  return run_segment(function, *binding, inputs, outputs);
}

Status Executor::run_segment(uint32_t function, Binding& binding, std::span<const InputArg> inputs,
                             std::span<OutputArg> outputs, bool values) {
  MLC_RETURN_IF_ERROR(place_arguments(function, binding, inputs, outputs, values));
  MLC_RETURN_IF_ERROR(execute(function, binding));
  give_outputs(function, binding, outputs);
  return ok();
}

// Memory of the interface: the caller's where it fits, ours where it does not.
Status Executor::place_arguments(uint32_t function, Binding& bound, std::span<const InputArg> inputs, std::span<OutputArg> outputs,
                                 bool values) {
  const Function& f = plan_.functions[function];
  FunctionState& state = functions_[function];
  Binding* const binding = &bound;
  state.inputs = inputs;
  state.outputs = outputs;
  const bool any_memory = values || runner_->traits.takes_any_memory;
  if (state.input_copies.empty()) state.input_copies.resize(f.inputs.size());
  if (state.output_blocks.empty()) state.output_blocks.resize(f.outputs.size());
  state.input_pointers.resize(f.inputs.size());
  state.output_pointers.resize(f.outputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const uint64_t bytes = binding->input_bytes[i];
    state.input_pointers[i] = const_cast<void*>(inputs[i].data);
    if (any_memory || may_lend(inputs[i].data, bytes)) continue;
    MLC_RETURN_IF_ERROR(memory_.grow(state.input_copies[i], bytes, "copy of an input"));
    expose(state.input_copies[i].data(), bytes, state.input_copies[i].size());
    if (bytes) std::memcpy(state.input_copies[i].data(), inputs[i].data, bytes);
    clear_line_behind(state.input_copies[i].data(), bytes);  // an earlier input may have been longer
    state.input_pointers[i] = state.input_copies[i].data();
  }
  for (size_t i = 0; i < f.outputs.size(); ++i) {
    const uint64_t bytes = binding->output_bytes[i];
    const bool given = i < outputs.size() && (outputs[i].data || outputs[i].on_device);
    if (given && outputs[i].capacity < bytes)
      return Status(Code::InputMismatch, 4004, "output '{}' takes {} bytes, {} are given", f.outputs[i].name,
                    bytes, outputs[i].capacity);
    if (given && (any_memory || may_lend(outputs[i].data, bytes))) {
      state.output_pointers[i] = outputs[i].data;
      if (!values && limits_.confine_loads && bytes > 0) std::memset(outputs[i].data, 0, bytes);
      continue;
    }
    MLC_RETURN_IF_ERROR(memory_.grow(state.output_blocks[i], bytes, "output"));
    expose(state.output_blocks[i].data(), bytes, state.output_blocks[i].size());
    state.output_pointers[i] = state.output_blocks[i].data();
  }
  return ok();
}

SegmentCall Executor::call_of(uint32_t function, Binding& binding) {
  FunctionState& state = functions_[function];
  return {function, plan_.functions[function], binding, state.input_pointers, state.output_pointers, state.inputs, state.outputs, states_,
          limits_.broken_code, meter_, profiling_ ? state.profile.of(0) : nullptr, order_ ? &order_ : nullptr};
}

Status Executor::execute(uint32_t function, Binding& binding) {
  const Function& f = plan_.functions[function];
  SegmentProfile& profile = functions_[function].profile;
  if (profiling_) MLC_RETURN_IF_ERROR(profile.begin(f, team_.workers(), memory_.budget));
  Status status = runner_->run(call_of(function, binding));
  MLC_RETURN_IF_ERROR(why_stopped());
  MLC_RETURN_IF_ERROR(status);
  release_states(binding);
  if (profiling_) profile.end(f, binding, binding.shares == 1 ? 1 : runner_->traits.workers);
  return ok();
}

void Executor::release_states(const Binding& binding) {
  if (!runner_->traits.keeps_states) return;
  for (const auto& use : binding.states) memory_.release(states_[use.state]);
}

void Executor::give_outputs(uint32_t function, const Binding& binding, std::span<OutputArg> outputs) const {
  const Function& f = plan_.functions[function];
  const FunctionState& state = functions_[function];
  for (size_t i = 0; i < outputs.size(); ++i) {
    OutputArg& out = outputs[i];
    if (!out.data && !out.on_device) out.data = state.output_pointers[i], out.capacity = binding.output_bytes[i];
    else if (out.data != state.output_pointers[i] && binding.output_bytes[i])
      std::memcpy(out.data, state.output_pointers[i], binding.output_bytes[i]);
    out.dtype = f.outputs[i].dtype;
    out.shape = binding.output_shapes[i];
    out.bytes = binding.output_bytes[i];
  }
}

Status Executor::infer(uint32_t function, std::span<const InputArg> inputs, std::vector<std::vector<int64_t>>& shapes) {
  const Function& f = plan_.functions[function];
  if (f.is_program())
    return Status(Code::Unsupported, "the extents of what '{}' gives are known only after a run", f.name);
  if (inputs.size() != f.inputs.size()) return check_arguments(f, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].dtype != f.inputs[i].dtype)
      return Status(Code::InputMismatch, 4001, "input '{}': found {}, expected {}", f.inputs[i].name,
                    name_of(inputs[i].dtype), name_of(f.inputs[i].dtype));
    if (inputs[i].shape.size() != f.inputs[i].shape.size() ||
        std::any_of(inputs[i].shape.begin(), inputs[i].shape.end(), [](int64_t e) { return e < 0; }))
      return Status(Code::InputMismatch, 4001, "input '{}' has the wrong number of axes", f.inputs[i].name);
  }
  Binding binding;
  MLC_RETURN_IF_ERROR(Charge::take(memory_.budget, "sizes and operands for these shapes", binding_bytes(f), binding.charge));
  MLC_RETURN_IF_ERROR(fill_binding(function, inputs, binding));
  shapes = std::move(binding.output_shapes);
  return ok();
}

struct Executor::Profiled {
  const Function& function;
  const SegmentProfile& profile;
  uint64_t index;
};

// Of a program the instructions of all segments, one behind the other.
std::optional<Executor::Profiled> Executor::find_profiled(uint32_t function, uint64_t index) const {
  const bool program = plan_.functions[function].is_program();
  for (size_t at = function; at < (program ? functions_.size() : function + 1); ++at) {
    const SegmentProfile& profile = functions_[at].profile;
    if (index < profile.size()) return Profiled{plan_.functions[at], profile, index};
    index -= profile.size();
  }
  return std::nullopt;
}

uint64_t Executor::profile_size(uint32_t segment) const { return functions_[segment].profile.size(); }

std::optional<Executor::ProfileEntry> Executor::profile(uint32_t function, uint64_t index) const {
  const auto found = find_profiled(function, index);
  return found ? std::optional(found->profile.entry(found->function, found->index)) : std::nullopt;
}

std::optional<Executor::Moments> Executor::moments(uint32_t function, uint64_t index, unsigned worker) const {
  const auto found = worker < team_.workers() ? find_profiled(function, index) : std::nullopt;
  return found ? std::optional(found->profile.moments(found->index, worker)) : std::nullopt;
}

}  // namespace mlc::exec
