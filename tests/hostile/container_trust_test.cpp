// libs: mlc_container_reader mlc_container_writer
// Where a policy demands a signer, nothing of the manifest is looked at before it has accepted one: a manifest that no
// parser would survive tells which of the two came first.
#include <doctest/doctest.h>

#include "tests/support/containers/bad_container.h"

using namespace mlc;
using namespace mlc::container;
using namespace mlc::test;

namespace {

const signing::PrivateKey& stranger() {
  static const auto key = signing::PrivateKey::generate(signing::KeyType::Ed25519);
  return *key;
}

std::vector<std::byte> garbage(const signing::PrivateKey* key) {
  Parts parts = take_apart(sample_bytes());
  parts.change_manifest_bytes = [](std::vector<std::byte>& manifest) { manifest = noise(manifest.size(), 7); };
  return assemble(parts, key);
}

signing::TrustSet with_rules(std::vector<signing::PolicyRule> rules) {
  signing::PolicyFile policy;
  policy.path = "trust.json";
  policy.rules = std::move(rules);
  policy.keys.push_back({.key = test_key().public_key(), .name = "test", .origin = signing::KeyOrigin::PolicyFile});
  return signing::TrustSet::of({}, std::move(policy));
}

Status open_with(const signing::TrustSet& trust, Bytes file, bool allow_unsigned = false) {
  OpenOptions options;
  options.trust = &trust;
  options.allow_unsigned = allow_unsigned;
  auto opened = Container::open_memory(file, "f.mlc", options);
  return opened.ok() ? ok() : opened.status();
}

}  // namespace

TEST_CASE("A strict policy refuses the signer before it parses the manifest") {
  const signing::TrustSet strict = with_rules({{.models = {"*"}, .level = signing::Level::Strict}});
  const signing::TrustSet silent = with_rules({});
  for (const signing::TrustSet* trust : {&strict, &silent}) {
    CHECK(open_with(*trust, garbage(&stranger())).code == Code::Untrusted);
    CHECK(open_with(*trust, garbage(nullptr)).code == Code::Unsigned);
    CHECK(open_with(*trust, garbage(&test_key())).code == Code::Malformed);  // whom it accepts, it reads
    CHECK(open_with(*trust, garbage(nullptr), /*allow_unsigned=*/true).code == Code::Malformed);
    CHECK(open_with(*trust, sample_bytes()).ok());
  }
}

TEST_CASE("An unsigned file is read where some model may be unsigned, and refused by its name then") {
  const signing::TrustSet mixed = with_rules({{.models = {"local/*"}, .level = signing::Level::Permissive},
                                              {.models = {"*"}, .level = signing::Level::Strict}});
  CHECK(open_with(mixed, garbage(nullptr)).code == Code::Malformed);
  CHECK(open_with(mixed, sample_bytes({}, nullptr)).ok());  // local/sample
  CHECK(open_with(mixed, garbage(&stranger())).code == Code::Malformed);  // signed as local/sample
  const signing::TrustSet others = with_rules({{.models = {"other/*"}, .level = signing::Level::Permissive}});
  CHECK(open_with(others, sample_bytes({}, nullptr)).code == Code::Unsigned);
  CHECK(open_with(others, garbage(&stranger())).code == Code::Untrusted);
}

TEST_CASE("What a truncated file lacks is not read out of a manifest that the policy would refuse") {
  const std::vector<std::byte> file = sample_bytes();
  const Bytes cut = Bytes(file).first(file.size() * 3 / 4);
  const signing::TrustSet strict = with_rules({{.models = {"*"}, .level = signing::Level::Strict}});
  CHECK(open_with(test_trust(), cut).text().find("cut off: ") != std::string::npos);
  const Status refused = open_with(strict, cut);
  CHECK(refused.code == Code::Malformed);
  CHECK(refused.text().find("cut off: ") == std::string::npos);
}
