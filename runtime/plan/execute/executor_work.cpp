// What the threads of a run do.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/compose.h"
#include "base/system/clock.h"
#include "runtime/memory/poison.h"
#include "runtime/plan/execute/binding.h"
#include "runtime/plan/execute/ranges.h"
#include "runtime/plan/execute/segment_runner.h"

namespace mlc::exec {
namespace {

const char* fault_text(int32_t fault) {
  switch (fault) {
    case MLRUN_FAULT_INDEX: return "an index lies outside its array";
    case MLRUN_FAULT_DIVISION: return "integer division by zero";
    case MLRUN_FAULT_BOUND: return "a loop exceeded its bound";
    case MLRUN_FAULT_BAD_CODE: return "the code breaks its own rules";
    case MLRUN_FAULT_VECTORS: return "the vector registers of this thread are shorter than the variant wants (PR_SVE_SET_VL)";
    default: return "unknown fault";
  }
}

// [begin, end) of worker w's equal share of n, of which the first `shares` workers have one.
std::pair<uint64_t, uint64_t> share_of(uint64_t n, unsigned w, unsigned shares) {
  if (w >= shares) return {n, n};
  const uint64_t each = n / shares, rest = n % shares;
  const uint64_t begin = w * each + std::min<uint64_t>(w, rest);
  return {begin, begin + each + (w < rest ? 1 : 0)};
}

}  // namespace

// An index or a divisor may come from the values of the inputs, the length of vectors from the thread; the rest is up to the code.
Status fault_status(int32_t fault, const Function& function, uint32_t instr, Code broken_code) {
  const Instr& at = function.body[instr];
  const bool of_values = fault == MLRUN_FAULT_INDEX || fault == MLRUN_FAULT_DIVISION;
  const Code code = of_values ? Code::InputMismatch : fault == MLRUN_FAULT_VECTORS ? Code::NoVariant : broken_code;
  Status s(code, of_values ? 4005 : 0, "kernel {}{} failed: {} (fault {})", at.kernel,
           at.name.empty() ? "" : " (" + at.name + ")", fault_text(fault), fault);
  if (fault == MLRUN_FAULT_INDEX)
    for (const Port& port : function.inputs)
      if (is_int(port.dtype) && std::find(at.buffers.begin(), at.buffers.end(), port.buffer) != at.buffers.end())
        s.facts.push_back(compose("it reads input '{}' ({}), whose numbers may be the indices", port.name, name_of(port.dtype)));
  if (of_values) s.facts.push_back("the values of the inputs do not fit the model, or the model's code is wrong");
  return s;
}

// What all threads of one run share.
struct Executor::Run {
  Executor& executor;
  const Function& function;
  Binding& binding;
  FunctionState& state;
  unsigned workers;
  alignas(64) std::atomic<int32_t> fault{0};  // of the first kernel that failed
  std::atomic<uint32_t> fault_at{0};

