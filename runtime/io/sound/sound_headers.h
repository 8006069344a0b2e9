// What the headers of packed sounds say before their library sees them: whether it will meet one stream only, and how much memory it may take.
#pragma once

#include "base/checked.h"
#include "base/status.h"

namespace mlc::io {

inline constexpr uint32_t kMaxPackedChannels = 8;  // FLAC has no more

struct SoundHeader {
  uint32_t channels = 0;
  uint64_t memory = 0;  // bytes that decoding takes beside the samples, at most
};

// FLAC: the stream information and the sizes of all other blocks before the first frame.
Result<SoundHeader> flac_header(Bytes file);
// Vorbis in Ogg: one stream, pages one behind the other with right checksums, so that the library finds the pages that are checked here, and
// the books of the codes, of which a few bytes may ask for gigabytes.
Result<SoundHeader> vorbis_header(Bytes file);

}  // namespace mlc::io
