// Bindings: made for a set of shapes, and kept. And the derived constants that runs of them read.
#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "runtime/plan/execute/binding.h"
#include "runtime/plan/execute/segment_runner.h"
#include "schema/plan/shape_program.h"

namespace mlc::exec {
namespace {

constexpr size_t kMaxBindings = 16;  // sets of input shapes kept per function

bool same_key(const std::vector<int64_t>& key, std::span<const InputArg> inputs, std::span<const int64_t> elements) {
  size_t at = 0;
  for (const InputArg& in : inputs)
    for (int64_t extent : in.shape)
      if (key[at++] != extent) return false;  // ranks are fixed per function: the lengths agree
  return std::equal(elements.begin(), elements.end(), key.begin() + static_cast<ptrdiff_t>(at));
}

}  // namespace

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
  const uint64_t turns = std::min<uint64_t>(kMostBoundTurns, memory_.budget.available() / kStepBytes);
  MLC_RETURN_IF_ERROR(resolve(f, runner_->traits.workers, static_cast<uint32_t>(turns), out));
  if (out.steps.size() > f.body.size())
    MLC_RETURN_IF_ERROR(Charge::take(memory_.budget, "turns for these shapes", (out.steps.size() - f.body.size()) * kStepBytes, out.turns_charge));
  for (BoundInstr& s : out.steps) {
    if (s.op != InstrOp::Launch) continue;
    const auto all = checked_add(s.scratch_bytes, runner_->scratch_bytes(s.kernel));
    if (!all) return Status(Code::Resource, "function '{}' wants more scratch memory than there is", f.name);
    s.scratch_bytes = *all;
    out.scratch_bytes = std::max(out.scratch_bytes, *all);
  }
  return ok();
}

// An empty binding: a new one, or the function's oldest where there are enough of them or the budget has no room for more.
Status Executor::room_for_binding(uint32_t function, std::unique_ptr<Binding>& out) {
  auto& bindings = functions_[function].bindings;
  const uint64_t bytes = binding_bytes(plan_.functions[function]);
  memory_.make_room(bytes);
  if (bindings.size() == kMaxBindings || (!bindings.empty() && bytes > memory_.budget.available())) {
    out = std::move(bindings.front());
    bindings.erase(bindings.begin());
    out->clear();
    return ok();
  }
  Charge charge;
  MLC_RETURN_IF_ERROR(Charge::take(memory_.budget, "sizes and operands for these shapes", bytes, charge));
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
  if (!state.has_derived && function != plan_.derive) {
    if (std::any_of(f.buffers.begin(), f.buffers.end(), is_derived)) MLC_RETURN_IF_ERROR(derive_constants());
    state.has_derived = true;
  }
  for (const Binding::StateUse& use : binding->states) {
    const uint64_t bytes = state_bytes(use.state);
    if (bytes != 0 && bytes != use.bytes)
      return Status(Code::InputMismatch, "state {} has {} bytes, these shapes need {}", use.state, bytes, use.bytes);
  }
  return binding;
}

Status Executor::derive_constants() {
  if (is_derived_) return ok();
  Status status = runner_->derive(meter_, &Executor::compute_derived, this);
  if (status.ok()) status = why_stopped();
  is_derived_ = status.ok();
  return status;
}

Status Executor::compute_derived(void* executor) {
  Executor& self = *static_cast<Executor*>(executor);
  const uint32_t function = self.plan_.derive;
  const bool profiling = std::exchange(self.profiling_, false);  // of runs, which this is none of
  auto binding = self.bind(function, {});
  Status status = binding.ok() ? self.run_segment(function, **binding, {}, {}) : std::move(binding).status();
  self.profiling_ = profiling;
  self.functions_[function].bindings.clear();  // it will not run again, or with other blocks
  return status.ok() ? ok() : std::move(status).note("deriving constants");
}

}  // namespace mlc::exec
