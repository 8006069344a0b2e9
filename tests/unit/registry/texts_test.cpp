// What strangers write: references, challenges, manifests.
#include <doctest/doctest.h>

#include <random>

#include "registry/texts/challenge.h"
#include "registry/texts/manifest.h"
#include "registry/texts/parts.h"
#include "registry/texts/reference.h"
#include "registry/texts/tar.h"

using namespace mlc;
using namespace mlc::registry;

namespace {

const std::string kSomeDigest = "sha256:" + std::string(64, 'a');

// The fuzzers' properties (tests/fuzz), on texts that are nearly right.
template <class Check>
void mutate(const std::vector<std::string>& seeds, const Check& check) {
  std::mt19937 random(20'261'126);
  for (int round = 0; round < 20'000; ++round) {
    std::string text = seeds[random() % seeds.size()];
    for (unsigned count = random() % 4; count > 0 && !text.empty(); --count) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0: text[at] = static_cast<char>(random()); break;
        case 1: text.erase(at, 1 + random() % 8); break;
        default: text.insert(at, text.substr(random() % text.size(), random() % 16)); break;
      }
    }
    check(text);
  }
}

}  // namespace

TEST_CASE("A reference is read as it is written") {
  for (const std::string text : {"localhost:5000/cat:2", "registry.example.org/acme/cat:v1.0_x-y", "[::1]:5000/a/b/c:1", "x.org/a-b/c__d/e.f---g:latest"}) {
    const auto reference = parse_reference(text);
    REQUIRE_MESSAGE(reference.ok(), text);
    CHECK(reference->text() == text);
  }
  const auto pinned = parse_reference("x.org/cat@" + kSomeDigest);
  REQUIRE(pinned.ok());
  CHECK(pinned->tag.empty());
  CHECK(pinned->object() == kSomeDigest);
  const auto both = parse_reference("x.org/cat:2@" + kSomeDigest);
  REQUIRE(both.ok());
  CHECK(both->object() == kSomeDigest);
  CHECK(parse_reference("x.org/cat")->tag == "latest");
}

TEST_CASE("What only looks like this machine is another one") {
  for (const char* host : {"localhost", "localhost:5000", "127.0.0.1", "127.1.2.3:80", "[::1]", "[::1]:5000"}) CHECK(is_loopback(host));
  for (const char* host : {"localhost.example.org", "127.0.0.1.example.org", "127.1", "128.0.0.1", "[::2]", "127.0.0.x", "xlocalhost"}) CHECK_FALSE(is_loopback(host));
}

TEST_CASE("References that parse are written as they were read") {
  mutate({"localhost:5000/acme/cat:2", "x.org/a__b/c-d@" + kSomeDigest, "[::1]:80/a"}, [](const std::string& text) {
    const auto reference = parse_reference(text);
    if (!reference.ok()) {
      CHECK(!reference.status().message.empty());
      return;
    }
    const auto again = parse_reference(reference->text());
    REQUIRE(again.ok());
    CHECK(*again == *reference);
  });
}

