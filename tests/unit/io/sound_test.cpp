// FLAC and Vorbis in Ogg against what soundfile reads (data/make_packed.py).
#include "runtime/io/sound/sound.h"

#include <cmath>

#include "runtime/io/media.h"
#include "runtime/io/sound/sound_headers.h"
#include "tests/unit/io/fixtures.h"

using namespace mlc;
using namespace mlc::io;
using namespace mlc::test;

namespace {

const char* const kFiles[] = {"mono16.flac", "stereo16.flac", "stereo24.flac", "mono.ogg", "stereo.ogg"};

// Whether libsndfile is here; without it decoding says so.
bool is_here() {
  const auto decoded = decode_sound(fixture("mono16.flac").bytes(), Channels::First);
  if (!decoded.ok()) CHECK(decoded.status().message.find("libsndfile.so.1; WAV works without") != std::string::npos);
  return decoded.ok();
}

std::vector<NamedTensor> expected() {
  auto parsed = parse_npz(fixture("packed.npz").bytes());
  REQUIRE(parsed.ok());
  return std::move(*parsed);
}

}  // namespace

TEST_CASE("packed sounds are those that soundfile reads") {
  if (!is_here()) return;
  for (const NamedTensor& e : expected()) {
    CAPTURE(e.name);
    const HostBuffer file = fixture(e.name);
    auto all = decode_sound(file.bytes(), Channels::Keep), first = decode_sound(file.bytes(), Channels::First), mean = decode_sound(file.bytes(), Channels::Mean);
    REQUIRE_MESSAGE(all.ok(), all.status().text());
    REQUIRE((first.ok() && mean.ok()));
    REQUIRE(all->samples.shape == e.tensor.shape);
    CHECK(all->rate == (e.name.starts_with("mono") ? 16000u : e.name == "stereo24.flac" ? 48000u : 44100u));
    const std::span<const float> want = e.tensor.as<float>(), found = all->samples.as<float>();
    const auto channels = static_cast<size_t>(e.tensor.shape[1]);
    // Vorbis is as exact as the arithmetic of its library; FLAC has one right answer.
    const float tolerance = e.name.ends_with(".ogg") ? 1e-4F : 0;
    for (size_t i = 0; i < want.size(); ++i) REQUIRE(std::fabs(found[i] - want[i]) <= tolerance);
    for (size_t i = 0; i < want.size() / channels; ++i) {
      double sum = 0;
      for (size_t c = 0; c < channels; ++c) sum += found[i * channels + c];
      REQUIRE(first->samples.as<float>()[i] == found[i * channels]);
      REQUIRE(mean->samples.as<float>()[i] == static_cast<float>(sum / static_cast<double>(channels)));
    }
  }
}

TEST_CASE("a packed sound that ends early or is damaged is an error or a sound, never more") {
  if (!is_here()) return;
  for (const char* name : kFiles) {
    CAPTURE(name);
    const HostBuffer file = fixture(name);
    for (size_t n = 0; n + 1 < file.size(); n += 41) CHECK(!decode_sound(file.bytes().first(n), Channels::Keep).ok());
    Random random{7};
    for (int round = 0; round < 200; ++round) {
      std::vector<std::byte> changed(file.bytes().begin(), file.bytes().end());
      changed[random.below(round % 2 ? changed.size() : 200)] ^= static_cast<std::byte>(1u << random.below(8));
      (void)decode_sound(changed, Channels::Mean).ok();
    }
  }
}

TEST_CASE("what the headers of packed sounds ask for is refused before a library sees it") {
  const auto says = [](const Status& s, const std::string& sentence) { CHECK_MESSAGE(s.message.find(sentence) != std::string::npos, s.message); };
  const HostBuffer flac = fixture("stereo16.flac"), ogg = fixture("stereo.ogg");
  CHECK(flac_header(flac.bytes())->channels == 2);
  CHECK(vorbis_header(ogg.bytes())->channels == 2);
  CHECK(vorbis_header(ogg.bytes())->memory < 100 << 20);
  DecodeLimits limits;
  limits.memory = 1 << 20;
  for (const char* name : kFiles) CHECK(decode_sound(fixture(name).bytes(), Channels::Keep, limits).status().code == Code::Resource);

  std::vector<std::byte> twice(ogg.bytes().begin(), ogg.bytes().end());
  twice.insert(twice.end(), ogg.bytes().begin(), ogg.bytes().end());
  says(vorbis_header(twice).status(), "ogg: more than one stream");
  std::vector<std::byte> changed(ogg.bytes().begin(), ogg.bytes().end());
  changed.back() ^= std::byte{1};
  says(vorbis_header(changed).status(), "has another checksum than its bytes");
  changed.push_back(std::byte{0});
  changed[changed.size() - 2] ^= std::byte{1};
  says(vorbis_header(changed).status(), "is no page");

  std::vector<std::byte> second(flac.bytes().begin(), flac.bytes().end());
  second[4] = std::byte{4};
  says(flac_header(second).status(), "is not the first block");
  says(flac_header(flac.bytes().first(20)).status(), "truncated in the blocks");
  // 2^36 - 1 samples of each channel.
  std::vector<std::byte> many(flac.bytes().begin(), flac.bytes().end());
  many[21] |= std::byte{0x0F};
  for (size_t i = 22; i < 26; ++i) many[i] = std::byte{0xFF};
  if (is_here()) CHECK(!decode_sound(many, Channels::First).ok());
}
