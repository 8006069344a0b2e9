// What devices of all driver interfaces have in common, for loaders/<api>. `Api` names an interface's types: Context, Library, Physical,
// Memory, Module, Queue and Recorder, its `physical_devices(library)`, and `kName`, as people call it.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/device.h"
#include "schema/gpu_module.h"

namespace mlc::device {

// Whether a kernel that has this entry may be launched so. Beyond 64 buffers the entry does not say which are written: all may be.
inline Status check_form(const gpu::Entry& e, const LaunchForm& form) {
  if (form.writable.size() != e.num_buffers)
    return Status(Code::Malformed, "'{}' launched with {} buffers, expected {}", e.name, form.writable.size(), e.num_buffers);
  if (form.num_scalars != e.num_scalars)
    return Status(Code::Malformed, "'{}' launched with {} scalars, expected {}", e.name, form.num_scalars, e.num_scalars);
  for (uint32_t k = 0; k < form.writable.size(); ++k)
    if ((k >= 64 || (e.written >> k & 1) != 0) && !form.writable[k]) return Status(Code::Malformed, "'{}' stores to buffer {}, which is read-only", e.name, k);
  return ok();
}

// Whether a kernel that has this entry may be launched so on a device whose grids have so many rows. What a launch reads and writes is
// not looked at.
inline Status check_launch(const gpu::Entry& e, const Launch& l, uint32_t rows, const Info& info) {
  if (l.buffers.size() != e.num_buffers || l.scalars.size() != e.num_scalars) return Status(Code::Internal, "'{}' launched in another form", e.name);
  for (size_t k = 0; k < l.scalars.size() && k < 64; ++k)
    if ((e.narrow >> k & 1) && l.scalars[k] != static_cast<int32_t>(l.scalars[k]))
      return Status(Code::Unsupported, "kernel '{}': scalar {} is {}, which does not fit in 32 bits", e.name, k, l.scalars[k]);
  const uint64_t lanes = uint64_t{l.tiles} * e.lanes[0] * e.lanes[1] * e.lanes[2];  // below 2^42
  if (e.has_few_lanes && lanes > gpu::kFewLanes)
    return Status(Code::Unsupported, "kernel '{}': {} lanes, their numbers do not fit in 32 bits", e.name, lanes);
  if ((uint64_t{l.tiles} + gpu::kGridColumns - 1) / gpu::kGridColumns > rows)
    return Status(Code::Unsupported, "kernel '{}': {} tiles, {} takes {} rows of them", e.name, l.tiles, info.title, rows);
  return ok();
}

// Nothing is to be copied.
inline bool is_no_copy(const Range& to, const Range& from) {
  return to.length == 0 || (to.memory == from.memory && to.offset == from.offset);
}

// What kernels wrote to the fault buffer.
inline Fault fault_in(const std::byte* words) {
  Fault out;
  std::memcpy(&out.code, words, 4);
  std::memcpy(&out.launch, words + 4, 4);
  return out;
}

// A UUID as Info::identity has it.
inline std::string identity_of(std::span<const uint8_t, 16> uuid) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (const uint8_t b : uuid) out += {kHex[b >> 4], kHex[b & 15]};
  return out;
}

// Whether a device answers this process, what of its own memory is in use, and what is to be said of it. `info` outlives it. Thread-safe.
class Life {
 public:
  explicit Life(const Info& info) : info_(info) {}

  // Why it is lost; OK if it is not.
  Status alive() const {
    const std::lock_guard lock(mu_);
    if (lost_.empty()) return ok();
    return Status(Code::Resource, "the device is lost to this process: {}", lost_).fact("device: {}", info_.title);
  }
  void give_up(std::string why) {
    const std::lock_guard lock(mu_);
    if (lost_.empty()) lost_ = std::move(why);
  }
  // Kept once each, and no more than a few.
  void remark(std::string line) {
    constexpr size_t kMostRemarks = 16;
    const std::lock_guard lock(mu_);
    if (remarks_.size() < kMostRemarks && std::find(remarks_.begin(), remarks_.end(), line) == remarks_.end()) remarks_.push_back(std::move(line));
  }
  std::vector<std::string> remarks() const {
    const std::lock_guard lock(mu_);
    return remarks_;
  }
  bool is_lost() const {
    const std::lock_guard lock(mu_);
    return !lost_.empty();
  }

