// A device of the tests: memory of this process, kernels that are functions, and a record of everything. It finds what is not
// ordered by a barrier, and fails where it is told to.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "runtime/device.h"

namespace mlc::test {

struct FakeDevice final : device::Device {
  // The buffers and scalars of a launch; the fault, 0 for none.
  using Kernel = std::function<uint32_t(std::span<const std::span<std::byte>>, std::span<const int64_t>)>;
  struct KernelRow {
    Kernel run;
    uint32_t buffers = 0, scalars = 0;
    uint64_t written = 0;
  };
  std::vector<KernelRow> kernels;

  device::Info told;
  device::Limits limit{256, uint64_t{1} << 32, uint64_t{1} << 32, 0};
  uint64_t fail_allocation = 0, fail_recording = 0, fail_submission = 0;  // the n-th from now on; 0: none
  uint64_t lose_at_wait = 0;                                              // likewise
  bool hangs = false, loses = false;
  std::string lost;
  uint64_t live_memory = 0, allocations = 0, recordings = 0, submissions = 0, launches = 0, barriers = 0;
  uint64_t uploaded = 0, downloaded = 0;  // bytes between its own memory and the host's
  std::vector<std::string> races;

  struct FakeMemory final : device::Memory {
    FakeMemory(FakeDevice& d, uint64_t bytes, device::MemoryKind kind) : device(d), storage((bytes + 255) / 256 * 256, std::byte{0xcd}) {
      size_ = storage.size();
      data_ = kind == device::MemoryKind::Local ? nullptr : storage.data();
      device.live_memory += size_;
    }
    ~FakeMemory() override { device.live_memory -= size_; }
    FakeDevice& device;
    std::vector<std::byte> storage;
  };
  static std::span<std::byte> bytes(const device::Range& r) {
    auto& storage = const_cast<FakeMemory&>(static_cast<const FakeMemory&>(*r.memory)).storage;
    return std::span(storage).subspan(r.offset, r.length);
  }

  struct FakeModule final : device::Module {
    explicit FakeModule(const FakeDevice& d) : device(d) {}
    uint32_t num_kernels() const override { return static_cast<uint32_t>(device.kernels.size()); }
    Status accepts(uint32_t kernel, const LaunchForm& form) const override {
      const KernelRow& k = device.kernels[kernel];
      return form.writable.size() == k.buffers && form.num_scalars == k.scalars ? ok() : Status(Code::Malformed, "another form");
    }
    const FakeDevice& device;
  };

  struct Access {
    device::Range range;
    bool writes;
  };
  struct Command {
    std::function<device::Fault()> run;
    std::vector<Access> accesses;
    bool is_barrier = false, is_launch = false;
  };
  struct FakeRecording final : device::Recording {
    std::vector<Command> commands;
    device::Fault first;
    device::Fault fault() const override { return first; }
  };

  struct FakeRecorder final : device::Recorder {
    explicit FakeRecorder(FakeDevice& d) : device(d), made(std::make_unique<FakeRecording>()) {}
    Status launch(const device::Module&, const device::Launch& l) override {
      const KernelRow& row = device.kernels[l.kernel];
      std::vector<std::span<std::byte>> buffers;
      Command c;
      for (size_t k = 0; k < l.buffers.size(); ++k) {
        const device::Range& r = l.buffers[k];
        if (!r.memory || r.offset + r.length > r.memory->size()) return Status(Code::Internal, "a buffer beyond its memory");
        if (r.length > device.limit.range_bytes) return Status(Code::Unsupported, "a buffer of {} bytes", r.length);
        buffers.push_back(bytes(r));
        c.accesses.push_back({r, (row.written >> k & 1) != 0});
      }
      if (l.tiles == 0) return ok();
      c.is_launch = true;
      c.run = [&row, buffers, scalars = std::vector<int64_t>(l.scalars.begin(), l.scalars.end()), number = l.number] {
        return device::Fault{row.run(buffers, scalars), number};
      };
      made->commands.push_back(std::move(c));
      return ok();
    }
    void copy(const device::Range& to, const device::Range& from) override {
      add({{to, true}, {from, false}}, [&device = device, to, from] {
        std::memmove(bytes(to).data(), bytes(from).data(), to.length);
        if (from.memory->data()) device.uploaded += to.length;
        if (to.memory->data()) device.downloaded += to.length;
      });
    }
    void clear(const device::Range& range) override {
      add({{range, true}}, [range] { std::memset(bytes(range).data(), 0, range.length); });
    }
    void barrier() override { made->commands.push_back({{}, {}, true, false}); }
    Result<std::unique_ptr<device::Recording>> finish() override {
      ++device.recordings;
      if (device.is_due(device.fail_recording)) return Status(Code::Resource, "fake: no memory for a recording");
      return std::unique_ptr<device::Recording>(std::move(made));
    }
    void add(std::vector<Access> accesses, std::function<void()> run) {
      made->commands.push_back({[run = std::move(run)] { run(); return device::Fault{}; }, std::move(accesses), false, false});
    }
    FakeDevice& device;
    std::unique_ptr<FakeRecording> made;
  };

