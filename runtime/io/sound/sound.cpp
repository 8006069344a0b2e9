#include "runtime/io/sound/sound.h"

#include "runtime/io/media.h"
#if MLC_HAS_SNDFILE
#include "runtime/io/sound/packed_sound.h"
#endif

namespace mlc::io {

bool decodes_packed_sounds() { return MLC_HAS_SNDFILE != 0; }

Result<Audio> decode_sound(Bytes file, Channels channels, const DecodeLimits& limits) {
  const Media media = media_of(file);
  if (media != Media::Flac && media != Media::Ogg) return decode_wav(file, channels, limits);
#if MLC_HAS_SNDFILE
  return decode_packed_sound(file, channels, limits);
#else
  return Status(Code::Unsupported, "sound: this build does not decode {}", media_type(media)).hint("convert the sound to WAV");
#endif
}

}  // namespace mlc::io
