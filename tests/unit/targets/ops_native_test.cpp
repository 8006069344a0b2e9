#include <doctest/doctest.h>


#include "targets/families.h"
#include "targets/llvm/host.h"
#include "tests/unit/targets/cross_run.h"
#include "tests/unit/targets/native_module.h"
#include "tests/unit/targets/op_cases.h"

namespace mlc {
namespace {

using namespace testing;
using targets::Target;

bool is_native(const Target& t) { return t.machine != Machine::None && targets::runs_here(t); }

void check_result(const Target& target, const OpCase& c, const CaseData& d) {
  const int64_t bad = first_difference(d.buffers[3].data.get(), d.expected, d.unspecified, c.to);
  if (bad < 0) return;
  auto at = [&](const std::byte* data, DType t) {
    const Lane l = read_element(data + bad * bytes_of(t), t);
    return is_float(t) ? std::to_string(l.f) : std::to_string(l.i);
  };
  CHECK_MESSAGE(bad < 0, target.name << " kernel " << c.kernel.name << " element " << bad << ": got "
                                     << at(d.buffers[3].data.get(), c.to) << ", expected " << at(d.expected.data(), c.to)
                                     << " from " << at(d.buffers[0].data.get(), c.from) << ", "
                                     << at(d.buffers[1].data.get(), c.from));
}

// Emits and audits one kernel per operation and type; runs them here, on `cross`, or not at all.
void check_all(const Target& target, uint16_t lanes, CrossMachine* cross = nullptr) {
  Pool pool;
  std::vector<OpCase> cases = all_op_cases(pool, lanes);
  std::vector<loop::Kernel> kernels;
  for (OpCase& c : cases) kernels.push_back(std::move(c.kernel));
  auto module = targets::emit_module(target, kernels);
  for (size_t k = 0; k < cases.size(); ++k) cases[k].kernel = std::move(kernels[k]);
  if (!module.ok()) FAIL(target.name << ": " << module.status().text());
  const Status audit = targets::audit_module(target, module->bytes);
  CHECK_MESSAGE(audit.ok(), audit.text());
  if (cross) {
    std::vector<CaseData> data;
    std::vector<CrossLaunch> launches(cases.size());
    for (size_t k = 0; k < cases.size(); ++k) data.push_back(case_data(cases[k], lanes, target.has_fma, k));
    for (size_t k = 0; k < cases.size(); ++k) {
      launches[k] = {static_cast<uint32_t>(k), 0, kGroups, {}, {}, 0, -1};
      for (AlignedBytes& b : data[k].buffers) launches[k].buffers.push_back(&b);
    }
    REQUIRE_MESSAGE(cross->run(module->bytes, launches), target.name);
    for (size_t k = 0; k < cases.size(); ++k) {
      CHECK(launches[k].code == 0);
      check_result(target, cases[k], data[k]);
    }
    return;
  }
  if (!is_native(target)) {
    MESSAGE("skipped: " << target.name << " does not run here");
    return;
  }
  NativeModule native(module->bytes);
  REQUIRE(native.get() != nullptr);
  CHECK(native.get()->entry_count == cases.size());
  CHECK(native.refuses_old_runtimes());
  for (size_t k = 0; k < cases.size(); ++k) {
    CaseData d = case_data(cases[k], lanes, target.has_fma, k);
    void* buffers[4];
    uint64_t lengths[4];
    for (int b = 0; b < 4; ++b) buffers[b] = d.buffers[size_t(b)].data.get(), lengths[b] = d.buffers[size_t(b)].size;
    const MlrunLaunch launch = {buffers, lengths, nullptr, nullptr, 0, 1};
    CHECK(native.get()->entries[k].run(&launch, 0, kGroups) == 0);
    check_result(target, cases[k], d);
  }
}

TEST_CASE("every operation on every type gives the reference's answer on this machine") {
  for (const Target& t : targets::all_targets()) {
    if (t.machine == Machine::None) continue;
    if (t.machine != targets::host_machine() || !is_plain(t)) continue;
    if (t.name == "x86-64-v3" || t.machine != Machine::X86_64) check_all(t, 1);
    check_all(t, 16);
  }
}

TEST_CASE("every operation on every type for the baseline of this machine's family") {
  for (const Target& t : targets::all_targets())
    if (t.name == "x86-64-v1" && t.machine == targets::host_machine()) check_all(t, 4);
}

TEST_CASE("every operation on every type gives the reference's answer on other machines, emulated") {
  for (const Target& t : targets::all_targets()) {
    if (!is_plain(t) || t.machine == targets::host_machine()) continue;
    if (!can_be_crossed(t)) continue;
    CrossMachine cross(t);
    if (!cross.ready()) MESSAGE("skipped: " << t.name << " is emitted and audited, but not run (no clang, or no qemu for it)");
    check_all(t, 4, cross.ready() ? &cross : nullptr);
  }
}

}  // namespace
}  // namespace mlc
