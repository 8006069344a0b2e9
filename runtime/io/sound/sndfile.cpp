// libsndfile on bytes in memory. What the files say is checked first (sound_headers.h), for it has no bounds of its own.
#include <sndfile.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "runtime/io/media.h"
#include "runtime/io/sound/packed_sound.h"
#include "runtime/io/sound/sndfile_library.h"
#include "runtime/io/sound/sound_headers.h"

namespace mlc::io {
namespace {

constexpr sf_count_t kBlock = 4096;  // frames that are read at once

struct SoundSource {
  Bytes file;
  sf_count_t at = 0;
};

SoundSource& source_of(void* user) { return *static_cast<SoundSource*>(user); }
sf_count_t sound_size(void* user) { return static_cast<sf_count_t>(source_of(user).file.size()); }
sf_count_t sound_seek(sf_count_t offset, int from, void* user) {
  SoundSource& s = source_of(user);
  const sf_count_t to = from == SEEK_SET ? offset : from == SEEK_CUR ? s.at + offset : sound_size(user) + offset;
  return s.at = std::clamp<sf_count_t>(to, 0, sound_size(user));
}
sf_count_t sound_read(void* to, sf_count_t bytes, void* user) {
  SoundSource& s = source_of(user);
  const sf_count_t count = std::clamp<sf_count_t>(bytes, 0, sound_size(user) - s.at);
  std::memcpy(to, s.file.data() + s.at, static_cast<size_t>(count));
  s.at += count;
  return count;
}
sf_count_t sound_write(const void*, sf_count_t, void*) { return 0; }
sf_count_t sound_tell(void* user) { return source_of(user).at; }

// A frame has a sample of each channel.
float* take_frame(const float* frame, int channels, Channels wanted, float* out) {
  if (wanted == Channels::Keep) return std::copy_n(frame, channels, out);
  double sum = frame[0];
  for (int c = 1; c < channels && wanted == Channels::Mean; ++c) sum += frame[c];
  *out = static_cast<float>(wanted == Channels::Mean ? sum / channels : sum);
  return out + 1;
}

struct Opened {
  const SndfileLibrary& library;
  SNDFILE* file = nullptr;
  SF_INFO info{};

  ~Opened() {
    if (file) library.sf_close(file);
  }
};

Result<Audio> read_all(Opened& opened, const char* kind, Channels channels, const DecodeLimits& limits, uint64_t memory) {
  const auto bad = [&](std::string what) { return Status(Code::Malformed, std::string(kind) + ": " + std::move(what)); };
  const SF_INFO& info = opened.info;
  const auto frames = static_cast<uint64_t>(info.frames), width = static_cast<uint64_t>(info.channels);
  if (info.frames < 0 || frames > kMaxSamples / width) return bad("the file does not say how many samples it has, or more than " + std::to_string(kMaxSamples));
  const uint64_t kept = channels == Channels::Keep ? width : 1;
  MLC_RETURN_IF_ERROR(MemoryNeed().add(frames * kept, sizeof(float)).add(memory).check(limits, std::string(kind) + ": " + std::to_string(frames * kept) + " samples"));
  std::vector<int64_t> shape = {info.frames};
  if (channels == Channels::Keep) shape.push_back(info.channels);
  MLC_ASSIGN(HostTensor samples, HostTensor::zeros(DType::F32, std::move(shape)));
  MLC_ASSIGN(HostTensor block, HostTensor::zeros(DType::F32, {kBlock, info.channels}));
  float* out = samples.as<float>().data();
  for (sf_count_t left = info.frames; left > 0;) {
    const sf_count_t got = opened.library.sf_readf_float(opened.file, block.as<float>().data(), std::min(left, kBlock));
    if (got <= 0 || got > left) return bad("the file ends early, or is damaged");
    for (sf_count_t i = 0; i < got; ++i) out = take_frame(block.as<float>().data() + i * info.channels, info.channels, channels, out);
    left -= got;
  }
  if (opened.library.sf_error(opened.file) != SF_ERR_NO_ERROR) return bad("the file is damaged");
  return Audio{std::move(samples), static_cast<uint32_t>(info.samplerate)};
}

}  // namespace

Result<Audio> decode_packed_sound(Bytes file, Channels channels, const DecodeLimits& limits) {
  const bool is_flac = media_of(file) == Media::Flac;
  const char* kind = is_flac ? "flac" : "ogg";
  MLC_ASSIGN(const SoundHeader header, is_flac ? flac_header(file) : vorbis_header(file));
  if (header.channels == 0 || header.channels > kMaxPackedChannels)
    return Status(Code::Unsupported, "{}: {} channels, expected 1 to {}", kind, header.channels, kMaxPackedChannels);
  MLC_RETURN_IF_ERROR(MemoryNeed{header.memory}.check(limits, std::string(kind) + ": the headers"));
  MLC_ASSIGN(const SndfileLibrary* library, sndfile_library());
  SoundSource source{file};
  SF_VIRTUAL_IO io{sound_size, sound_seek, sound_read, sound_write, sound_tell};
  Opened opened{*library};
  opened.file = library->sf_open_virtual(&io, SFM_READ, &opened.info, &source);
  if (!opened.file) return Status(Code::Malformed, "{}: {}", kind, library->sf_strerror(nullptr));
  const int format = opened.info.format;
  const bool is_it = is_flac ? (format & SF_FORMAT_TYPEMASK) == SF_FORMAT_FLAC
                             : (format & SF_FORMAT_TYPEMASK) == SF_FORMAT_OGG && (format & SF_FORMAT_SUBMASK) == SF_FORMAT_VORBIS;
  if (!is_it || opened.info.channels != static_cast<int>(header.channels) || opened.info.samplerate <= 0)
    return Status(Code::Malformed, "{}: the library reads the headers in another way", kind);
  return read_all(opened, kind, channels, limits, header.memory);
}

}  // namespace mlc::io
