// The sound of `mlrun --stream`, piece by piece, as samples that the pipeline's decoder would make.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/io/file.h"
#include "runtime/io/sound/pcm.h"
#include "runtime/io/tensor.h"
#include "schema/pipeline/pipeline.h"

namespace mlc::cli {

class StreamSound {
 public:
  virtual ~StreamSound() = default;
  // Valid until the next call. Empty: the end. What is left of a frame at the end is Malformed, once all before it were given.
  virtual Result<std::span<const float>> next() = 0;
};

// A sound that is there: f32 [samples].
std::unique_ptr<StreamSound> sound_of(HostTensor samples);
// Raw samples, as they come. InputMismatch where their rate is not that of the step.
Result<std::unique_ptr<StreamSound>> sound_of(io::FileReader reader, const io::PcmFormat& format, const pipeline::DecodeAudio& step);
// A WAV file on standard input, as it comes. Null where it is none: what was read of it is given back. InputMismatch as above; a sound that
// is shorter than its file says is Malformed, once all samples were given.
Result<std::unique_ptr<StreamSound>> sound_that_comes(io::InputFiles& files, const pipeline::DecodeAudio& step);

}  // namespace mlc::cli
