#include <doctest/doctest.h>

#include "loaders/portable/program.h"
#include "targets/target.h"
#include "tests/unit/targets/dot_cases.h"

namespace mlc {
namespace {

using namespace testing;

TEST_CASE("Dot gives its formula's answer in portable code") {
  ir::Context ctx;
  std::vector<DotCase> cases = all_dot_cases(ctx);
  std::vector<loop::Kernel> kernels;
  for (DotCase& c : cases) kernels.push_back(std::move(c.kernel));
  auto module = targets::emit_module(*targets::find_target("portable"), kernels);
  REQUIRE(module.ok());
  CHECK(targets::audit_module(*targets::find_target("portable"), module->bytes).ok());
  auto programs = portable::decode_module(module->bytes);
  REQUIRE(programs.ok());
  for (size_t k = 0; k < cases.size(); ++k) {
    DotData d(cases[k], k);
    void* buffers[4];
    uint64_t lengths[4];
    for (int b = 0; b < 4; ++b) buffers[b] = d.buffers[size_t(b)].data.get(), lengths[b] = d.buffers[size_t(b)].size;
    AlignedBytes scratch((*programs)[k].scratch_bytes);
    const MlrunLaunch launch = {buffers, lengths, nullptr, scratch.data.get(), 0, 1};
    WorkMeter meter;
    CHECK(portable::run_program((*programs)[k], launch, 0, kGroups, meter) == 0);
    CHECK_MESSAGE(first_wrong_sum(d) < 0, kernels[k].name << " sum " << first_wrong_sum(d));
  }
}

}  // namespace
}  // namespace mlc
