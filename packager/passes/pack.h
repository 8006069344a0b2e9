// Constants in the layout that kernels read.
#pragma once

#include <cstddef>
#include <vector>

#include "packager/nest/nest.h"

namespace mlc::passes {

// The elements of a Const array reordered from row-major into array.layout, zeros in the padding of split axes. The
// shape is constant.
std::vector<std::byte> pack(const nest::Array& array);

}  // namespace mlc::passes
