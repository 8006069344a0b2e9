#include "runtime/plan/device/device_link.h"

#include <algorithm>
#include <cstring>

#include "base/compose.h"

namespace mlc::exec {
namespace {

constexpr uint64_t kPieceBytes = 16 << 20;
constexpr uint64_t kDeadlineNs = 60'000'000'000;

device::Range piece_of(const device::Range& all, uint64_t at, uint64_t bytes) { return {all.memory, all.offset + at, bytes}; }

}  // namespace

Status give_up(device::Device& device, uint64_t after_ns) {
  const std::string why = compose("nothing came back within {} s", after_ns / 1'000'000'000);
  device.give_up(why);
  return Status(Code::Resource, "the device is lost to this process: {}", why).fact("device: {}", device.info().title);
}

Status wait_for(device::Device& device, device::Queue& queue, uint64_t deadline_ns) {
  MLC_ASSIGN(const bool done, queue.wait(deadline_ns));
  return done ? ok() : give_up(device, deadline_ns);
}

Status DeviceLink::room(std::unique_ptr<device::Memory>& memory, device::MemoryKind kind) {
  if (memory) return ok();
  MLC_ASSIGN(memory, device_.allocate(std::min(kPieceBytes, device_.limits().allocation_bytes), kind));
  return ok();
}

template <class Record>
Status DeviceLink::begin(const Record& record) {
  MLC_RETURN_IF_ERROR(settle());
  if (!queue_) {
    MLC_ASSIGN(queue_, device_.make_queue());
  }
  MLC_ASSIGN(auto recorder, device_.make_recorder());
  record(*recorder);
  MLC_ASSIGN(under_way_, recorder->finish());
  const Status begun = queue_->submit(*under_way_);
  if (!begun.ok()) under_way_.reset();
  return begun;
}

Status DeviceLink::settle() {
  if (!under_way_) return ok();
  const Status done = wait_for(device_, *queue_, kDeadlineNs);
  under_way_.reset();
  return done;
}

template <class Record>
Status DeviceLink::submit(const Record& record) {
  MLC_RETURN_IF_ERROR(begin(record));
  return settle();
}

Status DeviceLink::upload(const device::Range& to, const std::byte* from, WorkMeter* meter) {
  const Status sent = send(to, from, meter);
  const Status settled = settle();
  return sent.ok() ? settled : sent;
}

// While the device takes one piece the host fills the other.
Status DeviceLink::send(const device::Range& to, const std::byte* from, WorkMeter* meter) {
  size_t turn = 0;
  for (uint64_t at = 0; at < to.length;) {
    if (meter && !meter->poll()) return Status(Code::Cancelled, "stopped while bytes were copied to a device");
    auto& staging = staging_[turn++ % staging_.size()];
    MLC_RETURN_IF_ERROR(room(staging, device::MemoryKind::Staging));
    const uint64_t piece = std::min(staging->size(), to.length - at);
    std::memcpy(staging->data(), from + at, piece);
    MLC_RETURN_IF_ERROR(begin([&](device::Recorder& r) { r.copy(piece_of(to, at, piece), {staging.get(), 0, piece}); }));
    at += piece;
  }
  return ok();
}

Status DeviceLink::download(std::byte* to, const device::Range& from) {
  MLC_RETURN_IF_ERROR(room(readback_, device::MemoryKind::Readback));
  for (uint64_t at = 0; at < from.length;) {
    const uint64_t piece = std::min(readback_->size(), from.length - at);
    MLC_RETURN_IF_ERROR(submit([&](device::Recorder& r) { r.copy({readback_.get(), 0, piece}, piece_of(from, at, piece)); }));
    std::memcpy(to + at, readback_->data(), piece);
    at += piece;
  }
  return ok();
}

Status DeviceLink::copy(const device::Range& to, const device::Range& from) {
  return submit([&](device::Recorder& r) { r.copy(to, from); });
}

Status DeviceLink::clear(const device::Range& range) {
  return submit([&](device::Recorder& r) { r.clear(range); });
}

}  // namespace mlc::exec
