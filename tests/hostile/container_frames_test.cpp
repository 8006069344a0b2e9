// libs: mlc_container_reader mlc_container_writer
// Compressed segments whose hashes are right and whose frames are not: bombs, lies about lengths, second and skippable
// frames, missing checksums, huge windows, dictionaries.
#include <doctest/doctest.h>

#include "packager/container/zstd_frames.h"
#include "runtime/container/zstd_frames.h"
#include "signing/hash_tree.h"
#include "tests/support/containers/bad_container.h"

using namespace mlc;
using namespace mlc::container;
using namespace mlc::test;

namespace {

constexpr size_t kBlock = 1 << 20;

std::vector<std::byte> text(size_t len) {
  std::vector<std::byte> out;
  while (out.size() < len)
    for (std::byte b : noise(40, static_cast<uint32_t>(out.size() / 400))) out.push_back(b & std::byte{0x1F});
  out.resize(len);
  return out;
}

// A frame by hand (RFC 8878): one raw or RLE block, content size stated in 8 bytes.
struct FrameSpec {
  uint64_t content_size = 16;
  bool single_segment = true;
  uint8_t window = 0;
  bool checksum = false;
  uint8_t dictionary_flag = 0;
};
std::vector<std::byte> frame_of(const FrameSpec& spec, Bytes content) {
  std::vector<std::byte> out = {std::byte{0x28}, std::byte{0xB5}, std::byte{0x2F}, std::byte{0xFD}};
  out.push_back(
      static_cast<std::byte>(0xC0 | (spec.single_segment ? 0x20 : 0) | (spec.checksum ? 4 : 0) | spec.dictionary_flag));
  if (!spec.single_segment) out.push_back(std::byte{spec.window});
  if (spec.dictionary_flag == 1) out.push_back(std::byte{7});
  for (unsigned i = 0; i < 8; ++i) out.push_back(static_cast<std::byte>(spec.content_size >> (8 * i)));
  uint32_t block = static_cast<uint32_t>(content.size()) << 3 | 1;  // raw, last
  for (unsigned i = 0; i < 3; ++i) out.push_back(static_cast<std::byte>(block >> (8 * i)));
  out.insert(out.end(), content.begin(), content.end());
  return out;
}

Status decode_alone(Bytes frame, size_t decoded_len) {
  std::vector<std::byte> out(decoded_len);
  return FrameDecoder().decode(frame, out);
}

// The sample with its portable plan replaced.
Status read_plan(format::Codec codec, std::vector<std::byte> stored, uint64_t decoded_len,
                 const std::vector<uint32_t>& lens) {
  static const std::vector<std::byte> good = sample_bytes();
  static const Parts good_parts = take_apart(good);
  Parts parts = good_parts;
  uint32_t plan = 0;
  for (uint32_t i = 0; i < parts.manifest.segments.size(); ++i)
    if (parts.manifest.segments[i].name == "plan/portable") plan = i;
  replace_segment(parts, plan, codec, std::move(stored), decoded_len, lens);
  auto file = assemble(parts);
  auto opened = Container::open_memory(file, "frames.mlc", trusting());
  if (!opened.ok()) return opened.status();
  auto bytes = (*opened)->segment(plan);
  if (!bytes.ok()) return bytes.status();
  CHECK(bytes->bytes().size() == decoded_len);
  return ok();
}

void refused(const Status& status, const char* expected) {
  REQUIRE_FALSE(status.ok());
  CHECK(status.code == Code::Malformed);
  CHECK_MESSAGE(status.message.find(expected) != std::string::npos, status.message);
}

}  // namespace

TEST_CASE("What the writer compresses the reader decodes, in blocks of 1 MiB") {
  for (size_t len : {size_t{1}, size_t{1000}, kBlock - 1, kBlock, kBlock + 1, 3 * kBlock + 17}) {
    auto content = text(len);
    auto frames = compress(content, Effort::Fast);
    REQUIRE(frames.ok());
    CHECK(frames->lengths.size() == (len + kBlock - 1) / kBlock);
    CHECK(read_plan(format::Codec::Zstd, frames->stored, len, frames->lengths).ok());
    CHECK(compress(content, Effort::Fast)->stored == frames->stored);
  }
}

