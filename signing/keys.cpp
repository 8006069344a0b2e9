// ECDSA through libcrypto's low-level interface, as digests are (hash_tree.cpp): the first key that is decoded by way of EVP
// makes libcrypto list every decoder of every provider, which takes longer than opening a container does without it.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "signing/keys.h"

#include <algorithm>
#include <cstring>

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/sha.h>

#include "base/on_exit.h"
#include "signing/files/file.h"
#include "signing/key_types.h"

namespace mlc::signing {

namespace {

const unsigned char* raw(Bytes bytes) { return reinterpret_cast<const unsigned char*>(bytes.data()); }

// DER of ECDSA-Sig-Value, read strictly: SEQUENCE of two positive minimal INTEGERs, shortest lengths, nothing after.
// libcrypto re-encodes and compares as well; this check does not depend on its version.
class DerCursor {
 public:
  explicit DerCursor(Bytes bytes) : rest_(bytes) {}
  bool done() const { return rest_.empty(); }
  std::optional<Bytes> element(uint8_t tag) {
    if (rest_.size() < 2 || std::to_integer<uint8_t>(rest_[0]) != tag) return std::nullopt;
    size_t len = std::to_integer<uint8_t>(rest_[1]), header = 2;
    if (len == 0x81) {  // one length byte: needed for P-521 only, and minimal only from 128 on
      if (rest_.size() < 3) return std::nullopt;
      len = std::to_integer<uint8_t>(rest_[2]);
      header = 3;
      if (len < 0x80) return std::nullopt;
    } else if (len >= 0x80) {
      return std::nullopt;
    }
    if (rest_.size() - header < len) return std::nullopt;
    const Bytes content = rest_.subspan(header, len);
    rest_ = rest_.subspan(header + len);
    return content;
  }

 private:
  Bytes rest_;
};

bool is_positive_integer(Bytes content) {
  if (content.empty()) return false;
  const auto first = std::to_integer<uint8_t>(content[0]);
  if (first & 0x80) return false;  // negative
  if (first == 0) {                // a leading zero only where the next bit asks for it; the number 0 never
    if (content.size() < 2) return false;
    return (std::to_integer<uint8_t>(content[1]) & 0x80) != 0;
  }
  return true;
}

bool is_strict_ecdsa_der(Bytes signature) {
  DerCursor outer(signature);
  const auto sequence = outer.element(0x30);
  if (!sequence || !outer.done()) return false;
  DerCursor inner(*sequence);
  const auto r = inner.element(0x02);
  if (!r || !is_positive_integer(*r)) return false;
  const auto s = inner.element(0x02);
  return s && is_positive_integer(*s) && inner.done();
}

// What ECDSA signs: at most 64 bytes, into `out`. How many.
size_t signed_digest(KeyType type, Bytes message, std::array<unsigned char, SHA512_DIGEST_LENGTH>& out) {
  SHA512_CTX context;
  switch (type) {
    case KeyType::P256: {
      const Digest digest = sha256(message);
      std::memcpy(out.data(), digest.data(), digest.size());
      return digest.size();
    }
    case KeyType::P384:
      SHA384_Init(&context);
      SHA384_Update(&context, message.data(), message.size());
      SHA384_Final(out.data(), &context);
      return SHA384_DIGEST_LENGTH;
    case KeyType::P521:
      SHA512_Init(&context);
      SHA512_Update(&context, message.data(), message.size());
      SHA512_Final(out.data(), &context);
      return SHA512_DIGEST_LENGTH;
    case KeyType::Ed25519: break;  // hashes by itself
  }
  return 0;
}

Status not_a_public_key() { return Status(Code::Malformed, 3301, "not a public key (p256, p384, p521 or ed25519)"); }

}  // namespace

void PkeyDeleter::operator()(evp_pkey_st* key) const { EVP_PKEY_free(key); }

std::string_view name_of(KeyType type) { return key_traits(type).name; }

std::optional<KeyType> key_type_named(std::string_view name) {
  for (const KeyTraits& traits : kKeyTraits)
    if (traits.name == name) return traits.type;
  return std::nullopt;
}

Result<PublicKey> PublicKey::from_der(Bytes spki) {
  const KeyTraits* traits = nullptr;
  for (const KeyTraits& candidate : kKeyTraits) {
    const auto prefix = std::as_bytes(std::span(candidate.spki_prefix.data(), candidate.spki_prefix.size()));
    if (spki.size() == candidate.spki_len && std::equal(prefix.begin(), prefix.end(), spki.begin()))
      traits = &candidate;
  }
  if (!traits) return not_a_public_key();
  const Bytes point = spki.subspan(traits->spki_prefix.size() - (traits->group ? 1 : 0));  // with the byte "uncompressed"
  PublicKey result;
  if (traits->group) {
    result.curve_point_ = {EC_KEY_new_by_curve_name(traits->group_id), EC_KEY_free};
    // Checks that the point is on the curve.
    if (!result.curve_point_ || EC_KEY_oct2key(result.curve_point_.get(), raw(point), point.size(), nullptr) != 1) {
      ERR_clear_error();
      return not_a_public_key();
    }
  } else {
    result.edwards_ = {EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, raw(point), point.size()), PkeyDeleter()};
    ERR_clear_error();
    if (!result.edwards_) return not_a_public_key();
  }
  result.type_ = traits->type;
  result.der_.assign(spki.begin(), spki.end());
  result.id_ = sha256(spki);
  return result;
}

