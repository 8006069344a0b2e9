// Deliberately wrong code must be refused, each for its own reason; the same code is accepted where the feature is listed.
#include <doctest/doctest.h>

#include <elf.h>

#include <cstring>

#include "targets/families.h"
#include "tests/unit/targets/loop_builder.h"

namespace mlc {
namespace {

using targets::Target;
using Code8 = std::vector<uint8_t>;

std::string audit(const char* name, const Code8& code) {
  const Target* t = targets::find_target(name);
  REQUIRE(t != nullptr);
  uint64_t count = 0;
  const targets::CodeRange range = {std::as_bytes(std::span(code)), 0x10000};
  const Status s = t->machine == Machine::X86_64      ? targets::x86::audit(*t, range, count)
                   : t->machine == Machine::AArch64   ? targets::aarch64::audit(*t, range, count)
                   : t->machine == Machine::RiscV64 ? targets::riscv::audit(*t, range, count)
                                                      : targets::loongarch::audit(*t, range, count);
  return s.ok() ? "" : s.text();
}
std::string words(const char* name, std::initializer_list<uint32_t> list) {
  Code8 code;
  for (uint32_t w : list)
    for (int k = 0; k < 4; ++k) code.push_back(static_cast<uint8_t>(w >> (8 * k)));
  return audit(name, code);
}
bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

TEST_CASE("x86: an instruction outside of the list of features is refused by name") {
  const Code8 zmm = {0x62, 0xf1, 0x7c, 0x48, 0x58, 0xc0};       // vaddps zmm0, zmm0, zmm0
  CHECK(has(audit("x86-64-v3", zmm), "x86.avx512f"));
  CHECK(audit("x86-64-v4", zmm) == "");
  const Code8 lzcnt = {0xf3, 0x0f, 0xbd, 0xc0};
  CHECK(has(audit("x86-64-v2", lzcnt), "x86.lzcnt"));
  CHECK(audit("x86-64-v3", lzcnt) == "");
  const Code8 evex_dot = {0x62, 0xf2, 0x75, 0x28, 0x50, 0xc2};  // {evex} vpdpbusd ymm0, ymm1, ymm2
  const Code8 vex_dot = {0xc4, 0xe2, 0x75, 0x50, 0xc2};         // {vex} vpdpbusd ymm0, ymm1, ymm2
  CHECK(has(audit("x86-64-v3+vnni", evex_dot), "x86.avx512vnni"));
  CHECK(audit("x86-64-v3+vnni", vex_dot) == "");
  CHECK(has(audit("x86-64-v4+vnni+bf16", vex_dot), "x86.avxvnni"));
  CHECK(audit("x86-64-v4+vnni+bf16", evex_dot) == "");
  CHECK(has(audit("x86-64-v1", {0x66, 0x0f, 0x3a, 0x08, 0xc0, 0x00}), "x86.sse41"));  // roundps
  CHECK(has(audit("x86-64-v2", {0xc5, 0xf8, 0x58, 0xc0}), "x86.avx"));                // vaddps xmm
  CHECK(has(audit("x86-64-v4", {0x66, 0x0f, 0x38, 0xdc, 0xc1}), "no row"));           // aesenc: a set without a row
}

TEST_CASE("x86: system calls, indirect and far jumps, thread-local memory, x87, big frames are refused") {
  CHECK(audit("x86-64-v2", {0xf3, 0x0f, 0x1e, 0xfa, 0xc3}) == "");  // endbr64; ret
  CHECK(has(audit("x86-64-v4", {0x0f, 0x05}), "system call"));
  CHECK(has(audit("x86-64-v4", {0xcd, 0x80}), "interrupt"));
  CHECK(has(audit("x86-64-v4", {0x0f, 0xa2}), "system"));                                    // cpuid
  CHECK(has(audit("x86-64-v4", {0xe6, 0x80}), "I/O"));                                       // out
  CHECK(has(audit("x86-64-v4", {0xd9, 0xc0}), "x87"));
  CHECK(has(audit("x86-64-v4", {0x0f, 0xfc, 0xc1}), "MMX"));                                 // paddb mm0, mm1
  CHECK(has(audit("x86-64-v4", {0x0f, 0xae, 0x10}), "refused"));                             // ldmxcsr
  CHECK(has(audit("x86-64-v4", {0xff, 0xd0}), "indirect"));                                  // call rax
  CHECK(has(audit("x86-64-v4", {0xe8, 0x00, 0x10, 0x00, 0x00}), "leaves the module"));
  CHECK(has(audit("x86-64-v4", {0xeb, 0x7f}), "leaves the module"));
  CHECK(has(audit("x86-64-v4", {0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0}), "thread-local"));
  CHECK(has(audit("x86-64-v4", {0x48, 0x81, 0xec, 0x00, 0x14, 0x00, 0x00}), "4096"));        // sub rsp, 5120
  CHECK(audit("x86-64-v4", {0x48, 0x81, 0xec, 0x00, 0x10, 0x00, 0x00}) == "");               // sub rsp, 4096
  CHECK(has(audit("x86-64-v4", {0x48, 0x29, 0xc4}), "variable size"));                       // sub rsp, rax
  CHECK(has(audit("x86-64-v4", {0x06}), "no instruction"));                                  // not in 64-bit mode
  CHECK(has(audit("x86-64-v4", {0x48}), "no instruction"));                                  // cut off
}

TEST_CASE("AArch64: the decoder knows exactly the features of the target") {
  CHECK(words("armv8-a", {0xd503201f, 0xd65f03c0}) == "");                  // nop; ret
  CHECK(has(words("armv8-a", {0x4e829420}), "no instruction"));             // sdot v0.4s, v1.16b, v2.16b
  CHECK(words("armv8-a+dotprod+fp16", {0x4e829420}) == "");
  CHECK(has(words("armv8-a", {0x1ee22820}), "no instruction"));             // fadd h0, h1, h2
  CHECK(words("armv8-a+dotprod+fp16", {0x1ee22820}) == "");
  CHECK(has(words("armv8-a", {0x04bf5020}), "no instruction"));             // rdvl x0, #1
  CHECK(has(words("armv8-a", {0x00000000}), "refused"));                    // udf: data in code
  CHECK(has(words("armv8-a", {0xaa0003f2}), "x18"));                        // mov x18, x0
  CHECK(has(words("armv8-a", {0xd4000001}), "system"));                     // svc
  CHECK(has(words("armv8-a", {0xd51b4400}), "system"));                     // msr fpcr, x0
  CHECK(has(words("armv8-a", {0xd53b4400}), "system"));                     // mrs x0, fpcr
  CHECK(has(words("armv8-a", {0xd53bd040}), "system"));                     // mrs x0, tpidr_el0
  CHECK(words("armv8-a", {0xd53b4203, 0xd51b4203, 0xd65f03c0}) == "");      // mrs x3, nzcv; msr nzcv, x3; ret
  CHECK(has(words("armv8-a", {0xd61f0000}), "indirect"));                   // br x0
  CHECK(has(words("armv8-a", {0x94001000}), "leaves the module"));          // bl far away
  CHECK(has(words("armv8-a", {0xd14017ff}), "4096"));                       // sub sp, sp, #5, lsl #12
}

TEST_CASE("SVE: the decoder knows no more than SVE, and registers on the stack count at their longest") {
  constexpr uint32_t ret = 0xd65f03c0, two_registers = 0x043f57df, half = 0x043f541f;  // addvl sp, sp, #-2 and #-32
  constexpr uint32_t below = 0xd101c3e9, and_one = 0x042957e9, align = 0x927ae53f;  // sub x9, sp, #112; addvl x9, x9, #-1; and sp, x9, #~63
  for (const char* name : {"armv8-a+sve256", "armv8-a+sve512"}) {
    CHECK(words(name, {0x2598e3e0, ret}) == "");                              // ptrue p0.s, all
    CHECK(words(name, {0x2598e100, ret}) == "");                              // ptrue p0.s, vl8
    CHECK(has(words("armv8-a+i8mm+bf16", {0x2598e100}), "no instruction"));
    CHECK(words(name, {0x1ee22820, ret}) == "");                              // fadd h0, h1, h2
    CHECK(has(words(name, {0x44800020}), "no instruction") == false);         // sdot z0.s, z1.b, z0.b is SVE's own
    CHECK(has(words(name, {0x4e829420}), "no instruction"));                  // sdot v0.4s, v1.16b, v2.16b
    CHECK(has(words(name, {0x04606000}), "no instruction"));                  // mul z0.h, z0.h, z0.h of SVE2
    CHECK(words(name, {0x25104000, ret}) == "");                              // brka p0.b, p0/z, p0.b is no breakpoint
    CHECK(has(words(name, {0xd4200000}), "system"));                          // brk #0
    CHECK(words(name, {two_registers, ret}) == "");
    CHECK(words(name, {half, half, ret}) == "");                              // 64 of 64 bytes
    CHECK(has(words(name, {half, half, two_registers}), "4096"));
    CHECK(words(name, {below, and_one, align, ret}) == "");
    CHECK(has(words(name, {below, 0x91001129, align}), "variable size"));     // add x9, x9, #4 between
    CHECK(has(words(name, {align}), "variable size"));
    constexpr uint32_t set_x29 = 0x910043fd, load_x29 = 0xa9417bfd, sp_of_x29 = 0xd10043bf;  // add x29, sp, #16; ldp x29, x30, [sp, #16]; sub sp, x29, #16
    CHECK(words(name, {set_x29, load_x29, ret, sp_of_x29, load_x29, ret}) == "");
    CHECK(has(words(name, {set_x29, load_x29, sp_of_x29}), "variable size"));
  }
}

TEST_CASE("RISC-V: the decoder knows exactly the features of the target") {
  CHECK(words("rv64gc", {0x00008067}) == "");                               // ret
  CHECK(has(words("rv64gc", {0x20b54533}), "no instruction"));              // sh2add a0, a0, a1
  CHECK(has(words("rv64gc", {0x0d0572d7}), "no instruction"));              // vsetvli t0, a0, e32
  CHECK(has(words("rv64gc", {0x00000073}), "system"));                      // ecall
  CHECK(has(words("rv64gc", {0x00251073}), "system"));                      // fsrm a0
  CHECK(has(words("rv64gc", {0x000500e7}), "indirect"));                    // jalr a0
  CHECK(has(words("rv64gc", {0x80010113, 0x80010113, 0xff010113}), "4096"));  // addi sp, sp, -2048 twice, then -16
  CHECK(words("rv64gc", {0x80010113, 0x80010113}) == "");
  CHECK(has(words("rv64gc", {0x00000000}), "refused"));                     // unimp: data in code
}

TEST_CASE("LoongArch: the list of the target decides, LLVM's decoder knows every extension") {
  constexpr uint32_t ret = 0x4c000020, lsx = 0x71308820, lasx = 0x75308820;  // vfadd.s, xvfadd.s
  CHECK(words("loongarch64", {0x01010820, 0x08118820, 0x2ac00080, ret}) == "");  // fadd.d, fmadd.s, preld
  CHECK(has(words("loongarch64", {lsx}), "no part of the target"));
  CHECK(words("loongarch64-lsx", {lsx, 0x01010820, ret}) == "");
  // xvfadd.s, vext2xv.h.b, vfrecipe.s, frecipe.s, amadd.b, x86inc.b, hvcl
  for (const uint32_t word : {lasx, 0x769f1020u, 0x729d1420u, 0x01147420u, 0x385d14c4u, 0x00008080u, 0x002b8000u})
    CHECK_MESSAGE(has(words("loongarch64-lsx", {word}), "no part of the target"), word);
  CHECK(has(words("loongarch64", {0x00000000}), "no instruction"));
  // syscall, break 1, dbar, amadd.d, ll.d, cpucfg, csrrd, movgr2fcsr, rdtime.d
  for (const uint32_t word : {0x002b0000u, 0x002a0001u, 0x38720000u, 0x386194c4u, 0x220000a4u, 0x00006ca4u, 0x04000004u, 0x0114c080u, 0x000068a4u})
    CHECK_MESSAGE(has(words("loongarch64-lsx", {word}), "no part of the target"), word);
  CHECK(words("loongarch64", {ret, 0x002a0000, ret}) == "");                 // break 0 between functions
  for (const uint32_t word : {0x28c00044u, 0x00150095u, 0x00150044u})        // ld.d $a0, $tp, 0; move $r21, $a0; move $a0, $tp
    CHECK_MESSAGE(has(words("loongarch64", {word}), "belongs to the system"), word);
  CHECK(has(words("loongarch64", {0x4c000081}), "indirect"));                // jirl $ra, $a0, 0
  CHECK(has(words("loongarch64", {0x4c000080}), "indirect"));                // jr $a0
  CHECK(has(words("loongarch64", {0x50100000}), "leaves the module"));       // b 4096
}

TEST_CASE("LoongArch: frames by constants, by registers that hold one, and from the frame pointer") {
  constexpr uint32_t ret = 0x4c000020, down_2048 = 0x02e00063, down_16 = 0x02ffc063, down_2032 = 0x02e04063, up_2032 = 0x02dfc063;
  constexpr uint32_t set_fp = 0x02dfc076, load_fp = 0x28df8076, align = 0x00850003, sp_of_fp = 0x02fe02c3;  // fp = sp + 2032; sp = fp - 128
  constexpr uint32_t a0_is_4096 = 0x14000024, a0_is_64 = 0x03810004, sp_is_fp_less_a0 = 0x001192c3, sp_less_a0 = 0x00119063;
  CHECK(words("loongarch64", {down_2048, down_2048}) == "");
  CHECK(has(words("loongarch64", {down_2048, down_2048, down_16}), "4096"));
  CHECK(words("loongarch64", {down_2048, up_2032, ret, down_2048, down_2048, ret}) == "");
  CHECK(words("loongarch64", {down_2032, set_fp, down_16, align, a0_is_4096, sp_is_fp_less_a0, up_2032, load_fp, up_2032, ret}) == "");
  CHECK(has(words("loongarch64", {down_2048, down_2032, align}), "4096"));   // up to 63 bytes more
  CHECK(has(words("loongarch64", {0x008c0003}), "variable size"));           // bits 12 to 0 cleared
  CHECK(words("loongarch64", {a0_is_64, sp_less_a0, ret}) == "");
  CHECK(has(words("loongarch64", {a0_is_4096, down_16, sp_less_a0}), "4096"));
  CHECK(has(words("loongarch64", {sp_less_a0}), "variable size"));
  CHECK(has(words("loongarch64", {a0_is_64, 0x28c00084, sp_less_a0}), "variable size"));  // ld.d $a0, $a0, 0 between
  CHECK(has(words("loongarch64", {a0_is_64, 0x40000880, sp_less_a0, ret}), "variable size"));  // a branch between
  CHECK(has(words("loongarch64", {a0_is_64, 0x00109483}), "variable size"));  // add.d $sp, $a0, $a1
  CHECK(has(words("loongarch64", {sp_of_fp}), "variable size"));
  CHECK(words("loongarch64", {down_2032, set_fp, sp_of_fp, load_fp, up_2032, ret, sp_of_fp, load_fp, up_2032, ret}) == "");
  CHECK(has(words("loongarch64", {down_2032, set_fp, load_fp, sp_of_fp}), "variable size"));
}

TEST_CASE("RISC-V with vectors: types that every machine has, two control registers, frames at the longest registers") {
  constexpr uint32_t vlenb_to_a0 = 0xc2202573, sub_sp_a0 = 0x40a10133, ret = 0x00008067;
  CHECK(words("rv64gcv", {0x0d0572d7, 0x02a50557, ret}) == "");             // vsetvli t0, a0, e32, m1, ta, ma; vadd.vv
  CHECK(has(words("rv64gc", {0x02a50557}), "no instruction"));
  CHECK(has(words("rv64gcv", {0x20b54533}), "no instruction"));             // sh2add
  CHECK(has(words("rv64gcv", {0x80b572d7}), "a register says"));            // vsetvl t0, a0, a1
  CHECK(has(words("rv64gcv", {0x0d4572d7}), "not every machine"));          // vsetvli, multiplier 4: reserved
  CHECK(has(words("rv64gcv", {0x0d5572d7}), "not every machine"));          // e32 in an eighth of 64 bits
  CHECK(words("rv64gcv", {0x0d7572d7}) == "");                              // e32 in a half
  CHECK(words("rv64gcv", {vlenb_to_a0, ret}) == "");
  CHECK(has(words("rv64gc", {vlenb_to_a0}), "control register"));
  CHECK(has(words("rv64gcv", {0xc2002573}), "control register"));           // csrr a0, vl
  CHECK(has(words("rv64gcv", {0x00251073}), "control register"));           // fsrm a0
  CHECK(words("rv64gcv", {0x00a15073, ret}) == "");                         // csrwi vxrm, 2
  // 31 registers of 128 bytes fit in a frame, 32 with 16 bytes more do not.
  CHECK(words("rv64gcv", {vlenb_to_a0, 0x00551593, 0x40a585b3, 0x40b10133, ret}) == "");  // a1 = (a0 << 5) - a0; sub sp, sp, a1
  CHECK(has(words("rv64gcv", {0xff010113, vlenb_to_a0, 0x00551513, sub_sp_a0}), "4096"));
  CHECK(has(words("rv64gcv", {sub_sp_a0}), "variable size"));
  CHECK(has(words("rv64gcv", {vlenb_to_a0, 0x00053503, sub_sp_a0}), "variable size"));    // ld a0, 0(a0) between
  CHECK(has(words("rv64gcv", {vlenb_to_a0, 0x00000463, sub_sp_a0, sub_sp_a0}), "variable size"));  // a branch between
}

TEST_CASE("a module with an import, without code or for another machine is refused") {
  testing::Pool pool;
  std::vector<loop::Kernel> kernels;
  kernels.push_back(testing::kernel(pool, "nothing", {}));
  const Target& v3 = *targets::find_target("x86-64-v3");
  auto module = targets::emit_module(v3, kernels);
  REQUIRE(module.ok());
  const std::vector<std::byte> good = module->bytes;
  CHECK(targets::audit_module(v3, good).ok());
  CHECK(has(targets::audit_module(*targets::find_target("armv8-a"), good).text(), "machine"));
  CHECK(!targets::audit_module(v3, std::span(good).first(20)).ok());

  auto patched = [&](uint32_t type, auto change) {
    std::vector<std::byte> bytes = good;
    auto* header = reinterpret_cast<Elf64_Ehdr*>(bytes.data());
    auto* segments = reinterpret_cast<Elf64_Phdr*>(bytes.data() + header->e_phoff);
    for (unsigned k = 0; k < header->e_phnum; ++k)
      if (segments[k].p_type == type) change(bytes, segments[k]);
    return targets::audit_module(v3, bytes).text();
  };
  CHECK(has(patched(PT_LOAD, [](auto&, Elf64_Phdr& s) { s.p_flags &= ~uint32_t{PF_X}; }), "no instruction"));
  CHECK(has(patched(PT_LOAD, [](auto&, Elf64_Phdr& s) { if (s.p_flags & PF_X) s.p_flags |= PF_W; }), "writable and executable"));
  CHECK(has(patched(PT_DYNAMIC, [](auto& bytes, Elf64_Phdr& s) {
              const int64_t needed = DT_NEEDED;
              std::memcpy(bytes.data() + s.p_offset, &needed, 8);
            }), "import"));
  CHECK(has(patched(PT_GNU_STACK, [](auto&, Elf64_Phdr& s) { s.p_type = PT_TLS; }), "thread-local"));
}

}  // namespace
}  // namespace mlc
