#include "runtime/plan/executor.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include "base/checked.h"
#include "base/clock.h"
#include "base/compose.h"
#include "base/counted.h"
#include "base/on_exit.h"
#include "runtime/memory/poison.h"
#include "runtime/plan/binding.h"
#include "runtime/plan/derived.h"
#include "runtime/plan/program.h"
#include "runtime/plan/shape_program.h"

namespace mlc::exec {
namespace {

constexpr uint64_t kPieceBytes = 1u << 20;  // of a constant: what one worker prepares at a time
constexpr size_t kMaxBindings = 16;  // sets of input shapes kept per function

const char* fault_text(int32_t fault) {
  switch (fault) {
    case MLRUN_FAULT_INDEX: return "an index lies outside its array";
    case MLRUN_FAULT_DIVISION: return "integer division by zero";
    case MLRUN_FAULT_BOUND: return "a loop exceeded its bound";
    case MLRUN_FAULT_BAD_CODE: return "the code breaks its own rules";
    default: return "unknown fault";
  }
}

// An index or a divisor may come from the values of the inputs; the rest is up to the code.
Status fault_status(int32_t fault, const Instr& at, Code broken_code) {
  const bool of_values = fault == MLRUN_FAULT_INDEX || fault == MLRUN_FAULT_DIVISION;
  Status s(of_values ? Code::InputMismatch : broken_code, of_values ? 4005 : 0, "kernel {}{} failed: {} (fault {})", at.kernel,
           at.name.empty() ? "" : " (" + at.name + ")", fault_text(fault), fault);
  if (of_values) s.facts.push_back("the values of the inputs do not fit the model, or the model's code is wrong");
  return s;
}

void clear_line_behind(std::byte* data, uint64_t bytes) {
  if (bytes % 64 != 0) std::memset(data + bytes, 0, 64 - bytes % 64);
}

// [begin, end) of worker w's equal share of n, of which the first `shares` workers have one.
std::pair<uint64_t, uint64_t> share_of(uint64_t n, unsigned w, unsigned shares) {
  if (w >= shares) return {n, n};
  const uint64_t each = n / shares, rest = n % shares;
  const uint64_t begin = w * each + std::min<uint64_t>(w, rest);
  return {begin, begin + each + (w < rest ? 1 : 0)};
}

bool same_key(const std::vector<int64_t>& key, std::span<const InputArg> inputs, std::span<const int64_t> elements) {
  size_t at = 0;
  for (const InputArg& in : inputs)
    for (int64_t extent : in.shape)
      if (key[at++] != extent) return false;  // ranks are fixed per function: the lengths agree
  return std::equal(elements.begin(), elements.end(), key.begin() + static_cast<ptrdiff_t>(at));
}

template <class T>
int64_t widened(const void* data, uint64_t i) {
  T v;
  std::memcpy(&v, static_cast<const std::byte*>(data) + i * sizeof(T), sizeof(T));
  return static_cast<int64_t>(v);
}
int64_t element_of(DType t, const void* data, uint64_t i) {
  switch (t) {
    case DType::I64: case DType::U64: return widened<int64_t>(data, i);
    case DType::I32: return widened<int32_t>(data, i);
    case DType::I16: return widened<int16_t>(data, i);
    case DType::I8: case DType::I4: case DType::I2: return widened<int8_t>(data, i);
    case DType::U32: return widened<uint32_t>(data, i);
    case DType::U16: return widened<uint16_t>(data, i);
    case DType::Bool: return widened<uint8_t>(data, i) != 0;
    default: return widened<uint8_t>(data, i);
  }
}

// What is wrong with an array from outside for this port; empty if nothing.
std::string complaint_about(const Port& port, const InputArg& in) {
  if (in.dtype != port.dtype) return compose("found {}, expected {}", name_of(in.dtype), name_of(port.dtype));
  uint64_t bytes = port.dtype == DType::Str ? sizeof(Text) : bytes_of(port.dtype);
  bool good = true;
  for (int64_t extent : in.shape) {
    const auto next = extent < 0 ? std::nullopt : checked_mul(bytes, static_cast<uint64_t>(extent));
    good = good && next.has_value();
    bytes = next.value_or(0);
  }
  if (!good) return "an extent is negative or too large";
  if (in.bytes < bytes || (bytes > 0 && !in.data)) return compose("has {} bytes, its shape takes {}", in.bytes, bytes);
  return {};
}
// Recursion: the depth of lists, which decode_plan limits.
std::string complaint_about_list(const Port& port, uint8_t depth, const InputArg& in) {
  for (const InputArg& item : in.items) {
    if (item.list_depth != depth - 1) return "is a list of another kind";
    if (item.shape.size() > format::kMaxRank) return "has an item with too many axes";
    std::string what = depth > 1 ? complaint_about_list(port, depth - 1, item) : complaint_about(port, item);
    if (!what.empty()) return what;
  }
  return {};
}

}  // namespace

Executor::Executor(const Plan& plan, const KernelModule& module, const Constants& constants, const TeamOptions& team,
                   const Limits& limits)
    : plan_(plan), module_(module), constants_(constants), team_(team), limits_(limits),
      budget_(std::make_unique<MemoryBudget>(MemoryBudget{limits.max_memory_bytes, 0, limits.allocator})) {
  scratch_.resize(team_.workers());
  states_.resize(plan.num_states);
  functions_.resize(plan.functions.size());
  if (plan.call_depth > 0) programs_ = std::make_unique<ProgramRunner>(*this, plan, limits, *budget_);
}

Executor::~Executor() = default;

Result<std::unique_ptr<Executor>> Executor::create(const Plan& plan, const KernelModule& module,
                                                   const Constants& constants, const TeamOptions& team,
                                                   const Limits& limits, std::span<const Service> services,
                                                   std::shared_ptr<DerivedConstants> derived) {
  for (const Function& f : plan.functions)
    for (const Step& s : f.steps)
      if (s.op == StepOp::Host && !find_service(services, s.service))
        return Status(Code::NoVariant, 2001, compose("the application does not offer the service '{}'", s.service));
  std::unique_ptr<Executor> e(new Executor(plan, module, constants, team, limits));
  e->services_ = services;
  e->derived_ = derived ? std::move(derived) : std::make_shared<DerivedConstants>(limits.allocator);
  // Every launch of every function is judged before the first one runs.
  for (uint32_t f = 0; f < plan.functions.size(); ++f) MLC_RETURN_IF_ERROR(e->check_kernels(f));
  return e;
}

Status Executor::check_kernels(uint32_t function) {
  std::vector<uint8_t> writable;
  for (const Instr& i : plan_.functions[function].body) {
    if (i.op != InstrOp::Launch) continue;
    if (i.kernel >= module_.num_kernels()) return Status(Code::Malformed, "plan: no kernel {}", i.kernel);
    writable.clear();
    for (uint32_t b : i.buffers) writable.push_back(plan_.functions[function].buffers[b].writable());
    Status s = module_.accepts(i.kernel, {writable, static_cast<uint32_t>(i.scalars.size())});
    if (!s.ok()) return std::move(s).note("kernel {} ({})", i.kernel, i.name);
  }
  return ok();
}

Status Executor::check_arguments(const Function& f, std::span<const InputArg> inputs) const {
  if (inputs.size() != f.inputs.size())
    return Status(Code::InputMismatch, 4001, "{} given, '{}' takes {}", counted(inputs.size(), "input"), f.name, f.inputs.size());
  Status status;
  const auto complain = [&](const Port& port, std::string what) {
    if (status.ok()) status = Status(Code::InputMismatch, 4001, "an input does not fit");
    status.facts.push_back(compose("{}   {}", port.name, what));
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Port& port = f.inputs[i];
    const InputArg& in = inputs[i];
    if (in.list_depth != port.list_depth) {
      complain(port, compose(port.list_depth > 0 ? "found an array, expected a list" : "found a list, expected an array"));
    } else if (in.list_depth == 0 && in.shape.size() != port.shape.size()) {
      complain(port, compose("found {}, expected {}", counted(in.shape.size(), "axis", "axes"), port.shape.size()));
    } else if (in.list_depth == 0) {
      std::string what = complaint_about(port, in);
      if (!what.empty()) complain(port, std::move(what));
    }
  }
  return status;
}

Status Executor::grow(AlignedBlock& block, uint64_t bytes, std::string_view what) {
  if (block.data() && block.size() >= bytes) return ok();
  // The old one goes first, so that both together are never more than the limit.
  budget_->held -= block.size();
  block = AlignedBlock();
  ++generation_;
  if (programs_ && bytes > budget_->available()) programs_->trim();
  if (bytes > budget_->available()) return budget_->refusal(what, bytes);
  auto bigger = AlignedBlock::allocate(bytes, budget_->allocator);
  if (!bigger) return std::move(bigger).status().note(what);
  block = std::move(*bigger);
  budget_->held += bytes;
  return ok();
}

// All constants of a function before its first run. Hashing them is the costly part: the workers take piece after piece,
// whatever tensor it belongs to, so that one large table keeps all of them busy as well as many small ones.
Status Executor::acquire_constants(uint32_t function) {
  FunctionState& state = functions_[function];
  if (state.constants_ready) return ok();
  const Function& f = plan_.functions[function];
  struct Piece {
    uint32_t buffer;
    uint64_t offset;
  };
  struct Work {
    const Function& f;
    const Constants& constants;
    WorkMeter& meter;
    std::vector<Piece> pieces;
    std::atomic<size_t> next{0};
  } work{f, constants_, meter_, {}};
  for (uint32_t i = 0; i < f.buffers.size(); ++i) {
    if (f.buffers[i].kind != BufferKind::Constant) continue;
    for (uint64_t at = 0; at < f.buffers[i].constant_bytes; at += kPieceBytes) work.pieces.push_back({i, at});
  }
  const auto prepare = [](void* context, unsigned) {
    Work& w = *static_cast<Work*>(context);
    for (size_t i = w.next++; i < w.pieces.size() && w.meter.poll(); i = w.next++) {
      const Buffer& b = w.f.buffers[w.pieces[i].buffer];
      const uint64_t offset = w.pieces[i].offset;
      w.constants.prepare(b.index, b.copy, offset, std::min(kPieceBytes, b.constant_bytes - offset));
    }
  };
  if (work.pieces.size() > 1) {
    MLC_RETURN_IF_ERROR(gather());
    team_.run(prepare, &work);
  } else {
    prepare(&work, 0);
  }
  MLC_RETURN_IF_ERROR(why_stopped());
  state.constants.assign(f.buffers.size(), nullptr);
  for (uint32_t i = 0; i < f.buffers.size(); ++i) {
    if (f.buffers[i].kind == BufferKind::Derived) state.constants[i] = derived_->blocks[f.buffers[i].index].data();
    if (f.buffers[i].kind != BufferKind::Constant) continue;
    MLC_ASSIGN(state.constants[i], constants_.acquire(f.buffers[i].index, f.buffers[i].copy));
  }
  state.constants_ready = true;
  return ok();
}

Status Executor::derive_constants() {
  if (derived_charge_) return ok();
  uint64_t bytes = 0;
  for (const uint64_t each : plan_.derived) bytes += each;  // decode_plan limits the sum
  auto charge = std::make_unique<Charge>();
  if (programs_ && bytes > budget_->available()) programs_->trim();
  MLC_RETURN_IF_ERROR(Charge::take(*budget_, "derived constants", bytes, *charge));
  // Another session may be at it: a run that waits for it can still be cancelled.
  while (!derived_->mu.try_lock_for(std::chrono::milliseconds(10)))
    if (!meter_.poll()) return why_stopped();
  const std::lock_guard lock(derived_->mu, std::adopt_lock);
  if (!derived_->is_ready) {
    const bool profiling = std::exchange(profiling_, false);  // of runs, which this is none of
    Status status = compute_derived();
    profiling_ = profiling;
    if (!status.ok()) {
      derived_->blocks.clear();
      functions_[plan_.derive].bindings.clear();  // they point into these
      functions_[plan_.derive].constants_ready = false;
      return std::move(status).note("deriving constants");
    }
    derived_->is_ready = true;
  }
  derived_charge_ = std::move(charge);
  return ok();
}

// Under the lock of `derived_`.
Status Executor::compute_derived() {
  for (const uint64_t bytes : plan_.derived) {
    auto block = AlignedBlock::allocate(bytes, derived_->allocator);
    if (!block) return std::move(block).status().note("derived constants");
    derived_->blocks.push_back(std::move(*block));
  }
  MLC_ASSIGN(Binding * binding, bind(plan_.derive, {}));
  MLC_RETURN_IF_ERROR(run_segment(plan_.derive, *binding, {}, {}));
  functions_[plan_.derive].bindings.clear();  // it will not run again
  return ok();
}

Status Executor::fill_binding(uint32_t function, std::span<const InputArg> inputs, Binding& out) {
  const Function& f = plan_.functions[function];
  std::vector<Shape> shapes;
  for (const InputArg& in : inputs) {
    shapes.push_back(in.shape);
    out.key.insert(out.key.end(), in.shape.begin(), in.shape.end());
  }
  MLC_RETURN_IF_ERROR(read_elements(f, inputs));
  out.key.insert(out.key.end(), elements_.begin(), elements_.end());
  MLC_RETURN_IF_ERROR(evaluate_shapes(f, shapes, elements_, out.symbols));
  if (f.is_program()) return ok();
  MLC_RETURN_IF_ERROR(resolve(f, team_.workers(), out));
  for (BoundInstr& s : out.steps) {
    if (s.op != InstrOp::Launch) continue;
    const auto all = checked_add(s.scratch_bytes, module_.scratch_bytes(s.kernel));
    if (!all) return Status(Code::Resource, "function '{}' wants more scratch memory than there is", f.name);
    s.scratch_bytes = *all;
    out.scratch_bytes = std::max(out.scratch_bytes, *all);
  }
  return ok();
}

// To elements_. What lies outside of its input is 0 here and refused when shapes are evaluated.
Status Executor::read_elements(const Function& f, std::span<const InputArg> inputs) {
  elements_.clear();
  for (const Function::ElementRead& read : f.elements) {
    const InputArg& in = inputs[read.input];
    const bool inside = read.element < checked_product(in.shape).value_or(0);
    if (inside && (in.dtype != f.inputs[read.input].dtype || !in.data || in.bytes / bytes_of(in.dtype) <= read.element))
      return Status(Code::InputMismatch, 4001,
                    "the shapes in '{}' depend on the elements of '{}', which are not given", f.name,
                            f.inputs[read.input].name);
    const int64_t value = inside ? element_of(in.dtype, in.data, read.element) : 0;
    if (value < 0 && in.dtype == DType::U64)
      return Status(Code::InputMismatch, "element {} of '{}' is too large", read.element, f.inputs[read.input].name);
    elements_.push_back(value);
  }
  return ok();
}

// An empty binding: a new one, or the function's oldest where there are enough of them or the budget has no room for more.
Status Executor::room_for_binding(uint32_t function, std::unique_ptr<Binding>& out) {
  auto& bindings = functions_[function].bindings;
  const uint64_t bytes = binding_bytes(plan_.functions[function]);
  if (programs_ && bytes > budget_->available()) programs_->trim();
  if (bindings.size() == kMaxBindings || (!bindings.empty() && bytes > budget_->available())) {
    out = std::move(bindings.front());
    bindings.erase(bindings.begin());
    out->clear();
    return ok();
  }
  Charge charge;
  MLC_RETURN_IF_ERROR(Charge::take(*budget_, "sizes and operands for these shapes", bytes, charge));
  out = std::make_unique<Binding>();
  out->charge = std::move(charge);
  return ok();
}

Result<Executor::Binding*> Executor::bind(uint32_t function, std::span<const InputArg> inputs) {
  const Function& f = plan_.functions[function];
  FunctionState& state = functions_[function];
  Binding* binding = nullptr;
  MLC_RETURN_IF_ERROR(read_elements(f, inputs));
  for (auto& b : state.bindings)
    if (same_key(b->key, inputs, elements_)) binding = b.get();
  if (!binding) {
    std::unique_ptr<Binding> fresh;
    MLC_RETURN_IF_ERROR(room_for_binding(function, fresh));
    MLC_RETURN_IF_ERROR(fill_binding(function, inputs, *fresh));
    state.bindings.push_back(std::move(fresh));
    binding = state.bindings.back().get();
  }
  if (f.is_program()) return binding;

  const auto is_derived = [](const Buffer& b) { return b.kind == BufferKind::Derived; };
  if (!state.constants_ready && function != plan_.derive && std::any_of(f.buffers.begin(), f.buffers.end(), is_derived))
    MLC_RETURN_IF_ERROR(derive_constants());
  MLC_RETURN_IF_ERROR(acquire_constants(function));
  MLC_RETURN_IF_ERROR(grow(arena_, binding->arena_bytes, "arena"));
  if (binding->scratch_bytes > 0)
    for (AlignedBlock& s : scratch_) MLC_RETURN_IF_ERROR(grow(s, binding->scratch_bytes, "scratch"));
  for (const Binding::StateUse& use : binding->states) {
    AlignedBlock& block = states_[use.state];
    if (block.data() && block.size() != use.bytes)
      return Status(Code::InputMismatch, "state {} has {} bytes, these shapes need {}", use.state, block.size(),
                    use.bytes);
    MLC_RETURN_IF_ERROR(grow(block, use.bytes, "state"));
  }
  if (binding->generation != generation_) {
    place(f, *binding, arena_.data(), states_, state.constants);
    binding->generation = generation_;
  }
  return binding;
}

// What all workers of one run share.
struct Executor::Run {
  Executor& executor;
  const Function& function;
  Binding& binding;
  FunctionState& state;
  unsigned workers;
  alignas(64) std::atomic<int32_t> fault{0};  // of the first kernel that failed
  std::atomic<uint32_t> fault_at{0};

