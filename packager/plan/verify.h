// What must hold for a plan that the packager wrote, beyond what the runtime will check of it.
#pragma once

#include "base/checked.h"
#include "base/status.h"

namespace mlc::plan {

// OK, or Internal with what is wrong: the runtime's decoder refuses the bytes; or, for some of the sample shapes that the
// plan's own checks allow, a range lies outside the arena, or two buffers share bytes of the arena while both are alive,
// that is, between the first and the last instruction that names them. `num_kernels`: of the module.
Status verify(Bytes plan, uint32_t num_kernels);

}  // namespace mlc::plan
