// Files of sound to float samples: WAV (wav.h), FLAC, and Vorbis in Ogg. The last two are libsndfile's, which is loaded when the first of them is
// decoded (sndfile_library.h).
#pragma once

#include "runtime/io/sound/wav.h"

namespace mlc::io {

// Whether this build decodes FLAC and Ogg: a cross-compiled one may lack libsndfile.
bool decodes_packed_sounds();

// What the first bytes say decides. WAV takes at most limits.beyond(file), the others, which are packed, at most `limits`, all that their
// libraries ask for included.
Result<Audio> decode_sound(Bytes file, Channels channels, const DecodeLimits& limits = {});

}  // namespace mlc::io
