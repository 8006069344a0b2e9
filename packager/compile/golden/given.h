// Inputs of golden vectors that the user gives: `mlpack build --golden in.npz`.
#pragma once

#include "packager/compile/golden/golden.h"

namespace mlc::compile {

// Fails if containers hold no vectors of what the function takes or gives.
Status can_be_given(const nest::Function& function);
// The arrays in the order of the function's inputs; fails if names, types or shapes are not what it takes, all problems at once.
Result<std::vector<nest::Tensor>> inputs_given(const nest::Function& function, const GivenVector& vector);
// From the name of the file, and of none of the others.
std::string name_for(const GivenVector& vector, const std::vector<GoldenVector>& others);

}  // namespace mlc::compile
