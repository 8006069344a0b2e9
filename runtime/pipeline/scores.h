// Elements of any float type as double, for host steps that compare scores.
#pragma once

#include "runtime/io/tensor.h"

namespace mlc::pipeline {

// Element i of a f64, f32, f16 or bf16 tensor (asserted; ask `has_scores` first). The conversion is exact.
double score_at(const HostTensor& t, int64_t i);
bool has_scores(const HostTensor& t);

}  // namespace mlc::pipeline
