// AArch64 with fixed-width NEON code; a fused multiply-add and conversions of f16 are part of its baseline.
#include "targets/family.h"

namespace mlc::targets::aarch64 {

void add_targets(std::vector<Target>& out) {
  for (const char* name : {"armv8-a", "armv8-a+dotprod+fp16", "armv8-a+i8mm+bf16"}) {
    Target t = target_of_row(name, Family::AArch64, "aarch64-unknown-linux-elf");
    t.vector_bytes = 16;
    t.vector_registers = 32;
    t.has_fma = true;
    out.push_back(std::move(t));
  }
}

}  // namespace mlc::targets::aarch64
