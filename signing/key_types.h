// The supported kinds of keys, one row each. Internal to signing/.
//
// A SubjectPublicKeyInfo of a named curve with an uncompressed point differs from another one only in the point, so the
// one accepted encoding is "these bytes, then the point, this long in all" (RFC 5480, RFC 8410).
#pragma once

#include <array>
#include <string_view>

#include <openssl/obj_mac.h>

#include "signing/keys.h"

namespace mlc::signing {

struct KeyTraits {
  KeyType type;
  std::string_view name;
  const char* group;  // OpenSSL's name of the curve; null for Ed25519
  int group_id;       // and its number
  const char* md;     // digest signed; null where the scheme hashes by itself
  std::string_view spki_prefix;
  size_t spki_len;
};

using std::string_view_literals::operator""sv;

inline constexpr std::array<KeyTraits, 4> kKeyTraits = {{
    {KeyType::P256, "p256", "P-256", NID_X9_62_prime256v1, "SHA256",
     "\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00\x04"sv,
     91},
    {KeyType::P384, "p384", "P-384", NID_secp384r1, "SHA384",
     "\x30\x76\x30\x10\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\x00\x22\x03\x62\x00\x04"sv, 120},
    {KeyType::P521, "p521", "P-521", NID_secp521r1, "SHA512",
     "\x30\x81\x9b\x30\x10\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\x00\x23\x03\x81\x86\x00\x04"sv, 158},
    {KeyType::Ed25519, "ed25519", nullptr, NID_undef, nullptr, "\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00"sv, 44},
}};

constexpr const KeyTraits& key_traits(KeyType type) { return kKeyTraits[static_cast<size_t>(type)]; }

}  // namespace mlc::signing
