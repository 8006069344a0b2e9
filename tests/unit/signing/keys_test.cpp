#include "signing/keys.h"

#include <sstream>

#include "support.h"
#include "tests/support/source_path.h"

using namespace mlc;
using namespace mlc::signing;
using namespace mlc::signing::test;

namespace {

struct Tally {
  int cases = 0, wrong = 0;
};
Tally replay(const std::string& name) {
  std::ifstream in(mlc::testing::source_path("tests/unit/signing/data/") + name);
  REQUIRE(in.good());
  Tally tally;
  std::optional<PublicKey> key;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("#")) continue;
    std::istringstream words(line);
    std::string id, result, message, signature;
    words >> id >> result >> message >> signature;
    if (id == "key") {
      auto read = PublicKey::from_der(from_hex(result));
      REQUIRE(read.ok());
      key = *read;
      continue;
    }
    ++tally.cases;
    if (key->verify(from_hex(message), from_hex(signature)) != (result == "valid")) {
      ++tally.wrong;
      MESSAGE(name << " case " << id << " is " << result);
    }
  }
  return tally;
}

// A DER integer and a signature made of two of them.
std::string integer(std::string content) { return std::string("\x02") + static_cast<char>(content.size()) + content; }
std::string sequence(std::string content) { return std::string("\x30") + static_cast<char>(content.size()) + content; }
struct Ecdsa {
  std::string r, s;  // contents of the integers
};
Ecdsa parts(Bytes signature) {
  const std::string_view text = text_of(signature);
  const size_t r_len = static_cast<unsigned char>(text[3]);
  return {std::string(text.substr(4, r_len)), std::string(text.substr(6 + r_len))};
}

}  // namespace

TEST_CASE("every Wycheproof case of ECDSA P-256 with SHA-256 is judged right") {
  const Tally tally = replay("p256.txt");
  CHECK(tally.cases == 484);
  CHECK(tally.wrong == 0);
}
TEST_CASE("every Wycheproof case of Ed25519 is judged right") {
  const Tally tally = replay("ed25519.txt");
  CHECK(tally.cases == 151);
  CHECK(tally.wrong == 0);
}

TEST_CASE("every key type signs and verifies, survives PEM, and has a stable id") {
  for (const KeyType type : {KeyType::P256, KeyType::P384, KeyType::P521, KeyType::Ed25519}) {
    CAPTURE(name_of(type));
    CHECK(key_type_named(name_of(type)) == type);
    const PrivateKey key = make_key(type);
    const PublicKey& half = key.public_key();
    CHECK(half.type() == type);
    const auto signature = key.sign(bytes_of("message"));
    REQUIRE(signature.ok());
    CHECK(half.verify(bytes_of("message"), *signature));
    CHECK_FALSE(half.verify(bytes_of("messagf"), *signature));
    CHECK_FALSE(half.verify(bytes_of("messag"), *signature));
    CHECK_FALSE(make_key(type).public_key().verify(bytes_of("message"), *signature));

    CHECK(half.id() == sha256(half.der()));
    const auto from_der = PublicKey::from_der(half.der());
    REQUIRE(from_der.ok());
    CHECK(*from_der == half);
    const auto from_pem = PublicKey::from_pem("a comment\n" + half.pem() + "another\n");
    REQUIRE(from_pem.ok());
    CHECK(*from_pem == half);
    CHECK(from_pem->verify(bytes_of("message"), *signature));
    const auto again = PrivateKey::from_pem(*key.pem());
    REQUIRE(again.ok());
    CHECK(again->public_key() == half);
  }
  CHECK_FALSE(key_type_named("rsa"));
}

TEST_CASE("Ed25519 signs as RFC 8032, section 7.1, test 2") {
  const auto key = PrivateKey::from_pem(
      "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIEzNCJso/5banbbDRuwRTg9bijGfNaumJNqM9u1PuKb7\n-----END PRIVATE "
      "KEY-----\n");
  REQUIRE(key.ok());
  const auto signature = key->sign(from_hex("72"));
  REQUIRE(signature.ok());
  CHECK(to_hex(*signature) ==
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302a"
        "eeb00d291612bb0c00");
}

