#include "signing/bundle.h"

#include "base/text/base64.h"
#include "support.h"
#include "tests/support/source_path.h"

using namespace mlc;
using namespace mlc::signing;
using namespace mlc::signing::test;

namespace {

std::string data_file(const std::string& name) { return read_file(mlc::testing::source_path("tests/unit/signing/data/") + name); }

// `text` with the first `from` replaced.
std::string with(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("a bundle says what was signed, and by which key") {
  for (const KeyType type : {KeyType::P256, KeyType::P384, KeyType::P521}) {
    const auto key = PrivateKey::generate(type), other = PrivateKey::generate(type);
    const std::string payload = R"({"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"x","digest":{"sha256":"00"}}],"predicateType":"t"})";
    const auto text = sign_bundle(payload, *key);
    REQUIRE(text.ok());
    const auto bundle = parse_bundle(*text, "b");
    REQUIRE(bundle.ok());
    CHECK(bundle->payload == payload);
    CHECK(bundle->hint == hint_of(key->public_key()));
    CHECK(is_signed_by(*bundle, key->public_key()));
    CHECK_FALSE(is_signed_by(*bundle, other->public_key()));
    Bundle changed = *bundle;
    changed.payload += " ";
    CHECK_FALSE(is_signed_by(changed, key->public_key()));
    const auto head = parse_statement_head(payload, "b");
    REQUIRE(head.ok());
    CHECK(head->predicate_type == "t");
    CHECK(head->subjects[0].digests[0] == std::pair<std::string, std::string>("sha256", "00"));
  }
}

TEST_CASE("a key whose signatures nobody reads from bundles makes none") {
  const auto key = PrivateKey::generate(KeyType::Ed25519);
  const auto text = sign_bundle("{}", *key);
  CHECK(text.status().code == Code::Usage);
  CHECK(text.status().message == "the key is of type ed25519, and verifiers of bundles take p256, p384 or p521");
}

TEST_CASE("a bundle of the package model-signing is read and its signature holds") {
  const auto key = PublicKey::from_pem(data_file("model_signing.pub.pem"));
  REQUIRE(key.ok());
  const auto bundle = parse_bundle(data_file("model_signing.sig"), "theirs");
  REQUIRE(bundle.ok());
  CHECK(bundle->hint == hint_of(*key));
  CHECK(is_signed_by(*bundle, *key));
  const auto head = parse_statement_head(bundle->payload, "theirs");
  REQUIRE(head.ok());
  CHECK(head->predicate_type == "https://model_signing/signature/v1.0");
  CHECK(head->subjects.size() == 1);
}

TEST_CASE("what a bundle hangs on beside a key is refused with its name") {
  const auto key = PrivateKey::generate(KeyType::P256);
  const std::string text = *sign_bundle("{}", *key);
  const auto message = [](const std::string& changed) { return parse_bundle(changed, "b").status().message; };
  CHECK(message(with(text, "\"tlogEntries\":[]", "\"tlogEntries\":[{}]")) == "b: the signature hangs on '\"tlogEntries\"', expected one by a key alone");
  CHECK(message(with(text, "\"tlogEntries\":[]", "\"certificate\":{\"rawBytes\":\"\"}")) == "b: the signature hangs on '\"certificate\"', expected one by a key alone");
  CHECK(message(with(text, "v0.3", "v0.1")) == "b: 'mediaType' is \"application/vnd.dev.sigstore.bundle.v0.1+json\", expected \"application/vnd.dev.sigstore.bundle.v0.3+json\"");
  CHECK(message(with(text, "\"payload\":\"e30=\"", "\"payload\":\"e30\"")) == "b: 'payload' is no base 64");
  CHECK(message(with(text, "\"publicKey\"", "\"somethingElse\"")) == "b: the signature hangs on '\"somethingElse\"', expected one by a key alone");
  CHECK(message(with(text, "[{\"sig\"", "[{},{\"sig\"")) == "b: 2 signatures, expected one");
  CHECK(message(with(text, "dsseEnvelope", "messageSignature")) == "b: 'dsseEnvelope' is missing");
  CHECK_FALSE(parse_bundle("", "b").ok());
  CHECK_FALSE(parse_bundle("[]", "b").ok());
}

TEST_CASE("a statement without a type or a digest is none") {
  const auto message = [](const std::string& text) { return parse_statement_head(text, "s").status().message; };
  CHECK(message("{}") == "s: '_type' is missing");
  CHECK(message(R"({"_type":"https://in-toto.io/Statement/v1","predicateType":"t","subject":[]})") == "s: 0 subjects, from 1 to 1024 expected");
  CHECK(message(R"({"_type":"https://in-toto.io/Statement/v1","predicateType":"t","subject":[{"digest":1}]})") == "s: 'digest' is a whole number, expected an object");
}
