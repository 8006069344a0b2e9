#include <doctest/doctest.h>

#include <chrono>
#include <cstdio>

#include "targets/family.h"
#include "targets/llvm/host.h"
#include "tests/unit/targets/native_module.h"
#include "tests/unit/targets/op_cases.h"

namespace mlc {
namespace {

using namespace testing;
using targets::Target;

bool runs_here(const Target& t) { return t.family == targets::host_family() && targets::host_has(t.llvm_features); }

void check_all(const Target& target, uint16_t lanes) {
  Pool pool;
  std::vector<OpCase> cases = all_op_cases(pool, lanes);
  std::vector<loop::Kernel> kernels;
  for (OpCase& c : cases) kernels.push_back(std::move(c.kernel));
  auto module = targets::emit_module(target, kernels);
  for (size_t k = 0; k < cases.size(); ++k) cases[k].kernel = std::move(kernels[k]);
  if (!module.ok()) FAIL(target.name << ": " << module.status().text());
  const Status audit = targets::audit_module(target, module->bytes);
  CHECK_MESSAGE(audit.ok(), audit.text());
  if (!runs_here(target)) return;
  NativeModule native(module->bytes);
  REQUIRE(native.get() != nullptr);
  CHECK(native.get()->entry_count == cases.size());
  CHECK(native.refuses_old_runtimes());
  for (size_t k = 0; k < cases.size(); ++k) {
    const OpCase& c = cases[k];
    CaseData d = case_data(c, lanes, target.has_fma, k);
    void* buffers[4];
    uint64_t lengths[4];
    for (int b = 0; b < 4; ++b) buffers[b] = d.buffers[size_t(b)].data.get(), lengths[b] = d.buffers[size_t(b)].size;
    const MlrunLaunch launch = {buffers, lengths, nullptr, nullptr, 0, 1};
    CHECK(native.get()->entries[k].run(&launch, 0, kGroups) == 0);
    const int64_t bad = first_difference(d.buffers[3].data.get(), d.expected, d.unspecified, c.to);
    if (bad >= 0) {
      const Lane g = read_element(d.buffers[3].data.get() + bad * bytes_of(c.to), c.to);
      const Lane e = read_element(d.expected.data() + bad * bytes_of(c.to), c.to);
      const Lane a = read_element(d.buffers[0].data.get() + bad * bytes_of(c.from), c.from);
      const Lane b = read_element(d.buffers[1].data.get() + bad * bytes_of(c.from), c.from);
      CHECK_MESSAGE(bad < 0, target.name << " kernel " << c.kernel.name << " element " << bad << ": got " << g.f << " / "
                                         << g.i << ", expected " << e.f << " / " << e.i << " from " << a.f << "/" << a.i
                                         << ", " << b.f << "/" << b.i);
    }
  }
}

TEST_CASE("every operation on every type gives the reference's answer on this machine") {
  for (const Target& t : targets::all_targets()) {
    if (t.family == targets::Family::Portable) continue;
    if (t.family != targets::host_family() || !t.standard) continue;
    for (uint16_t lanes : {1, 16}) check_all(t, lanes);
  }
}

TEST_CASE("every operation on every type is emitted for every other target and passes its audit") {
  for (const Target& t : targets::all_targets())
    if (t.family != targets::Family::Portable && (t.standard ? t.family != targets::host_family() : t.name == "x86-64-v1"))
      check_all(t, 4);
}

}  // namespace
}  // namespace mlc
