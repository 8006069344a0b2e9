// The bytes of a constant in the order of its layout.
#pragma once

#include <cstddef>
#include <vector>

#include "packager/nest/nest.h"

namespace mlc::passes {

// `array` is Const with constant extents and data of matching size; padding elements are zero.
std::vector<std::byte> pack(const nest::Array& array);

}  // namespace mlc::passes