TEST_CASE("every changed byte of a public key and of a signature is noticed") {
  for (const KeyType type : {KeyType::P256, KeyType::Ed25519}) {
    const PrivateKey key = make_key(type);
    const auto signature = *key.sign(bytes_of("message"));
    std::vector<std::byte> der(key.public_key().der().begin(), key.public_key().der().end());
    for (size_t i = 0; i < der.size(); ++i) {
      auto changed = der;
      changed[i] ^= std::byte{1};
      const auto other = PublicKey::from_der(changed);
      if (other.ok()) CHECK_FALSE(other->verify(bytes_of("message"), signature));
    }
    for (size_t i = 0; i < signature.size(); ++i) {
      for (const int bit : {0, 3, 7}) {
        auto changed = signature;
        changed[i] ^= static_cast<std::byte>(1 << bit);
        CHECK_FALSE(key.public_key().verify(bytes_of("message"), changed));
      }
    }
    for (size_t len = 0; len < der.size(); ++len) CHECK_FALSE(PublicKey::from_der(Bytes(der).first(len)).ok());
    for (size_t len = 0; len < signature.size(); ++len)
      CHECK_FALSE(key.public_key().verify(bytes_of("message"), Bytes(signature).first(len)));
    der.push_back(std::byte{0});
    CHECK_FALSE(PublicKey::from_der(der).ok());
  }
}

TEST_CASE("only the strict DER spelling of an ECDSA signature counts") {
  const PrivateKey key = make_key();
  const PublicKey& half = key.public_key();
  const Bytes message = bytes_of("message");
  Ecdsa value;
  do {  // r without its top bit set, so that a leading zero would be superfluous
    value = parts(*key.sign(message));
  } while (value.r.size() != 32);
  const auto accepts = [&](const std::string& signature) { return half.verify(message, bytes_of(signature)); };
  const std::string good = sequence(integer(value.r) + integer(value.s));
  CHECK(accepts(good));
  CHECK_FALSE(accepts(good + '\0'));
  CHECK_FALSE(accepts(sequence(integer(value.r) + integer(value.s) + std::string(1, '\0'))));
  CHECK_FALSE(accepts(sequence(integer(std::string(1, '\0') + value.r) + integer(value.s))));
  CHECK_FALSE(accepts(sequence(integer(value.r))));
  CHECK_FALSE(accepts(sequence(integer(value.r) + integer(value.s) + integer(value.s))));
  CHECK_FALSE(accepts(sequence(integer(std::string(1, '\0')) + integer(value.s))));  // r = 0
  CHECK_FALSE(accepts(sequence(integer(value.r) + integer(std::string(1, '\0')))));  // s = 0
  CHECK_FALSE(accepts(sequence(integer("") + integer(value.s))));
  // BER: long length form, indefinite length, another tag.
  CHECK_FALSE(accepts("\x30\x81" + good.substr(1)));
  CHECK_FALSE(accepts("\x30\x80" + good.substr(2) + std::string(2, '\0')));
  CHECK_FALSE(accepts("\x31" + good.substr(1)));
}

TEST_CASE("an ECDSA value of r plus the order of the group is refused") {
  const PrivateKey key = make_key();
  const Ecdsa value = parts(*key.sign(bytes_of("message")));
  const auto order = from_hex("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551");
  std::string r = value.r;
  if (r.size() == 33) r.erase(0, 1);
  r.insert(0, 32 - r.size(), '\0');
  unsigned carry = 0;
  for (size_t i = 32; i-- > 0;) {
    const unsigned sum = static_cast<unsigned char>(r[i]) + std::to_integer<unsigned>(order[i]) + carry;
    r[i] = static_cast<char>(sum & 255);
    carry = sum >> 8;
  }
  if (carry) r.insert(0, 1, '\1');
  else if (r[0] & 0x80) r.insert(0, 1, '\0');
  CHECK_FALSE(key.public_key().verify(bytes_of("message"), bytes_of(sequence(integer(r) + integer(value.s)))));
}

