#include <doctest/doctest.h>

#include "runtime/probe/probe.h"
#include "tests/support/fake_sources.h"

using namespace mlc;
using namespace mlc::probe;
using mlc::test::FakeSources;

namespace {

FakeSources a64(uint64_t hwcap, uint64_t hwcap2) {
  FakeSources s;
  s.arch = Machine::AArch64;
  s.auxiliary = {{16, hwcap}, {26, hwcap2}};
  return s;
}

FakeSources rv() {
  FakeSources s;
  s.arch = Machine::RiscV64;
  return s;
}

FakeSources la(uint64_t hwcap) {
  FakeSources s;
  s.arch = Machine::LoongArch64;
  s.auxiliary = {{16, hwcap}};
  return s;
}

}  // namespace

// The HWCAP words are those of qemu's cortex-a53, cortex-a76, a64fx and max.
TEST_CASE("recorded aarch64 machines") {
  const Record a53 = run(a64(0x8fb, 0));
  CHECK(derived_level(a53) == "armv8-a");
  CHECK(a53[Feature::A64Fp16].answer == Answer::No);
  CHECK(a53[Feature::A64SveVlBytes].answer == Answer::Unknown);

  const Record a76 = run(a64(0x119ffb, 0));
  CHECK(a76[Feature::A64Dotprod].answer == Answer::Yes);
  CHECK(a76[Feature::A64Fp16].answer == Answer::Yes);
  CHECK(a76[Feature::A64Sve].answer == Answer::No);

  FakeSources fx = a64(0x415ffb, 0);
  fx.prctls[51] = {64 | 1 << 17, 0};  // flag bits above the length
  const Record a64fx = run(fx);
  CHECK(a64fx[Feature::A64Sve].answer == Answer::Yes);
  CHECK(a64fx[Feature::A64SveVlBytes].number == 64);
  CHECK(host_facts(a64fx).vector_bytes == 64);
  CHECK(a64fx[Feature::A64Dotprod].answer == Answer::No);

  FakeSources sm = a64(0xecfffffb, 0x7f877fff);
  sm.prctls[51] = {64, 0};
  sm.prctls[64] = {32, 0};
  const Record max = run(sm);
  CHECK(max[Feature::A64Sve2].answer == Answer::Yes);
  CHECK(max[Feature::A64I8mm].answer == Answer::Yes);
  CHECK(max[Feature::A64SmeSvlBytes].number == 32);
}

TEST_CASE("SVE2 announced on a core that has only SME is no") {
  CHECK(run(a64(0xecbffffb, 0x76181 | 2))[Feature::A64Sve2].answer == Answer::No);
}

TEST_CASE("half of FP16 is no FP16") {
  CHECK(run(a64(0x8fb | 1 << 9, 0))[Feature::A64Fp16].answer == Answer::No);
  CHECK(run(a64(0x8fb | 1 << 10, 0))[Feature::A64Fp16].answer == Answer::No);
}

TEST_CASE("a kernel that passes no HWCAP2 leaves its features unknown") {
  FakeSources s = a64(0x119ffb, 0);
  s.auxiliary.erase(26);
  CHECK(run(s)[Feature::A64I8mm].answer == Answer::Unknown);
  CHECK(run(s)[Feature::A64Dotprod].answer == Answer::Yes);
}

TEST_CASE("riscv: without hwprobe the letters of HWCAP answer and the rest is unknown") {
  FakeSources s = rv();
  s.auxiliary = {{16, 0x112d}};  // qemu rv64
  const Record r = run(s);
  CHECK(derived_level(r) == "rv64gc");
  CHECK(r[Feature::RvZba].answer == Answer::Unknown);
  CHECK(r[Feature::RvZba].source.find("hwprobe") != std::string::npos);
  CHECK(r[Feature::RvV].answer == Answer::No);
  CHECK(r[Feature::RvV].source == "hwcap 'v'");
  CHECK(s.vlenb_reads == 0);
  CHECK(s.vsetvli_calls == 0);
}