  struct FakeQueue final : device::Queue {
    explicit FakeQueue(FakeDevice& d) : device(d) {}
    Status submit(device::Recording& r) override {
      if (!device.lost.empty()) return Status(Code::Resource, device.lost);
      if (device.is_due(device.fail_submission)) return Status(Code::Resource, "fake: not submitted");
      ++device.submissions;
      auto& recording = static_cast<FakeRecording&>(r);
      recording.first = {};
      std::vector<Access> since;
      for (const Command& c : recording.commands) {
        if (c.is_barrier) {
          ++device.barriers;
          since.clear();
          continue;
        }
        for (const Access& a : c.accesses)
          for (const Access& b : since)
            if ((a.writes || b.writes) && a.range.memory == b.range.memory && a.range.offset < b.range.offset + b.range.length &&
                b.range.offset < a.range.offset + a.range.length)
              device.races.push_back("bytes from " + std::to_string(a.range.offset));
        since.insert(since.end(), c.accesses.begin(), c.accesses.end());
        device.launches += c.is_launch;
        const device::Fault f = c.run();
        if (recording.first.code == 0) recording.first = f.code ? f : device::Fault{};
      }
      return ok();
    }
    Result<bool> wait(uint64_t) override {
      if (device.loses || device.is_due(device.lose_at_wait)) device.lost = "fake: VK_ERROR_DEVICE_LOST";
      if (!device.lost.empty()) return Status(Code::Resource, device.lost);
      return !device.hangs;
    }
    FakeDevice& device;
  };

  static bool is_due(uint64_t& left) { return left != 0 && --left == 0; }

  const device::Info& info() const override { return told; }
  const device::Limits& limits() const override { return limit; }
  Result<std::unique_ptr<device::Memory>> allocate(uint64_t size, device::MemoryKind kind) override {
    ++allocations;
    if (!lost.empty()) return Status(Code::Resource, lost);
    if (is_due(fail_allocation)) return Status(Code::Resource, "fake: no {} bytes", size);
    if (size > limit.allocation_bytes) return Status(Code::Resource, "fake: {} bytes at once", size);
    return std::unique_ptr<device::Memory>(std::make_unique<FakeMemory>(*this, size, kind));
  }
  uint64_t address_of(const device::Memory& m) const override { return reinterpret_cast<uintptr_t>(static_cast<const FakeMemory&>(m).storage.data()); }
  int32_t number() const override { return 0; }
  Result<std::unique_ptr<device::Module>> load(Compatible, VerifiedBytes) override { return Status(Code::Unsupported, "fake: its kernels are functions"); }
  Result<std::unique_ptr<device::Recorder>> make_recorder() override {
    if (!lost.empty()) return Status(Code::Resource, lost);
    return std::unique_ptr<device::Recorder>(std::make_unique<FakeRecorder>(*this));
  }
  Result<std::unique_ptr<device::Queue>> make_queue() override { return std::unique_ptr<device::Queue>(std::make_unique<FakeQueue>(*this)); }
  void give_up(std::string why) override { lost = std::move(why); }
};

}  // namespace mlc::test
