#include "runtime/io/wav.h"

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
