// What golden vectors of a stream are made of: chunks that follow each other, each carrying on what the one before gave.
#pragma once

#include <vector>

#include "packager/compile/golden/golden.h"
#include "packager/nest/nest.h"
#include "schema/pipeline/pipeline.h"

namespace mlc::compile {

// Two chunks of noise from the first samples on, and one of silence behind them. None where the function is not that of a pipeline
// with a stream, takes or carries anything that other sections have, or takes more samples than a file should hold.
std::vector<GivenVector> vectors_of_chunks(const pipeline::PipelineFile& file, const nest::Function& function);

}  // namespace mlc::compile
