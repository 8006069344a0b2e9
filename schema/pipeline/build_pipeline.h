// One pipeline of a file.
#pragma once

#include "schema/pipeline/pipeline.h"
#include "schema/pipeline/reader.h"

namespace mlc::pipeline {

// Reads inputs, steps and outputs into `pipeline`, whose name and file are known. Keys that are left are the caller's to report.
void build_pipeline(Pipeline& pipeline, ObjectReader& description, Problems& problems);

}  // namespace mlc::pipeline
