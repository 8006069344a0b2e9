// Constants in memory of the host: those of the file, and those that the plan derives from them.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "runtime/plan/execute/worker_runner.h"

namespace mlc::exec {
namespace {

constexpr uint64_t kPieceBytes = 1u << 20;  // of a constant: what one worker prepares at a time

}  // namespace

// All constants of a function before its first run. Hashing them is the costly part: the workers take piece after piece,
// whatever tensor it belongs to, so that one large table keeps all of them busy as well as many small ones.
Status WorkerRunner::acquire_constants(const SegmentCall& call) {
  HostConstants& host = host_[call.number];
  if (host.are_ready) return ok();
  const Function& f = call.function;
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
  } work{f, constants_, call.meter, {}};
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
    MLC_RETURN_IF_ERROR(team_.gather(call.meter));
    team_.run(prepare, &work);
  } else {
    prepare(&work, 0);
  }
  if (!call.meter.poll()) return Status(Code::Cancelled, "stopped while constants were prepared");
  host.at.assign(f.buffers.size(), nullptr);
  for (uint32_t i = 0; i < f.buffers.size(); ++i) {
    if (f.buffers[i].kind == BufferKind::Derived) host.at[i] = derived_->blocks[f.buffers[i].index].data();
    if (f.buffers[i].kind != BufferKind::Constant) continue;
    MLC_ASSIGN(host.at[i], constants_.acquire(f.buffers[i].index, f.buffers[i].copy));
  }
  host.are_ready = true;
  return ok();
}

Status WorkerRunner::derive(WorkMeter& meter, Compute compute, void* executor) {
  if (is_derived_) return ok();
  uint64_t bytes = 0;
  for (const uint64_t each : plan_.derived) bytes += each;  // decode_plan limits the sum
  memory_.make_room(bytes);
  Charge charge;
  MLC_RETURN_IF_ERROR(Charge::take(memory_.budget, "derived constants", bytes, charge));
  // Another session may be at it: a run that waits for it can still be cancelled.
  while (!derived_->mu.try_lock_for(std::chrono::milliseconds(10)))
    if (!meter.poll()) return ok();
  const std::lock_guard lock(derived_->mu, std::adopt_lock);
  if (!derived_->is_ready) {
    Status status = allocate_derived();
    if (status.ok()) status = compute(executor);
    if (!status.ok()) {
      derived_->blocks.clear();
      host_[plan_.derive] = {};  // which points into these
      return status;
    }
    derived_->is_ready = true;
  }
  derived_charge_ = std::move(charge);
  is_derived_ = true;
  return ok();
}

// Under the lock of `derived_`.
Status WorkerRunner::allocate_derived() {
  for (const uint64_t bytes : plan_.derived) {
    auto block = AlignedBlock::allocate(bytes, derived_->allocator);
    if (!block) return std::move(block).status().note("derived constants").note("deriving constants");
    derived_->blocks.push_back(std::move(*block));
  }
  return ok();
}

}  // namespace mlc::exec
