#include "runtime/plan/device/device_constants.h"

#include <algorithm>

#include "base/checked.h"

namespace mlc::exec {
namespace {

constexpr uint64_t kBlockBytes = uint64_t{256} << 20;

uint64_t padded_constant(uint64_t bytes) { return checked_align(std::max<uint64_t>(bytes, 1), 256).value_or(UINT64_MAX); }

}  // namespace

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
      const auto all = checked_add(bytes, padded_constant(missing[last]->bytes));
      if (last > first && (!all || *all > std::min(kBlockBytes, link_.device().limits().allocation_bytes))) break;
      bytes = all.value_or(UINT64_MAX);
    }
    auto block = link_.device().allocate(bytes, device::MemoryKind::Local);
    if (!block.ok()) return std::move(block).status().note("constants");
    uint64_t at = 0;
    for (; first < last; ++first) {
      Wanted& w = *missing[first];
      w.at = {block->get(), at, w.bytes};
      at += padded_constant(w.bytes);
      MLC_ASSIGN(const std::byte* from, constants.acquire(w.tensor, w.copy));
      MLC_RETURN_IF_ERROR(link_.upload(w.at, from, &meter));
    }
    blocks_.push_back(std::move(*block));
    for (Wanted* w : missing)
      if (w->at.memory == blocks_.back().get()) found_[{w->tensor, w->copy}] = w->at;
  }
  return ok();
}

}  // namespace mlc::exec