  bool stopped() { return fault.load(std::memory_order_relaxed) != 0 || !executor.meter_.poll(); }
  void fail(int32_t code, uint32_t step) {
    int32_t none = 0;
    if (fault.compare_exchange_strong(none, code)) fault_at.store(step);
  }
  void launch(const BoundInstr& s, uint32_t step, const MlrunLaunch& launch);
  void move(const BoundInstr& s, const MlrunLaunch& launch);
};

// This worker's tiles.
void Executor::Run::launch(const BoundInstr& s, uint32_t step, const MlrunLaunch& launch) {
  const auto [begin, end] = share_of(s.tiles, launch.worker, s.shares);
  if (begin >= end) return;
  if constexpr (kAddressSanitizer) {
    const AlignedBlock& scratch = executor.scratch_[launch.worker];
    expose(scratch.data(), s.scratch_bytes, scratch.size());
  }
  const int32_t answer = executor.module_.run(s.kernel, launch, static_cast<uint32_t>(begin), static_cast<uint32_t>(end),
                                              executor.meter_);
  if (answer != MLRUN_FAULT_NONE && answer != kRunStopped) fail(answer, step);
}

// This worker's part of a copy or fill: whole cache lines, so that no line is written by two.
void Executor::Run::move(const BoundInstr& s, const MlrunLaunch& launch) {
  const uint64_t length = launch.lengths[0];
  auto [begin, end] = share_of((length + 63) / 64, launch.worker, s.shares);
  begin *= 64, end = std::min(end * 64, length);
  auto* to = static_cast<std::byte*>(launch.buffers[0]);
  while (begin < end) {
    const uint64_t piece = std::min(end - begin, kMovedPiece);
    if (!executor.meter_.take(units_of(piece))) return;
    if (s.op == InstrOp::Fill) std::memset(to + begin, s.fill, piece);
    else std::memmove(to + begin, static_cast<const std::byte*>(launch.buffers[1]) + begin, piece);
    begin += piece;
  }
}

void Executor::work(void* context, unsigned worker) {
  Run& run = *static_cast<Run*>(context);
  Executor& e = run.executor;
  Binding& b = run.binding;
  MlrunLaunch launch{nullptr, nullptr, nullptr, e.scratch_[worker].data(), worker, run.workers};
  Moments* const moments = e.profiling_ ? run.state.profile.of(worker) : nullptr;
  uint64_t before = moments ? now_ns() : 0;
  for (uint32_t i = 0; i < b.steps.size(); ++i) {
    const BoundInstr& s = b.steps[i];
    const bool stopped = run.stopped();
    if (!stopped) {
      launch.buffers = b.pointers.data() + s.operands;
      launch.lengths = b.lengths.data() + s.operands;
      launch.scalars = b.scalars.data() + s.scalars;
      if (s.op == InstrOp::Launch) run.launch(s, i, launch);
      else if (s.op != InstrOp::None) run.move(s, launch);
    }
    const uint64_t done = moments ? now_ns() : 0;
    // Who sees that the run ends does nothing any more but waits for the others here, where all leave together.
    if (run.workers == 1 ? stopped : s.barrier && e.team_.barrier().wait(stopped)) return;
    if (moments) {
      const uint64_t left = run.workers > 1 && s.barrier ? now_ns() : done;
      moments[i] = {before, done, left};
      before = left;
    }
  }
}

Status Executor::gather() {
  Status status = team_.gather(meter_);
  MLC_RETURN_IF_ERROR(why_stopped());
  return status;
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
      .fact("used: {} ms, {} bytes of memory", meter_.ns_used() / 1'000'000, budget_->held)
      .hint("mlrun --time-limit 10s, or time_limit, lets it run longer, and do more work in that time");
}

Status Executor::run(uint32_t function, std::span<const InputArg> inputs, std::span<OutputArg> outputs,
                     const RunOptions& options) {
  meter_.start(options.work.value_or(limits_.work), options.cancelled);
  return with_memory_used(run_with_team(function, inputs, outputs));
}

Status Executor::charge(std::string_view what, uint64_t bytes, Charge& out) {
  return with_memory_used(Charge::take(*budget_, what, bytes, out));
}

Status Executor::with_memory_used(Status status) const {
  if (status.code != Code::Resource || status.number != 0) return status;
  status.number = 6006;
  if (budget_->limit == UINT64_MAX) return std::move(status).fact("used: {} bytes of memory, the session has no limit", budget_->held);
  status = std::move(status).fact("used: {} of the {} bytes of memory that the session may hold", budget_->held, budget_->limit);
  // Larger limits are what this machine has, or what the user has said.
  return budget_->limit < uint64_t{1} << 30 ? std::move(status).hint("mlrun --memory-limit 1G, or memory_limit, lets it hold more") : status;
}

Status Executor::run_with_team(uint32_t function, std::span<const InputArg> inputs, std::span<OutputArg> outputs) {
  team_.start_run();
  const OnExit end([&] { team_.end_run(); });
  return meter_.poll() ? run_function(function, inputs, outputs) : why_stopped();
}

Status Executor::run_function(uint32_t function, std::span<const InputArg> inputs, std::span<OutputArg> outputs) {
  const Function& f = plan_.functions[function];
  if (function == plan_.derive) return Status(Code::Usage, "'{}' derives the constants of the others, and is not run by itself", f.name);
  MLC_RETURN_IF_ERROR(check_arguments(f, inputs));
  if (outputs.size() > f.outputs.size())
    return Status(Code::Usage, "{} outputs given, '{}' has {}", outputs.size(), f.name, f.outputs.size());
  if (f.is_program()) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::string what = complaint_about_list(f.inputs[i], f.inputs[i].list_depth, inputs[i]);
      if (!what.empty()) return Status(Code::InputMismatch, 4001, "input '{}' {}", f.inputs[i].name, what);
    }
    return programs_->run(function, inputs, outputs);
  }
  MLC_ASSIGN(Binding * binding, bind(function, inputs));
  return run_segment(function, *binding, inputs, outputs);
}

