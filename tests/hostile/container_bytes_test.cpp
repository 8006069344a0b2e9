// libs: mlc_container_reader mlc_container_writer
// Every byte of a small signed container is changed, every truncation and many appendices are tried. Nothing may
// crash, nothing may be accepted, and the message must say where the damage is.
#include <doctest/doctest.h>

#include "tests/support/containers/bad_container.h"

using namespace mlc;
using namespace mlc::container;
using namespace mlc::test;

namespace {

// What a message about a byte at `offset` must contain (any of them).
std::vector<std::string> expected_words(uint64_t offset, const format::Placement& p, const format::Manifest& m,
                                        uint64_t manifest_len) {
  if (offset < format::kHeaderLen)
    return {"header", "not a container", "truncated", "format", "text mode", "before the container"};
  if (offset < p.placement_off + 8 * m.segments.size()) return {"placement table"};
  if (offset >= p.manifest_off && offset < p.manifest_off + manifest_len) return {"manifest"};
  if (offset >= p.body_size) return {"signature"};
  for (size_t i = 0; i < m.segments.size(); ++i) {
    const auto& item = p.segments[i];
    if ((offset >= item.offset && offset < item.offset + m.segments[i].stored_len) ||
        (offset >= item.table_off && offset < item.table_off + item.table_len))
      return {"segment \"" + m.segments[i].name + "\""};
  }
  return {"padding behind"};
}

bool contains_any(const std::string& text, const std::vector<std::string>& words) {
  for (const auto& word : words)
    if (text.find(word) != std::string::npos) return true;
  return false;
}

struct Subject {
  std::vector<std::byte> bytes;
  format::Manifest manifest;
  format::Placement placement;
  uint64_t manifest_len = 0;
};
Subject subject(std::vector<std::byte> bytes) {
  Subject s;
  s.bytes = std::move(bytes);
  auto opened = Container::open_memory(s.bytes, "good", trusting(Verify::Full));
  REQUIRE(opened.ok());
  s.manifest = (*opened)->manifest();
  std::vector<format::SegmentShape> shapes;
  for (const auto& segment : s.manifest.segments)
    shapes.push_back({segment.codec, segment.stored_len, segment.decoded_len, true});
  std::memcpy(&s.manifest_len, s.bytes.data() + 32, 8);
  s.placement = *format::place(s.manifest_len, shapes);
  return s;
}

// Opens and reads everything; the first failure, or OK if the file was accepted as a whole.
Status judge(Bytes bytes) {
  auto opened = Container::open_memory(bytes, "damaged", trusting());
  if (!opened.ok()) return std::move(opened).status();
  return use_everything(**opened);
}

void flip_and_judge(Subject& s, uint64_t offset, std::byte mask, size_t& accepted, size_t& unnamed) {
  s.bytes[offset] ^= mask;
  Status status = judge(s.bytes);
  s.bytes[offset] ^= mask;
  if (status.ok()) {
    ++accepted;
    MESSAGE("accepted with a changed byte at " << offset);
  } else if (!contains_any(status.message, expected_words(offset, s.placement, s.manifest, s.manifest_len))) {
    if (++unnamed < 10) MESSAGE("byte " << offset << ": " << status.message);
  }
}

}  // namespace

TEST_CASE("Every changed byte of a small signed container is found and named") {
  Subject s = subject(sample_bytes());
  size_t accepted = 0, unnamed = 0;
  for (uint64_t offset = 0; offset < s.bytes.size(); ++offset)
    flip_and_judge(s, offset, std::byte(1u << (offset * 5 % 8)), accepted, unnamed);
  for (uint64_t offset = 0; offset < s.bytes.size(); offset += 3)
    flip_and_judge(s, offset, std::byte{0xFF}, accepted, unnamed);
  CHECK(accepted == 0);
  CHECK(unnamed == 0);
}

