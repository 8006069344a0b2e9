// What a build whose products round their factors (--precision) costs in answers: measured when it is made, and part of the
// tolerance that its vectors have.
#pragma once

#include "packager/compile/golden/golden.h"
#include "packager/ir/context.h"
#include "packager/passes/passes.h"

namespace mlc::compile {

// How far the answers to a program's vectors move, most of all, or that this is not known.
struct Rounding {
  enum class Unknown : uint8_t { No, ControlFlow /* bodies are not measured */, Saturated /* what is rounded does not reach the answers */ };
  std::string program, output;  // of the one that moves farthest
  double error = 0;             // of its largest value; infinite where its shape changes
  Unknown unknown = Unknown::No;
};

// Interprets a copy of `oracle` whose products with weights (`values`, and tf32: and those of two values) round their factors with the inputs of the vectors, and notes in each how far its
// outputs lie from its answers. Spends at most `work`, in the interpreter's units: a vector whose run takes more is left as it is, and
// nothing is told where that is all of them. Answers that move by less than any sum of rounded factors does are saturated, as behind a softmax that is all of one class. Fails where no output of any vector can tell right from wrong any more
// (SelfTest), and where a number of an answer becomes infinite or none (Unsupported): f16 ends at 65,504.
Result<std::optional<Rounding>> measure_rounding(ir::Context& ctx, const nest::Function& oracle, GoldenSet& golden, passes::Precision precision, passes::RoundedValues values, double& work);

}  // namespace mlc::compile
