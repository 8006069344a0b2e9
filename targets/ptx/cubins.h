// Cubins beside the PTX of a module: drivers load them without assembling anything.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "targets/ptx/ptxas.h"
#include "targets/target.h"

namespace mlc::targets::ptx {

struct CubinReport {
  std::vector<uint32_t> architectures;       // that there are cubins for
  std::vector<Assembled::Kernel> kernels;    // once for each architecture
  std::vector<std::string> left_out;         // a line for each architecture that was left out, and why
};

// Architectures that a target's code is worth to be assembled for: its own, and later ones where code for it runs well.
std::vector<uint32_t> usual_architectures(const Target& target);

// The module with cubins behind each image of PTX, ascending. Of `architectures` those before the target's own are not for it. What the
// assembler does not know is left out; anything else that it refuses is an error. Cubins that were there are replaced.
Result<std::vector<std::byte>> add_cubins(const Target& target, std::span<const std::byte> module, std::span<const uint32_t> architectures, const Ptxas& ptxas,
                                          unsigned threads, CubinReport& report);

}  // namespace mlc::targets::ptx
