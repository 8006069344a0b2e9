// The loader on every device of Vulkan that this machine has; skipped, with a line, where there is none. CTest runs it a
// second time under the validation layer, whose messages are failures.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "loaders/vulkan/vulkan_devices.h"
#include "runtime/match/matcher.h"
#include "runtime/probe/probe.h"
#include "schema/gpu_module.h"
#include "tests/support/spirv_text.h"
#include "tests/support/verified_for_test.h"

// What a driver keeps for itself at its end is its own business.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:libvulkan\n"; }

namespace mlc {
namespace {

using namespace test;
using device::Device;
using device::MemoryKind;
using device::Range;
using Ints = std::vector<uint32_t>;

constexpr uint64_t kSecond = 1'000'000'000;

std::vector<Device*> all_devices() {
  static const std::vector<Device*> all = [] {
    std::vector<Device*> out;
    const auto found = vulkan::list_devices();
    if (!found.ok()) {
      MESSAGE("skipped: " << found.status().message);
      return out;
    }
    for (const device::Info& info : *found) {
      auto opened = vulkan::open_device(info.identity);
      if (opened.ok()) out.push_back(*opened);
      else FAIL(opened.status().message);
    }
    if (out.empty()) MESSAGE("skipped: no device of Vulkan");
    return out;
  }();
  return all;
}

Compatible token() {
  static std::vector<format::Variant> variants(1);
  variants[0].name = "vulkan-base";
  variants[0].module_format = format::ModuleFormat::Spirv;
  static const NamedDevice device{"gpu0", {.api = "vulkan"}};
  MatchPolicy policy;
  policy.devices = {&device, 1};
  auto admitted = Matcher(probe::host(), variants, policy).admit(0);
  REQUIRE(admitted.ok());
  return std::move(*admitted);
}

Result<std::unique_ptr<device::Module>> load(Device& d, const gpu::Module& m) {
  return d.load(token(), VerifiedBytesMaker::make(gpu::encode(m), "code/test"));
}

KernelText add_scalar() {  // x += s1
  return {"add", 1, 2, false, "%x = OpLoad %u32 %at_0\n%y = OpIAdd %u32 %x %s1\nOpStore %at_0 %y\n"};
}
KernelText twice() {  // y[i] = 2 x[n - 1 - i]: needs what all others wrote
  return {"twice", 2, 1, false,
          "%a = OpISub %u32 %s0 %i\n%j = OpISub %u32 %a %c1\n%p = OpAccessChain %su32 %b0 %c0 %j\n%x = OpLoad %u32 %p\n%y = OpIMul %u32 %x %c2\nOpStore %at_1 %y\n", 2};
}
KernelText sum_scalars() {  // y[i] = sum of all twenty
  std::string body = "%t0 = OpIAdd %u32 %s0 %c0\n";
  for (int k = 1; k < 20; ++k) body += "%t" + std::to_string(k) + " = OpIAdd %u32 %t" + std::to_string(k - 1) + " %s" + std::to_string(k) + "\n";
  return {"sum", 1, 20, false, body + "OpStore %at_0 %t19\n"};
}
KernelText faults() {  // lane s1 faults with code 2
  return {"faults", 1, 2, true,
          "%hit = OpIEqual %bool %i %s1\nOpSelectionMerge %past None\nOpBranchConditional %hit %bad %past\n%bad = OpLabel\n%old = OpLoad %u32 %fcode\n"
          "%none = OpIEqual %bool %old %c0\n%code = OpSelect %u32 %none %c2 %old\nOpStore %fcode %code\nOpStore %flaunch %launch\nOpBranch %past\n%past = OpLabel\nOpStore %at_0 %i\n"};
}

// What a test does on a device: memory, one recording, one run.
struct Bench {
  explicit Bench(Device& d) : device(d), queue(d.make_queue().value()), recorder(d.make_recorder().value()) {}