TEST_CASE("Changed bytes of a container with a page segment are found and named") {
  Subject s = subject(sample_bytes({.weights_len = 70'000, .module_len = 66'000}));
  CHECK(s.placement.gaps.size() > 2);
  size_t accepted = 0, unnamed = 0;
  uint32_t seed = 1;
  for (int i = 0; i < 6000; ++i) {
    seed = seed * 1664525u + 1013904223u;
    flip_and_judge(s, (uint64_t{seed} * s.bytes.size()) >> 32, std::byte(1u << (i % 8)), accepted, unnamed);
  }
  for (const auto& gap : s.placement.gaps)  // first and last byte of each padding
    for (uint64_t offset : {gap.offset, gap.offset + gap.length - 1})
      flip_and_judge(s, offset, std::byte{0x80}, accepted, unnamed);
  CHECK(accepted == 0);
  CHECK(unnamed == 0);
}

TEST_CASE("Every truncation is refused, and the message says what is cut off") {
  for (const auto* key : {&test_key(), static_cast<const signing::PrivateKey*>(nullptr)}) {
    auto bytes = sample_bytes({}, key);
    for (size_t len = 0; len < bytes.size(); ++len) {
      std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(len));
      auto opened = Container::open_memory(cut, "cut", trusting());
      // A signed file that ends exactly at its body is an unsigned file, which is what it is then called.
      if (opened.ok()) {
        CHECK((*opened)->verdict().trust == signing::Trust::Unsigned);
        CHECK(len == (*opened)->body_size());
        CHECK_FALSE((*opened)->native_allowed());
        continue;
      }
      const Status& status = opened.status();
      CHECK_MESSAGE(status.code == Code::Malformed, status.text());
      bool named = contains_any(status.text(), {"truncated", "signature block", "empty"});
      CHECK_MESSAGE(named, status.text());
    }
  }
}

TEST_CASE("A truncated file names the segments that are cut off") {
  auto bytes = sample_bytes({.weights_len = 3u << 20});
  std::vector<std::byte> cut(bytes.begin(), bytes.begin() + (2 << 20));
  auto opened = Container::open_memory(cut, "cut", trusting());
  REQUIRE_FALSE(opened.ok());
  CHECK(opened.status().number == 1101);
  CHECK_MESSAGE(opened.status().text().find("cut off: segment \"weights\" from leaf 1 of 4") != std::string::npos,
                opened.status().text());
}

TEST_CASE("Bytes appended to a container are refused") {
  for (const auto* key : {&test_key(), static_cast<const signing::PrivateKey*>(nullptr)}) {
    auto good = sample_bytes({}, key);
    for (size_t len : {1u, 2u, 7u, 8u, 16u, 31u, 32u, 64u, 255u, 4096u, 65536u}) {
      for (std::byte fill : {std::byte{0}, std::byte{0xFF}, std::byte{'P'}}) {
        auto bytes = good;
        bytes.resize(bytes.size() + len, fill);
        Status status = judge(bytes);
        CHECK_FALSE(status.ok());
        CHECK_MESSAGE(contains_any(status.message, {"signature block"}), status.message);
      }
    }
    auto twice = good;
    twice.insert(twice.end(), good.begin(), good.end());
    CHECK_FALSE(judge(twice).ok());
    std::vector<std::byte> prefixed(3);
    prefixed.insert(prefixed.end(), good.begin(), good.end());
    CHECK(judge(prefixed).message.find("3 bytes before the container") != std::string::npos);
  }
}

TEST_CASE("Damage inside an unsigned file's segments and padding is still found") {
  Subject s = subject(sample_bytes());
  s.bytes.resize(s.placement.body_size);
  for (uint64_t offset = 0; offset < s.bytes.size(); ++offset) {
    bool core = offset < format::kCoreLen;
    bool manifest = offset >= s.placement.manifest_off && offset < s.placement.manifest_off + s.manifest_len;
    s.bytes[offset] ^= std::byte{0x10};
    OpenOptions options = trusting();
    options.allow_unsigned = true;
    auto opened = Container::open_memory(s.bytes, "damaged", options);
    Status status = opened.ok() ? use_everything(**opened) : opened.status();
    // Nothing outside the file says what core and manifest were; they must merely never crash.
    if (!core && !manifest) CHECK_FALSE_MESSAGE(status.ok(), "offset " << offset);
    s.bytes[offset] ^= std::byte{0x10};
  }
}