  // So many bytes more may be asked for.
  Status reserve(uint64_t bytes) {
    const std::lock_guard lock(mu_);
    if (held_bytes_ > info_.memory_bytes || bytes > info_.memory_bytes - held_bytes_)
      return Status(Code::Resource, "{} bytes on {}, which has {} and of these {} in use", bytes, info_.title, info_.memory_bytes, held_bytes_);
    held_bytes_ += bytes;
    return ok();
  }
  void release(uint64_t bytes) {
    const std::lock_guard lock(mu_);
    held_bytes_ -= bytes;
  }

 private:
  const Info& info_;
  mutable std::mutex mu_;
  std::string lost_;         // guarded by mu_; empty: it is not
  std::vector<std::string> remarks_;  // guarded by mu_
  uint64_t held_bytes_ = 0;  // guarded by mu_
};

template <class Api>
class DeviceBy final : public Device {
 public:
  explicit DeviceBy(std::unique_ptr<typename Api::Context> context) : context_(std::move(context)) {}

  const Info& info() const override { return context_->physical().info; }
  const Limits& limits() const override { return context_->physical().limits; }

  Result<std::unique_ptr<Memory>> allocate(uint64_t bytes, MemoryKind kind) override {
    MLC_ASSIGN(auto memory, Api::Memory::allocate(*context_, bytes, kind));
    return std::unique_ptr<Memory>(std::move(memory));
  }

  Result<std::unique_ptr<Memory>> adopt(uint64_t address, uint64_t bytes) override {
    if constexpr (requires { Api::Memory::adopt(*context_, address, bytes); }) {
      MLC_ASSIGN(auto memory, Api::Memory::adopt(*context_, address, bytes));
      return std::unique_ptr<Memory>(std::move(memory));
    } else {
      return Device::adopt(address, bytes);
    }
  }
  uint64_t address_of(const Memory& memory) const override { return static_cast<const typename Api::Memory&>(memory).known_as(); }
  int32_t number() const override { return context_->physical().number; }
  Status settle() override {
    if constexpr (requires { context_->settle(); }) return context_->settle();
    else return ok();
  }

  Result<std::unique_ptr<Module>> load(Compatible, VerifiedBytes bytes) override {
    MLC_RETURN_IF_ERROR(context_->alive());
    auto decoded = gpu::decode(bytes.bytes());
    if (!decoded.ok()) return std::move(decoded).status().note(bytes.name());
    auto module = Api::Module::load(*context_, std::move(*decoded));
    if (!module.ok()) return std::move(module).status().note(bytes.name());
    return std::unique_ptr<Module>(std::move(*module));
  }

  Result<std::unique_ptr<Recorder>> make_recorder() override {
    MLC_RETURN_IF_ERROR(context_->alive());
    return std::unique_ptr<Recorder>(std::make_unique<typename Api::Recorder>(*context_));
  }

  Result<std::unique_ptr<Queue>> make_queue() override {
    MLC_ASSIGN(auto queue, Api::Queue::make(*context_));
    return std::unique_ptr<Queue>(std::move(queue));
  }

  void give_up(std::string why) override { context_->give_up(std::move(why)); }
  std::vector<std::string> remarks() const override { return context_->remarks(); }

 private:
  const std::unique_ptr<typename Api::Context> context_;
};

template <class Api>
Result<std::vector<Info>> list_devices_by() {
  MLC_ASSIGN(const auto* library, Api::Library::open());
  MLC_ASSIGN(auto found, Api::physical_devices(*library));
  std::vector<Info> out;
  for (auto& physical : found) out.push_back(std::move(physical.info));
  return out;
}

// Opened once for the process and kept: at its end drivers have threads of their own.
template <class Api>
Result<Device*> open_device_by(std::string_view identity) {
  static std::mutex mu;
  static auto& opened = *new std::map<std::string, std::unique_ptr<DeviceBy<Api>>, std::less<>>();
  const std::lock_guard lock(mu);
  if (const auto found = opened.find(identity); found != opened.end()) return found->second.get();
  MLC_ASSIGN(const auto* library, Api::Library::open());
  MLC_ASSIGN(auto all, Api::physical_devices(*library));
  for (auto& physical : all) {
    if (physical.info.identity != identity) continue;
    MLC_ASSIGN(auto context, Api::Context::open(*library, std::move(physical)));
    return opened.emplace(std::string(identity), std::make_unique<DeviceBy<Api>>(std::move(context))).first->second.get();
  }
  return Status(Code::NoVariant, "no device {} by {} any more", identity, Api::kName);
}

}  // namespace mlc::device
