// Making, reading and using private keys. A file of its own: a runtime that only verifies links none of it.
#include <cstring>

#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "base/compose.h"
#include "signing/files/file.h"
#include "signing/key_types.h"
#include "signing/keys.h"

namespace mlc::signing {

namespace {

// Gives OpenSSL the passphrase, where there is one; never asks.
int give_passphrase(char* to, int size, int, void* given) {
  const auto& passphrase = *static_cast<const std::string_view*>(given);
  if (passphrase.empty() || passphrase.size() > static_cast<size_t>(size)) return -1;
  std::memcpy(to, passphrase.data(), passphrase.size());
  return static_cast<int>(passphrase.size());
}

Status no_memory() { return Status(Code::Resource, "no memory is left for a private key").hint("allow the process more of it"); }

enum class Why { Memory, Silent, Other };
// Why libcrypto failed, as it says; without memory it may not be able to. Forgets its errors.
Why why_failed() {
  Why why = Why::Silent;
  while (const unsigned long error = ERR_get_error()) {
    if (ERR_GET_REASON(error) == ERR_R_MALLOC_FAILURE) why = Why::Memory;
    else if (why == Why::Silent) why = Why::Other;
  }
  return why;
}

Status crypto_failed(std::string_view what) {
  return why_failed() == Why::Memory ? no_memory() : Status(Code::Internal, "libcrypto could not {}", what);
}

bool is_public_key(std::string_view pem) { return pem.find("BEGIN PUBLIC KEY") != std::string_view::npos; }

Status public_key_given() { return Status(Code::Malformed, 3301, "this is a public key, a private key is expected"); }

// Where keygen puts the private half: KEY.pem for KEY.pub.pem.
std::string private_half_of(const std::string& path) {
  constexpr std::string_view kPublic = ".pub.pem";
  return path.ends_with(kPublic) ? path.substr(0, path.size() - kPublic.size()) + ".pem" : "";
}

}  // namespace

Result<PrivateKey> PrivateKey::adopt(PkeyHandle key) {
  unsigned char* der = nullptr;
  const int len = i2d_PUBKEY(key.get(), &der);
  if (len <= 0) return why_failed() != Why::Other ? no_memory() : Status(Code::Malformed, 3301, "a private key of an unsupported type");
  ERR_clear_error();
  auto public_key = PublicKey::from_der(std::as_bytes(std::span(der, static_cast<size_t>(len))));
  OPENSSL_free(der);
  if (!public_key.ok())
    return Status(Code::Malformed, 3301, "a private key of an unsupported type (p256, p384, p521 or ed25519)");
  PrivateKey result;
  result.public_ = std::move(public_key).value();
  result.key_ = std::move(key);
  return result;
}

Result<PrivateKey> PrivateKey::generate(KeyType type) {
  const KeyTraits& traits = key_traits(type);
  PkeyHandle key(traits.group ? EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", traits.group)
                              : EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  if (!key) return crypto_failed("make a key");
  return adopt(std::move(key));
}

Result<PrivateKey> PrivateKey::from_pem(std::string_view pem, std::string_view passphrase) {
  const Status refused(Code::Malformed, 3301, "not a private key in PEM");
  if (pem.size() > kMaxKeyFile) return refused;
  BIO* bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  PkeyHandle key(bio ? PEM_read_bio_PrivateKey(bio, nullptr, give_passphrase, &passphrase) : nullptr);
  BIO_free(bio);
  const bool no_room = !key && why_failed() != Why::Other;
  ERR_clear_error();
  if (no_room) return no_memory();
  if (!key) {
    if (pem.find("ENCRYPTED") != std::string_view::npos)
      return passphrase.empty() ? Status(Code::Malformed, 3301, "an encrypted private key").hint("--key-passphrase file:PATH or fd:N, with its passphrase")
                                : Status(Code::Malformed, 3301, "an encrypted private key, which this passphrase does not open");
    if (is_public_key(pem)) return public_key_given();
    return refused;
  }
  // The usual files have compressed or missing public points only by accident; re-encode through a fixed form.
  EVP_PKEY_set_utf8_string_param(key.get(), OSSL_PKEY_PARAM_EC_POINT_CONVERSION_FORMAT, "uncompressed");
  ERR_clear_error();
  return adopt(std::move(key));
}

Result<PrivateKey> PrivateKey::load_with(const std::string& path, std::string_view source) {
  if (source.empty()) return load(path);
  MLC_ASSIGN(std::string passphrase, read_passphrase(source));
  auto key = load(path, passphrase);
  OPENSSL_cleanse(passphrase.data(), passphrase.size());
  return key;
}

Result<PrivateKey> PrivateKey::load(const std::string& path, std::string_view passphrase) {
  auto text = read_small_file(path, kMaxKeyFile, /*private_only=*/true);
  // Who may read a public key does not matter: that it is one comes first.
  auto anyones = text.ok() ? Result<std::string>(std::string()) : read_small_file(path, kMaxKeyFile);
  const bool is_public = is_public_key(text.ok() ? *text : anyones.ok() ? *anyones : "");
  if (anyones.ok()) OPENSSL_cleanse(anyones->data(), anyones->size());
  if (is_public) {
    const std::string half = private_half_of(path);
    Status status = public_key_given().note(path);
    return half.empty() ? std::move(status).hint("give the file of its private half (BEGIN PRIVATE KEY)") : std::move(status).hint("--key {}", half);
  }
  if (!text.ok()) return std::move(text).status();
  auto key = from_pem(*text, passphrase);
  OPENSSL_cleanse(text->data(), text->size());
  if (!key.ok()) return std::move(key).status().note(path);
  return key;
}

Result<std::string> PrivateKey::pem() const {
  BIO* bio = BIO_new(BIO_s_secmem());
  std::string text;
  if (bio && PEM_write_bio_PrivateKey(bio, key_.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1) {
    char* data = nullptr;
    const long len = BIO_get_mem_data(bio, &data);
    if (len > 0) text.assign(data, static_cast<size_t>(len));
  }
  BIO_free(bio);
  if (text.empty()) return crypto_failed("write a private key");
  return text;
}

Status PrivateKey::store(const std::string& path) const {
  MLC_ASSIGN(std::string text, pem());
  Status status = create_file(path, text, 0600);
  OPENSSL_cleanse(text.data(), text.size());
  return status;
}

Result<std::vector<std::byte>> PrivateKey::sign(Bytes message) const {
  const char* md = key_traits(public_.type()).md;
  const auto* data = reinterpret_cast<const unsigned char*>(message.data());
  std::vector<std::byte> signature;
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  size_t len = 0;
  bool good = context && EVP_DigestSignInit(context, nullptr, md ? EVP_get_digestbyname(md) : nullptr, nullptr,
                                            key_.get()) == 1 &&
              EVP_DigestSign(context, nullptr, &len, data, message.size()) == 1;
  if (good) {
    signature.resize(len);
    good = EVP_DigestSign(context, reinterpret_cast<unsigned char*>(signature.data()), &len, data, message.size()) == 1;
    signature.resize(good ? len : 0);
  }
  EVP_MD_CTX_free(context);
  // A fault while signing can leak the key, and a signature that fails to verify is useless: check before handing out.
  if (!good || !public_.verify(message, signature)) return crypto_failed("sign");
  return signature;
}

}  // namespace mlc::signing
