#include "runtime/io/sound/pcm.h"

#include <charconv>
#include <string>

#include "base/byte_cursor.h"

namespace mlc::io {
namespace {

// One sample, of so many bytes; integers as a share of the largest.
template <unsigned kBytes, bool kIsFloat>
double sample(const std::byte* p) {
  const uint64_t raw = load_uint({p, kBytes});
  if constexpr (kIsFloat && kBytes == 8) return __builtin_bit_cast(double, raw);
  else if constexpr (kIsFloat) return __builtin_bit_cast(float, static_cast<uint32_t>(raw));
  else if constexpr (kBytes == 1) return (static_cast<double>(raw) - 128.0) / 128.0;
  else return static_cast<double>(static_cast<int64_t>(raw << (64 - 8*kBytes)) >> (64 - 8*kBytes)) / static_cast<double>(int64_t{1} << (8*kBytes - 1));
}

template <unsigned kBytes, bool kIsFloat>
void to_floats(Bytes frames, size_t count, Channels channels, float* out) {
  const std::byte *p = frames.data(), *const end = p + frames.size();
  const size_t block = count*kBytes;
  if (count == 1 || channels == Channels::Keep) {  // each by itself
    for (; p != end; p += kBytes) *out++ = static_cast<float>(sample<kBytes, kIsFloat>(p));
  } else if (channels == Channels::First) {
    for (; p != end; p += block) *out++ = static_cast<float>(sample<kBytes, kIsFloat>(p));
  } else {
    for (; p != end; p += block) {
      double sum = 0;
      for (size_t c = 0; c < count; ++c) sum += sample<kBytes, kIsFloat>(p + c*kBytes);
      *out++ = static_cast<float>(sum / static_cast<double>(count));
    }
  }
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
  const auto convert = [&](const auto& convert_as) { convert_as(frames, size_t{f.channels}, channels, out); };
  switch (f.bits) {
    case 8: return convert(to_floats<1, false>);
    case 16: return convert(to_floats<2, false>);
    case 24: return convert(to_floats<3, false>);
    case 32: return f.is_float ? convert(to_floats<4, true>) : convert(to_floats<4, false>);
    default: return f.is_float ? convert(to_floats<8, true>) : convert(to_floats<8, false>);
  }
}

}  // namespace mlc::io
