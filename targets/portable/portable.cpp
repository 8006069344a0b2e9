// The portable target: code for the interpreter of loaders/portable, which runs anywhere. Wide registers, because each
// instruction costs the same dispatch however many lanes it has.
#include "targets/family.h"

namespace mlc::targets::portable {

void add_targets(std::vector<Target>& out) {
  Target t;
  t.name = "portable";
  t.family = Family::Portable;
  t.vector_bytes = 64;
  t.vector_registers = 64;
  t.has_masks = true;
  out.push_back(std::move(t));
}

}  // namespace mlc::targets::portable
