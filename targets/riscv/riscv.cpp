// RISC-V without vectors: a vector of four floats is four of the 32 scalar registers, so eight such groups exist.
#include "targets/families.h"

namespace mlc::targets::riscv {

const Emitter& emitter() {
  static const CpuEmitter all("riscv64-unknown-linux-elf", {{"rv64gc", 16, 8, true, false, false, /*has_vectors=*/false}}, audit);
  return all;
}

}  // namespace mlc::targets::riscv
