// The array steps of a pipeline and the model between them as one Nest function, so that they are compiled and fused
// together. Inputs are the tensors that host steps (or the caller) hand over, outputs those that they take back:
// pipeline::array_inputs and array_outputs, in that order and by those names.
#pragma once

#include "base/status.h"
#include "packager/ir/context.h"
#include "packager/lang/lang.h"
#include "packager/model/model.h"
#include "packager/nest/nest.h"
#include "schema/pipeline/pipeline.h"

namespace mlc::pipeline {

// Programs by the names that `run` steps use.
using Programs = std::map<std::string, const model::Model*>;

// Free sides of pictures become symbols "<value>.height" and "<value>.width". What each step computes: spec/pipeline.md;
// the texts are ops/pipeline.mlop, domain "mlc.pipeline".
Result<nest::Function> expand_pipeline(ir::Context& ctx, const lang::Library& library, const Programs& programs, const Pipeline& pipeline);

}  // namespace mlc::pipeline
