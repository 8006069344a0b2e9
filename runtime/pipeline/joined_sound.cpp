#include "runtime/pipeline/joined_sound.h"

#include "base/counted.h"
#include "runtime/io/sound/wav.h"

namespace mlc::pipeline {

Result<Bytes> JoinedSound::add(const SoundFile& part, const std::string& name) {
  if (about_.channels == 0) about_ = {part.media_type, part.rate, part.channels, 0, {}};
  if (part.channels != about_.channels)
    return Status(Code::InputMismatch, 4001, "'{}' has {} in this chunk and {} in those before it, and all chunks together are one sound", name,
                  counted(static_cast<uint64_t>(part.channels), "channel"), about_.channels);
  const Bytes samples = Bytes(part.bytes).subspan(io::kWavHeader);
  about_.samples += part.samples;
  bytes_ += samples.size();
  MLC_ASSIGN(header_, io::wav_header(bytes_, about_.channels, static_cast<uint32_t>(about_.rate)));
  return samples;
}

}  // namespace mlc::pipeline
