#include "support.h"

using namespace mlc;
using namespace mlc::signing;
using namespace mlc::signing::test;

namespace {

Code code_of(const Sample& sample) {
  const auto result = sample.authenticate();
  return result.ok() ? Code::Ok : result.status().code;
}
std::string statement_text(const Sample& sample) { return *encode_statement(sample.statement); }

}  // namespace

TEST_CASE("a signed sample is authenticated and an unsigned one has a root and no statement") {
  for (const KeyType type : {KeyType::P256, KeyType::Ed25519, KeyType::P384, KeyType::P521}) {
    const PrivateKey key = make_key(type);
    const auto result = Sample(key).authenticate();
    REQUIRE(result.ok());
    CHECK(result->is_signed());
    CHECK(result->root() == Sample().statement.root);
    REQUIRE(result->signatures().size() == 1);
    CHECK(result->signatures()[0].valid);
    CHECK(*result->signatures()[0].key == key.public_key());
  }
  const auto unsigned_one = Sample().authenticate();
  REQUIRE(unsigned_one.ok());
  CHECK_FALSE(unsigned_one->is_signed());
  CHECK(unsigned_one->root() == Sample().statement.root);
}

TEST_CASE("every changed byte of core, manifest and signature block is refused") {
  const PrivateKey key = make_key();
  const Sample good(key);
  REQUIRE(code_of(good) == Code::Ok);
  for (size_t i = 0; i < good.core.size(); ++i) {
    Sample changed = good;
    changed.core[i] ^= std::byte{0x10};
    CHECK(code_of(changed) == Code::BadSignature);
  }
  for (size_t i = 0; i < good.manifest.size(); ++i) {
    Sample changed = good;
    changed.manifest[i] ^= 1;
    CHECK(code_of(changed) == Code::BadSignature);
  }
  for (size_t i = 0; i < good.tail.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      Sample changed = good;
      changed.tail[i] ^= static_cast<std::byte>(1 << bit);
      CAPTURE(i);
      const Code code = code_of(changed);
      CHECK((code == Code::BadSignature || code == Code::Malformed));
    }
  }
  for (size_t len = 1; len < good.tail.size(); ++len) {
    Sample changed = good;
    changed.tail.resize(len);
    CHECK(code_of(changed) == Code::Malformed);
  }
  Sample longer = good;
  longer.tail.push_back(std::byte{0});
  CHECK(code_of(longer) == Code::Malformed);
  Sample longer_manifest = good;
  longer_manifest.manifest += '\0';
  CHECK(code_of(longer_manifest) == Code::BadSignature);
}

TEST_CASE("a valid signature over another payload type, statement or file is refused") {
  const PrivateKey key = make_key();
  Sample sample;
  sample.sign_payload(key, statement_text(sample));
  CHECK(code_of(sample) == Code::Ok);
  sample.sign_payload(key, statement_text(sample), "application/vnd.in-toto");
  CHECK(code_of(sample) == Code::BadSignature);
  sample.sign_payload(key, statement_text(sample), "application/vnd.dsse+json");
  CHECK(code_of(sample) == Code::BadSignature);
  for (const char* payload : {"{}", "x", "[[[[[[[[[[[[[[[[[[[[", "{\"_type\":\"https://in-toto.io/Statement/v1\"}"}) {
    sample.sign_payload(key, payload);
    CHECK(code_of(sample) == Code::BadSignature);
  }
  Sample other;
  other.manifest = "another manifest";
  Sample moved(key);
  moved.manifest = other.manifest;
  CHECK(code_of(moved) == Code::BadSignature);

  Statement lying = sample.statement;  // the root fits, the manifest digest does not
  lying.manifest = sha256("x");
  sample.sign_payload(key, *encode_statement(lying));
  CHECK(sample.authenticate().status().message.find("another manifest") != std::string::npos);
}

TEST_CASE("a signature of the bare payload, without its type in front, is refused") {
  const PrivateKey key = make_key();
  Sample sample(key);
  auto block = *parse_block(sample.tail);
  block.envelope.signatures[0].value = *key.sign(block.envelope.payload);
  sample.tail = *encode_block(block);
  CHECK(code_of(sample) == Code::BadSignature);
}

TEST_CASE("failing signatures beside a valid one are skipped and reported") {
  const PrivateKey good = make_key(), bad = make_key(KeyType::Ed25519);
  Sample sample(good);
  sample.also_sign(bad);
  auto block = *parse_block(sample.tail);
  block.envelope.signatures[1].value[10] ^= std::byte{1};
  block.envelope.signatures.push_back(
      {std::vector<std::byte>(5, std::byte{9}), std::vector<std::byte>(5, std::byte{9})});
  sample.tail = *encode_block(block);
  const auto result = sample.authenticate();
  REQUIRE(result.ok());
  REQUIRE(result->signatures().size() == 3);
  CHECK(result->signatures()[0].valid);
  CHECK_FALSE(result->signatures()[1].valid);
  CHECK(result->signatures()[1].key.has_value());
  CHECK_FALSE(result->signatures()[2].valid);
  CHECK_FALSE(result->signatures()[2].key.has_value());

  block.envelope.signatures.erase(block.envelope.signatures.begin());
  sample.tail = *encode_block(block);
  CHECK(code_of(sample) == Code::BadSignature);
}

TEST_CASE("swapping the keys of two signatures makes both fail") {
  const PrivateKey a = make_key(), b = make_key();
  Sample sample(a);
  sample.also_sign(b);
  auto block = *parse_block(sample.tail);
  std::swap(block.envelope.signatures[0].key, block.envelope.signatures[1].key);
  sample.tail = *encode_block(block);
  CHECK(code_of(sample) == Code::BadSignature);
}
