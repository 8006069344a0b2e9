#include "runtime/plan/execute/worker_runner.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/system/clock.h"
#include "runtime/memory/poison.h"

namespace mlc::exec {
namespace {

// [begin, end) of worker w's equal share of n, of which the first `shares` workers have one.
std::pair<uint64_t, uint64_t> share_of(uint64_t n, unsigned w, unsigned shares) {
  if (w >= shares) return {n, n};
  const uint64_t each = n / shares, rest = n % shares;
  const uint64_t begin = w * each + std::min<uint64_t>(w, rest);
  return {begin, begin + each + (w < rest ? 1 : 0)};
}

}  // namespace

WorkerRunner::WorkerRunner(const Plan& plan, const KernelModule& module, const Constants& constants, std::shared_ptr<DerivedConstants> derived,
                           Team& team, SessionMemory& memory)
    : SegmentRunner({.workers = team.workers(), .takes_any_memory = false, .keeps_states = false}), plan_(plan), module_(module),
      constants_(constants), derived_(std::move(derived)), team_(team), memory_(memory), ranges_(team.workers()),
      host_(new HostConstants[plan.functions.size()]) {
  scratch_.resize(team.workers());
}

// What all threads of one run share.
struct WorkerRunner::Run {
  WorkerRunner& runner;
  const SegmentCall& call;
  const Executor::Binding& binding;
  unsigned workers;
  alignas(64) std::atomic<int32_t> fault{0};  // of the first kernel that failed
  std::atomic<uint32_t> fault_at{0};

  bool stopped() { return fault.load(std::memory_order_relaxed) != 0 || !call.meter.poll(); }
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

bool WorkerRunner::Run::execute(uint32_t range, uint32_t step, unsigned thread) {
  if (stopped()) return false;
  const BoundInstr& s = binding.steps[step];
  Executor::Moments* const moments = call.moments ? call.moments + range * call.function.body.size() + s.instr : nullptr;
  if (moments && s.first_tile == 0) moments->begin = now_ns();
  const MlrunLaunch arguments{binding.pointers.data() + s.operands, binding.lengths.data() + s.operands, binding.scalars.data() + s.scalars,
                              runner.scratch_[thread].data(), thread, workers};
  if (s.op == InstrOp::Launch) launch(s, binding.turns[step], range, arguments);
  else if (s.op == InstrOp::Copy) copy(binding.turns[step], range, arguments);
  if (moments) moments->done = now_ns();
  return true;
}

void WorkerRunner::Run::alone() {
  for (uint32_t step = 0; step < binding.steps.size(); ++step)
    for (uint32_t range = 0; range < binding.turns[step].shares; ++range)
      if (!execute(range, step, 0)) return;
}

// The tiles of a range.
void WorkerRunner::Run::launch(const BoundInstr& s, const Turn& turn, uint32_t range, const MlrunLaunch& launch) {
  const auto [begin, end] = share_of(s.tiles, range, turn.shares);
  if (begin >= end) return;
  if constexpr (kAddressSanitizer) {
    const AlignedBlock& scratch = runner.scratch_[launch.worker];
    expose(scratch.data(), s.scratch_bytes, scratch.size());
  }
  const int32_t answer = runner.module_.run(s.kernel, launch, s.first_tile + static_cast<uint32_t>(begin), s.first_tile + static_cast<uint32_t>(end),
                                            call.meter);
  if (answer != MLRUN_FAULT_NONE && answer != kRunStopped) fail(answer, s.instr);
}

// A range's part of a copy: whole cache lines, so that no line is written by two.
void WorkerRunner::Run::copy(const Turn& turn, uint32_t range, const MlrunLaunch& launch) {
  const uint64_t length = launch.lengths[0];
  auto [begin, end] = share_of((length + 63) / 64, range, turn.shares);
  begin *= 64, end = std::min(end * 64, length);
  auto* to = static_cast<std::byte*>(launch.buffers[0]);
  while (begin < end) {
    const uint64_t piece = std::min(end - begin, kMovedPiece);
    if (!call.meter.take(units_of(piece))) return;
    std::memmove(to + begin, static_cast<const std::byte*>(launch.buffers[1]) + begin, piece);
    begin += piece;
  }
}

void WorkerRunner::work(void* context, unsigned worker) {
  Run& run = *static_cast<Run*>(context);
  Ranges& ranges = run.runner.ranges_;
  Ranges::Thread thread{.own = worker};
  ranges.come(thread);
  while (ranges.next(thread))
    if (!run.execute(thread.range, thread.step, worker)) ranges.halt();
}

// What moves is placed anew.
Status WorkerRunner::place(const SegmentCall& call) {
  Executor::Binding& b = call.binding;
  MLC_RETURN_IF_ERROR(acquire_constants(call));
  MLC_RETURN_IF_ERROR(memory_.grow(arena_, b.arena_bytes, "arena"));
  if (b.scratch_bytes > 0)
    for (AlignedBlock& s : scratch_) MLC_RETURN_IF_ERROR(memory_.grow(s, b.scratch_bytes, "scratch"));
  for (const auto& use : b.states) MLC_RETURN_IF_ERROR(memory_.grow(call.states[use.state], use.bytes, "state"));
  if (b.generation != memory_.generation()) {
    exec::place(call.function, b, arena_.data(), call.states, host_[call.number].at);
    b.generation = memory_.generation();
  }
  expose_buffers(call.function, b, arena_);
  for (const auto& p : b.input_patches) b.pointers[p.operand] = call.inputs[p.port];
  for (const auto& p : b.output_patches) b.pointers[p.operand] = static_cast<std::byte*>(call.outputs[p.port]) + p.offset;
  return ok();
}

Status WorkerRunner::run(const SegmentCall& call) {
  MLC_RETURN_IF_ERROR(place(call));
  Executor::Binding& binding = call.binding;
  Run run{*this, call, binding, team_.workers()};
  if (call.order) {
    ranges_.start(binding.turns, team_.crowd());
    ranges_.in_order(*call.order, [&](uint32_t range, uint32_t step) { return run.execute(range, step, 0); });
  } else if (binding.shares == 1) {  // what one worker does alone needs no others to wake up
    run.workers = 1;
    run.alone();
  } else {
    const uint64_t begin = now_ns();
    if (binding.pace.is_alone() && !call.moments) {
      run.alone();
    } else {
      MLC_RETURN_IF_ERROR(team_.gather(call.meter));
      ranges_.start(binding.turns, team_.crowd(), &team_);
      team_.offer(&WorkerRunner::work, &run);
    }
    binding.pace.ran(begin, now_ns(), team_.pushed_off_ns());
  }
  const int32_t fault = run.fault.load();
  return fault == 0 ? ok() : fault_status(fault, call.function, run.fault_at.load(), call.broken_code);
}

}  // namespace mlc::exec
