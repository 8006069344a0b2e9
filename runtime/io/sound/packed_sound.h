// FLAC and Vorbis in Ogg, which sound.h tells from WAV.
#pragma once

#include "runtime/io/sound/wav.h"

namespace mlc::io {

// Unsupported where libsndfile is missing.
Result<Audio> decode_packed_sound(Bytes file, Channels channels, const DecodeLimits& limits);

}  // namespace mlc::io
