// Samples as they lie in a file or come from a device: frames of one sample for each channel, little-endian.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/io/sound/wav.h"

namespace mlc::io {

struct PcmFormat {
  bool is_float = false;
  uint32_t bits = 16, channels = 1, rate = 0;  // whole numbers of 8 bits are unsigned, the others signed

  uint32_t frame_bytes() const { return channels * (bits / 8); }
};

// "s16le:16000", "f32le:48000:2": how a sample is written (u8, s16le, s24le, s32le, f32le, f64le), samples per second, and channels
// where there are several. Usage for all else.
Result<PcmFormat> parse_pcm_format(std::string_view text);

// Whole frames to samples, which have room: one for each frame, or one for each channel with Channels::Keep. Values as in wav.h.
void pcm_to_floats(Bytes frames, const PcmFormat& format, Channels channels, float* out);

}  // namespace mlc::io