  Range local(uint64_t count) { return range(MemoryKind::Local, count); }
  Range range(MemoryKind kind, uint64_t count) {
    memory.push_back(device.allocate(count * 4, kind).value());
    return {memory.back().get(), 0, count * 4};
  }
  void upload(const Range& to, const Ints& values) {
    const Range from = range(MemoryKind::Staging, values.size());
    std::memcpy(from.memory->data(), values.data(), values.size() * 4);
    recorder->copy(to, from);
    recorder->barrier();
  }
  Range download(const Range& from) {
    const Range to = range(MemoryKind::Readback, from.length / 4);
    recorder->barrier();
    recorder->copy(to, from);
    return to;
  }
  static Ints values(const Range& r) {
    Ints out(r.length / 4);
    std::memcpy(out.data(), r.memory->data(), r.length);
    return out;
  }
  Status launch(const device::Module& m, uint32_t kernel, uint32_t tiles, std::vector<Range> buffers, std::vector<int64_t> scalars, uint32_t number = 0) {
    return recorder->launch(m, {kernel, tiles, number, buffers, scalars});
  }
  void run() {
    if (!recording) recording = recorder->finish().value();
    REQUIRE(queue->submit(*recording).ok());
    REQUIRE(queue->wait(60 * kSecond).value());
  }

