#include <cerrno>
#include <span>

#include "runtime/probe/native/native.h"

namespace mlc::probe::native {

Machine machine() { return Machine::LoongArch64; }
void probe_cpu(const Sources& s, Record& r) { probe_la(s, r); }
CpuidRegs cpuid(uint32_t, uint32_t) { return {}; }
uint64_t xgetbv0() { return 0; }
CallResult xcomp_supported() { return {0, ENOSYS}; }
int request_amx() { return ENOSYS; }
int hwprobe(HwprobePair*, size_t, size_t, const void*) { return ENOSYS; }
uint64_t read_vlenb() { return 0; }
uint64_t most_vector_bytes() { return 0; }

Bytes code_returning_42() {
  static constexpr uint32_t kCode[] = {0x0280a804, 0x4c000020};  // addi.w $a0, $zero, 42; ret
  return std::as_bytes(std::span(kCode));
}

}  // namespace mlc::probe::native
