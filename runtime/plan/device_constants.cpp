#include "runtime/plan/device_constants.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"

namespace mlc::exec {
namespace {

constexpr uint64_t kStagingBytes = 16 << 20, kBlockBytes = uint64_t{256} << 20;
constexpr uint64_t kUploadNs = 60'000'000'000;

uint64_t padded(uint64_t bytes) { return checked_align(std::max<uint64_t>(bytes, 1), 256).value_or(UINT64_MAX); }

}  // namespace

Status wait_for(device::Device& device, device::Queue& queue, uint64_t deadline_ns) {
  MLC_ASSIGN(const bool done, queue.wait(deadline_ns));
  if (done) return ok();
  const std::string why = compose("nothing came back within {} s", deadline_ns / 1'000'000'000);
  device.give_up(why);
  return Status(Code::Resource, "the device is lost to this process: {}", why).fact("device: {}", device.info().title);
}

Status DeviceConstants::acquire(std::span<Wanted> wanted, const Constants& constants, WorkMeter& meter) {
  const std::lock_guard lock(mu_);
  std::vector<Wanted*> missing;
  for (Wanted& w : wanted) {
    const auto found = found_.find({w.tensor, w.copy});
    if (found == found_.end()) missing.push_back(&w);
    else w.at = found->second;
  }
  // Many in a block: a device has few allocations.
  for (size_t first = 0; first < missing.size();) {
    size_t last = first;
    uint64_t bytes = 0;
    for (; last < missing.size(); ++last) {
      const auto all = checked_add(bytes, padded(missing[last]->bytes));
      if (last > first && (!all || *all > std::min(kBlockBytes, device_.limits().allocation_bytes))) break;
      bytes = all.value_or(UINT64_MAX);
    }
    auto block = device_.allocate(bytes, device::MemoryKind::Local);
    if (!block.ok()) return std::move(block).status().note("constants");
    uint64_t at = 0;
    for (; first < last; ++first) {
      Wanted& w = *missing[first];
      w.at = {block->get(), at, w.bytes};
      at += padded(w.bytes);
      MLC_ASSIGN(const std::byte* from, constants.acquire(w.tensor, w.copy));
      MLC_RETURN_IF_ERROR(upload(w.at, from, meter));
    }
    blocks_.push_back(std::move(*block));
    for (Wanted* w : missing)
      if (w->at.memory == blocks_.back().get()) found_[{w->tensor, w->copy}] = w->at;
  }
  return ok();
}

Status DeviceConstants::upload(const device::Range& to, const std::byte* from, WorkMeter& meter) {
  if (!staging_) {
    MLC_ASSIGN(staging_, device_.allocate(std::min(kStagingBytes, device_.limits().allocation_bytes), device::MemoryKind::Staging));
    MLC_ASSIGN(queue_, device_.make_queue());
  }
  for (uint64_t at = 0; at < to.length;) {
    if (!meter.poll()) return Status(Code::Cancelled, "stopped while constants were copied to a device");
    const uint64_t piece = std::min(staging_->size(), to.length - at);
    std::memcpy(staging_->data(), from + at, piece);
    MLC_ASSIGN(auto recorder, device_.make_recorder());
    recorder->copy({to.memory, to.offset + at, piece}, {staging_.get(), 0, piece});
    MLC_ASSIGN(auto recording, recorder->finish());
    MLC_RETURN_IF_ERROR(queue_->submit(*recording));
    MLC_RETURN_IF_ERROR(wait_for(device_, *queue_, kUploadNs));
    at += piece;
  }
  return ok();
}

}  // namespace mlc::exec
