// LoongArch, LA64. Without vectors four floats are four of the 32 scalar registers, so eight such groups exist. LSX has
// 32 registers of 16 bytes, no masked loads and no products by a lane: what all lanes take comes from memory (vldrepl).
// Vectors lie wherever an element may, so the row with vectors asks for accesses that are not aligned (la.ual).
#include "targets/families.h"

namespace mlc::targets::loongarch {

const Emitter& emitter() {
  static const CpuEmitter all("loongarch64-unknown-linux-elf",
                              {
                                  {"loongarch64", 16, 8, true, false, false, /*has_vectors=*/false},
                                  {"loongarch64-lsx", 16, 32, true, false, false},
                              },
                              audit);
  return all;
}

}  // namespace mlc::targets::loongarch
