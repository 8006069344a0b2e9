// Keys and signatures. The algorithm follows from the key's type, nothing else names one:
//
//   P-256     ECDSA, SHA-256 (the default)      P-384  ECDSA, SHA-384      P-521  ECDSA, SHA-512
//   Ed25519   PureEdDSA (RFC 8032)
//
// A public key is its SubjectPublicKeyInfo in DER. Exactly one encoding of each key is accepted: named curve,
// uncompressed point, no trailing byte; so keys are compared as bytes, and a key id is SHA-256 of those bytes. ECDSA
// signatures are strict DER: minimal lengths and integers, 0 < r, s < n, no trailing byte. An ECDSA value can still be
// rewritten into another valid one (s and n - s): a signature value is never an identity.
//
// Nothing here prompts: an encrypted private key needs its passphrase. Private keys leave this library only as PEM.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "signing/hash_tree.h"

struct ec_key_st;    // OpenSSL's EC_KEY
struct evp_pkey_st;  // and EVP_PKEY

namespace mlc::signing {

enum class KeyType : uint8_t { P256, P384, P521, Ed25519 };
[[nodiscard]] std::string_view name_of(KeyType type);                     // "p256", "ed25519", ...
[[nodiscard]] std::optional<KeyType> key_type_named(std::string_view name);

struct PkeyDeleter {
  void operator()(evp_pkey_st* key) const;
};
using PkeyHandle = std::unique_ptr<evp_pkey_st, PkeyDeleter>;

inline constexpr size_t kMaxKeyFile = 64 * 1024;
inline constexpr size_t kKeyIdPrefix = 16;  // hex digits of a key id that messages and file names show

// A verified-to-be-canonical public key. Copyable, immutable.
class PublicKey {
 public:
  // Malformed if the bytes are not the one accepted encoding of a supported key.
  [[nodiscard]] static Result<PublicKey> from_der(Bytes spki);
  // A text with exactly one "BEGIN PUBLIC KEY" block (text around it is allowed, as in RFC 7468).
  [[nodiscard]] static Result<PublicKey> from_pem(std::string_view pem);
  // A file in PEM. NotFound if it cannot be read, Malformed if it is no public key. A private key is refused.
  [[nodiscard]] static Result<PublicKey> load(const std::string& path);

  KeyType type() const { return type_; }
  Bytes der() const { return der_; }
  const Digest& id() const { return id_; }              // SHA-256 of der()
  std::string id_hex() const { return to_hex(id_); }
  std::string id_prefix() const { return id_hex().substr(0, kKeyIdPrefix); }
  bool is_called(std::string_view digits) const;        // the id begins with them, in either case
  std::string pem() const;                              // SubjectPublicKeyInfo, as RFC 7468 spells it

  // True if `signature` is a valid signature of `message`. Anything else, failures inside libcrypto included, is false.
  [[nodiscard]] bool verify(Bytes message, Bytes signature) const;

  friend bool operator==(const PublicKey& a, const PublicKey& b) { return a.der_ == b.der_; }

 private:
  friend class PrivateKey;
  PublicKey() = default;

  KeyType type_ = KeyType::P256;
  std::vector<std::byte> der_;
  Digest id_{};
  std::shared_ptr<ec_key_st> curve_point_;  // of ECDSA
  std::shared_ptr<evp_pkey_st> edwards_;    // of Ed25519
};

class PrivateKey {
 public:
  [[nodiscard]] static Result<PrivateKey> generate(KeyType type);
  // PKCS#8 or SEC1. `passphrase` is that of an encrypted key; an unencrypted one is read whether or not there is any.
  [[nodiscard]] static Result<PrivateKey> from_pem(std::string_view pem, std::string_view passphrase = {});
  // Untrusted (E3303) unless the file is this user's and no other user may read or write it.
  [[nodiscard]] static Result<PrivateKey> load(const std::string& path, std::string_view passphrase = {});
  // The same with the passphrase from `source` (read_passphrase in file.h); empty: none.
  [[nodiscard]] static Result<PrivateKey> load_with(const std::string& path, std::string_view source);

  const PublicKey& public_key() const { return public_; }
  // PKCS#8. The caller wipes the string or accepts that it stays in memory.
  [[nodiscard]] Result<std::string> pem() const;
  // Writes pem() to a file that must not exist: created with O_EXCL and mode 0600, complete or absent.
  [[nodiscard]] Status store(const std::string& path) const;
  [[nodiscard]] Result<std::vector<std::byte>> sign(Bytes message) const;

 private:
  PrivateKey() = default;
  [[nodiscard]] static Result<PrivateKey> adopt(PkeyHandle key);

  PublicKey public_;
  PkeyHandle key_;
};

}  // namespace mlc::signing
