#include <doctest/doctest.h>

#include "base/sanitized.h"
#include "loaders/portable/program.h"
#include "targets/target.h"
#include "tests/unit/targets/op_cases.h"

namespace mlc {
namespace {

using namespace testing;

void check_all(uint16_t lanes) {
  Pool pool;
  std::vector<OpCase> cases = all_op_cases(pool, lanes);
  std::vector<loop::Kernel> kernels;
  for (OpCase& c : cases) kernels.push_back(std::move(c.kernel));
  auto module = targets::emit_module(*targets::find_target("portable"), kernels);
  for (size_t k = 0; k < cases.size(); ++k) cases[k].kernel = std::move(kernels[k]);
  if (!module.ok()) FAIL(module.status().text());
  auto programs = portable::decode_module(module->bytes);
  REQUIRE(programs.ok());
  for (size_t k = 0; k < cases.size(); ++k) {
    const OpCase& c = cases[k];
    CaseData d = case_data(c, lanes, /*fuse=*/false, k);
    void* buffers[4];
    uint64_t lengths[4];
    for (int b = 0; b < 4; ++b) buffers[b] = d.buffers[size_t(b)].data.get(), lengths[b] = d.buffers[size_t(b)].size;
    AlignedBytes scratch((*programs)[k].scratch_bytes);
    const MlrunLaunch launch = {buffers, lengths, nullptr, scratch.data.get(), 0, 1};
    WorkMeter meter;
    CHECK(portable::run_program((*programs)[k], launch, 0, kGroups, meter) == 0);
    const int64_t bad = first_difference(d.buffers[3].data.get(), d.expected, d.unspecified, c.to);
    if (bad >= 0) {
      const Lane g = read_element(d.buffers[3].data.get() + bad * bytes_of(c.to), c.to);
      const Lane e = read_element(d.expected.data() + bad * bytes_of(c.to), c.to);
      const Lane a = read_element(d.buffers[0].data.get() + bad * bytes_of(c.from), c.from);
      const Lane b = read_element(d.buffers[1].data.get() + bad * bytes_of(c.from), c.from);
      CHECK_MESSAGE(bad < 0, "kernel " << c.kernel.name << " element " << bad << ": got " << g.f << " / " << g.i
                                       << ", expected " << e.f << " / " << e.i << " from " << a.f << "/" << a.i << ", "
                                       << b.f << "/" << b.i);
    }
  }
}

TEST_CASE("every operation on every type gives the reference's answer in portable code") {
#ifdef MLC_ADDRESS_SANITIZER  // where 64 lanes take minutes
  for (uint16_t lanes : {1, 16}) check_all(lanes);
#else
  for (uint16_t lanes : {1, 4, 64}) check_all(lanes);
#endif
}

}  // namespace
}  // namespace mlc
