// What the tests of this folder share: bytes from text, a folder that disappears, a small signed thing.
#pragma once

#include <stdlib.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "signing/policy.h"

namespace mlc::signing::test {

inline Bytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }
inline std::string_view text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

inline std::vector<std::byte> from_hex(std::string_view hex) {
  std::vector<std::byte> out;
  if (hex == "-") return out;
  REQUIRE(hex.size() % 2 == 0);
  for (size_t i = 0; i < hex.size(); i += 2)
    out.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  return out;
}

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void write_file(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "mlc-signing-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Steps 2 and 3 in one.
inline Verdict decide(const Authentication& authentication, const ModelFacts& facts, const TrustSet& trust,
                      const DecideOptions& options) {
  Verdict signer = decide_signer(authentication, trust, options);
  if (signer.may_run == MayRun::Refused) return signer;
  return decide_model(signer, authentication, facts, trust, options);
}

inline PrivateKey make_key(KeyType type = KeyType::P256) {
  auto key = PrivateKey::generate(type);
  REQUIRE(key.ok());
  return std::move(key).value();
}

// The parts of a container that signing sees, signed by one key.
struct Sample {
  std::array<std::byte, kCoreSize> core{};
  std::string manifest = "the manifest is opaque here";
  Statement statement;
  std::vector<std::byte> tail;

  Sample() {
    core[0] = std::byte{0x89};
    statement.root = root_digest(core, bytes_of(manifest));
    statement.manifest = sha256(manifest);
    statement.model_id = "acme/cat";
    statement.model_version = 3;
  }
  explicit Sample(const PrivateKey& key) : Sample() { sign(key); }
  void sign(const PrivateKey& key) {
    auto block = sign_block(statement, key);
    REQUIRE(block.ok());
    tail = std::move(block).value();
  }
  // Signs any payload with any payload type, as an attacker with a key can.
  void sign_payload(const PrivateKey& key, std::string_view payload, std::string_view type = kPayloadType) {
    SignatureBlock block;
    block.envelope.payload.assign(bytes_of(payload).begin(), bytes_of(payload).end());
    auto signature = key.sign(pre_authentication_encoding(bytes_of(payload), type));
    REQUIRE(signature.ok());
    const Bytes der = key.public_key().der();
    block.envelope.signatures.push_back({{der.begin(), der.end()}, *signature});
    auto encoded = encode_block(block);
    REQUIRE(encoded.ok());
    tail = *encoded;
  }
  void also_sign(const PrivateKey& key) {
    auto block = parse_block(tail);
    REQUIRE(block.ok());
    REQUIRE(add_signature(block->envelope, key).ok());
    tail = *encode_block(*block);
  }
  Result<Authentication> authenticate() const { return signing::authenticate(core, bytes_of(manifest), tail); }
  ModelFacts facts() const { return {.id = statement.model_id, .version = statement.model_version}; }
};

}  // namespace mlc::signing::test
