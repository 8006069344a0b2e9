// Constants: those of the file, and those that the plan derives from them.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "runtime/plan/derived.h"
#include "runtime/plan/execute/binding.h"
#include "runtime/plan/execute/program.h"

namespace mlc::exec {
namespace {

constexpr uint64_t kPieceBytes = 1u << 20;  // of a constant: what one worker prepares at a time

}  // namespace

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
  if (runner_) {
    const bool profiling = std::exchange(profiling_, false);
    Status status = compute_derived();
    profiling_ = profiling;
    if (status.ok()) derived_charge_ = std::make_unique<Charge>();
    return status.ok() ? ok() : std::move(status).note("deriving constants");
  }
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
  for (size_t i = 0; !runner_ && i < plan_.derived.size(); ++i) {
    auto block = AlignedBlock::allocate(plan_.derived[i], derived_->allocator);
    if (!block) return std::move(block).status().note("derived constants");
    derived_->blocks.push_back(std::move(*block));
  }
  MLC_ASSIGN(Binding * binding, bind(plan_.derive, {}));
  MLC_RETURN_IF_ERROR(run_segment(plan_.derive, *binding, {}, {}));
  functions_[plan_.derive].bindings.clear();  // it will not run again
  return ok();
}

}  // namespace mlc::exec
