#include "runtime/io/sound/wav_start.h"

#include <cmath>

#include "tests/unit/io/fixtures.h"

using namespace mlc;
using namespace mlc::io;
using namespace mlc::test;

TEST_CASE("samples of every format are scaled as documented") {
  int cases = 0;
  for (const NamedTensor& e : expectations()) {
    size_t colon = e.name.find(".wav:");
    if (colon == std::string::npos) continue;
    CAPTURE(e.name);
    std::string mode = e.name.substr(colon + 5);
    auto audio = decode_wav(fixture(e.name.substr(0, colon + 4)).bytes(),
                            mode == "first" ? Channels::First : mode == "mean" ? Channels::Mean : Channels::Keep);
    REQUIRE_MESSAGE(audio.ok(), audio.status().text());
    CHECK(audio->rate == (e.name.starts_with("pcm") ? 16000u : 22050u));
    CHECK(same(audio->samples, e.tensor));
    ++cases;
  }
  CHECK(cases == 14);
}

TEST_CASE("a sound as a file has 16 bits, rounded half to even, and is read back") {
  const auto allow = [](uint64_t) { return ok(); };
  const float step = 1.0F / 32768;
  const std::vector<float> samples = {0, step, 0.5F * step, 1.5F * step, -0.5F * step, 2.5F * step, 1, -1, 7, -7, NAN, INFINITY, -INFINITY, 32766.5F * step};
  const std::vector<int> want = {0, 1, 0, 2, 0, 2, 32767, -32768, 32767, -32768, 0, 32767, -32768, 32766};
  auto file = encode_wav(samples, 2, 44100, allow);
  REQUIRE(file.ok());
  CHECK(file->size() == 44 + samples.size() * 2);
  auto back = decode_wav(*file, Channels::Keep);
  REQUIRE(back.ok());
  CHECK(back->rate == 44100);
  REQUIRE(back->samples.shape == std::vector<int64_t>{7, 2});
  for (size_t i = 0; i < samples.size(); ++i) CHECK(back->samples.as<float>()[i % 7 * 2 + i / 7] * 32768 == static_cast<float>(want[i]));

  auto empty = encode_wav({}, 1, 8000, allow);
  REQUIRE(empty.ok());
  CHECK(decode_wav(*empty, Channels::First)->samples.shape[0] == 0);
  CHECK(encode_wav({}, 65, 8000, allow).status().message == "wav: a sound with 65 channels, expected 1 to 64");
  CHECK(encode_wav(samples, 1, 8000, [](uint64_t bytes) { return Status(Code::Resource, "{} bytes", bytes); }).status().message == "28 bytes");
}

TEST_CASE("where samples begin is known as soon as their chunk begins") {
  for (const char* name : {"pcm16.wav", "float64.wav"}) {
    CAPTURE(name);
    const HostBuffer file = fixture(name);
    const auto whole = wav_start(file.bytes());
    REQUIRE(whole.ok());
    REQUIRE(whole->has_value());
    const uint64_t at = (*whole)->at;
    CHECK(at + (*whole)->bytes <= file.size());
    for (size_t n = 0; n < file.size(); ++n) {
      const auto start = wav_start(file.bytes().first(n));
      REQUIRE(start.ok());
      CHECK(start->has_value() == (n >= at));
    }
  }
  for (const uint32_t bytes : {0u, 0x7FFFF000u, 0xFFFFFFFFu}) CHECK(WavStart{{}, 44, bytes}.is_endless());
  for (const uint32_t bytes : {2u, 0x70000000u}) CHECK(!WavStart{{}, 44, bytes}.is_endless());
}

TEST_CASE("audio that ends early is an error") {
  for (const char* name : {"pcm16.wav", "float64.wav"}) {
    HostBuffer file = fixture(name);
    for (size_t n = 0; n + 1 < file.size(); ++n) CHECK(!decode_wav(file.bytes().first(n), Channels::Keep).ok());
  }
}

TEST_CASE("unknown formats are refused, damaged files never crash") {
  HostBuffer file = fixture("pcm16.wav");
  file.data()[20] = std::byte{0x11};  // ADPCM
  auto adpcm = decode_wav(file.bytes(), Channels::Keep);
  REQUIRE(!adpcm.ok());
  CHECK(adpcm.status().code == Code::Unsupported);
  for (const char* name : {"pcm24.wav", "float32.wav"})
    walk_damage(fixture(name), 3000, [](Bytes b) { (void)decode_wav(b, Channels::Mean).ok(); });
}
