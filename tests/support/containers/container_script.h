// Turns any bytes into a damaged container and judges what the reader does with it; shared by the fuzzer and by the
// seeded loop in ctest. Most inputs are edits of a good container that is hashed and signed again, so that they reach
// the parsers behind the signature.
//
//   byte 0      what is edited: 0 manifest, 1 header core, 2 the whole file (not signed again), 3 a compressed segment
//               (hashed again), 4 its leaf table, 5 the rest of the input is the manifest
//   then        edits of 4 bytes: u16 offset, u8 operation, u8 value
#pragma once

#include <cstdio>
#include <cstdlib>

#include "runtime/container/manifest_decode.h"
#include "tests/support/containers/bad_container.h"

namespace mlc::test {

inline void apply_edits(Bytes edits, std::span<std::byte> target) {
  for (; edits.size() >= 4 && !target.empty(); edits = edits.subspan(4)) {
    size_t at = (static_cast<size_t>(edits[0]) | static_cast<size_t>(edits[1]) << 8) % target.size();
    std::byte& byte = target[at];
    const std::byte value = edits[3];
    switch (static_cast<unsigned>(edits[2]) % 6) {
      case 0: byte = value; break;
      case 1: byte ^= value; break;
      case 2: byte = static_cast<std::byte>(static_cast<unsigned>(byte) + static_cast<unsigned>(value)); break;
      case 3:  // a whole little-endian word of one value
        for (size_t i = at; i < target.size() && i < at + 4; ++i) target[i] = value;
        break;
      case 4:
        for (size_t i = at; i < target.size() && i < at + 8; ++i) target[i] = value;
        break;
      case 5: byte = std::byte{static_cast<uint8_t>(1u << (static_cast<unsigned>(value) % 8))}; break;
    }
  }
}

inline void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "broken property: %s\n", what);
  std::abort();
}

// Parsed means: encodes again, and that parses to the same.
inline void check_reencodes(const format::Manifest& manifest) {
  auto once = container::encode_manifest(manifest);
  auto again = container::decode_manifest(once);
  require(again.ok(), "a parsed manifest encodes to one that parses");
  require(container::encode_manifest(*again) == once, "encoding is stable");
}

// Returns true if the container was accepted as a whole.
inline bool run_container_script(Bytes input) {
  static const std::vector<std::byte> good = sample_bytes();
  static const Parts parts = take_apart(good);
  static const uint32_t compressed = [] {
    for (uint32_t i = 0; i < parts.shapes.size(); ++i)
      if (parts.shapes[i].codec == format::Codec::Zstd) return i;
    std::abort();
  }();
  if (input.empty()) return true;
  const Bytes edits = input.subspan(1);
  std::vector<std::byte> file;
  switch (static_cast<unsigned>(input[0]) % 6) {
    case 0: {
      Parts p = parts;
      p.change_manifest_bytes = [&](std::vector<std::byte>& m) { apply_edits(edits, m); };
      file = assemble(p);
      break;
    }
    case 1: {
      Parts p = parts;
      p.change_core = [&](container::Core& core) { apply_edits(edits, core); };
      file = assemble(p);
      break;
    }
    case 2:
      file = good;
      apply_edits(edits, file);
      break;
    case 3: {
      Parts p = parts;
      auto stored = p.stored[compressed];
      apply_edits(edits, stored);
      uint32_t len = static_cast<uint32_t>(stored.size());
      replace_segment(p, compressed, format::Codec::Zstd, std::move(stored), p.shapes[compressed].decoded_len, {len});
      file = assemble(p);
      break;
    }
    case 4: {
      Parts p = parts;
      apply_edits(edits, p.tables[compressed]);
      file = assemble(p);
      break;
    }
    case 5: {
      Parts p = parts;
      p.change_manifest_bytes = [&](std::vector<std::byte>& m) { m.assign(edits.begin(), edits.end()); };
      if (edits.empty()) return true;
      file = assemble(p);
      break;
    }
  }
  auto opened = container::Container::open_memory(file, "script", trusting());
  if (!opened.ok()) {
    require(!opened.status().message.empty(), "an error says what is wrong");
    return false;
  }
  check_reencodes((*opened)->manifest());
  return use_everything(**opened).ok();
}

}  // namespace mlc::test
