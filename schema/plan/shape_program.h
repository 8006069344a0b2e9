// Evaluates a function's shape program: from the extents of its inputs, and elements of them, to the value of every symbol.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "schema/plan/plan.h"

namespace mlc::exec {

using Shape = std::span<const int64_t>;

// `elements` are the values that Function::elements names, in order, as far as they are within their inputs.
// `shapes` has one entry per input with as many extents as the port has axes; extents are >= 0. `symbols` is resized to
// num_symbols; doubles are stored as their bits. InputMismatch if a check of the plan fails or an extent differs from
// what the port demands (all ports are reported), if an element is read that an input does not have, or if the arithmetic
// overflows or divides by zero.
Status evaluate_shapes(const Function& function, std::span<const Shape> shapes, std::span<const int64_t> elements,
                       std::vector<int64_t>& symbols);

}  // namespace mlc::exec
