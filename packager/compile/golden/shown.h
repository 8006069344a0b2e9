// What a golden vector can show: how far answers are apart, and whether an error in a statement would move an output further
// than its tolerance.
#pragma once

#include "packager/compile/golden/golden.h"

namespace mlc::compile {

// The largest difference of an output, relative to its largest value; infinite where shapes differ.
double spread_of(const nest::Tensor& a, const nest::Tensor& b);

// Share of the elements of the recorded outputs that are not 0 and so small beside the largest of their output that any
// other small value would pass for them.
double hidden_share(const GoldenVector& golden, double tolerance);

// Changes the results of some statements, evenly spread over the function, and sees what becomes of the outputs. How many
// follows from `work`, of which the vector itself took `work_of_run`: none where that is too little. What is left of it is told.
Shown shown_by(const nest::Function& oracle, const GoldenVector& golden, double tolerance, double work_of_run, double& work);

}  // namespace mlc::compile
