// RISC-V. Without vectors four floats are four of the 32 scalar registers, so eight such groups exist. With the V extension
// code has vectors of 16 bytes, the least that V promises: LLVM sets the number of lanes by vsetivli, whatever the registers' length.
// What all lanes take comes from a scalar register (vfmacc.vf), so from memory, not from a lane.
#include "targets/families.h"

namespace mlc::targets::riscv {

const Emitter& emitter() {
  static const CpuEmitter all("riscv64-unknown-linux-elf",
                              {
                                  {"rv64gc", 16, 8, true, false, false, /*has_vectors=*/false},
                                  {"rv64gcv", 16, 32, true, true, false},
                              },
                              audit);
  return all;
}

}  // namespace mlc::targets::riscv
