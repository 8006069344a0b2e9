// Kernels that earlier runs compiled with the same code generator, in the folder that tests share (tests/support/test_cache.py).
#pragma once

#include "targets/target.h"

namespace mlc::conformance {

// Null where there is none to use. Of this process, for as long as it runs.
targets::CodeStore* kept_code();

}  // namespace mlc::conformance
