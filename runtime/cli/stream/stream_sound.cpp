#include "runtime/cli/stream/stream_sound.h"

#include <algorithm>
#include <cstring>

#include "base/counted.h"
#include "runtime/io/sound/wav_start.h"
#include "runtime/pipeline/host_steps.h"

namespace mlc::cli {
namespace {

constexpr uint64_t kEndless = UINT64_MAX;
constexpr size_t kHeads = 1 << 16;  // bytes that may stand before the samples of a file that comes: more are read to its end
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
  // `begun`: what has been read of them. `left`: bytes that there must be, kEndless where unknown; what is behind them is not read.
  RawSound(io::FileReader reader, const io::PcmFormat& format, io::Channels channels, Bytes begun, uint64_t left, const char* hint)
      : reader_(std::move(reader)), format_(format), channels_(channels), bytes_(std::max<size_t>({kPiece, format.frame_bytes(), begun.size()})),
        held_(begun.size()), left_(left), hint_(hint) {
    if (held_ > 0) std::memcpy(bytes_.data(), begun.data(), held_);
    held_ = take(held_);
  }

  Result<std::span<const float>> next() override {
    const size_t frame = format_.frame_bytes();
    while (held_ < frame) {
      MLC_ASSIGN(size_t got, left_ > 0 ? reader_.read(std::span(bytes_).subspan(held_)) : Result<size_t>(size_t{0}));
      if (got == 0 && held_ > 0)
        return Status(Code::Malformed, "the sound ends within a sample: {} behind the last whole one, which has {}",
                      counted(held_, "byte"), counted(frame, "byte"))
            .hint(hint_);
      if (got == 0 && left_ > 0 && left_ != kEndless)
        return Status(Code::Malformed, "wav: truncated in chunk 'data': {} bytes are missing", left_);
      if (got == 0) return std::span<const float>();
      held_ += take(got);
    }
    const size_t frames = held_ / frame;
    samples_.resize(frames);
    io::pcm_to_floats(Bytes(bytes_).first(frames * frame), format_, channels_, samples_.data());
    held_ -= frames * frame;
    std::memmove(bytes_.data(), bytes_.data() + frames * frame, held_);
    return std::span<const float>(samples_);
  }

 private:
  // Of bytes that were read those that are of samples.
  size_t take(size_t got) {
    if (left_ == kEndless) return got;
    const size_t taken = static_cast<size_t>(std::min<uint64_t>(got, left_));
    left_ -= taken;
    return taken;
  }

  io::FileReader reader_;
  io::PcmFormat format_;
  io::Channels channels_;  // one sample for each frame
  std::vector<std::byte> bytes_;
  size_t held_ = 0;  // of them, not yet given
  uint64_t left_;    // bytes that are not yet read
  const char* hint_;
  std::vector<float> samples_;
};

}  // namespace

std::unique_ptr<StreamSound> sound_of(HostTensor samples) { return std::make_unique<WholeSound>(std::move(samples)); }

Result<std::unique_ptr<StreamSound>> sound_of(io::FileReader reader, const io::PcmFormat& format, const pipeline::DecodeAudio& step) {
  MLC_RETURN_IF_ERROR(pipeline::check_rate(format.rate, step.rate));
  return std::unique_ptr<StreamSound>(std::make_unique<RawSound>(std::move(reader), format, pipeline::channels_of(step.channels), Bytes(), kEndless,
                                                                 "--pcm says how the samples are written"));
}

Result<std::unique_ptr<StreamSound>> sound_that_comes(io::InputFiles& files, const pipeline::DecodeAudio& step) {
  MLC_ASSIGN(io::FileReader reader, files.reader("-"));
  std::vector<std::byte> begin;
  std::optional<io::WavStart> start;
  while (!start) {
    const size_t held = begin.size();
    begin.resize(held + kHeads);
    MLC_ASSIGN(const size_t got, reader.read(std::span(begin).subspan(held)));
    begin.resize(held + got);
    // What is no WAV, and what is cut, is told of by the decoder of whole files.
    auto found = io::wav_start(begin);
    if (!found.ok() || (!*found && (got == 0 || begin.size() > kHeads))) {
      files.give_back(std::move(begin));
      return std::unique_ptr<StreamSound>();
    }
    start = *found;
  }
  MLC_RETURN_IF_ERROR(pipeline::check_rate(start->format.rate, step.rate));
  const uint64_t left = start->is_endless() ? kEndless : start->bytes;
  return std::unique_ptr<StreamSound>(std::make_unique<RawSound>(std::move(reader), start->format, pipeline::channels_of(step.channels),
                                                                 Bytes(begin).subspan(start->at), left, "the file is cut off"));
}

}  // namespace mlc::cli
