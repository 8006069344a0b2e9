// Whether what answers are made of fits what the compiled steps give: labels shifted by one look right.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "packager/pipeline/expand_pipeline.h"
#include "schema/pipeline/pipeline.h"

namespace mlc::pipeline {

// `expanded` is the pipeline expanded, `assets` its lists by name. Where the number of columns depends on the input the
// same question is asked before each answer. All misfits are reported together, each with its place: E5003 for lists,
// E5009 for arrays.
Status check_lists(const Pipeline& pipeline, const ExpandedPipeline& expanded, const std::map<std::string, std::vector<std::byte>>& assets);

}  // namespace mlc::pipeline
