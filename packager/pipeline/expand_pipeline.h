// The array steps of a pipeline and the models between them as Nest functions, one for each section of them (schema/pipeline,
// sections), so that steps and models are compiled and fused together. Inputs are the tensors that host steps, the caller or
// an earlier section hand over, outputs those that are read behind: Section::in and out, in that order and by the names of the
// values.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "base/status.h"
#include "packager/ir/context.h"
#include "packager/lang/lang.h"
#include "packager/model/model.h"
#include "packager/nest/nest.h"
#include "schema/pipeline/pipeline.h"

namespace mlc::pipeline {

// The models of programs, by the names that `run` steps use.
using Models = std::map<std::string, const model::Model*>;

// What is known of a tensor that a section gives: extents are null where a run decides them.
struct KnownArray {
  DType dtype = DType::None;
  std::vector<std::optional<int64_t>> shape;
  std::optional<int64_t> classes = {};  // of detections: that their scores have
};
struct ExpandedPipeline {
  std::vector<nest::Function> functions;  // one for each section of array steps, those of bodies behind that which gives their lists
  std::map<const Pipeline*, std::map<ValueId, KnownArray>> known;  // tensors that sections give, of the pipeline and of its bodies
};

// Free sides of pictures become symbols "<value>.height" and "<value>.width". What each step computes: spec/pipeline.md;
// the texts are ops/pipeline.mlop, domain "mlc.pipeline".
Result<ExpandedPipeline> expand_pipeline(ir::Context& ctx, const lang::Library& library, const Models& programs, const Pipeline& pipeline);

}  // namespace mlc::pipeline
