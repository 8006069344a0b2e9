// The few instructions and system calls that exist on one architecture only; <arch>.cpp, one of which is built.
// Compiled for the baseline of the architecture and without LTO, which has moved vector code into feature checks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/checked.h"
#include "runtime/probe/probe.h"

namespace mlc::probe::native {

Machine machine();
// The part of run() for this machine.
void probe_cpu(const Sources& sources, Record& record);
CpuidRegs cpuid(uint32_t leaf, uint32_t subleaf);
uint64_t xgetbv0();
CallResult xcomp_supported();
int request_amx();  // asks for tile data, for the whole process; errno or 0
int hwprobe(HwprobePair* pairs, size_t num_pairs, size_t cpu_set_size, const void* cpu_set);
uint64_t read_vlenb();
uint64_t most_vector_bytes();
// Machine code of `int f() { return 42; }`.
Bytes code_returning_42();

}  // namespace mlc::probe::native
