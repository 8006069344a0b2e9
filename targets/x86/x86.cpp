// x86-64. The levels are those of the psABI; widths and register counts follow from them.
#include "targets/family.h"

namespace mlc::targets::x86 {

void add_targets(std::vector<Target>& out) {
  struct Row {
    const char* name;
    unsigned vector_bytes, registers;
    bool fma, masks;
  };
  constexpr Row rows[] = {
      {"x86-64-v1", 16, 16, false, false}, {"x86-64-v2", 16, 16, false, false},
      {"x86-64-v3", 32, 16, true, false},  {"x86-64-v3+vnni", 32, 16, true, false},
      {"x86-64-v4", 64, 32, true, true},   {"x86-64-v4+vnni", 64, 32, true, true},
      {"x86-64-v4+vnni+bf16", 64, 32, true, true},
  };
  for (const Row& row : rows) {
    Target t = target_of_row(row.name, Family::X86, "x86_64-pc-linux-elf");
    t.vector_bytes = row.vector_bytes;
    t.vector_registers = row.registers;
    t.has_fma = row.fma;
    t.has_masks = row.masks;
    out.push_back(std::move(t));
  }
}

}  // namespace mlc::targets::x86
