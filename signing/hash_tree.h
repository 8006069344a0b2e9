// The hash tree of a container: every digest that a signature covers, directly or through another digest.
//
//   leaf    = SHA256( A5 | u32 len | stored bytes )
//   segment = SHA256( 5A | u8 codec | u8 leaf_log2 | u16 0 | u64 stored_len | u64 decoded_len | leaf_0 ... leaf_n-1 )
//   root    = SHA256( "MLCROOT1" | core[64] | SHA256(manifest bytes) )
//   tensor  = SHA256( "MLCTENS1" | u8 dtype | u8 rank | u64 dims... | row-major little-endian elements )
//
// Integers are little-endian. A raw segment is cut into leaves of 2^20 bytes, the last one shorter; of a zstd segment
// each frame is one leaf, whatever its stored length. The first byte separates leaves from nodes, the lengths inside
// stop extension by zeros, and no index is inside, so a digest stays what it is when other segments come and go
// (spec/signing.md, "Digests").
//
// Hashing cannot fail and does not allocate, except for RawSegmentHasher's list of leaves. Values are independent: one
// hasher per thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "base/dtype.h"

namespace mlc {

using Digest = std::array<std::byte, 32>;

inline constexpr unsigned kLeafLog2 = 20;
inline constexpr uint64_t kLeafSize = uint64_t{1} << kLeafLog2;
inline constexpr size_t kCoreSize = 64;  // the signed first bytes of the header page

// Incremental SHA-256. `finish` may be called once; after it only assignment and destruction are allowed.
class Sha256 {
 public:
  Sha256();
  void update(Bytes bytes);
  void update(std::string_view text) { update(std::as_bytes(std::span(text.data(), text.size()))); }
  void update_u8(uint8_t v);
  void update_u16(uint16_t v);  // the integers in little-endian order
  void update_u32(uint32_t v);
  void update_u64(uint64_t v);
  [[nodiscard]] Digest finish();

 private:
  alignas(8) std::array<std::byte, 128> state_;  // libcrypto's SHA256_CTX, checked where it is used
};

[[nodiscard]] Digest sha256(Bytes bytes);
[[nodiscard]] inline Digest sha256(std::string_view text) {
  return sha256(std::as_bytes(std::span(text.data(), text.size())));
}

// 64 lower-case hex digits, and back (upper case, other lengths and other characters: none).
[[nodiscard]] std::string to_hex(Bytes bytes);
[[nodiscard]] std::optional<Digest> digest_from_hex(std::string_view hex);
// The same of "sha256:..." too, as tools show the root of a file.
[[nodiscard]] std::optional<Digest> digest_named(std::string_view text);

// One leaf. `stored` is what is in the file (for zstd the frame), shorter than 2^32 bytes.
[[nodiscard]] Digest leaf_digest(Bytes stored);

// A leaf whose bytes arrive in pieces: `len` must be the exact sum of their lengths.
class LeafHasher {
 public:
  explicit LeafHasher(uint32_t len);
  void update(Bytes bytes) { sha_.update(bytes); }
  [[nodiscard]] Digest finish() { return sha_.finish(); }

 private:
  Sha256 sha_;
};

// A segment from its leaves. `codec` as in the manifest: 1 raw, 2 zstd.
[[nodiscard]] Digest segment_digest(uint8_t codec, uint64_t stored_len, uint64_t decoded_len,
                                    std::span<const Digest> leaves);

// Number of leaves of a raw segment.
[[nodiscard]] constexpr uint64_t raw_leaf_count(uint64_t stored_len) {
  return stored_len / kLeafSize + (stored_len % kLeafSize != 0);
}

// A raw segment as a stream of any pieces: cuts it into leaves. Collects the leaf table on the way.
class RawSegmentHasher {
 public:
  void update(Bytes bytes);
  // Closes the last leaf; then `leaves` is complete. Call once.
  [[nodiscard]] Digest finish();
  const std::vector<Digest>& leaves() const { return leaves_; }
  uint64_t size() const { return size_; }

 private:
  void flush();

  std::vector<Digest> leaves_;
  std::vector<std::byte> pending_;  // a leaf's length comes before its bytes, so an unfinished leaf has to wait
  uint64_t size_ = 0;
};

// What a signature names. `core` is the first 64 bytes of the file.
[[nodiscard]] Digest root_digest(std::span<const std::byte, kCoreSize> core, const Digest& manifest_digest);
[[nodiscard]] Digest root_digest(std::span<const std::byte, kCoreSize> core, Bytes manifest);

// Content of a tensor whatever its layout in the file: row-major, little-endian, 4-bit types one byte per element.
class TensorHasher {
 public:
  TensorHasher(DType dtype, std::span<const uint64_t> dims);  // at most 255 dims
  void update(Bytes elements) { sha_.update(elements); }
  [[nodiscard]] Digest finish() { return sha_.finish(); }

 private:
  Sha256 sha_;
};
[[nodiscard]] Digest tensor_digest(DType dtype, std::span<const uint64_t> dims, Bytes elements);

}  // namespace mlc
