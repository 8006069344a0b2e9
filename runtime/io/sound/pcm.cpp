#include "runtime/io/sound/pcm.h"

#include <charconv>
#include <string>

#include "base/byte_cursor.h"

namespace mlc::io {
namespace {

double sample(const std::byte* p, const PcmFormat& f) {
  const unsigned n = f.bits / 8;
  const uint64_t raw = load_uint({p, n});
  if (f.is_float && n == 8) return __builtin_bit_cast(double, raw);
  if (f.is_float) return __builtin_bit_cast(float, static_cast<uint32_t>(raw));
  if (n == 1) return (static_cast<double>(raw) - 128.0) / 128.0;
  int64_t value = static_cast<int64_t>(raw << (64 - f.bits)) >> (64 - f.bits);
  return static_cast<double>(value) / static_cast<double>(int64_t{1} << (f.bits - 1));
}

// The number in front of the next ':', which is taken off `text`; 0 where there is none from 1 to `most`.
uint32_t take_number(std::string_view& text, uint32_t most) {
  const size_t end = std::min(text.find(':'), text.size());
  uint32_t number = 0;
  const auto [last, error] = std::from_chars(text.data(), text.data() + end, number);
  const bool is_whole = error == std::errc() && last == text.data() + end && number <= most;
  text.remove_prefix(std::min(end + 1, text.size()));
  return is_whole ? number : 0;
}

}  // namespace

Result<PcmFormat> parse_pcm_format(std::string_view text) {
  struct Known {
    std::string_view name;
    bool is_float;
    uint32_t bits;
  };
  static constexpr Known kKnown[] = {{"u8", false, 8}, {"s16le", false, 16}, {"s24le", false, 24},
                                     {"s32le", false, 32}, {"f32le", true, 32}, {"f64le", true, 64}};
  constexpr uint32_t kMostChannels = 0xFFFF, kMostRate = 1 << 24;  // as of a file, and of decode_audio
  const std::string_view name = text.substr(0, text.find(':'));
  for (const Known& known : kKnown) {
    if (name != known.name || name.size() == text.size()) continue;
    std::string_view rest = text.substr(name.size() + 1);
    PcmFormat format{known.is_float, known.bits, 1, take_number(rest, kMostRate)};
    const bool has_channels = !rest.empty();
    if (has_channels) format.channels = take_number(rest, kMostChannels);
    if (format.rate > 0 && format.channels > 0 && rest.empty() && !text.ends_with(':')) return format;
  }
  return Status(Code::Usage, "'{}' is no form of samples, expected FORM:RATE or FORM:RATE:CHANNELS", text)
      .fact("FORM is one of u8, s16le, s24le, s32le, f32le, f64le; RATE is at most " + std::to_string(kMostRate) + " samples per second")
      .hint("s16le:16000");
}

void pcm_to_floats(Bytes frames, const PcmFormat& f, Channels channels, float* out) {
  const size_t width = f.bits / 8, block = f.frame_bytes();
  for (const std::byte *p = frames.data(), *end = p + frames.size(); p != end; p += block) switch (channels) {
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
}

}  // namespace mlc::io
