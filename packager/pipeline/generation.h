// The step `generate` for one model: its patterns become names, and what does not fit the model is said.
#pragma once

#include "base/status.h"
#include "packager/compile/expand.h"
#include "packager/model/model.h"
#include "schema/pipeline/steps.h"

namespace mlc::pipeline {

// E5009: all names that the model does not have, inputs that nothing feeds, and types that do not fit.
Result<compile::Generation> generation_of(const Generate& step, const model::Model& model);

}  // namespace mlc::pipeline
