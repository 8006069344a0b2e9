// SHA-256 through libcrypto's low-level interface (SHA256_Init and friends), which OpenSSL 3 marks as deprecated in
// favour of EVP. It is used on purpose: it neither allocates nor fails, so a digest is a value and not a Result, and
// it runs the same assembly.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "signing/hash_tree.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include <openssl/sha.h>

namespace mlc {

namespace {

constexpr std::byte kLeafTag{0xA5};
constexpr std::byte kSegmentTag{0x5A};
constexpr std::string_view kRootTag = "MLCROOT1";
constexpr std::string_view kTensorTag = "MLCTENS1";

SHA256_CTX* context(std::array<std::byte, 128>& state) {
  static_assert(sizeof(SHA256_CTX) <= 128 && alignof(SHA256_CTX) <= 8);
  return reinterpret_cast<SHA256_CTX*>(state.data());
}

template <class T>
std::array<std::byte, sizeof(T)> little_endian(T v) {
  std::array<std::byte, sizeof(T)> bytes;
  for (size_t i = 0; i < sizeof(T); ++i) bytes[i] = static_cast<std::byte>(v >> (8 * i));
  return bytes;
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

Sha256::Sha256() : state_{} { SHA256_Init(context(state_)); }
void Sha256::update(Bytes bytes) {
  if (!bytes.empty()) SHA256_Update(context(state_), bytes.data(), bytes.size());
}
void Sha256::update_u8(uint8_t v) { update(little_endian(v)); }
void Sha256::update_u16(uint16_t v) { update(little_endian(v)); }
void Sha256::update_u32(uint32_t v) { update(little_endian(v)); }
void Sha256::update_u64(uint64_t v) { update(little_endian(v)); }
Digest Sha256::finish() {
  Digest digest;
  SHA256_Final(reinterpret_cast<unsigned char*>(digest.data()), context(state_));
  return digest;
}

Digest sha256(Bytes bytes) {
  Sha256 sha;
  sha.update(bytes);
  return sha.finish();
}

std::string to_hex(Bytes bytes) {
  constexpr char digits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(bytes.size() * 2);
  for (std::byte b : bytes) {
    hex.push_back(digits[std::to_integer<unsigned>(b) >> 4]);
    hex.push_back(digits[std::to_integer<unsigned>(b) & 15]);
  }
  return hex;
}

std::optional<Digest> digest_from_hex(std::string_view hex) {
  Digest digest;
  if (hex.size() != 2 * digest.size()) return std::nullopt;
  for (size_t i = 0; i < digest.size(); ++i) {
    const int high = hex_value(hex[2 * i]), low = hex_value(hex[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    digest[i] = static_cast<std::byte>(high << 4 | low);
  }
  return digest;
}

std::optional<Digest> digest_named(std::string_view text) {
  constexpr std::string_view kPrefix = "sha256:";
  return digest_from_hex(text.starts_with(kPrefix) ? text.substr(kPrefix.size()) : text);
}

LeafHasher::LeafHasher(uint32_t len) {
  sha_.update(Bytes(&kLeafTag, 1));
  sha_.update_u32(len);
}

Digest leaf_digest(Bytes stored) {
  assert(stored.size() <= UINT32_MAX && "a leaf is shorter than 4 GiB");
  LeafHasher leaf(static_cast<uint32_t>(stored.size()));
  leaf.update(stored);
  return leaf.finish();
}

Digest segment_digest(uint8_t codec, uint64_t stored_len, uint64_t decoded_len, std::span<const Digest> leaves) {
  Sha256 sha;
  sha.update(Bytes(&kSegmentTag, 1));
  sha.update_u8(codec);
  sha.update_u8(kLeafLog2);
  sha.update_u16(0);
  sha.update_u64(stored_len);
  sha.update_u64(decoded_len);
  for (const Digest& leaf : leaves) sha.update(leaf);
  return sha.finish();
}

void RawSegmentHasher::update(Bytes bytes) {
  size_ += bytes.size();
  while (!bytes.empty()) {
    if (pending_.empty() && bytes.size() >= kLeafSize) {  // a whole leaf lies in the caller's memory: no copy
      leaves_.push_back(leaf_digest(bytes.first(kLeafSize)));
      bytes = bytes.subspan(kLeafSize);
      continue;
    }
    const size_t take = std::min<size_t>(bytes.size(), kLeafSize - pending_.size());
    pending_.insert(pending_.end(), bytes.begin(), bytes.begin() + take);
    bytes = bytes.subspan(take);
    if (pending_.size() == kLeafSize) flush();
  }
}

void RawSegmentHasher::flush() {
  leaves_.push_back(leaf_digest(pending_));
  pending_.clear();
}

Digest RawSegmentHasher::finish() {
  if (!pending_.empty()) flush();
  return segment_digest(/*codec=*/1, size_, size_, leaves_);
}

Digest root_digest(std::span<const std::byte, kCoreSize> core, const Digest& manifest_digest) {
  Sha256 sha;
  sha.update(kRootTag);
  sha.update(core);
  sha.update(manifest_digest);
  return sha.finish();
}
Digest root_digest(std::span<const std::byte, kCoreSize> core, Bytes manifest) {
  return root_digest(core, sha256(manifest));
}

TensorHasher::TensorHasher(DType dtype, std::span<const uint64_t> dims) {
  assert(dims.size() <= UINT8_MAX && "the rank is one byte");
  sha_.update(kTensorTag);
  sha_.update_u8(static_cast<uint8_t>(dtype));
  sha_.update_u8(static_cast<uint8_t>(dims.size()));
  for (uint64_t dim : dims) sha_.update_u64(dim);
}
Digest tensor_digest(DType dtype, std::span<const uint64_t> dims, Bytes elements) {
  TensorHasher tensor(dtype, dims);
  tensor.update(elements);
  return tensor.finish();
}

}  // namespace mlc
