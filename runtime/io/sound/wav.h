// RIFF/WAVE to float samples and back. What is read: PCM of 8, 16, 24 and 32 bits, IEEE floats of 32 and 64. PCM of n bits is divided by
// 2^(n-1) (8-bit PCM is unsigned, 128 is zero). A chunk that is cut off is an error.
#pragma once

#include <functional>
#include <span>
#include <vector>

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

inline constexpr int64_t kMostWrittenChannels = 64;

// What stands before the samples of a file of 16-bit PCM. `sample_bytes`: of all samples. InputMismatch: too many channels, or 4 GiB,
// which no such file has.
inline constexpr size_t kWavHeader = 44;  // bytes
Result<std::vector<std::byte>> wav_header(uint64_t sample_bytes, int64_t channels, uint32_t rate);

// A file of 16-bit PCM: of f32 [channels, samples] each sample times 32768, rounded half to even, no further than what 16 bits hold; no number
// becomes 0. `allow` is asked before the bytes are made; what it refuses is the answer. InputMismatch: as wav_header.
Result<std::vector<std::byte>> encode_wav(std::span<const float> samples, int64_t channels, uint32_t rate, const std::function<Status(uint64_t bytes)>& allow);

}  // namespace mlc::io
