#include "loaders/cuda/recorder.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"

namespace mlc::cuda {
namespace {

// Fewer are enqueued one by one: starting a graph costs as much.
constexpr size_t kLeastOfGraph = 3;

DevicePtr address_of(const device::Range& r) { return static_cast<const CudaMemory&>(*r.memory).address(r.offset); }

}  // namespace

device::Fault CudaRecording::fault() const {
  return faults_ ? device::fault_in(faults_seen_->data()) : device::Fault();
}

Status CudaRecording::launch(const Dispatch& d, Handle stream) const {
  const gpu::Entry& e = *d.kernel.entry;
  std::vector<void*> parameters(d.num_arguments);
  for (size_t k = 0; k < d.num_arguments; ++k) parameters[k] = const_cast<uint64_t*>(&arguments_[d.first + k]);
  const uint32_t columns = std::min(d.tiles, gpu::kGridColumns), rows = (d.tiles - 1) / gpu::kGridColumns + 1;
  return context_.check(context_.call().LaunchKernel(d.kernel.function, columns, rows, 1, e.lanes[0], 1, 1, e.dynamic_shared_bytes, stream, parameters.data(), nullptr),
                        "cuLaunchKernel");
}

Status CudaRecording::play(Handle stream) const {
  const Library& call = context_.call();
  if (faults_) MLC_RETURN_IF_ERROR(context_.check(call.MemsetD8Async(faults_->address(0), 0, 8, stream), "cuMemsetD8Async"));
  for (const auto& c : commands_) {
    if (const auto* d = std::get_if<Dispatch>(&c)) {
      if (Status s = launch(*d, stream); !s.ok()) return std::move(s).note("kernel '{}'", d->kernel.entry->name);
    } else if (const auto* copy = std::get_if<Copy>(&c)) {
      MLC_RETURN_IF_ERROR(context_.check(call.MemcpyAsync(copy->to, copy->from, copy->bytes, stream), "cuMemcpyAsync"));
    } else if (const auto* clear = std::get_if<Clear>(&c)) {
      MLC_RETURN_IF_ERROR(context_.check(call.MemsetD8Async(clear->to, 0, clear->bytes, stream), "cuMemsetD8Async"));
    }
  }
  if (!faults_) return ok();
  return context_.check(call.MemcpyAsync(faults_seen_->address(0), faults_->address(0), 8, stream), "cuMemcpyAsync");
}

// The first time it is played: many bindings run once, and drivers load code when it is first launched, which no capture allows.
Status CudaRecording::submit(Handle stream) {
  if (graph_.exists()) return graph_.launch(stream);
  if (!std::exchange(was_played_, true) || stays_plain_) return play(stream);
  stays_plain_ = !context_.call().has_graphs() || commands_.size() < kLeastOfGraph;
  if (stays_plain_) return play(stream);
  Status started = graph_.capture(stream, [&] { return play(stream); });
  if (started.ok()) started = graph_.launch(stream);
  if (started.ok()) return started;
  MLC_RETURN_IF_ERROR(context_.alive());
  context_.remark("runs are enqueued command by command, since there is no graph of them: " + started.message);
  stays_plain_ = true;
  graph_.reset();
  return play(stream);  // nothing of the graph was started
}

Status CudaRecorder::check_range(const device::Range& r) const {
  if (!r.memory || !range_within(r.offset, r.length, r.memory->size())) return Status(Code::Internal, "a buffer beyond its memory");
  const uint64_t alignment = context_.physical().limits.buffer_alignment;
  if (r.offset % alignment != 0) return Status(Code::Unsupported, "a buffer that begins at {}, multiples of {} are expected", r.offset, alignment);
  return ok();
}

Status CudaRecorder::launch(const device::Module& module, const device::Launch& l) {
  MLC_ASSIGN(const Kernel kernel, static_cast<const CudaModule&>(module).kernel(l.kernel));
  const gpu::Entry& e = *kernel.entry;
  MLC_RETURN_IF_ERROR(device::check_launch(e, l, context_.physical().rows, context_.physical().info));
  for (const device::Range& r : l.buffers)
    if (Status s = check_range(r); !s.ok()) return std::move(s).note("kernel '{}'", e.name);
  if (l.tiles == 0) return ok();
  if (e.may_fault && !out_->faults_) {
    MLC_ASSIGN(out_->faults_, CudaMemory::allocate(context_, 8, device::MemoryKind::Local));
    MLC_ASSIGN(out_->faults_seen_, CudaMemory::allocate(context_, 8, device::MemoryKind::Readback));
  }
  std::vector<uint64_t>& arguments = out_->arguments_;
  CudaRecording::Dispatch d{kernel, l.tiles, arguments.size(), 0};
  for (const device::Range& r : l.buffers) arguments.push_back(address_of(r));
  arguments.push_back(l.tiles);  // of four bytes, which stand first in memory
  arguments.push_back(l.number);
  for (const int64_t s : l.scalars) arguments.push_back(static_cast<uint64_t>(s));
  if (e.may_fault) arguments.push_back(out_->faults_->address(0));
  d.num_arguments = arguments.size() - d.first;
  out_->commands_.push_back(d);
  return ok();
}

void CudaRecorder::copy(const device::Range& to, const device::Range& from) {
  if (!device::is_no_copy(to, from)) out_->commands_.push_back(CudaRecording::Copy{address_of(to), address_of(from), to.length});
}

void CudaRecorder::clear(const device::Range& range) {
  if (range.length > 0) out_->commands_.push_back(CudaRecording::Clear{address_of(range), range.length});
}

Result<std::unique_ptr<device::Recording>> CudaRecorder::finish() {
  MLC_RETURN_IF_ERROR(context_.alive());
  return std::unique_ptr<device::Recording>(std::move(out_));
}

}  // namespace mlc::cuda