TEST_CASE("riscv: without hwprobe the vector letter of HWCAP counts where vsetvli is that of version 1.0") {
  FakeSources s = rv();
  s.auxiliary = {{16, 0x20112d}};
  s.vlenb = 16;
  const Record r = run(s);
  CHECK(r[Feature::RvV].answer == Answer::Yes);
  CHECK(r[Feature::RvV].source.find("vsetvli") != std::string::npos);
  CHECK(r[Feature::RvVlenb].number == 16);
  CHECK(derived_level(r) == "rv64gcv");

  FakeSources draft = s;
  draft.is_draft_vector = true;
  draft.vlenb_reads = 0;
  const Record d = run(draft);
  CHECK(d[Feature::RvV].answer == Answer::No);
  CHECK(d[Feature::RvV].source.find("draft") != std::string::npos);
  CHECK(derived_level(d) == "rv64gc");
  CHECK(draft.vlenb_reads == 0);

  FakeSources off = s;
  off.prctls[70] = {1, 0};
  off.vsetvli_calls = 0;
  CHECK(run(off)[Feature::RvV].answer == Answer::No);
  CHECK(off.vsetvli_calls == 0);
}

TEST_CASE("riscv: hwprobe answers, an unknown key is unknown, vector can be off for the thread") {
  FakeSources s = rv();
  s.hwprobe_error = 0;
  s.hwprobe_values = {{3, 1}, {4, 0x3f}};
  s.vlenb = 32;
  const Record r = run(s);
  CHECK(derived_level(r) == "rv64gcv");
  CHECK(r[Feature::RvZbs].answer == Answer::Yes);
  CHECK(r[Feature::RvZvfh].answer == Answer::No);
  CHECK(r[Feature::RvVlenb].number == 32);
  CHECK(s.vsetvli_calls == 0);  // hwprobe knows the version

  FakeSources off = s;
  off.prctls[70] = {1, 0};
  off.vlenb_reads = 0;
  CHECK(run(off)[Feature::RvV].answer == Answer::No);
  CHECK(off.vlenb_reads == 0);

  FakeSources old_kernel = s;
  old_kernel.hwprobe_values.erase(4);
  const Record o = run(old_kernel);
  CHECK(o[Feature::RvI].answer == Answer::Yes);
  CHECK(o[Feature::RvV].answer == Answer::Unknown);
  CHECK(o[Feature::RvZba].source.find("does not know") != std::string::npos);
}

// 3A5000 under Linux 6.1, which keeps no vectors for threads, and under 6.5; the last has a processor of 2K0300's kind, with LSX alone.
TEST_CASE("recorded LoongArch machines") {
  const Record old_kernel = run(la(0x14f));
  CHECK(derived_level(old_kernel) == "loongarch64");
  CHECK(old_kernel[Feature::LaFpu].answer == Answer::Yes);
  CHECK(old_kernel[Feature::LaLsx].answer == Answer::No);
  CHECK(old_kernel[Feature::LaLsx].source == "hwcap[4]");
  CHECK(old_kernel[Feature::X86Avx].source.find("loongarch64") != std::string::npos);
  CHECK(derived_level(run(la(0x17f))) == "loongarch64-lsx");
  CHECK(run(la(0x17f))[Feature::LaLasx].answer == Answer::Yes);
  CHECK(run(la(0x1f))[Feature::LaLasx].answer == Answer::No);
  CHECK(derived_level(run(la(0x1f))) == "loongarch64-lsx");
  CHECK(derived_level(run(la(0x1b))) == "loongarch64");  // LSX without accesses that are not aligned
  CHECK(derived_level(run(la(0x1))).empty());            // no floating-point unit
  FakeSources silent;
  silent.arch = Machine::LoongArch64;
  CHECK(run(silent)[Feature::LaLsx].answer == Answer::Unknown);
  CHECK(run(silent)[Feature::LaLsx].source.find("not passed") != std::string::npos);
  const Record other = run(rv());
  CHECK(other[Feature::LaLsx].answer == Answer::No);
}