  Device& device;
  std::vector<std::unique_ptr<device::Memory>> memory;
  std::unique_ptr<device::Queue> queue;
  std::unique_ptr<device::Recorder> recorder;
  std::unique_ptr<device::Recording> recording;
};

Ints ramp(uint32_t n) {
  Ints out(n);
  for (uint32_t i = 0; i < n; ++i) out[i] = 3 * i + 1;
  return out;
}

// The module of these kernels on each device.
void on_each(const std::vector<KernelText>& kernels, const std::function<void(Device&, const device::Module&)>& body) {
  if (all_devices().empty()) return;
  const gpu::Module m = module_of(kernels);
  if (m.images.empty()) {
    MESSAGE("skipped: spirv-as is missing");
    return;
  }
  for (Device* d : all_devices()) {
    CAPTURE(d->info().title);
    auto loaded = load(*d, m);
    if (!loaded.ok()) FAIL(loaded.status().message);
    body(*d, **loaded);
  }
}

TEST_CASE("devices tell what they are") {
  for (Device* d : all_devices()) {
    CHECK(d->info().api == "vulkan");
    CHECK(d->info().identity.size() == 32);
    CHECK(!d->info().title.empty());
    CHECK(d->info().memory_bytes > 0);
    CHECK(d->info().facts.size() > 10);
    CHECK(d->limits().range_bytes >= 128 << 20);
    CHECK(256 % d->limits().buffer_alignment == 0);
    MESSAGE(d->info().title << ", " << d->info().driver << ", software " << d->info().is_software);
  }
  const auto none = vulkan::open_device("no such device");
  CHECK(!none.ok());
}

TEST_CASE("launches take buffers and scalars, and barriers order them; a recording runs again") {
  on_each({add_scalar(), twice()}, [](Device& d, const device::Module& m) {
    constexpr uint32_t n = 1000;
    Bench b(d);
    const Range x = b.local(n), y = b.local(n);
    b.upload(x, ramp(n));
    const uint32_t tiles = (n + 63) / 64;
    for (int k = 0; k < 20; ++k) {
      REQUIRE(b.launch(m, 0, tiles, {x}, {n, k}).ok());
      b.recorder->barrier();
      REQUIRE(b.launch(m, 1, tiles, {x, y}, {n}).ok());
      b.recorder->barrier();
      b.recorder->copy(x, y);
      b.recorder->barrier();
    }
    const Range back = b.download(x);
    Ints expected = ramp(n);
    for (uint32_t k = 0; k < 20; ++k) {
      Ints next(n);
      for (uint32_t i = 0; i < n; ++i) next[i] = 2 * (expected[n - 1 - i] + k);
      expected = next;
    }
    for (int run = 0; run < 3; ++run) {
      std::memset(back.memory->data(), 0x55, back.length);
      b.run();
      CHECK(Bench::values(back) == expected);
    }
  });
}

TEST_CASE("more scalars than constants lie in a buffer, ranges in the middle of a memory, more tiles than a row has") {
  on_each({sum_scalars(), add_scalar()}, [](Device& d, const device::Module& m) {
    Bench b(d);
    const Range all = b.local(4096);
    std::vector<int64_t> scalars(20);
    for (int64_t k = 0; k < 20; ++k) scalars[size_t(k)] = k == 0 ? 100 : 7 * k;
    b.upload(all, Ints(4096, 0xababababu));
    b.recorder->clear({all.memory, 2048, 399});  // whole words
    const Range middle{all.memory, 1024, 400};
    REQUIRE(b.launch(m, 0, 2, {middle}, scalars).ok());
    const Range back = b.download(all);
    b.run();
    const Ints got = Bench::values(back);
    for (uint32_t i = 0; i < 4096; ++i) CHECK(got[i] == (i >= 256 && i < 356 ? 100 + 7 * 190 : i >= 512 && i < 612 ? 0 : 0xababababu));

    Bench rows(d);
    constexpr uint32_t n = 65'535 * 64 + 130;
    const Range large = rows.local(n);
    rows.recorder->clear(large);
    rows.recorder->barrier();
    REQUIRE(rows.launch(m, 1, (n + 63) / 64, {large}, {n, 5}).ok());
    REQUIRE(rows.launch(m, 1, 0, {large}, {n, 5}).ok());  // nothing
    const Range end = rows.download(large);
    rows.run();
    const Ints sums = Bench::values(end);
    CHECK(std::count(sums.begin(), sums.end(), 5u) == n);
  });
}

TEST_CASE("the first fault is told with its launch, and the next run begins without one") {
  on_each({faults(), add_scalar()}, [](Device& d, const device::Module& m) {
    Bench b(d);
    const Range x = b.local(256);
    const Status launched = b.launch(m, 0, 4, {x}, {256, 77}, 9);
    REQUIRE_MESSAGE(launched.ok(), launched.message);
    b.recorder->barrier();
    REQUIRE(b.launch(m, 1, 4, {x}, {256, 1}, 10).ok());
    const Range back = b.download(x);
    b.run();
    CHECK(b.recording->fault().code == 2);
    CHECK(b.recording->fault().launch == 9);
    CHECK(Bench::values(back)[5] == 6);  // the others went on

    Bench none(d);
    const Range y = none.local(256);
    REQUIRE(none.launch(m, 0, 4, {y}, {256, 1000}, 9).ok());
    none.run();
    none.run();
    CHECK(none.recording->fault().code == 0);
  });
}

TEST_CASE("launches that a kernel or a device does not take are refused") {
  KernelText narrow = add_scalar();
  narrow.name = "narrow";
  if (all_devices().empty()) return;
  gpu::Module text = module_of({add_scalar(), narrow});
  if (text.images.empty()) return;
  text.entries[1].narrow = 2;
  text.entries[1].has_few_lanes = true;
  for (Device* d : all_devices()) {
    auto loaded = load(*d, text);
    REQUIRE(loaded.ok());
    const device::Module& m = **loaded;
    CHECK(m.num_kernels() == 2);
    const auto accepts = [&](std::vector<uint8_t> writable, uint32_t scalars) { return m.accepts(0, {writable, scalars}).ok(); };
    CHECK(accepts({1}, 2));
    CHECK(!accepts({0}, 2));
    CHECK(!accepts({1, 1}, 2));
    CHECK(!accepts({1}, 1));
    Bench b(*d);
    const Range x = b.local(256);
    CHECK(b.launch(m, 0, 1, {x}, {1, int64_t{1} << 40}).ok());
    CHECK(b.launch(m, 1, 1, {x}, {1, INT32_MIN}).ok());
    const Status wide = b.launch(m, 1, 1, {x}, {1, int64_t{1} << 31});
    CHECK(wide.code == Code::Unsupported);
    CHECK(wide.message.find("32 bits") != std::string::npos);
    const Status many = b.launch(m, 1, uint32_t(gpu::kFewLanes / text.entries[1].lanes[0]) + 1, {x}, {1, 1});
    CHECK(many.code == Code::Unsupported);
    CHECK(many.message.find("lanes, their numbers") != std::string::npos);
    CHECK(!b.launch(m, 0, 1, {{x.memory, 512, 2048}}, {1, 1}).ok());
    CHECK(!b.launch(m, 0, 1, {{x.memory, UINT64_MAX, 2}}, {1, 1}).ok());
    CHECK(!b.launch(m, 0, 1, {{x.memory, 4, 4}}, {1, 1}).ok());
    CHECK(!b.launch(m, 0, 1, {}, {1, 1}).ok());
    CHECK(!b.launch(m, 0, 1, {x}, {1}).ok());
  }
}

TEST_CASE("memory that is not there is refused with its size, and what is there can be used again") {
  for (Device* d : all_devices()) {
    for (const uint64_t bytes : {uint64_t{1} << 62, UINT64_MAX, UINT64_MAX - 100, d->info().memory_bytes + 1, d->limits().allocation_bytes + 256}) {
      const auto refused = d->allocate(bytes, MemoryKind::Local);
      REQUIRE(!refused.ok());
      CHECK(refused.status().code == Code::Resource);
      CHECK(refused.status().message.find("bytes") != std::string::npos);
    }
    // All of it in pieces, which lavapipe only reserves.
    const uint64_t piece = std::min<uint64_t>(d->limits().allocation_bytes, d->info().memory_bytes / 4 + 256);
    std::vector<std::unique_ptr<device::Memory>> all;
    Status last;
    while (all.size() < 64) {
      auto more = d->allocate(piece, MemoryKind::Local);
      if (!more.ok()) {
        last = more.status();
        break;
      }
      all.push_back(std::move(*more));
    }
    CHECK(last.code == Code::Resource);
    all.clear();
    CHECK(d->allocate(piece, MemoryKind::Local).ok());
    CHECK(d->allocate(0, MemoryKind::Readback).ok());
  }
}

TEST_CASE("modules are refused before the driver sees them") {
  if (all_devices().empty()) return;
  const gpu::Module good = module_of({add_scalar()});
  if (good.images.empty()) return;
  Device& d = *all_devices()[0];
  const auto refusal = [&](const std::function<void(gpu::Module&)>& change) {
    gpu::Module m = good;
    change(m);
    const auto loaded = load(d, m);
    return loaded.ok() ? std::string() : loaded.status().message;
  };
  const auto word = [](gpu::Module& m, size_t at, uint32_t value) { std::memcpy(m.images[0].bytes.data() + 4 * at, &value, 4); };
  const auto says = [&](const char* what, const std::function<void(gpu::Module&)>& change) {
    const std::string message = refusal(change);
    CHECK_MESSAGE(message.find(what) != std::string::npos, what << " in " << message);
  };
  CHECK(refusal([](gpu::Module&) {}).empty());
  says("no SPIR-V", [&](gpu::Module& m) { word(m, 0, 1); });
  says("SPIR-V 9", [&](gpu::Module& m) { word(m, 1, 0x90000); });
  says("0 ids", [&](gpu::Module& m) { word(m, 3, 0); });
  says("ids", [&](gpu::Module& m) { word(m, 3, UINT32_MAX); });
  says("capability 5345", [&](gpu::Module& m) { word(m, 6, 5345); });  // the first instruction
  says("an instruction of 0 words", [&](gpu::Module& m) { word(m, 5, 17); });
  says("an instruction of", [&](gpu::Module& m) { word(m, 5, 0xffff0011); });
  says("no SPIR-V", [&](gpu::Module& m) { m.images[0].bytes.resize(16); });
  says("does not list", [](gpu::Module& m) { m.entries[0].name = "other"; });
  says("other lanes", [](gpu::Module& m) { m.entries[0].lanes = {32, 2, 1}; });
  says("binding", [](gpu::Module& m) { m.entries[0].num_buffers = 0, m.entries[0].written = 0; });
  says("buffers", [](gpu::Module& m) { m.entries[0].num_buffers = 4096; });
  says("shared memory", [](gpu::Module& m) { m.entries[0].shared_bytes = UINT32_MAX; });
  says("shared memory", [](gpu::Module& m) { m.entries[0].dynamic_shared_bytes = 1; });
  says("format 3", [](gpu::Module& m) {
    m.format = 3;
    m.images[0] = {gpu::ImageKind::Ptx, 0, {}, std::vector<std::byte>(1)};
  });
  // Bytes that are no module at all, and every word of a good one spoilt: refused or loaded, never more.
  CHECK(!d.load(token(), VerifiedBytesMaker::make(std::vector<std::byte>(100), "code/test")).ok());
  for (size_t at = 0; at < good.images[0].bytes.size() / 4; ++at)
    for (const uint32_t value : {0u, ~0u, 0x10011u}) (void)refusal([&](gpu::Module& m) { word(m, at, value); });
}

TEST_CASE("a device that was given up says so from then on") {
  // In the end, since it stays so: the devices of this process are not used any more.
  for (Device* d : all_devices()) {
    d->give_up("a test took too long");
    const auto memory = d->allocate(1, MemoryKind::Local);
    REQUIRE(!memory.ok());
    CHECK(memory.status().code == Code::Resource);
    CHECK(memory.status().message.find("a test took too long") != std::string::npos);
    CHECK(!d->make_queue().ok());
    CHECK(!d->make_recorder().ok());
    CHECK(!load(*d, {4, {}, {}}).ok());
    const auto again = vulkan::open_device(d->info().identity);
    REQUIRE(again.ok());
    CHECK(!(*again)->allocate(1, MemoryKind::Local).ok());
  }
}

}  // namespace
}  // namespace mlc