TEST_CASE("Challenges are those of RFC 9110") {
  const auto one = parse_challenges(R"(Bearer realm="https://auth.example.org/token",service="registry, \"x\"" , scope=pull)");
  REQUIRE(one.ok());
  REQUIRE(one->size() == 1);
  CHECK(one->front().scheme == "bearer");
  CHECK(one->front().parameters.at("service") == "registry, \"x\"");
  CHECK(one->front().parameters.at("scope") == "pull");
  const auto several = parse_challenges(R"(Negotiate abc==, Newauth realm="apps", type=1, title="Login to \"apps\"", Basic realm="simple", Digest)");
  REQUIRE(several.ok());
  REQUIRE(several->size() == 4);
  CHECK(several->at(0).token == "abc==");
  CHECK(several->at(1).parameters.size() == 3);
  CHECK(several->at(3).scheme == "digest");
  for (const char* wrong : {"Bearer realm=\"x", "realm=x", "Bearer a=1, a=2", "Bearer a=\"\n\"", "Bearer a b", "=", "Bearer \"x\""}) CHECK_FALSE(parse_challenges(wrong).ok());
  CHECK_FALSE(parse_challenges(std::string(kMaxChallengeText + 1, ',')).ok());
  std::string many;
  for (size_t k = 0; k <= kMaxChallenges; ++k) many += "Basic, ";
  CHECK_FALSE(parse_challenges(many).ok());
}

TEST_CASE("Challenges that parse are written and read again") {
  mutate({R"(Bearer realm="https://a.org/t",service="x",scope="repository:a/b:pull,push")", R"(Negotiate abc==, Basic realm="q\"uoted")", "A, B c=d"},
         [](const std::string& text) {
           const auto challenges = parse_challenges(text);
           if (!challenges.ok()) return;
           const std::string written = challenges_text(*challenges);
           if (written.size() > kMaxChallengeText) return;
           const auto again = parse_challenges(written);
           REQUIRE_MESSAGE(again.ok(), text << " -> " << written);
           CHECK(challenges_text(*again) == written);
         });
}

TEST_CASE("Manifests that parse are written and read again") {
  Manifest manifest;
  manifest.media_type = kManifestType;
  manifest.artifact_type = kModelManifestType;
  manifest.config = Descriptor{"a/b", *parse_digest(kSomeDigest), 5, {}, {}};
  manifest.layers = {{"c/d", *parse_digest(kSomeDigest), kMaxBlobBytes, {}, {{"k", "v"}}}};
  manifest.annotations = {{"mlc.root", kSomeDigest}};
  manifest.subject = manifest.config;
  Manifest index;
  index.is_index = true;
  index.media_type = kIndexType;
  index.manifests = {manifest.layers.front()};
  for (const Manifest& one : {manifest, index}) {
    const auto again = parse_manifest(manifest_text(one));
    REQUIRE(again.ok());
    CHECK(*again == one);
  }
  mutate({manifest_text(manifest), manifest_text(index)}, [](const std::string& text) {
    const auto read = parse_manifest(text);
    if (!read.ok()) {
      CHECK(!read.status().message.empty());
      return;
    }
    const auto again = parse_manifest(manifest_text(*read));
    REQUIRE(again.ok());
    CHECK(*again == *read);
  });
}

TEST_CASE("A file of any size is found in the tar that is made around it") {
  for (const uint64_t size : {uint64_t{0}, uint64_t{1}, uint64_t{512}, uint64_t{5000}, (uint64_t{1} << 33) - 1, uint64_t{1} << 33, uint64_t{9} << 36}) {
    const Upload file{size, [](uint64_t offset, std::span<std::byte> out) {
      for (std::byte& b : out) b = static_cast<std::byte>(offset++ * 7 + 1);
      return ok();
    }};
    const Upload tar = tar_of(file);
    CHECK(tar.size == tar_size(size));
    std::vector<std::byte> head(std::min<uint64_t>(tar.size, kMaxTarHead));
    REQUIRE(tar.read(0, head).ok());
    const auto place = find_in_tar(head, tar.size);
    REQUIRE(place.ok());
    CHECK(place->offset == kTarHead);
    CHECK(place->size == size);
    // In pieces it is what it is as a whole, to the zeros at its end.
    std::vector<std::byte> piece(700);
    for (const uint64_t at : {uint64_t{0}, uint64_t{300}, uint64_t{1000}, tar.size - 700, tar.size - 1500}) {
      REQUIRE(tar.read(at, piece).ok());
      for (size_t k = 0; k < piece.size(); ++k) {
        const uint64_t offset = at + k;
        if (offset >= kTarHead) CHECK(piece[k] == (offset - kTarHead < size ? static_cast<std::byte>((offset - kTarHead) * 7 + 1) : std::byte{0}));
        else if (offset < head.size()) CHECK(piece[k] == head[offset]);
      }
    }
  }
}

TEST_CASE("A file is cut at its segments, and the parts joined are the file") {
  CHECK(part_lengths(100, {}) == std::vector<uint64_t>{100});
  CHECK(part_lengths(0, {}).empty());
  const std::vector<SegmentPlace> two = {{65'536, 100'000}, {196'608, 65'536}};
  CHECK(part_lengths(300'000, two) == std::vector<uint64_t>{65'536, 100'000, 31'072, 65'536, 37'856});
  CHECK(part_lengths(262'144, two) == std::vector<uint64_t>{65'536, 100'000, 31'072, 65'536});  // no tail
}

TEST_CASE("There are never more than 200 parts, and large segments stay alone") {
  std::mt19937 random(20'261'128);
  for (const size_t segments : {99u, 100u, 150u, 1000u, 65'535u}) {
    std::vector<SegmentPlace> places;
    uint64_t at = 65'536;
    for (size_t k = 0; k < segments; ++k) {
      const uint64_t length = k == segments / 2 ? uint64_t{1} << 34 : 65'536 + random() % 1'000'000;
      places.push_back({at, length});
      at += (length + 65'535) / 65'536 * 65'536;
    }
    const std::vector<uint64_t> parts = part_lengths(at + 5000, places);
    uint64_t sum = 0;
    bool is_alone = false, has_empty = false;
    for (const uint64_t part : parts) {
      is_alone |= sum == places[segments / 2].offset && part == uint64_t{1} << 34;
      has_empty |= part == 0;
      sum += part;
    }
    CHECK(sum == at + 5000);
    CHECK(parts.size() <= kMaxParts);
    CHECK(is_alone);
    CHECK_FALSE(has_empty);
    // What is added behind moves no cut but the last ones.
    const std::vector<uint64_t> longer = part_lengths(at + 6000, places);
    CHECK(std::equal(parts.begin(), parts.end() - 1, longer.begin()));
  }
}
