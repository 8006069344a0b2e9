#include <doctest/doctest.h>

#include "targets/llvm/host.h"
#include "tests/unit/targets/cross_run.h"
#include "tests/unit/targets/native_module.h"
#include "tests/unit/targets/random_kernel.h"

namespace mlc {
namespace {

using namespace testing;
using targets::Target;

TEST_CASE("random kernels give the reference's answer on this machine") {
  constexpr uint64_t kKernels = 120;
  for (const Target& t : targets::all_targets()) {
    if (t.machine != targets::host_machine() || !is_plain(t) || !targets::runs_here(t)) continue;
    Pool pool;
    std::vector<std::unique_ptr<RandomKernel>> made;
    std::vector<loop::Kernel> kernels;
    for (uint64_t seed = 0; seed < kKernels; ++seed) {
      made.push_back(std::make_unique<RandomKernel>(pool, seed));
      kernels.push_back(made.back()->take());
      kernels.back().hoisting = static_cast<loop::Hoisting>(seed % 3);
    }
    auto module = emit_in_small_frames(t, kernels);
    if (!module.ok()) FAIL(t.name << ": " << module.status().text());
    const Status audit = targets::audit_module(t, module->bytes);
    CHECK_MESSAGE(audit.ok(), audit.text());
    NativeModule native(module->bytes);
    REQUIRE(native.get() != nullptr);
    for (uint64_t seed = 0; seed < kKernels; ++seed) {
      RandomData expected(seed), got(seed);
      const std::vector<int64_t> scalars = {int64_t(seed % 11)};
      Reference reference(kernels[seed], t.has_fma);
      std::vector<Reference::Buffer> views;
      for (auto& b : expected.buffers) views.push_back({b.data.get(), b.size});
      const int32_t fault = reference.run(views, scalars, 0, 3);
      std::vector<void*> pointers;
      std::vector<uint64_t> lengths;
      for (auto& b : got.buffers) pointers.push_back(b.data.get()), lengths.push_back(b.size);
      AlignedBytes scratch(module->scratch_bytes[seed]);
      const MlrunLaunch launch = {pointers.data(), lengths.data(), scalars.data(), scratch.data.get(), 0, 1};
      CHECK(native.get()->entries[seed].run(&launch, 0, 3) == fault);
      for (size_t b : {4, 5}) {
        const std::vector<std::byte> want(expected.buffers[b].data.get(), expected.buffers[b].data.get() + expected.buffers[b].size);
        const int64_t bad = first_difference(got.buffers[b].data.get(), want, reference.unspecified[b], RandomData::kTypes[b]);
        CHECK_MESSAGE(bad < 0, t.name << " seed " << seed << " buffer " << b << " element " << bad);
      }
    }
  }
}

TEST_CASE("random kernels give the reference's answer on other machines, emulated") {
  constexpr uint64_t kKernels = 60;
  for (const Target& t : targets::all_targets()) {
    if (t.machine == targets::host_machine() || !is_plain(t) || !can_be_crossed(t)) continue;
    CrossMachine cross(t);
    if (!cross.ready()) {
      MESSAGE("skipped: " << t.name << ": no clang, or no qemu for it");
      continue;
    }
    Pool pool;
    std::vector<std::unique_ptr<RandomKernel>> made;
    std::vector<loop::Kernel> kernels;
    for (uint64_t seed = 0; seed < kKernels; ++seed) {
      made.push_back(std::make_unique<RandomKernel>(pool, seed));
      kernels.push_back(made.back()->take());
      kernels.back().hoisting = static_cast<loop::Hoisting>(seed % 3);
    }
    auto module = emit_in_small_frames(t, kernels);
    if (!module.ok()) FAIL(t.name << ": " << module.status().text());
    CHECK(targets::audit_module(t, module->bytes).ok());
    std::vector<RandomData> got;
    std::vector<CrossLaunch> launches(kKernels);
    for (uint64_t seed = 0; seed < kKernels; ++seed) got.emplace_back(seed);
    for (uint64_t seed = 0; seed < kKernels; ++seed) {
      launches[seed] = {static_cast<uint32_t>(seed), 0, 3, {}, {int64_t(seed % 11)}, module->scratch_bytes[seed], -1};
      for (AlignedBytes& b : got[seed].buffers) launches[seed].buffers.push_back(&b);
    }
    REQUIRE(cross.run(module->bytes, launches));
    for (uint64_t seed = 0; seed < kKernels; ++seed) {
      RandomData expected(seed);
      Reference reference(kernels[seed], t.has_fma);
      std::vector<Reference::Buffer> views;
      for (auto& b : expected.buffers) views.push_back({b.data.get(), b.size});
      CHECK(reference.run(views, {int64_t(seed % 11)}, 0, 3) == launches[seed].code);
      for (size_t b : {4, 5}) {
        const std::vector<std::byte> want(expected.buffers[b].data.get(), expected.buffers[b].data.get() + expected.buffers[b].size);
        const int64_t bad = first_difference(got[seed].buffers[b].data.get(), want, reference.unspecified[b], RandomData::kTypes[b]);
        CHECK_MESSAGE(bad < 0, t.name << " seed " << seed << " buffer " << b << " element " << bad);
      }
    }
  }
}

}  // namespace
}  // namespace mlc