Result<PublicKey> PublicKey::from_pem(std::string_view pem) {
  constexpr std::string_view begin = "-----BEGIN ";
  const size_t first = pem.find(begin);
  if (pem.size() > kMaxKeyFile || first == std::string_view::npos) return not_a_public_key();
  if (pem.find("PRIVATE KEY-----") != std::string_view::npos)
    return Status(Code::Malformed, 3301, "this is a private key, a public key is expected");
  if (!pem.substr(first).starts_with("-----BEGIN PUBLIC KEY-----")) return not_a_public_key();
  if (pem.find(begin, first + begin.size()) != std::string_view::npos)
    return Status(Code::Malformed, 3301, "more than one PEM block, one public key is expected");
  BIO* bio = BIO_new_mem_buf(pem.data() + first, static_cast<int>(pem.size() - first));
  char* name = nullptr;
  char* header = nullptr;
  unsigned char* data = nullptr;
  long len = 0;
  const OnExit free([&] {
    OPENSSL_free(name);
    OPENSSL_free(header);
    OPENSSL_free(data);
    BIO_free(bio);
  });
  const bool read = bio && PEM_read_bio(bio, &name, &header, &data, &len) == 1;
  if (!read) ERR_clear_error();  // the first call of a process loads the texts of all errors
  Result<PublicKey> key = not_a_public_key();
  if (read && std::string_view(name) == "PUBLIC KEY" && *header == 0 && len > 0)
    key = from_der(std::as_bytes(std::span(data, static_cast<size_t>(len))));
  return key;
}

Result<PublicKey> PublicKey::load(const std::string& path) {
  MLC_ASSIGN(const std::string text, read_small_file(path, kMaxKeyFile));
  auto key = from_pem(text);
  if (!key.ok()) return std::move(key).status().note(path);
  return key;
}

std::string PublicKey::pem() const {
  BIO* bio = BIO_new(BIO_s_mem());
  const OnExit free([&] { BIO_free(bio); });
  std::string text;
  if (bio && PEM_write_bio(bio, "PUBLIC KEY", "", raw(der_), static_cast<long>(der_.size())) > 0) {
    char* data = nullptr;
    const long len = BIO_get_mem_data(bio, &data);
    if (len > 0) text.assign(data, static_cast<size_t>(len));
  }
  ERR_clear_error();
  return text;
}

bool PublicKey::is_called(std::string_view digits) const {
  std::string lower(digits);
  for (char& c : lower) c = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  return id_hex().starts_with(lower);
}

bool PublicKey::verify(Bytes message, Bytes signature) const {
  bool good = false;
  if (curve_point_) {
    if (!is_strict_ecdsa_der(signature)) return false;
    std::array<unsigned char, SHA512_DIGEST_LENGTH> digest;
    const size_t len = signed_digest(type_, message, digest);
    good = ECDSA_verify(0, digest.data(), static_cast<int>(len), raw(signature), static_cast<int>(signature.size()), curve_point_.get()) == 1;
  } else {
    if (signature.size() != 64) return false;
    EVP_MD_CTX* context = EVP_MD_CTX_new();
    good = context && EVP_DigestVerifyInit(context, nullptr, nullptr, nullptr, edwards_.get()) == 1 &&
           EVP_DigestVerify(context, raw(signature), signature.size(), raw(message), message.size()) == 1;
    EVP_MD_CTX_free(context);
  }
  if (!good) ERR_clear_error();
  return good;
}

}  // namespace mlc::signing
