#include <doctest/doctest.h>

#include "targets/families.h"
#include "tests/support/ptx/launch.h"
#include "tests/unit/ptx/device_kernels.h"

namespace mlc {
namespace {

using namespace testing;
using targets::Target;

const Target& target_named(std::string_view name) {
  for (const Target& t : targets::ptx::emitter().targets())
    if (t.name == name) return t;
  FAIL("no target " << name);
  return targets::ptx::emitter().targets()[0];
}

std::string text_of(const std::byte* data, int64_t element, DType t) {
  const Lane l = read_element(data + element * bytes_of(t), t);
  return is_float(t) ? std::to_string(l.f) : std::to_string(l.i);
}

// One kernel per operation and type: emitted, audited, executed, and compared with the meaning of Loop.
void check_all(const Target& target, uint16_t lanes) {
  Pool pool;
  std::vector<OpCase> cases = all_op_cases(pool, lanes);
  std::vector<CaseData> data;
  for (size_t k = 0; k < cases.size(); ++k) data.push_back(case_data(cases[k], lanes, target.has_fma, k));
  std::vector<loop::Kernel> kernels;
  for (OpCase& c : cases) {
    kernels.push_back(std::move(c.kernel));
    spread_over_lanes(pool, kernels.back());
  }
  const auto module = targets::emit_module(target, kernels);
  if (!module.ok()) FAIL(target.name << ": " << module.status().text());
  const Status audit = targets::audit_module(target, module->bytes);
  CHECK_MESSAGE(audit.ok(), audit.text());
  const ptx::LoadedModule loaded(module->bytes);
  REQUIRE(loaded.error().empty());
  REQUIRE(loaded.size() == cases.size());
  for (size_t k = 0; k < cases.size(); ++k) {
    std::vector<std::span<std::byte>> buffers;
    for (AlignedBytes& b : data[k].buffers) buffers.emplace_back(b.data.get(), b.size);
    const ptx::Outcome outcome = ptx::run_kernel(loaded, k, buffers, {}, kBlocks);
    CHECK_MESSAGE(outcome.error.empty(), target.name << " kernel " << kernels[k].name << ": " << outcome.error);
    const int64_t bad = first_difference(data[k].buffers[3].data.get(), data[k].expected, data[k].unspecified, cases[k].to);
    if (bad < 0) continue;
    const auto in = [&](size_t b) { return text_of(data[k].buffers[b].data.get(), bad, cases[k].from); };
    CHECK_MESSAGE(bad < 0, target.name << " kernel " << kernels[k].name << " element " << bad << ": got "
                                       << text_of(data[k].buffers[3].data.get(), bad, cases[k].to) << ", expected "
                                       << text_of(data[k].expected.data(), bad, cases[k].to) << " from " << in(0) << ", " << in(1));
  }
}

TEST_CASE("every operation on every type gives the reference's answer on each target") {
  check_all(target_named("cuda-sm75"), 1);
  check_all(target_named("cuda-sm80"), 4);
  check_all(target_named("cuda-sm90"), 2);
}

TEST_CASE("random kernels give the reference's answer on each target") {
  constexpr uint64_t kKernels = 40;
  for (const Target& t : targets::ptx::emitter().targets()) {
    Pool pool;
    std::vector<std::unique_ptr<RandomKernel>> made;
    std::vector<loop::Kernel> kernels;
    for (uint64_t k = 0; k < kKernels; ++k) {
      made.push_back(std::make_unique<RandomKernel>(pool, k * 100 + t.name.back()));
      kernels.push_back(made.back()->take());
      kernels.back().hoisting = static_cast<loop::Hoisting>(k % 3);
      do_in_one_lane(pool, kernels.back());
    }
    const auto module = targets::emit_module(t, kernels);
    if (!module.ok()) FAIL(t.name << ": " << module.status().text());
    const ptx::LoadedModule loaded(module->bytes);
    REQUIRE(loaded.error().empty());
    for (uint64_t k = 0; k < kKernels; ++k) {
      RandomData expected(k), got(k);
      const std::vector<int64_t> scalars = {int64_t(k % 11)};
      Reference reference(kernels[k], t.has_fma);
      std::vector<Reference::Buffer> views;
      for (auto& b : expected.buffers) views.push_back({b.data.get(), b.size});
      const int32_t fault = reference.run(views, scalars, 0, 1);
      std::vector<std::span<std::byte>> buffers;
      for (AlignedBytes& b : got.buffers) buffers.emplace_back(b.data.get(), b.size);
      const ptx::Outcome outcome = ptx::run_kernel(loaded, k, buffers, scalars, 1);
      CHECK_MESSAGE(outcome.error.empty(), t.name << " kernel " << k << ": " << outcome.error);
      CHECK(outcome.fault[0] == static_cast<uint32_t>(fault));
      for (size_t b : {4, 5}) {
        const std::vector<std::byte> want(expected.buffers[b].data.get(), expected.buffers[b].data.get() + expected.buffers[b].size);
        const int64_t bad = first_difference(got.buffers[b].data.get(), want, reference.unspecified[b], RandomData::kTypes[b]);
        CHECK_MESSAGE(bad < 0, t.name << " kernel " << k << " buffer " << b << " element " << bad);
      }
    }
  }
}

}  // namespace
}  // namespace mlc