TEST_CASE("Every changed byte of a frame is refused or decodes to the same, never to something else") {
  auto content = text(5000);
  auto frame = compress(content, Effort::Small)->stored;
  for (size_t i = 0; i < frame.size(); ++i)
    for (unsigned bit = 0; bit < 8; ++bit) {
      frame[i] ^= static_cast<std::byte>(1u << bit);
      std::vector<std::byte> out(content.size());
      if (FrameDecoder().decode(frame, out).ok()) CHECK(out == content);
      frame[i] ^= static_cast<std::byte>(1u << bit);
    }
  for (size_t len = 0; len < frame.size(); ++len)
    CHECK_FALSE(decode_alone(Bytes(frame).first(len), content.size()).ok());
}

TEST_CASE("Frames that the format forbids are refused although libzstd accepts them") {
  auto content = text(64);
  auto frame = compress(content, Effort::Small)->stored;
  REQUIRE(decode_alone(frame, 64).ok());
  refused(decode_alone(frame, 63), "content size");
  refused(decode_alone(frame, 65), "content size");
  auto twice = frame;
  twice.insert(twice.end(), frame.begin(), frame.end());
  refused(decode_alone(twice, 64), "end where its leaf ends");
  auto trailing = frame;
  trailing.push_back(std::byte{0});
  refused(decode_alone(trailing, 64), "end where its leaf ends");
  std::vector<std::byte> skippable = {
      std::byte{0x50}, std::byte{0x2A}, std::byte{0x4D}, std::byte{0x18}, {}, {}, {}, {}};
  skippable.insert(skippable.end(), frame.begin(), frame.end());
  refused(decode_alone(skippable, 64), "no valid header");

  auto sixteen = text(16);
  refused(decode_alone(frame_of({}, sixteen), 16), "no checksum");
  refused(decode_alone(frame_of({.dictionary_flag = 1}, sixteen), 16), "no checksum");
  refused(decode_alone(frame_of({.checksum = true, .dictionary_flag = 1}, sixteen), 16), "dictionary");
  refused(decode_alone(frame_of({.single_segment = false, .window = 0xF8, .checksum = true}, sixteen), 16), "window");
  refused(decode_alone(frame_of({.content_size = 7'000'000'000'000'000'000, .checksum = true}, sixteen), 16),
          "content size");
}

TEST_CASE("A bomb is refused by its ratio before anything is decoded, whatever its frames say") {
  auto frames = compress(std::vector<std::byte>(16 * kBlock), Effort::Small);
  REQUIRE(frames.ok());
  CHECK(frames->stored.size() < 4096);
  refused(read_plan(format::Codec::Zstd, frames->stored, 16 * kBlock, frames->lengths), "expands more than 1024 times");
}

TEST_CASE("The lengths of frames must fit the segment and its leaves") {
  auto content = text(2 * kBlock + 100);
  auto frames = *compress(content, Effort::Fast);
  auto lens = frames.lengths;
  REQUIRE(lens.size() == 3);
  // The table's lengths are not hashed by themselves: a wrong one cuts the leaves elsewhere, and their digests fail.
  auto with_table = [&](std::vector<uint32_t> claimed) {
    static const std::vector<std::byte> good = sample_bytes();
    static const Parts good_parts = take_apart(good);
    Parts parts = good_parts;
    uint32_t plan = 0;
    for (uint32_t i = 0; i < parts.manifest.segments.size(); ++i)
      if (parts.manifest.segments[i].name == "plan/portable") plan = i;
    replace_segment(parts, plan, format::Codec::Zstd, frames.stored, content.size(), lens);
    std::memcpy(parts.tables[plan].data() + 3 * 32, claimed.data(), 12);
    auto file = assemble(parts);
    auto opened = Container::open_memory(file, "lens.mlc", trusting());
    REQUIRE(opened.ok());
    return use_everything(**opened);
  };
  CHECK(with_table(lens).ok());
  CHECK(with_table({lens[0] + 1, lens[1] - 1, lens[2]}).code == Code::BadSignature);
  refused(with_table({lens[0] + 1, lens[1], lens[2]}), "do not add up");
  refused(with_table({0, lens[0] + lens[1], lens[2]}), "frame 0 has 0 bytes");
  refused(with_table({0xFFFFFFFF, 1, lens[2]}), "frame 0 has 4294967295 bytes");
}
