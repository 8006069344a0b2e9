#include <cpuid.h>

#include <cerrno>
#include <span>

#include "runtime/probe/native/native.h"

namespace mlc::probe::native {

Machine machine() { return Machine::X86_64; }
void probe_cpu(const Sources& s, Record& r) { probe_x86(s, r); }

CpuidRegs cpuid(uint32_t leaf, uint32_t subleaf) {
  CpuidRegs r;
  __cpuid_count(leaf, subleaf, r.eax, r.ebx, r.ecx, r.edx);
  return r;
}

uint64_t xgetbv0() {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

int hwprobe(HwprobePair*, size_t, size_t, const void*) { return ENOSYS; }
uint64_t read_vlenb() { return 0; }
uint64_t most_vector_bytes() { return 0; }

Bytes code_returning_42() {
  static constexpr uint8_t kCode[] = {0xb8, 42, 0, 0, 0, 0xc3};  // mov eax, 42; ret
  return std::as_bytes(std::span(kCode));
}

}  // namespace mlc::probe::native