Status Executor::run_segment(uint32_t function, Binding& bound, std::span<const InputArg> inputs,
                             std::span<OutputArg> outputs, bool values) {
  const Function& f = plan_.functions[function];
  FunctionState& state = functions_[function];
  Binding* const binding = &bound;

  // Memory of the interface: the caller's where it fits, ours where it does not.
  if (state.input_copies.empty()) state.input_copies.resize(f.inputs.size());
  if (state.output_blocks.empty()) state.output_blocks.resize(f.outputs.size());
  state.input_pointers.resize(f.inputs.size());
  state.output_pointers.resize(f.outputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const uint64_t bytes = binding->input_bytes[i];
    state.input_pointers[i] = const_cast<void*>(inputs[i].data);
    if (values || may_lend(inputs[i].data, bytes)) continue;
    MLC_RETURN_IF_ERROR(grow(state.input_copies[i], bytes, "copy of an input"));
    expose(state.input_copies[i].data(), bytes, state.input_copies[i].size());
    if (bytes) std::memcpy(state.input_copies[i].data(), inputs[i].data, bytes);
    clear_line_behind(state.input_copies[i].data(), bytes);  // an earlier input may have been longer
    state.input_pointers[i] = state.input_copies[i].data();
  }
  for (size_t i = 0; i < f.outputs.size(); ++i) {
    const uint64_t bytes = binding->output_bytes[i];
    const bool given = i < outputs.size() && outputs[i].data;
    if (given && outputs[i].capacity < bytes)
      return Status(Code::InputMismatch, 4004, "output '{}' takes {} bytes, {} are given", f.outputs[i].name,
                    bytes, outputs[i].capacity);
    if (given && (values || may_lend(outputs[i].data, bytes))) {
      state.output_pointers[i] = outputs[i].data;
      if (!values && limits_.confine_loads && bytes > 0) std::memset(outputs[i].data, 0, bytes);
      continue;
    }
    MLC_RETURN_IF_ERROR(grow(state.output_blocks[i], bytes, "output"));
    expose(state.output_blocks[i].data(), bytes, state.output_blocks[i].size());
    state.output_pointers[i] = state.output_blocks[i].data();
  }
  if (binding->generation != generation_) {  // a copy or an output moved; the arena did not, but the rule is one
    place(f, *binding, arena_.data(), states_, state.constants);
    binding->generation = generation_;
  }
  expose_buffers(f, *binding, arena_);
  for (const Binding::Patch& p : binding->input_patches) binding->pointers[p.operand] = state.input_pointers[p.port];
  for (const Binding::Patch& p : binding->output_patches) binding->pointers[p.operand] = state.output_pointers[p.port];
  if (profiling_) MLC_RETURN_IF_ERROR(state.profile.begin(f, team_.workers(), *budget_));

  // What one worker does alone needs no others to wake up.
  Run run{*this, f, *binding, state, binding->shares == 1 ? 1 : team_.workers()};
  if (run.workers == 1) {
    work(&run, 0);
  } else {
    MLC_RETURN_IF_ERROR(gather());
    team_.run(&Executor::work, &run);
  }
  MLC_RETURN_IF_ERROR(why_stopped());
  if (const int32_t fault = run.fault.load(); fault != 0) {
    const Instr& at = f.body[run.fault_at.load()];
    return fault_status(fault, at, limits_.broken_code);
  }
  if (profiling_) state.profile.end(f, *binding, run.workers);
  for (size_t i = 0; i < outputs.size(); ++i) {
    OutputArg& out = outputs[i];
    if (!out.data) out.data = state.output_pointers[i], out.capacity = binding->output_bytes[i];
    else if (out.data != state.output_pointers[i] && binding->output_bytes[i])
      std::memcpy(out.data, state.output_pointers[i], binding->output_bytes[i]);
    out.dtype = f.outputs[i].dtype;
    out.shape = binding->output_shapes[i];
    out.bytes = binding->output_bytes[i];
  }
  return ok();
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
  MLC_RETURN_IF_ERROR(Charge::take(*budget_, "sizes and operands for these shapes", binding_bytes(f), binding.charge));
  MLC_RETURN_IF_ERROR(fill_binding(function, inputs, binding));
  shapes = std::move(binding.output_shapes);
  return ok();
}

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

std::optional<Executor::ProfileEntry> Executor::profile(uint32_t function, uint64_t index) const {
  const auto found = find_profiled(function, index);
  return found ? std::optional(found->profile.entry(found->function, found->index)) : std::nullopt;
}

std::optional<Executor::Moments> Executor::moments(uint32_t function, uint64_t index, unsigned worker) const {
  const auto found = worker < team_.workers() ? find_profiled(function, index) : std::nullopt;
  return found ? std::optional(found->profile.moments(found->index, worker)) : std::nullopt;
}

}  // namespace mlc::exec
