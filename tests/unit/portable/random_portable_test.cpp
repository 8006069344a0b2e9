#include <doctest/doctest.h>

#include "base/sanitized.h"
#include "loaders/portable/program.h"
#include "targets/target.h"
#include "tests/unit/targets/random_kernel.h"

namespace mlc {
namespace {

using namespace testing;

// Answers are for the build without sanitizers; those look at how memory is used, which a tenth of the kernels shows.
#ifdef MLC_ADDRESS_SANITIZER
constexpr uint64_t kKernels = 60;
#else
constexpr uint64_t kKernels = 600;
#endif

TEST_CASE("random kernels give the reference's answer in portable code") {
  for (uint64_t seed = 0; seed < kKernels; ++seed) {
    Pool pool;
    RandomKernel random(pool, seed);
    std::vector<loop::Kernel> kernels;
    kernels.push_back(random.take());
    auto module = targets::emit_module(*targets::find_target("portable"), kernels);
    if (!module.ok()) FAIL("seed " << seed << ": " << module.status().text());
    auto programs = portable::decode_module(module->bytes);
    REQUIRE(programs.ok());
    RandomData expected(seed), got(seed);
    const std::vector<int64_t> scalars = {int64_t(seed % 11)};
    Reference reference(kernels[0], /*fuse=*/false);
    std::vector<Reference::Buffer> views;
    for (auto& b : expected.buffers) views.push_back({b.data.get(), b.size});
    const int32_t fault = reference.run(views, scalars, 0, 3);
    std::vector<void*> pointers;
    std::vector<uint64_t> lengths;
    for (auto& b : got.buffers) pointers.push_back(b.data.get()), lengths.push_back(b.size);
    AlignedBytes scratch(module->scratch_bytes[0]);
    const MlrunLaunch launch = {pointers.data(), lengths.data(), scalars.data(), scratch.data.get(), 0, 1};
    WorkMeter meter;
    CHECK(portable::run_program((*programs)[0], launch, 0, 3, meter) == fault);
    for (size_t b : {4, 5}) {
      const std::vector<std::byte> want(expected.buffers[b].data.get(), expected.buffers[b].data.get() + expected.buffers[b].size);
      const int64_t bad = first_difference(got.buffers[b].data.get(), want, reference.unspecified[b], RandomData::kTypes[b]);
      CHECK_MESSAGE(bad < 0, "seed " << seed << " buffer " << b << " element " << bad);
    }
  }
}

}  // namespace
}  // namespace mlc
