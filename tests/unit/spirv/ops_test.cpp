// Every operation on every type: what the emitted words do is what Loop means.
#include "tests/unit/spirv/device_case.h"

namespace mlc {
namespace {

using namespace testing;
namespace sp = testing::spirv;
using targets::spirv::emit_kernel;

void check_case(Pool& pool, OpCase& c, uint16_t lanes, uint64_t seed, sp::Manners manners) {
  CaseData d = case_data(c, lanes, manners.fuses, seed);
  spread(pool, c.kernel);
  const auto emitted = emit_kernel(c.kernel, {});
  REQUIRE_MESSAGE(emitted.ok(), emitted.status().text());
  sp::Launch launch;
  for (AlignedBytes& b : d.buffers) launch.buffers.push_back({b.data.get(), b.size});
  launch.tiles = kGroups / kBlock;
  launch.manners = manners;
  const sp::Outcome out = sp::run(emitted->words, emitted->entry, launch);
  REQUIRE_MESSAGE(out.error.empty(), c.kernel.name << ": " << out.error);
  CHECK(out.fault == 0);
  const int64_t bad = first_difference(d.buffers[3].data.get(), d.expected, d.unspecified, c.to);
  CHECK_MESSAGE(bad < 0, c.kernel.name << " element " << bad << ": got " << element_text(d.buffers[3].data.get(), bad, c.to) << ", expected "
                                       << element_text(d.expected.data(), bad, c.to) << " from "
                                       << element_text(d.buffers[0].data.get(), bad, c.from) << ", "
                                       << element_text(d.buffers[1].data.get(), bad, c.from));
}

TEST_CASE("every operation on every type gives the reference's answer") {
  for (const uint16_t lanes : {1, 4}) {
    Pool pool;
    std::vector<OpCase> cases = all_op_cases(pool, lanes);
    for (size_t k = 0; k < cases.size(); ++k) check_case(pool, cases[k], lanes, k, {});
  }
}

TEST_CASE("a device that rounds products before it adds gives the answer of two roundings") {
  Pool pool;
  for (const DType t : {DType::F32, DType::F64, DType::F16, DType::BF16}) {
    OpCase c = op_case(pool, Op::Fma, t, t, 1, 3);
    check_case(pool, c, 1, 3, {.fuses = false});
  }
}

}  // namespace
}  // namespace mlc
