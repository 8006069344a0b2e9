#include "runtime/io/wav.h"

#include "base/byte_cursor.h"

namespace mlc::io {
namespace {

enum : uint32_t { kPcm = 1, kFloat = 3, kExtensible = 0xFFFE };

struct Format {
  uint32_t kind = 0, channels = 0, rate = 0, bits = 0;
};

Status bad_wav(std::string what) { return Status(Code::Malformed, "wav: " + std::move(what)); }

Status parse_format(Bytes chunk, Format& f) {
  if (chunk.size() < 16) return bad_wav("a format chunk of " + std::to_string(chunk.size()) + " bytes");
  ByteCursor in(chunk);
  f.kind = in.take<uint16_t>();
  f.channels = in.take<uint16_t>();
  f.rate = in.take<uint32_t>();
  in.skip(4);
  const auto block = in.take<uint16_t>();
  f.bits = in.take<uint16_t>();
  if (f.kind == kExtensible) {
    // The real code is the first two bytes of the sub-format's GUID.
    if (chunk.size() < 40) return bad_wav("an extensible format chunk of " + std::to_string(chunk.size()) + " bytes");
    f.kind = in.at(24).take<uint16_t>();
  }
  bool known = (f.kind == kPcm && (f.bits == 8 || f.bits == 16 || f.bits == 24 || f.bits == 32)) ||
               (f.kind == kFloat && (f.bits == 32 || f.bits == 64));
  if (!known)
    return Status(Code::Unsupported, "wav: format " + std::to_string(f.kind) + " with " + std::to_string(f.bits) +
                                         " bits, expected PCM of 8, 16, 24, 32 or float of 32, 64");
  if (f.channels == 0 || f.rate == 0) return bad_wav("no channels or no sample rate");
  if (block != f.channels * (f.bits / 8)) return bad_wav("block size and channels do not agree");
  return ok();
}

double sample(const std::byte* p, const Format& f) {
  const unsigned n = f.bits / 8;
  const uint64_t raw = load_uint({p, n});
  if (f.kind == kFloat && n == 8) return __builtin_bit_cast(double, raw);
  if (f.kind == kFloat) return __builtin_bit_cast(float, static_cast<uint32_t>(raw));
  if (n == 1) return (static_cast<double>(raw) - 128.0) / 128.0;
  int64_t value = static_cast<int64_t>(raw << (64 - f.bits)) >> (64 - f.bits);
  return static_cast<double>(value) / static_cast<double>(int64_t{1} << (f.bits - 1));
}

Result<Audio> convert(Bytes data, const Format& f, Channels channels, const DecodeLimits& limits) {
  size_t width = f.bits / 8, block = width * f.channels;
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
  float* out = t.as<float>().data();
  const std::byte* p = data.data();
  for (uint64_t i = 0; i < frames; ++i, p += block) switch (channels) {
      case Channels::First: *out++ = static_cast<float>(sample(p, f)); break;
      case Channels::Keep:
        for (uint32_t c = 0; c < f.channels; ++c) *out++ = static_cast<float>(sample(p + c * width, f));
        break;
      case Channels::Mean: {
        double sum = 0;
        for (uint32_t c = 0; c < f.channels; ++c) sum += sample(p + c * width, f);
        *out++ = static_cast<float>(sum / f.channels);
        break;
      }
    }
  return Audio{std::move(t), f.rate};
}

}  // namespace

Result<Audio> decode_wav(Bytes file, Channels channels, const DecodeLimits& limits) {
  ByteCursor in(file);
  const bool is_riff = in.text(4) == "RIFF";
  in.skip(4);
  if (!is_riff || in.text(4) != "WAVE") return bad_wav("the file does not begin as one");
  Format format;
  bool have_format = false;
  // Chunks one after the other, each padded to an even size. The RIFF size is ignored, as many writers get it wrong.
  while (in.left() >= 8) {
    const std::string_view tag = in.text(4);
    const auto size = in.take<uint32_t>();
    const Bytes chunk = in.bytes(size);
    if (in.failed()) return bad_wav("truncated in chunk '" + std::string(tag == "data" ? "data" : "?") + "'");
    if (tag == "fmt ") {
      MLC_RETURN_IF_ERROR(parse_format(chunk, format));
      have_format = true;
    } else if (tag == "data") {
      if (!have_format) return bad_wav("data before its format");
      return convert(chunk, format, channels, limits.beyond(file));
    }
    in.skip(size % 2);
  }
  return bad_wav("no data chunk");
}

}  // namespace mlc::io
