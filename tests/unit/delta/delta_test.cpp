// What is parsed of a delta keeps its promises, whatever its bytes are; and what it makes is what it says.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "packager/delta/patch.h"
#include "packager/delta/rebuild.h"

using namespace mlc;
using namespace mlc::delta;

namespace {

std::vector<std::byte> noise(size_t length, uint32_t seed) {
  std::vector<std::byte> out(length);
  for (std::byte& b : out) b = static_cast<std::byte>((seed = seed * 1664525 + 1013904223) >> 24);
  return out;
}

const std::vector<std::byte>& there() {
  static const std::vector<std::byte> bytes = noise(100000, 1);
  return bytes;
}

Result<std::vector<std::byte>> read_there(const Source& s) {
  if (s.where != Where::Segment || s.segment != 0 || !range_within(s.offset, s.length, there().size())) return Status(Code::Malformed, "no such place");
  const Bytes part = Bytes(there()).subspan(s.offset, s.length);
  return std::vector<std::byte>(part.begin(), part.end());
}

// A delta of one part of each kind, and what it makes.
struct Sample {
  std::vector<std::byte> file, delta;
  Delta front;
  Sample() {
    const auto add = [&](Part part, Bytes bytes, Bytes packed) {
      part.length = static_cast<uint32_t>(bytes.size());
      part.stored = static_cast<uint32_t>(packed.size());
      front.parts.push_back(part);
      file.insert(file.end(), bytes.begin(), bytes.end());
      stored.insert(stored.end(), packed.begin(), packed.end());
    };
    add({.kind = PartKind::Zeros}, std::vector<std::byte>(100), {});
    add({.kind = PartKind::Copy, .source = {Where::Segment, 0, 3000, 77}}, Bytes(there()).subspan(77, 3000), {});
    const auto random = noise(500, 2);
    add({.kind = PartKind::Stored}, random, random);
    const std::vector<std::byte> same(4000, std::byte{7});
    add({.kind = PartKind::Packed}, same, pack(same, {}).value());
    std::vector<std::byte> like(there().begin() + 1000, there().begin() + 50000);
    like[20] ^= std::byte{1};
    const auto patch = pack(like, Bytes(there()).first(60000)).value();
    CHECK(patch.size() < 100);
    add({.kind = PartKind::Patch, .source = {Where::Segment, 0, 60000, 0}}, like, patch);
    front.size = file.size();
    front.file = sha256(file);
    delta = encode(front);
    delta.insert(delta.end(), stored.begin(), stored.end());
  }
  std::vector<std::byte> stored;
};

Result<Delta> parsed(Bytes delta) {
  MLC_ASSIGN(const uint64_t length, front_len(delta.first(std::min<size_t>(delta.size(), kFrontLen)), delta.size()));
  return parse(delta.first(length), delta.size());
}

// What a delta makes.
Result<std::vector<std::byte>> applied(Bytes delta) {
  MLC_ASSIGN(const Delta front, parsed(delta));
  size_t at = kFrontLen + front.parts.size() * kPartLen;
  std::vector<std::byte> out;
  const Inputs inputs{[&](uint32_t length) -> Result<std::vector<std::byte>> {
                        REQUIRE(length <= delta.size() - at);
                        const Bytes part = delta.subspan(at, length);
                        at += length;
                        return std::vector<std::byte>(part.begin(), part.end());
                      },
                      read_there};
  MLC_RETURN_IF_ERROR(rebuild(front, inputs, [&](Bytes bytes) {
    out.insert(out.end(), bytes.begin(), bytes.end());
    return ok();
  }));
  return out;
}

}  // namespace

TEST_CASE("a delta makes the bytes that it was made of") {
  const Sample s;
  const auto made = applied(s.delta);
  REQUIRE_MESSAGE(made.ok(), made.status().text());
  CHECK(*made == s.file);
  CHECK(encode(*parsed(s.delta)) == std::vector<std::byte>(s.delta.begin(), s.delta.end() - static_cast<ptrdiff_t>(s.stored.size())));
}

TEST_CASE("a delta of which a byte is another one, or the end is missing, makes nothing or the same") {
  const Sample s;
  for (size_t at = 0; at < s.delta.size(); ++at)
    for (const unsigned change : {1u, 0x80u, 0xFFu}) {
      std::vector<std::byte> bad = s.delta;
      bad[at] ^= static_cast<std::byte>(change);
      if (const auto made = applied(bad); made.ok()) CHECK_MESSAGE(*made == s.file, at);
    }
  for (size_t length = 0; length < s.delta.size(); length += 1 + length / 200) CHECK_FALSE(applied(Bytes(s.delta).first(length)).ok());
  std::vector<std::byte> longer = s.delta;
  longer.push_back(std::byte{0});
  CHECK_FALSE(applied(longer).ok());
}

TEST_CASE("numbers of a delta are compared before they are used") {
  const Sample s;
  const auto with = [&](const std::function<void(Delta&)>& change) {
    Delta d = s.front;
    change(d);
    std::vector<std::byte> delta = encode(d);
    delta.insert(delta.end(), s.stored.begin(), s.stored.end());
    auto made = applied(delta);
    REQUIRE_FALSE(made.ok());
    CHECK_MESSAGE((made.status().code == Code::Malformed || made.status().code == Code::BadSignature), made.status().text());
    return made.status().message;
  };
  CHECK(with([](Delta& d) { d.size += 1; }).find("make") != std::string::npos);
  CHECK(with([](Delta& d) { d.size = UINT64_MAX; }).find("18446744073709551615 expected") != std::string::npos);
  CHECK(with([](Delta& d) { d.parts[0].length = UINT32_MAX; }).find("longer one than a leaf") != std::string::npos);
  CHECK(with([](Delta& d) { d.parts[1].source.offset = UINT64_MAX; }).find("no such place") != std::string::npos);
  CHECK(with([](Delta& d) { d.parts[1].source.segment = UINT32_MAX; }).find("no such place") != std::string::npos);
  CHECK(with([](Delta& d) { d.parts[1].source.length -= 1; }).find("copies fewer or more") != std::string::npos);
  CHECK(with([](Delta& d) { d.parts[2].stored = 0; }).find("where its bytes come from") != std::string::npos);
  CHECK(with([](Delta& d) { d.parts[3].length += 1, d.size += 1; }).find("decompress to 4000, 4001 expected") != std::string::npos);
  CHECK(with([](Delta& d) { d.parts[3].length -= 1, d.size -= 1; }).find("cannot be decompressed") != std::string::npos);
  CHECK(with([](Delta& d) { d.file[0] ^= std::byte{1}; }).find("SHA-256 differs") != std::string::npos);
  CHECK(with([](Delta& d) { d.parts.pop_back(); }).find("make") != std::string::npos);
}

TEST_CASE("a frame that is two, or wants a large window, is refused") {
  const std::vector<std::byte> zeros(1000);
  const auto frame = pack(zeros, {}).value();
  std::vector<std::byte> twice = frame;
  twice.insert(twice.end(), frame.begin(), frame.end());
  CHECK_FALSE(unpack(twice, {}, 2000).ok());
  CHECK_FALSE(unpack(frame, {}, 999).ok());
  CHECK_FALSE(unpack({}, {}, 1).ok());
  CHECK_FALSE(unpack(Bytes(frame).first(frame.size() - 1), {}, 1000).ok());
  CHECK(unpack(frame, {}, 1000).value() == zeros);
}
