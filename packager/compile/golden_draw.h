// Values for inputs, drawn from a counter-based generator: equal builds give equal vectors.
#pragma once

#include "packager/compile/value_bounds.h"
#include "packager/nest/tensor.h"

namespace mlc::compile {

// How integers are chosen where bounds were not enough to make a program run.
enum class Draw : uint8_t { WithinBounds, Zeros, Ones };

// Floats are uniform in [-1, 1), integers 0 or 1, 8-bit integers over their whole range (pictures). Bounds on both sides are
// used to the full: rows of a table are drawn from all of it. `shape` is checked: its bytes fit the memory.
nest::Tensor drawn(DType dtype, std::vector<int64_t> shape, uint64_t seed, const InputBounds& bounds = {}, Draw how = Draw::WithinBounds);

}  // namespace mlc::compile