TEST_CASE("the algorithm follows from the key, so a signature of another scheme never counts") {
  const PrivateKey p256 = make_key(), ed25519 = make_key(KeyType::Ed25519), p384 = make_key(KeyType::P384);
  CHECK_FALSE(p256.public_key().verify(bytes_of("m"), *ed25519.sign(bytes_of("m"))));
  CHECK_FALSE(ed25519.public_key().verify(bytes_of("m"), *p256.sign(bytes_of("m"))));
  CHECK_FALSE(p384.public_key().verify(bytes_of("m"), *p256.sign(bytes_of("m"))));
}

TEST_CASE("keys of other types and other spellings are refused with a reason") {
  // RSA 512, a P-256 key with a compressed point, one with explicit parameters cut short, an off-curve point.
  CHECK_FALSE(PublicKey::from_der(from_hex("305c300d06092a864886f70d0101010500034b003048024100")).ok());
  CHECK_FALSE(PublicKey::from_der(from_hex("3039301306072a8648ce3d020106082a8648ce3d03010703220002"
                                           "6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296")).ok());
  CHECK_FALSE(PublicKey::from_der(from_hex("3059301306072a8648ce3d020106082a8648ce3d03010703420004"
                                           "6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"
                                           "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f6")).ok());
  const PrivateKey key = make_key();
  const std::string pem = *key.pem();
  CHECK(PublicKey::from_pem(pem).status().message.find("private key") != std::string::npos);
  CHECK(PrivateKey::from_pem(key.public_key().pem()).status().message.find("public key") != std::string::npos);
  CHECK_FALSE(PublicKey::from_pem(key.public_key().pem() + key.public_key().pem()).ok());
  CHECK_FALSE(PublicKey::from_pem("").ok());
  CHECK_FALSE(PublicKey::from_pem("-----BEGIN PUBLIC KEY-----\n").ok());
  CHECK_FALSE(PublicKey::from_pem("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n").ok());
  CHECK_FALSE(PublicKey::from_pem(std::string(kMaxKeyFile, 'x') + key.public_key().pem()).ok());
}

TEST_CASE("a private key is written once, readable by its owner only") {
  TempFolder folder;
  const PrivateKey key = make_key();
  REQUIRE(key.store(folder / "key.pem").ok());
  const auto mode = std::filesystem::status(folder / "key.pem").permissions();
  CHECK(static_cast<unsigned>(mode) == 0600);
  CHECK(PrivateKey::load(folder / "key.pem")->public_key() == key.public_key());

  const Status again = make_key().store(folder / "key.pem");
  CHECK(again.code == Code::Usage);
  CHECK(PrivateKey::load(folder / "key.pem")->public_key() == key.public_key());
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);  // no temporary file is left

  std::filesystem::permissions(folder / "key.pem", std::filesystem::perms(0640));
  CHECK(PrivateKey::load(folder / "key.pem").status().code == Code::Untrusted);
  std::filesystem::permissions(folder / "key.pem", std::filesystem::perms(0600));
  CHECK(PrivateKey::load(folder / "key.pem").ok());
  if (::chown((folder / "key.pem").c_str(), 12345, 12345) == 0) {  // as root
    const Status foreign = PrivateKey::load(folder / "key.pem").status();
    CHECK(foreign.code == Code::Untrusted);
    CHECK(foreign.number == 3303);
    CHECK(foreign.help == "sudo chown 0 " + (folder / "key.pem"));
  }
  CHECK(PrivateKey::load(folder / "absent.pem").status().code == Code::NotFound);
  CHECK(PrivateKey::load(folder.path()).status().code == Code::NotFound);
  CHECK(key.store(folder / "no/such/folder.pem").code == Code::NotFound);
}
