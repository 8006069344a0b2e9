#include "runtime/io/sound/wav.h"

#include <algorithm>
#include <cmath>

#include "base/byte_cursor.h"
#include "runtime/io/sound/wav_start.h"

namespace mlc::io {
namespace {

enum : uint32_t { kPcm = 1, kFloat = 3, kExtensible = 0xFFFE };

Status bad_wav(std::string what) { return Status(Code::Malformed, "wav: " + std::move(what)); }

Status parse_format(Bytes chunk, PcmFormat& f) {
  if (chunk.size() < 16) return bad_wav("a format chunk of " + std::to_string(chunk.size()) + " bytes");
  ByteCursor in(chunk);
  uint32_t kind = in.take<uint16_t>();
  f.channels = in.take<uint16_t>();
  f.rate = in.take<uint32_t>();
  in.skip(4);
  const auto block = in.take<uint16_t>();
  f.bits = in.take<uint16_t>();
  if (kind == kExtensible) {
    // The real code is the first two bytes of the sub-format's GUID.
    if (chunk.size() < 40) return bad_wav("an extensible format chunk of " + std::to_string(chunk.size()) + " bytes");
    kind = in.at(24).take<uint16_t>();
  }
  f.is_float = kind == kFloat;
  bool known = (kind == kPcm && (f.bits == 8 || f.bits == 16 || f.bits == 24 || f.bits == 32)) ||
               (kind == kFloat && (f.bits == 32 || f.bits == 64));
  if (!known)
    return Status(Code::Unsupported, "wav: format " + std::to_string(kind) + " with " + std::to_string(f.bits) +
                                         " bits, expected PCM of 8, 16, 24, 32 or float of 32, 64");
  if (f.channels == 0 || f.rate == 0) return bad_wav("no channels or no sample rate");
  if (block != f.frame_bytes()) return bad_wav("block size and channels do not agree");
  return ok();
}

Result<Audio> convert(Bytes data, const PcmFormat& f, Channels channels, const DecodeLimits& limits) {
  const size_t block = f.frame_bytes();
  if (data.size() % block) return bad_wav("the data ends within a sample");
  uint64_t frames = data.size() / block;
  if (frames * f.channels > kMaxSamples)
    return bad_wav(std::to_string(frames * f.channels) + " samples, at most " + std::to_string(kMaxSamples));
  std::vector<int64_t> shape = {static_cast<int64_t>(frames)};
  if (channels == Channels::Keep) shape.push_back(f.channels);
  const uint64_t samples = frames * (channels == Channels::Keep ? f.channels : 1);
  MLC_RETURN_IF_ERROR(
      MemoryNeed().add(samples, sizeof(float)).check(limits, "wav: " + std::to_string(samples) + " samples"));
  MLC_ASSIGN(HostTensor t, HostTensor::zeros(DType::F32, std::move(shape)));
  pcm_to_floats(data, f, channels, t.as<float>().data());
  return Audio{std::move(t), f.rate};
}

int16_t pcm(float v) {
  const float scaled = v * 32768;
  if (std::isnan(scaled)) return 0;
  return static_cast<int16_t>(std::nearbyint(std::clamp(scaled, -32768.0F, 32767.0F)));
}

}  // namespace

Result<std::vector<std::byte>> wav_header(uint64_t sample_bytes, int64_t channels, uint32_t rate) {
  if (channels < 1 || channels > kMostWrittenChannels)
    return Status(Code::InputMismatch, 4001, "wav: a sound with {} channels, expected 1 to {}", channels, kMostWrittenChannels);
  constexpr uint64_t kMostBytes = UINT32_MAX - (kWavHeader - 8);  // what the header says is 32 bits
  if (sample_bytes > kMostBytes) return Status(Code::InputMismatch, 4001, "wav: {} samples, a file holds at most {}", sample_bytes / 2, kMostBytes / 2);
  const uint64_t block = 2 * static_cast<uint64_t>(channels);
  ByteBuilder out;
  out.put("RIFF").put_uint(kWavHeader - 8 + sample_bytes, 4).put("WAVEfmt ").put_uint(16, 4).put_uint(kPcm, 2).put_uint(block / 2, 2);
  out.put_uint(rate, 4).put_uint(uint64_t{rate} * block, 4).put_uint(block, 2).put_uint(16, 2).put("data").put_uint(sample_bytes, 4);
  return out.take();
}

Result<std::vector<std::byte>> encode_wav(std::span<const float> samples, int64_t channels, uint32_t rate,
                                          const std::function<Status(uint64_t bytes)>& allow) {
  const uint64_t bytes = uint64_t{samples.size()} * 2;
  MLC_ASSIGN(std::vector<std::byte> file, wav_header(bytes, channels, rate));
  MLC_RETURN_IF_ERROR(allow(bytes));
  size_t at = file.size();
  file.resize(at + bytes);
  const size_t frames = samples.size() / static_cast<size_t>(channels);
  for (size_t frame = 0; frame < frames; ++frame)
    for (size_t channel = 0; channel < static_cast<size_t>(channels); ++channel) {
      const auto v = static_cast<uint16_t>(pcm(samples[channel * frames + frame]));
      file[at++] = static_cast<std::byte>(v & 0xFF), file[at++] = static_cast<std::byte>(v >> 8);
    }
  return file;
}

// Chunks one after the other, each padded to an even size. The RIFF size is ignored, as many writers get it wrong.
Result<std::optional<WavStart>> wav_start(Bytes begin) {
  constexpr size_t kHead = 12;
  ByteCursor in(begin);
  if (begin.size() < kHead) return std::optional<WavStart>();
  const bool is_riff = in.text(4) == "RIFF";
  in.skip(4);
  if (!is_riff || in.text(4) != "WAVE") return bad_wav("the file does not begin as one");
  WavStart start;
  bool have_format = false;
  while (in.left() >= 8) {
    const std::string_view tag = in.text(4);
    const auto size = in.take<uint32_t>();
    if (tag == "data") {
      if (!have_format) return bad_wav("data before its format");
      start.at = in.offset();
      start.bytes = size;
      return std::optional(start);
    }
    const Bytes chunk = in.bytes(size);
    if (in.failed()) return std::optional<WavStart>();
    if (tag == "fmt ") {
      MLC_RETURN_IF_ERROR(parse_format(chunk, start.format));
      have_format = true;
    }
    in.skip(size % 2);
  }
  return std::optional<WavStart>();
}

Result<Audio> decode_wav(Bytes file, Channels channels, const DecodeLimits& limits) {
  MLC_ASSIGN(const std::optional<WavStart> start, wav_start(file));
  if (!start) return bad_wav("the file ends before its samples");
  const Bytes behind = file.subspan(start->at);
  if (start->bytes > behind.size()) return bad_wav("truncated in chunk 'data'");
  return convert(behind.first(start->bytes), start->format, channels, limits.beyond(file));
}

}  // namespace mlc::io
