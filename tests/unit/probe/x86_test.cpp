#include <doctest/doctest.h>

#include "runtime/probe/probe.h"
#include "tests/support/fake_sources.h"

using namespace mlc;
using namespace mlc::probe;
using mlc::test::FakeSources;

TEST_CASE("a full AVX-512 machine gets the level x86-64-v4") {
  const FakeSources s = FakeSources::x86_v4();
  const Record r = run(s);
  CHECK(derived_level(r) == "x86-64-v4");
  CHECK(r[Feature::X86Avx512vnni].answer == Answer::Yes);
  CHECK(r[Feature::X86Avx512bf16].answer == Answer::Yes);
  CHECK(r[Feature::X86AmxTile].answer == Answer::No);
  CHECK(r[Feature::X86AmxPermission].answer == Answer::Unknown);
  CHECK(r[Feature::HostArch].number == 62);
  CHECK(r[Feature::A64Fp].answer == Answer::No);
}

TEST_CASE("AVX-512 bits with XCR0 = 7 are no, and the source names the state") {
  FakeSources s = FakeSources::x86_v4();
  s.xcr0 = 0x7;
  const Record r = run(s);
  CHECK(derived_level(r) == "x86-64-v3");
  CHECK(fitting_targets(r) == std::vector<std::string_view>{"x86-64-v1", "x86-64-v2", "x86-64-v3", "x86-64-v3+vnni"});
  CHECK(r[Feature::X86Avx512f].answer == Answer::No);
  CHECK(r[Feature::X86Avx512f].source.find("xcr0") != std::string::npos);
  CHECK(r[Feature::X86Avxvnni].answer == Answer::Yes);
}

TEST_CASE("partly enabled AVX-512 state is not enabled") {
  for (uint64_t missing : {0x2ull, 0x4ull, 0x20ull, 0x40ull, 0x80ull}) {
    FakeSources s = FakeSources::x86_v4();
    s.xcr0 = 0xe7 & ~missing;
    CHECK(run(s)[Feature::X86Avx512f].answer == Answer::No);
  }
}

TEST_CASE("without OSXSAVE every VEX feature is no and XGETBV is not executed") {
  FakeSources s = FakeSources::x86_v4();
  s.leaves[{1, 0}].ecx &= ~(1u << 27);
  const Record r = run(s);
  CHECK(s.xgetbv_calls == 0);
  CHECK(derived_level(r) == "x86-64-v2");
  CHECK(r[Feature::X86Avx].answer == Answer::No);
  CHECK(r[Feature::X86Bmi1].answer == Answer::No);
  CHECK(r[Feature::X86Lzcnt].answer == Answer::Yes);
}

TEST_CASE("leaves above the maximum are unknown and never read") {
  FakeSources s = FakeSources::x86_v4();
  s.leaves[{0, 0}].eax = 1;
  const Record r = run(s);
  CHECK(s.highest_leaf == 1);
  CHECK(r[Feature::X86Avx2].answer == Answer::Unknown);
  FakeSources t = FakeSources::x86_v4();
  t.leaves[{7, 0}].eax = 0;
  CHECK(run(t)[Feature::X86Avx512bf16].answer == Answer::Unknown);
  FakeSources u = FakeSources::x86_v4();
  u.leaves[{0x80000000, 0}].eax = 0x16;  // a CPU without extended leaves
  CHECK(run(u)[Feature::X86Lzcnt].answer == Answer::Unknown);
}

TEST_CASE("no feature implies another: fma without avx2 stays fma without avx2") {
  FakeSources s = FakeSources::x86_v4();
  s.leaves[{7, 0}].ebx &= ~(1u << 5);
  const Record r = run(s);
  CHECK(r[Feature::X86Fma].answer == Answer::Yes);
  CHECK(r[Feature::X86Avx2].answer == Answer::No);
  CHECK(derived_level(r) == "x86-64-v2");
}

TEST_CASE("on a hybrid CPU a feature that one allowed core lacks is unknown") {
  FakeSources s = FakeSources::x86_v4();
  s.cpus = {0, 1};
  s.leaves[{7, 0}].edx |= 1u << 15;
  CpuidRegs small = s.leaves[{7, 0}];
  small.ebx &= ~(1u << 16);
  s.of_cpu[{1, {7, 0}}] = small;
  const Record r = run(s);
  CHECK(r[Feature::X86Avx512f].answer == Answer::Unknown);
  CHECK(r[Feature::X86Avx2].answer == Answer::Yes);
  s.cpus = {0};
  CHECK(run(s)[Feature::X86Avx512f].answer == Answer::Yes);
}

TEST_CASE("AMX needs its tile state, and the permission is a separate answer") {
  FakeSources s = FakeSources::x86_v4();
  s.leaves[{7, 0}].edx |= 1u << 22 | 1u << 24 | 1u << 25;
  CHECK(run(s)[Feature::X86AmxTile].answer == Answer::No);
  s.xcr0 |= 0x60000;
  s.xcomp = {1 << 18, 0};
  CHECK(run(s)[Feature::X86AmxTile].answer == Answer::Yes);
  CHECK(run(s)[Feature::X86AmxPermission].answer == Answer::Yes);
  s.xcomp = {0, 0};
  CHECK(run(s)[Feature::X86AmxPermission].answer == Answer::No);
}

TEST_CASE("code pages: S2 is tried when S1 is refused, none is a no with the reasons") {
  FakeSources s = FakeSources::x86_v4();
  CHECK(run(s).code_pages == CodePages::Anonymous);
  s.code_refusals[CodePages::Anonymous] = "permission denied";
  CHECK(run(s).code_pages == CodePages::SealedFd);
  s.code_refusals[CodePages::SealedFd] = "no memfd";
  const Record r = run(s);
  CHECK(r.code_pages == CodePages::None);
  CHECK(r[Feature::OsCodePages].answer == Answer::No);
  CHECK(r[Feature::OsCodePages].source.find("permission denied") != std::string::npos);
}

TEST_CASE("this machine answers: architecture, pages, at least one worker") {
  const Record& r = host();
  CHECK(r.machine != Machine::None);
  CHECK(r.page_size >= 4096);
  CHECK(r.topology.workers >= 1);
  CHECK(r.topology.worker_cpus.size() == r.topology.cores);
  CHECK(!derived_level(r).empty());
}