  bool stopped() { return fault.load(std::memory_order_relaxed) != 0 || !executor.meter_.poll(); }
  void fail(int32_t code, uint32_t instr) {
    int32_t none = 0;
    if (fault.compare_exchange_strong(none, code)) fault_at.store(instr);
  }
  // The part that a range has of an instruction, on the thread of this number. False: the run ends.
  bool execute(uint32_t range, uint32_t step, unsigned thread);
  // Every part of every instruction, on the thread of the caller.
  void alone();
  void launch(const BoundInstr& s, const Turn& turn, uint32_t range, const MlrunLaunch& launch);
  void copy(const Turn& turn, uint32_t range, const MlrunLaunch& launch);
};

bool Executor::Run::execute(uint32_t range, uint32_t step, unsigned thread) {
  if (stopped()) return false;
  const BoundInstr& s = binding.steps[step];
  Moments* const moments = executor.profiling_ ? state.profile.of(range) + s.instr : nullptr;
  if (moments && s.first_tile == 0) moments->begin = now_ns();
  const MlrunLaunch arguments{binding.pointers.data() + s.operands, binding.lengths.data() + s.operands, binding.scalars.data() + s.scalars,
                              executor.scratch_[thread].data(), thread, workers};
  if (s.op == InstrOp::Launch) launch(s, binding.turns[step], range, arguments);
  else if (s.op == InstrOp::Copy) copy(binding.turns[step], range, arguments);
  if (moments) moments->done = now_ns();
  return true;
}

void Executor::Run::alone() {
  for (uint32_t step = 0; step < binding.steps.size(); ++step)
    for (uint32_t range = 0; range < binding.turns[step].shares; ++range)
      if (!execute(range, step, 0)) return;
}

// The tiles of a range.
void Executor::Run::launch(const BoundInstr& s, const Turn& turn, uint32_t range, const MlrunLaunch& launch) {
  const auto [begin, end] = share_of(s.tiles, range, turn.shares);
  if (begin >= end) return;
  if constexpr (kAddressSanitizer) {
    const AlignedBlock& scratch = executor.scratch_[launch.worker];
    expose(scratch.data(), s.scratch_bytes, scratch.size());
  }
  const int32_t answer = executor.module_->run(s.kernel, launch, s.first_tile + static_cast<uint32_t>(begin), s.first_tile + static_cast<uint32_t>(end),
                                               executor.meter_);
  if (answer != MLRUN_FAULT_NONE && answer != kRunStopped) fail(answer, s.instr);
}

// A range's part of a copy: whole cache lines, so that no line is written by two.
void Executor::Run::copy(const Turn& turn, uint32_t range, const MlrunLaunch& launch) {
  const uint64_t length = launch.lengths[0];
  auto [begin, end] = share_of((length + 63) / 64, range, turn.shares);
  begin *= 64, end = std::min(end * 64, length);
  auto* to = static_cast<std::byte*>(launch.buffers[0]);
  while (begin < end) {
    const uint64_t piece = std::min(end - begin, kMovedPiece);
    if (!executor.meter_.take(units_of(piece))) return;
    std::memmove(to + begin, static_cast<const std::byte*>(launch.buffers[1]) + begin, piece);
    begin += piece;
  }
}

void Executor::work(void* context, unsigned worker) {
  Run& run = *static_cast<Run*>(context);
  Ranges& ranges = run.executor.ranges_;
  Ranges::Thread thread{.own = worker};
  ranges.come(thread);
  while (ranges.next(thread))
    if (!run.execute(thread.range, thread.step, worker)) ranges.halt();
}

SegmentCall Executor::call_of(uint32_t function, Binding& binding) {
  FunctionState& state = functions_[function];
  return {function, plan_.functions[function], binding, state.input_pointers, state.output_pointers, state.inputs, state.outputs, states_,
          limits_.broken_code, meter_, profiling_ ? state.profile.of(0) : nullptr};
}

Status Executor::execute_on_device(uint32_t function, Binding& binding) {
  if (profiling_) MLC_RETURN_IF_ERROR(functions_[function].profile.begin(plan_.functions[function], team_.workers(), *budget_));
  Status status = runner_->run(call_of(function, binding));
  MLC_RETURN_IF_ERROR(why_stopped());
  MLC_RETURN_IF_ERROR(status);
  for (const auto& use : binding.states) release(states_[use.state]);  // the runner's are newer
  if (profiling_) functions_[function].profile.end(plan_.functions[function], binding, 1);
  return ok();
}

Status Executor::execute(uint32_t function, Binding& binding) {
  if (runner_) return execute_on_device(function, binding);
  const Function& f = plan_.functions[function];
  FunctionState& state = functions_[function];
  if (profiling_) MLC_RETURN_IF_ERROR(state.profile.begin(f, team_.workers(), *budget_));
  Run run{*this, f, binding, state, team_.workers()};
  if (order_) {
    ranges_.start(binding.turns, team_.crowd());
    ranges_.in_order(order_, [&](uint32_t range, uint32_t step) { return run.execute(range, step, 0); });
  } else if (binding.shares == 1) {  // what one worker does alone needs no others to wake up
    run.workers = 1;
    run.alone();
  } else {
    const uint64_t begin = now_ns();
    if (binding.pace.is_alone() && !profiling_) {
      run.alone();
    } else {
      MLC_RETURN_IF_ERROR(gather());
      ranges_.start(binding.turns, team_.crowd(), &team_);
      team_.offer(&Executor::work, &run);
    }
    binding.pace.ran(begin, now_ns(), team_.pushed_off_ns());
  }
  MLC_RETURN_IF_ERROR(why_stopped());
  if (const int32_t fault = run.fault.load(); fault != 0) return fault_status(fault, f, run.fault_at.load(), limits_.broken_code);
  if (profiling_) state.profile.end(f, binding, run.workers);
  return ok();
}

}  // namespace mlc::exec
