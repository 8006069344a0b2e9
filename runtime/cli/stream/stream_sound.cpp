#include "runtime/cli/stream/stream_sound.h"

#include <algorithm>
#include <cstring>

#include "base/counted.h"
#include "runtime/pipeline/host_steps.h"

namespace mlc::cli {
namespace {

constexpr size_t kPiece = 1 << 16;  // bytes of a file; samples of a sound that is there

class WholeSound : public StreamSound {
 public:
  explicit WholeSound(HostTensor samples) : samples_(std::move(samples)) {}

  Result<std::span<const float>> next() override {
    const std::span<const float> all = samples_.as<float>(), piece = all.subspan(at_, std::min(kPiece, all.size() - at_));
    at_ += piece.size();
    return piece;
  }

 private:
  HostTensor samples_;
  size_t at_ = 0;
};

class RawSound : public StreamSound {
 public:
  RawSound(io::FileReader reader, const io::PcmFormat& format, io::Channels channels)
      : reader_(std::move(reader)), format_(format), channels_(channels), bytes_(std::max<size_t>(kPiece, format.frame_bytes())) {}

  Result<std::span<const float>> next() override {
    const size_t frame = format_.frame_bytes();
    while (held_ < frame) {
      MLC_ASSIGN(const size_t got, reader_.read(std::span(bytes_).subspan(held_)));
      if (got == 0 && held_ == 0) return std::span<const float>();
      if (got == 0)
        return Status(Code::Malformed, "the sound ends within a sample: {} behind the last whole one, which has {}",
                      counted(held_, "byte"), counted(frame, "byte"))
            .hint("--pcm says how the samples are written");
      held_ += got;
    }
    const size_t frames = held_ / frame;
    samples_.resize(frames);
    io::pcm_to_floats(Bytes(bytes_).first(frames * frame), format_, channels_, samples_.data());
    held_ -= frames * frame;
    std::memmove(bytes_.data(), bytes_.data() + frames * frame, held_);
    return std::span<const float>(samples_);
  }

 private:
  io::FileReader reader_;
  io::PcmFormat format_;
  io::Channels channels_;  // one sample for each frame
  std::vector<std::byte> bytes_;
  size_t held_ = 0;  // of them, not yet given
  std::vector<float> samples_;
};

}  // namespace

std::unique_ptr<StreamSound> sound_of(HostTensor samples) { return std::make_unique<WholeSound>(std::move(samples)); }

Result<std::unique_ptr<StreamSound>> sound_of(io::FileReader reader, const io::PcmFormat& format, const pipeline::DecodeAudio& step) {
  MLC_RETURN_IF_ERROR(pipeline::check_rate(format.rate, step.rate));
  return std::unique_ptr<StreamSound>(std::make_unique<RawSound>(std::move(reader), format, pipeline::channels_of(step.channels)));
}

}  // namespace mlc::cli
