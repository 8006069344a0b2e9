// The files of tests/unit/io/data and the answers of Pillow, OpenCV and NumPy in expected.npz and expected_rare.npz, made
// by make.py and make_rare.py.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <string>

#include "runtime/io/file.h"
#include "runtime/io/npz.h"
#include "tests/support/source_path.h"

namespace mlc::test {

inline HostBuffer fixture(const std::string& name) {
  auto file = io::read_file(mlc::testing::source_path("tests/unit/io/data/") + name);
  REQUIRE_MESSAGE(file.ok(), name);
  return std::move(file).value();
}

inline const std::vector<NamedTensor>& expectations() {
  static const std::vector<NamedTensor> all = [] {
    std::vector<NamedTensor> found;
    for (const char* name : {"expected.npz", "expected_rare.npz"}) {
      HostBuffer file = fixture(name);
      auto parsed = io::parse_npz(file.bytes());
      REQUIRE(parsed.ok());
      for (NamedTensor& t : *parsed) found.push_back(std::move(t));
    }
    return found;
  }();
  return all;
}

inline const HostTensor& expectation(const std::string& name) {
  for (const NamedTensor& t : expectations())
    if (t.name == name) return t.tensor;
  FAIL("no expectation called ", name);
  return expectations()[0].tensor;
}

inline bool same(const HostTensor& a, const HostTensor& b) {
  return a.dtype == b.dtype && a.shape == b.shape &&
         (a.data.size() == 0 || std::memcmp(a.data.data(), b.data.data(), a.data.size()) == 0);
}

// A seeded stream of numbers, the same on every machine, for mutation loops.
struct Random {
  uint64_t state;
  uint64_t next() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
  }
  size_t below(size_t n) { return next() % n; }
};

// Calls `parse` on every truncation of `file` and on `rounds` seeded mutations of it. What matters is that it returns:
// the sanitizers of the dev preset watch the rest.
template <class Parse>
void walk_damage(const HostBuffer& file, int rounds, Parse parse) {
  std::vector<std::byte> bytes(file.data(), file.data() + file.size());
  for (size_t n = 0; n < bytes.size(); n += bytes.size() > 4000 ? 17 : 1) parse(Bytes(bytes.data(), n));
  Random random{0x9E3779B97F4A7C15u};
  for (int i = 0; i < rounds; ++i) {
    auto copy = bytes;
    for (size_t k = 0, n = 1 + random.below(4); k < n; ++k) {
      static constexpr uint8_t interesting[] = {0, 1, 0x7F, 0x80, 0xFE, 0xFF};
      size_t at = random.below(copy.size());
      copy[at] = random.below(2) ? std::byte{interesting[random.below(6)]} : static_cast<std::byte>(random.next());
    }
    if (random.below(4) == 0) copy.resize(random.below(copy.size()) + 1);
    parse(Bytes(copy));
  }
}

}  // namespace mlc::test
