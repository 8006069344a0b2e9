// Where the samples of a WAV file begin, and how they lie there: as much of the file as that takes is enough.
#pragma once

#include <optional>

#include "runtime/io/sound/pcm.h"

namespace mlc::io {

struct WavStart {
  PcmFormat format;
  uint64_t at = 0;     // of the first sample
  uint32_t bytes = 0;  // of samples, as the file says
  // A writer that does not know how long the sound gets says 0 or nearly the most that there can be.
  bool is_endless() const { return bytes == 0 || bytes >= 0x7FFF0000; }
};

// `begin`: the first bytes of the file. Nothing where there must be more of them.
Result<std::optional<WavStart>> wav_start(Bytes begin);

}  // namespace mlc::io
