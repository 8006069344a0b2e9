// What must hold for a plan that the packager wrote, beyond what the runtime will check of it.
#pragma once

#include <functional>

#include "base/checked.h"
#include "base/status.h"

namespace mlc::plan {

// OK, or Internal with what is wrong: the runtime's decoder refuses the bytes; or, for some of the sample shapes that the
// plan's own checks allow, a range lies outside the arena, or two buffers share bytes of the arena while both are alive,
// that is, between the first and the last instruction that names them; or an instruction does not wait for one before it that
// writes what it uses, or uses what it writes; or an instruction reads a buffer of the arena that none before it writes; or the loops of a launch have less than no turns. `num_kernels`: of the module; `writes`: whether a kernel writes this operand.
Status verify(Bytes plan, uint32_t num_kernels, const std::function<bool(uint32_t kernel, size_t operand)>& writes);

}  // namespace mlc::plan
