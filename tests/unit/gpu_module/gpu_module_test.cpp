// The module of a device: what is written is read as it was, and each rule of spec/gpu-module.md is enforced.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <fstream>
#include <random>
#include <sstream>

#include "schema/format.h"
#include "schema/gpu_module.h"
#include "tests/support/source_path.h"

namespace mlc {
namespace {

using gpu::Entry;
using gpu::Image;
using gpu::ImageKind;
using gpu::Module;
using Buffer = std::vector<std::byte>;

constexpr auto kSpirv = static_cast<uint8_t>(format::ModuleFormat::Spirv), kPtx = static_cast<uint8_t>(format::ModuleFormat::Ptx);

Buffer text(std::string_view t) {
  const auto bytes = std::as_bytes(std::span(t.data(), t.size()));
  return {bytes.begin(), bytes.end()};
}

Entry entry(std::string name, uint32_t image) {
  Entry e;
  e.name = std::move(name);
  e.image = image;
  e.lanes = {128, 1, 1};
  e.num_buffers = 3;
  e.num_scalars = 2;
  e.narrow = 2;
  e.written = 4;
  return e;
}

Module words() {
  Module m{kSpirv, {entry("add", 0), entry("softmax", 1), entry("add", 1)}, {}};
  m.entries[1].may_fault = m.entries[1].has_barriers = m.entries[1].wants_full_subgroups = m.entries[1].has_few_lanes = true;
  m.entries[1].subgroup_lanes = 32;
  m.entries[1].shared_bytes = 16384;
  m.entries[1].dynamic_shared_bytes = 7;
  m.images = {{ImageKind::SpirV, 0, {1, 11, 4433}, Buffer(20, std::byte{3})}, {ImageKind::SpirV, 0, {}, Buffer(28, std::byte{5})}};
  return m;
}

Module ptx() {
  Module m{kPtx, {entry("k0", 0), entry("k1", 2)}, {}};
  m.images = {{ImageKind::Ptx, 0, {}, text(std::string_view(".version 7.0\n\0", 14))},
              {ImageKind::Cubin, 80, {5}, text("\x7f" "ELF\0")},
              {ImageKind::Ptx, 0, {2}, text(std::string_view("x\0", 2))}};
  return m;
}

void check_equal(const Module& a, const Module& b) {
  CHECK(a.format == b.format);
  REQUIRE(a.entries.size() == b.entries.size());
  REQUIRE(a.images.size() == b.images.size());
  for (size_t k = 0; k < a.entries.size(); ++k) {
    const Entry &x = a.entries[k], &y = b.entries[k];
    CHECK(x.name == y.name);
    CHECK(x.image == y.image);
    CHECK(x.lanes == y.lanes);
    CHECK(x.may_fault == y.may_fault);
    CHECK(x.has_barriers == y.has_barriers);
    CHECK(x.wants_full_subgroups == y.wants_full_subgroups);
    CHECK(x.has_few_lanes == y.has_few_lanes);
    CHECK(x.num_buffers == y.num_buffers);
    CHECK(x.num_scalars == y.num_scalars);
    CHECK(x.subgroup_lanes == y.subgroup_lanes);
    CHECK(x.shared_bytes == y.shared_bytes);
    CHECK(x.dynamic_shared_bytes == y.dynamic_shared_bytes);
    CHECK(x.narrow == y.narrow);
    CHECK(x.written == y.written);
  }
  for (size_t i = 0; i < a.images.size(); ++i) {
    CHECK(a.images[i].kind == b.images[i].kind);
    CHECK(a.images[i].architecture == b.images[i].architecture);
    CHECK(a.images[i].features == b.images[i].features);
    CHECK(a.images[i].bytes == b.images[i].bytes);
  }
}

// What refuses a module of words or text to which something was done; empty if nothing does.
std::string refusal(Module m, const std::function<void(Module&)>& change) {
  change(m);
  const auto decoded = gpu::decode(gpu::encode(m));
  return decoded.ok() ? "" : decoded.status().message;
}
bool says(const std::string& message, std::string_view what) { return message.find(what) != std::string::npos; }

TEST_CASE("what is encoded is decoded as it was") {
  for (const Module& m : {words(), ptx(), Module{kSpirv, {}, {}}}) {
    const Buffer bytes = gpu::encode(m);
    const auto decoded = gpu::decode(bytes);
    if (!decoded.ok()) FAIL(decoded.status().message);
    check_equal(m, *decoded);
    CHECK(gpu::encode(*decoded) == bytes);
    CHECK(bytes.size() % 8 == 0);
  }
}

TEST_CASE("each rule about a module is enforced") {
  const auto w = [](std::string_view what, const std::function<void(Module&)>& change) { CHECK_MESSAGE(says(refusal(words(), change), what), what); };
  const auto p = [](std::string_view what, const std::function<void(Module&)>& change) { CHECK_MESSAGE(says(refusal(ptx(), change), what), what); };
  w("format 2", [](Module& m) { m.format = 2; });
  w("format 5", [](Module& m) { m.format = 5; });
  w("image 2 of 2", [](Module& m) { m.entries[0].image = 2; });
  w("0 lanes", [](Module& m) { m.entries[0].lanes[1] = 0; });
  w("1025 lanes", [](Module& m) { m.entries[0].lanes = {1025, 1, 1}; });
  w("lanes", [](Module& m) { m.entries[0].lanes = {65535, 65535, 65535}; });
  w("4097 buffers", [](Module& m) { m.entries[0].num_buffers = 4097; });
  w("4097 scalars", [](Module& m) { m.entries[0].num_scalars = 4097; });
  w("narrow", [](Module& m) { m.entries[0].narrow = 4; });
  w("written", [](Module& m) { m.entries[0].written = 8; });
  w("a name of 0 bytes", [](Module& m) { m.entries[0].name.clear(); });
  w("a name of 256 bytes", [](Module& m) { m.entries[0].name.assign(256, 'x'); });
  w("a name with byte 0", [](Module& m) { m.entries[0].name = std::string("a\0b", 3); });
  w("a name with byte 32", [](Module& m) { m.entries[0].name = "a b"; });
  w("a name with byte 200", [](Module& m) { m.entries[0].name = "\xc8"; });
  w("two entries 'add'", [](Module& m) { m.entries[1].name = "add"; });
  w("ascending", [](Module& m) { m.images[0].features = {1, 1}; });
  w("ascending", [](Module& m) { m.images[0].features = {2, 1}; });
  w("kind 1", [](Module& m) { m.images[0].kind = ImageKind::Ptx; });
  w("kind 0", [](Module& m) { m.images[0].kind = ImageKind::None; });
  w("architecture 1", [](Module& m) { m.images[0].architecture = 1; });
  w("no entry is in it", [](Module& m) { m.images.push_back(m.images[0]); });
  w("0 bytes", [](Module& m) { m.images[0].bytes.clear(); });
  w("no words", [](Module& m) { m.images[0].bytes.resize(21); });
  p("kind 3", [](Module& m) { m.images[0].kind = ImageKind::SpirV; });
  p("kind 9", [](Module& m) { m.images[0].kind = static_cast<ImageKind>(9); });
  p("without PTX", [](Module& m) { std::swap(m.images[0], m.images[1]); });
  p("architecture 0", [](Module& m) { m.images[1].architecture = 0; });
  p("an entry of a cubin", [](Module& m) { m.entries[1].image = 1; });
  p("first zero", [](Module& m) { m.images[0].bytes.back() = std::byte{'x'}; });
  p("first zero", [](Module& m) { m.images[0].bytes[3] = std::byte{0}; });
}

TEST_CASE("subgroups of a stated size are full ones, of a power of two from 4 to 64 lanes that divides the block's") {
  const auto with = [](uint16_t lanes, bool are_full = true, uint16_t along_x = 128) {
    return refusal(words(), [&](Module& m) {
      Entry& e = m.entries[1];
      e.subgroup_lanes = lanes, e.wants_full_subgroups = are_full, e.lanes[0] = along_x;
    });
  };
  for (const uint16_t lanes : {0, 4, 8, 32, 64}) CHECK_MESSAGE(with(lanes).empty(), lanes);
  for (const uint16_t lanes : {1, 2, 7, 48, 65, 128, 256, 65535}) CHECK_MESSAGE(says(with(lanes), "entry 1: subgroups of " + std::to_string(lanes) + " lanes"), lanes);
  CHECK(says(with(32, true, 48), "subgroups of 32 lanes"));
  CHECK(says(with(8, false), "subgroups of 8 lanes"));
  CHECK(with(0, false).empty());
}

// Older readers demand zeros where the size stands: they refuse an entry that has one, and take one that has none.
TEST_CASE("a size of subgroups stands where older readers want zeros, and changes no other byte") {
  Module m = words();
  const Buffer stated = gpu::encode(m);
  m.entries[1].subgroup_lanes = 0;
  const Buffer open = gpu::encode(m);
  REQUIRE(stated.size() == open.size());
  constexpr size_t kAt = 24 + 48 + 18;
  for (size_t at = 0; at < open.size(); ++at) CHECK((stated[at] != open[at]) == (at == kAt));
  CHECK(stated[kAt] == std::byte{32});
  CHECK(open[kAt] == std::byte{0});
  CHECK(open[kAt + 1] == std::byte{0});
}

// Fields that `encode` cannot write wrong.
TEST_CASE("each rule about the bytes is enforced") {
  const Buffer good = gpu::encode(words());
  const auto with = [&](size_t at, unsigned value) {
    Buffer bad = good;
    bad[at] = static_cast<std::byte>(value);
    const auto decoded = gpu::decode(bad);
    return decoded.ok() ? std::string() : decoded.status().message;
  };
  CHECK(says(with(0, 0), "no such module"));
  CHECK(says(with(4, 2), "version 2"));
  CHECK(says(with(7, 1), "cut off"));
  CHECK(!with(8, 4).empty());  // what stands behind the entries is read as one more
  CHECK(says(with(9, 1), "cut off"));
  CHECK(says(with(11, 1), "16777219 entries"));
  CHECK(says(with(16, 4), "1 features of no image"));
  CHECK(says(with(16, 2), "of 2"));
  CHECK(says(with(20, 14), "1 bytes of no name"));
  CHECK(says(with(20, 12), "behind the last"));
  CHECK(says(with(24 + 12, 16), "unknown flags"));
  CHECK(says(with(24 + 28, 1), "cut off"));
  CHECK(says(with(24 + 3 * 48 + 1, 1), "cut off"));
  CHECK(says(with(24 + 3 * 48 + 15, 0x80), "bytes, expected 1 to"));
  Buffer longer = good;
  longer.resize(good.size() + 8);
  CHECK(says(gpu::decode(longer).status().message, "8 bytes behind the last image"));
  CHECK(!gpu::decode({}).ok());
  for (size_t length = 0; length < good.size(); ++length) CHECK(!gpu::decode(std::span(good).first(length)).ok());
}

TEST_CASE("damaged bytes are refused or are a module of their own") {
  std::mt19937_64 random(11);
  for (const Module& m : {words(), ptx()}) {
    const Buffer good = gpu::encode(m);
    const auto check = [](const Buffer& bad) {
      const auto decoded = gpu::decode(bad);
      if (decoded.ok()) CHECK(gpu::encode(*decoded) == bad);
      else CHECK(!decoded.status().message.empty());
    };
    for (size_t at = 0; at < good.size(); ++at)
      for (unsigned mask : {0x01u, 0x80u, 0xffu}) {
        Buffer bad = good;
        bad[at] ^= static_cast<std::byte>(mask);
        check(bad);
      }
    for (int round = 0; round < 20'000; ++round) {
      Buffer bad = good;
      for (uint64_t n = 1 + random() % 4; n; --n) bad[random() % bad.size()] = static_cast<std::byte>(random() % 3 ? random() % 8 : random());
      check(bad);
    }
  }
}

TEST_CASE("the example of spec/gpu-module.md is what the encoder writes") {
  std::ifstream file(mlc::testing::source_path("spec/gpu-module.md"));
  Buffer example;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line == "```") inside = !inside;
    else if (inside) {
      std::istringstream pieces(line.substr(0, line.find(';')));
      for (std::string piece; pieces >> piece;) example.push_back(static_cast<std::byte>(std::stoi(piece, nullptr, 16)));
    }
  }
  Module m{kPtx, {entry("add", 0)}, {{ImageKind::Ptx, 0, {9}, text(std::string_view(".v\0", 3))}, {ImageKind::Cubin, 80, {}, text("\x7f" "ELF")}}};
  m.entries[0].may_fault = true;
  CHECK(example == gpu::encode(m));
  CHECK(gpu::decode(example).ok());
}

}  // namespace
}  // namespace mlc
