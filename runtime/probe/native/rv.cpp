#include <unistd.h>

#include <cerrno>
#include <span>

#include "runtime/probe/native/native.h"

namespace mlc::probe::native {

Machine machine() { return Machine::RiscV64; }
void probe_cpu(const Sources& s, Record& r) { probe_rv(s, r); }
CpuidRegs cpuid(uint32_t, uint32_t) { return {}; }
uint64_t xgetbv0() { return 0; }
CallResult xcomp_supported() { return {0, ENOSYS}; }
int request_amx() { return ENOSYS; }

int hwprobe(HwprobePair* pairs, size_t num_pairs, size_t cpu_set_size, const void* cpu_set) {
  constexpr long kSysRiscvHwprobe = 258;
  return syscall(kSysRiscvHwprobe, pairs, num_pairs, cpu_set_size, cpu_set, 0) == 0 ? 0 : errno;
}

uint64_t read_vlenb() {
  uint64_t v;
  __asm__ volatile("csrr %0, 0xc22" : "=r"(v));
  return v;
}

uint64_t most_vector_bytes() {
  uint64_t v;
  __asm__ volatile(".insn i 0x57, 7, %0, zero, 0xc0" : "=r"(v));  // vsetvli v, zero, e8, m1, ta, ma; baseline assemblers lack the name
  return v;
}

Bytes code_returning_42() {
  static constexpr uint32_t kCode[] = {0x02a00513, 0x00008067};  // addi a0, zero, 42; ret
  return std::as_bytes(std::span(kCode));
}

}  // namespace mlc::probe::native
