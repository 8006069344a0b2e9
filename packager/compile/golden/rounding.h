// What a build whose products round their factors (--precision bf16) costs in answers: measured when it is made, and part of the
// tolerance that its vectors have.
#pragma once

#include "packager/compile/golden/golden.h"
#include "packager/ir/context.h"

namespace mlc::compile {

// How far the answers to a program's vectors move, most of all.
struct Rounding {
  std::string program, output;  // of the one that moves farthest
  double error = 0;             // of its largest value; infinite where its shape changes
};

// Interprets a copy of `oracle` whose products with weights (`values`: and those of two values) round their factors with the inputs of the vectors, and notes in each how far its
// outputs lie from its answers. Spends at most `work`, in the interpreter's units: a vector whose run takes more is left as it is, and
// nothing is known where that is all of them, or where the function has control flow. Fails where no output of any vector can tell right from wrong any more.
Result<std::optional<Rounding>> measure_rounding(ir::Context& ctx, const nest::Function& oracle, GoldenSet& golden, bool values, double& work);

}  // namespace mlc::compile
