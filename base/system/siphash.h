// SipHash-1-3 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012; one round for each word, three at the end): a
// hash with a key, for tables of texts that come from strangers. Without the key texts that collide cannot be made.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

namespace mlc {

using SipKey = std::array<uint64_t, 2>;

// Another one for each process, from the kernel's random numbers.
SipKey process_sip_key();

namespace siphash {

struct State {
  uint64_t v0, v1, v2, v3;

  void round() {
    v0 += v1, v1 = std::rotl(v1, 13) ^ v0, v0 = std::rotl(v0, 32);
    v2 += v3, v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3, v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1, v1 = std::rotl(v1, 17) ^ v2, v2 = std::rotl(v2, 32);
  }
};

}  // namespace siphash

inline uint64_t siphash13(const SipKey& key, std::span<const std::byte> bytes) {
  siphash::State s{key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d, key[0] ^ 0x6c7967656e657261,
                   key[1] ^ 0x7465646279746573};
  const auto take = [&s](uint64_t word) {
    s.v3 ^= word;
    s.round();
    s.v0 ^= word;
  };
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    uint64_t word = 0;
    if constexpr (std::endian::native == std::endian::little) std::memcpy(&word, bytes.data() + at, 8);
    else
      for (size_t i = 0; i < 8; ++i) word |= std::to_integer<uint64_t>(bytes[at + i]) << (8 * i);
    take(word);
  }
  uint64_t last = static_cast<uint64_t>(bytes.size()) << 56;
  for (size_t i = 0; at + i < bytes.size(); ++i) last |= std::to_integer<uint64_t>(bytes[at + i]) << (8 * i);
  take(last);
  s.v2 ^= 0xff;
  for (int i = 0; i < 3; ++i) s.round();
  return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

}  // namespace mlc
