// AArch64 with fixed-width NEON code; a fused multiply-add and conversions of f16 are part of its baseline.
#include "targets/families.h"

namespace mlc::targets::aarch64 {

const Emitter& emitter() {
  static const CpuEmitter all("aarch64-unknown-linux-elf",
                              {
                                  {"armv8-a", 16, 32, true, false, true},
                                  {"armv8-a+dotprod+fp16", 16, 32, true, false, true},
                                  {"armv8-a+i8mm+bf16", 16, 32, true, false, true},
                                  {"armv8-a+sve256", 32, 32, true, true, false},
                                  {"armv8-a+sve512", 64, 32, true, true, false},
                              },
                              audit);
  return all;
}

}  // namespace mlc::targets::aarch64
