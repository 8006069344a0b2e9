// x86-64. The levels are those of the psABI; widths and register counts follow from them.
#include "targets/families.h"

namespace mlc::targets::x86 {

const Emitter& emitter() {
  static const CpuEmitter all("x86_64-pc-linux-elf",
                              {
                                  {"x86-64-v1", 16, 16, false, false, true},
                                  {"x86-64-v2", 16, 16, false, false, true},
                                  {"x86-64-v3", 32, 16, true, false, false},
                                  {"x86-64-v3+vnni", 32, 16, true, false, false},
                                  {"x86-64-v4", 64, 32, true, true, false},
                                  {"x86-64-v4+vnni", 64, 32, true, true, false},
                                  {"x86-64-v4+vnni+bf16", 64, 32, true, true, false},
                                  {"x86-64-v4+amx", 64, 32, true, true, false},
                              },
                              audit);
  return all;
}

}  // namespace mlc::targets::x86
