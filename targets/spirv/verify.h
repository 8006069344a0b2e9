// The audit of one image: a reader of SPIR-V that knows what kernel_emitter.h writes and refuses the rest. Words may be anything.
//
// Shown are: the form of every instruction; ids below the bound, each defined once and before it is used, where control always comes
// from; the types of all operands; capabilities, extensions and decorations of a short list; constructs that nest; memory that the entry
// states (lanes, bytes that a block shares, bindings, push constants) and none else; barriers only where all lanes of a block come. Not
// shown: that addresses lie in their buffers, and that the kernel ends.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "schema/gpu_module.h"

namespace mlc::targets::spirv {

inline constexpr uint32_t kMostPrivateCells = 1u << 16;  // numbers in the variables of a lane

struct Findings {
  std::vector<uint32_t> capabilities;  // sorted
};

// Of matrices of subgroups: their side, and lanes of a subgroup; zero: there are none.
struct Matrices {
  uint32_t side = 0, lanes = 0;
};

// Malformed, with the word where, if the image is not what `entry` says or breaks a rule.
// `subgroups`: of SPIR-V 1.6, with what Limits::subgroups allows; else 1.3. `matrices`: with what Limits::matrix_side allows.
Result<Findings> verify(std::span<const uint32_t> words, const mlc::gpu::Entry& entry, bool subgroups = false, Matrices matrices = {});

}  // namespace mlc::targets::spirv
