// Tables of the steps on sounds, in double. One definition for the reference and for what is compiled.
#pragma once

#include <vector>

#include "schema/pipeline/steps.h"

namespace mlc::pipeline {

// As many as a frame has samples.
std::vector<double> window_table(const Window& step, int64_t length);
// What the rows of a sound that goes on are multiplied by: the window, divided by the sum of its squares where many rows cover a sample.
// `length` is not below `hop`.
std::vector<double> overlap_table(const OverlapAdd& step, int64_t length);
// Row-major [n_fft / 2 + 1, bands].
std::vector<double> mel_weights(const Mel& step);
// What each sample of the new rate is made of: sample k is the sum over j of taps[k % to, j] * x[k * from / to - before + j], quotients rounded
// down, where the sound has such samples.
struct ResampleTaps {
  int64_t before = 0, count = 0;
  std::vector<double> taps;  // row-major [to, count]
};
ResampleTaps resample_taps(const Resample& step);
// Elements of `taps`, which tell what the table costs before it is made.
int64_t resample_taps_size(const Resample& step);
// Samples of the result.
int64_t resampled_length(const Resample& step, int64_t samples);
// The least number of samples of which there is a frame.
int64_t least_samples(const Frame& step);

}  // namespace mlc::pipeline
