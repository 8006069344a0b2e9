// Copies of functions: of statements and their loops; expressions, dims and the bytes of constants are shared.
#pragma once

#include "packager/nest/nest.h"

namespace mlc::nest {

// Of a function without controls.
Function copy_of(const Function& f);

}  // namespace mlc::nest
