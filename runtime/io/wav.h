// RIFF/WAVE to float samples: PCM of 8, 16, 24 and 32 bits, IEEE floats of 32 and 64. PCM of n bits is divided by
// 2^(n-1) (8-bit PCM is unsigned, 128 is zero). A chunk that is cut off is an error.
#pragma once

#include "runtime/io/limits.h"
#include "runtime/io/tensor.h"

namespace mlc::io {

inline constexpr uint64_t kMaxSamples = uint64_t{1} << 31;  // over all channels

enum class Channels {
  First,  // [n]: the first channel
  Mean,   // [n]: the mean over channels, summed in double, rounded once
  Keep,   // [n, channels]
};

struct Audio {
  HostTensor samples;  // f32
  uint32_t rate = 0;   // Hz
};

// The samples take at most limits.beyond(file).
Result<Audio> decode_wav(Bytes file, Channels channels, const DecodeLimits& limits = {});

}  // namespace mlc::io
