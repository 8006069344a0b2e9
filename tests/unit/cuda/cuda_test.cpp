// The loader of CUDA against the libcuda of the tests, which executes what it is given.
#include <doctest/doctest.h>

#include "loaders/cuda/cuda_devices.h"
#include "tests/support/tiny_cubin.h"
#include "tests/unit/cuda/run_on_fake.h"

namespace mlc {
namespace {

using namespace testing;
TEST_CASE("a device tells who it is and what it can do") {
  open("cc=86 driver=12040 memory=1234567");
  const auto devices = cuda::list_devices();
  REQUIRE(devices.ok());
  REQUIRE(devices->size() == 1);
  const device::Info& d = (*devices)[0];
  CHECK(d.api == "cuda");
  CHECK(d.identity == "a0a1a2a3a4a5a6a7a8a9aaabacadaeaf");
  CHECK(d.title == "Fake 86");
  CHECK(d.memory_bytes == 1234567);
  const auto fact = [&](Feature f) {
    for (const device::Fact& fact : d.facts)
      if (fact.feature == f) return fact.number;
    return int64_t{-1};
  };
  CHECK(fact(Feature::CudaBase) == 1);
  CHECK(fact(Feature::CudaCc) == 86);
  CHECK(fact(Feature::CudaMaxShared) == 49152);
  CHECK(fact(Feature::CudaMaxSharedOptin) == 166912);
}

TEST_CASE("a recording uploads, computes and downloads, and again") {
  const uint64_t before = fake().allocated();
  const auto context = open();
  {
    Run run(*context);
    Status recorded = run.record(3, 100);
    CHECK_MESSAGE(recorded.ok(), recorded.text());
    for (int again = 0; again < 2; ++again) {
      const auto done = run.run();
      REQUIRE_MESSAGE(done.ok(), done.status().text());
      CHECK(*done);
      for (size_t k = 0; k < 96; ++k) CHECK(run.out(k) == int64_t(k) + 101 + again);
      CHECK(run.recording->fault().code == 0);
      for (size_t k = 0; k < 96; ++k) reinterpret_cast<int64_t*>(run.staging->data())[k] += 1;
    }
    REQUIRE(run.record(2, 5).ok());  // fewer tiles: the rest stays as it was cleared
    REQUIRE(run.run().ok());
    CHECK(run.out(63) == 64 + 2 + 5);
    CHECK(run.out(64) == 0);
    REQUIRE(run.record(0, 5).ok());
    REQUIRE(run.run().ok());
    CHECK(run.out(0) == 0);
  }
  CHECK(fake().allocated() == before);
}

TEST_CASE("a fault of a kernel is told with its launch, and the device is well") {
  const auto context = open();
  Run run(*context);
  REQUIRE(run.record(3, 1).ok());
  reinterpret_cast<int64_t*>(run.staging->data())[70] = 1001;
  REQUIRE(run.run().ok());
  CHECK(run.recording->fault().code == MLRUN_FAULT_INDEX);
  CHECK(run.recording->fault().launch == 3);
  reinterpret_cast<int64_t*>(run.staging->data())[70] = 1;
  REQUIRE(run.run().ok());
  CHECK(run.recording->fault().code == 0);
}

TEST_CASE("an access out of range ends the device for this process, and every call says so") {
  const auto context = open();
  Run run(*context);
  REQUIRE(run.record(64, 1).ok());  // of tiles there are three
  CHECK(!run.run().ok());
  CHECK(fake().error().find("out of range") != std::string::npos);
  CHECK(!context->alive().ok());
  const Status after = run.queue->submit(*run.recording);
  REQUIRE(!after.ok());
  const auto memory = cuda::CudaMemory::allocate(*context, 16, device::MemoryKind::Local);
  REQUIRE(!memory.ok());
  CHECK(memory.status().code == Code::Resource);
  CHECK(memory.status().text().find("CUDA_ERROR_ILLEGAL_ADDRESS") != std::string::npos);
  CHECK(!cuda::CudaQueue::make(*context).ok());
}

TEST_CASE("a launch that fails on the device is found behind it") {
  const auto context = open("fail_launch=1");
  Run run(*context);
  REQUIRE(run.record(3, 1).ok());
  const auto done = run.run();
  REQUIRE(!done.ok());
  CHECK(done.status().text().find("CUDA_ERROR_LAUNCH_FAILED") != std::string::npos);
  CHECK(!context->alive().ok());
}

TEST_CASE("waiting ends when the time is over, and who gives up gets no more answers") {
  const auto context = open("hang=1");
  Run run(*context);
  REQUIRE(run.record(1, 1).ok());
  REQUIRE(run.queue->submit(*run.recording).ok());
  const auto done = run.queue->wait(2'000'000);
  REQUIRE(done.ok());
  CHECK(!*done);
  CHECK(!run.queue->submit(*run.recording).ok());
  context->give_up("it took too long");
  CHECK(run.queue->wait(1).status().text().find("it took too long") != std::string::npos);
}

TEST_CASE("memory that is not there is a lack of resources, by the device's word and by ours") {
  const auto context = open("memory=100000 fail_allocation=2");
  CHECK(cuda::CudaMemory::allocate(*context, 4096, device::MemoryKind::Local).ok());
  const auto refused = cuda::CudaMemory::allocate(*context, 4096, device::MemoryKind::Local);
  REQUIRE(!refused.ok());
  CHECK(refused.status().code == Code::Resource);
  CHECK(refused.status().text().find("CUDA_ERROR_OUT_OF_MEMORY") != std::string::npos);
  CHECK(context->alive().ok());
  const auto large = cuda::CudaMemory::allocate(*context, 100001, device::MemoryKind::Local);
  REQUIRE(!large.ok());
  CHECK(large.status().code == Code::Resource);
  const auto huge = cuda::CudaMemory::allocate(*context, UINT64_MAX, device::MemoryKind::Local);
  CHECK(!huge.ok());
  CHECK(cuda::CudaMemory::allocate(*context, 90000, device::MemoryKind::Local).ok());  // what was refused is not counted
}

TEST_CASE("code for a later device or a later driver is refused, and code that is not what the module says") {
  const auto context = open("cc=75");
  const auto later = cuda::CudaModule::load(*context, add_module("cuda-sm80"));
  REQUIRE(!later.ok());
  CHECK(later.status().code == Code::Unsupported);

  // PTX of a version that the driver does not know: its answer.
  const auto old = open("cc=90 driver=11000");
  auto module = cuda::CudaModule::load(*old, add_module("cuda-sm90"));
  REQUIRE(module.ok());
  const auto kernel = (*module)->kernel(0);
  REQUIRE(!kernel.ok());
  CHECK(kernel.status().text().find("CUDA_ERROR_UNSUPPORTED_PTX_VERSION") != std::string::npos);

  const auto changed = [&](auto&& change) {
    gpu::Module m = add_module();
    change(m);
    return cuda::CudaModule::load(*old, std::move(m)).ok();
  };
  CHECK(changed([](gpu::Module&) {}));
  CHECK(!changed([](gpu::Module& m) { m.entries[0].name = "other"; }));
  CHECK(!changed([](gpu::Module& m) { m.entries[0].lanes = {8, 8, 1}; }));
  CHECK(!changed([](gpu::Module& m) { m.entries[0].dynamic_shared_bytes = 300000; }));
  CHECK(!changed([](gpu::Module& m) { m.images[0].bytes[1] = std::byte{'x'}; }));
  CHECK(!changed([](gpu::Module& m) { m.format = static_cast<uint8_t>(format::ModuleFormat::Spirv); }));
}

TEST_CASE("a cubin is taken first, and the text where the driver does not take it") {
  const gpu::Module text = add_module();
  const auto with = [&](std::vector<uint16_t> architectures) {
    gpu::Module m = text;
    for (const uint16_t a : architectures) {
      // What the libcuda of the tests runs is the text in it; the name tells which one it took.
      std::string ptx(reinterpret_cast<const char*>(text.images[0].bytes.data()), text.images[0].bytes.size());
      m.images.push_back({gpu::ImageKind::Cubin, a, {}, TinyCubin{.architecture = a, .entries = {{text.entries[0].name, 0}}, .text = ptx, .import = {}, .section = {}}.bytes()});
    }
    return m;
  };
  const auto runs = [&](cuda::Context& context, gpu::Module m) {
    Run run(context, std::move(m));
    REQUIRE(run.record(3, 1).ok());
    REQUIRE(run.run().ok());
    CHECK(run.out(95) == 97);
  };
  auto context = open("cc=86 cubins=1");
  runs(*context, with({80, 86, 89}));
  CHECK(fake().loaded() == 86);  // the latest that is not later than the device
  CHECK(context->remarks().empty());
  runs(*context, with({75, 89, 90}));  // none of them is for it
  CHECK(fake().loaded() == 0);
  CHECK(context->remarks().empty());

  context = open("cc=86");  // a driver that is older than the assembler
  runs(*context, with({80}));
  CHECK(fake().loaded() == 0);
  REQUIRE(context->remarks().size() == 1);
  CHECK(context->remarks()[0].find("CUDA_ERROR_NO_BINARY_FOR_GPU") != std::string::npos);

  gpu::Module wrong = with({80});
  wrong.images[1].architecture = 86;
  CHECK(cuda::CudaModule::load(*context, std::move(wrong)).status().code == Code::Malformed);
}

TEST_CASE("launches in another form, and ranges that are not there, are refused") {
  const auto context = open();
  Run run(*context);
  CHECK(!run.record(3, 1, 2048).ok());
  CHECK(!run.record(3, 1, 100).ok());
  cuda::CudaRecorder recorder(*context);
  CHECK(!recorder.launch(*run.module, {0, 1, 0, {}, {}}).ok());
  const uint8_t writable[] = {0, 1}, none[] = {0, 0};
  CHECK(run.module->accepts(0, {.writable = writable, .num_scalars = 1}).ok());
  CHECK(!run.module->accepts(0, {.writable = none, .num_scalars = 1}).ok());
  CHECK(!run.module->accepts(0, {.writable = writable, .num_scalars = 2}).ok());
}

TEST_CASE("a driver that is not there, too old, or without a device is named") {
  CHECK(Library::load("libcuda-of-nobody.so.1").status().code == Code::NotFound);
  const auto old = Library::load(MLC_FAKE_CUDA_OLD);
  REQUIRE(!old.ok());
  CHECK(old.status().text().find("cuEventQuery: too old") != std::string::npos);
  fake().reset("init=100");
  const auto none = Library::load(MLC_FAKE_CUDA);
  REQUIRE(!none.ok());
  CHECK(none.status().text().find("CUDA_ERROR_NO_DEVICE") != std::string::npos);
  fake().reset("");
  CHECK(Library::load(MLC_FAKE_CUDA).ok());  // for the tests behind this one
}

}  // namespace
}  // namespace mlc
