// Tables of the steps on sounds, in double. One definition for the reference and for what is compiled.
#pragma once

#include <vector>

#include "schema/pipeline/steps.h"

namespace mlc::pipeline {

// As many as a frame has samples.
std::vector<double> window_table(const Window& step, int64_t length);
// Row-major [n_fft / 2 + 1, bands].
std::vector<double> mel_weights(const Mel& step);
// The least number of samples of which there is a frame.
int64_t least_samples(const Frame& step);

}  // namespace mlc::pipeline
