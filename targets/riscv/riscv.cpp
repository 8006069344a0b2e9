// RISC-V without vectors: a vector of four floats is four of the 32 scalar registers, so eight such groups exist.
#include "targets/family.h"

namespace mlc::targets::riscv {

void add_targets(std::vector<Target>& out) {
  Target t = target_of_row("rv64gc", Family::RiscV, "riscv64-unknown-linux-elf");
  t.vector_bytes = 16;
  t.vector_registers = 8;
  t.has_fma = true;
  out.push_back(std::move(t));
}

}  // namespace mlc::targets::riscv
