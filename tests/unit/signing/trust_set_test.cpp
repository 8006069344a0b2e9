#include "signing/policy.h"
#include "signing/user_key.h"

#include <thread>

#include "support.h"

using namespace mlc;
using namespace mlc::signing;
using namespace mlc::signing::test;

namespace {

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}
std::string escaped(std::string text) {
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos;) text.replace(at, 1, "\\n");
  return text;
}
std::string sample_policy(const PublicKey& key) {
  return R"({"keys":[{"id":"prod-2026","pem":")" + escaped(key.pem()) +
         R"(","models":["acme/*"],"not_before":"2026-01-01T00:00:00Z",
"not_after":"2027-01-01T00:00:00Z","role":"publisher"}],
"rules":[{"models":["acme/cat"],"level":"strict","threshold":2,"min_version":"3",
"require_complete":true,"require_variants":["x86-64-v3"]},
{"models":["*"],"level":"audit"}],"revoked_keys":[")" +
         to_hex(sha256("k")) + R"("],"revoked_roots":[")" + to_hex(sha256("r")) + "\"]}";
}

}  // namespace

TEST_CASE("globs match as documented and never take long") {
  CHECK(glob_matches("*", ""));
  CHECK(glob_matches("*", "acme/cat"));
  CHECK(glob_matches("acme/*", "acme/"));
  CHECK(glob_matches("*/cat", "acme/cat"));
  CHECK(glob_matches("a*e/c*t", "acme/carrot"));
  CHECK(glob_matches("acme/cat", "acme/cat"));
  CHECK_FALSE(glob_matches("acme/cat", "acme/cats"));
  CHECK_FALSE(glob_matches("acme/*", "acmes/cat"));
  CHECK_FALSE(glob_matches("", "a"));
  CHECK_FALSE(glob_matches("acme/ca?", "acme/cat"));
  std::string stars;
  for (int i = 0; i < 120; ++i) stars += "*a";
  CHECK_FALSE(glob_matches(stars + "b", std::string(255, 'a')));
}

TEST_CASE("a policy file is read completely") {
  const PrivateKey key = make_key();
  const auto policy = parse_policy(bytes_of(sample_policy(key.public_key())), "trust.json");
  REQUIRE(policy.ok());
  REQUIRE(policy->keys.size() == 1);
  CHECK(policy->keys[0].key == key.public_key());
  CHECK(policy->keys[0].models == std::vector<std::string>{"acme/*"});
  CHECK(policy->keys[0].not_before == 1'767'225'600);
  CHECK(policy->keys[0].not_after == 1'798'761'600);
  CHECK(policy->keys[0].origin == KeyOrigin::PolicyFile);
  REQUIRE(policy->rules.size() == 2);
  const TrustSet trust = TrustSet::of({}, *policy);
  CHECK(trust.rule_for("acme/cat").threshold == 2);
  CHECK(trust.rule_for("acme/cat").min_version == 3);
  CHECK(trust.rule_for("acme/cat").require_complete);
  CHECK(trust.rule_for("acme/dog").level == Level::Audit);
  CHECK(trust.key_revoked(sha256("k")));
  CHECK(trust.root_revoked(sha256("r")));
  CHECK_FALSE(trust.root_revoked(sha256("k")));
  CHECK(parse_policy(bytes_of("{}"), "t").ok());
}

TEST_CASE("a mistake in a policy file is an error that names its place") {
  const std::string good = sample_policy(make_key().public_key());
  const std::vector<std::array<std::string, 3>> changes = {
      {"\"keys\"", "\"key\"", "unknown key \"key\""},
      {"\"models\":[\"acme/*\"]", "\"model\":[\"acme/*\"]", "keys[0]: unknown key \"model\""},
      {"\"models\":[\"acme/*\"]", "\"models\":[]", "keys[0]"},
      {"\"models\":[\"acme/*\"]", "\"models\":\"acme/*\"", "keys[0]"},
      {"\"models\":[\"acme/*\"]", "\"models\":[1]", "keys[0]: models[0]"},
      {"\"prod-2026\"", "\"\"", "'id'"},
      {"\"prod-2026\"", "\"a\\nb\"", "'id'"},
      {"BEGIN PUBLIC KEY", "BEGIN PUBLIC KEI", "'pem'"},
      {"2026-01-01T00:00:00Z", "2026-01-01", "'not_before'"},
      {"2026-01-01T00:00:00Z", "2028-01-01T00:00:00Z", "lies before"},
      {"\"publisher\"", "\"owner\"", "'role'"},
      {"\"strict\"", "\"Strict\"", "rules[0]: 'level'"},
      {"\"threshold\":2", "\"threshold\":0", "rules[0]: 'threshold'"},
      {"\"threshold\":2", "\"threshold\":-1", "rules[0]: 'threshold'"},
      {"\"threshold\":2", "\"threshold\":4294967298", "rules[0]: 'threshold'"},
      {"\"min_version\":\"3\"", "\"min_version\":3.0", "'min_version'"},
      {"\"require_complete\":true", "\"require_complete\":\"true\"", "'require_complete'"},
      {"\"audit\"", "\"skip\"", "rules[1]: level skip"},
      {"\"revoked_keys\":[\"", "\"revoked_keys\":[\"0", "revoked_keys[0]"},
      {"\"revoked_roots\":[", "\"revoked_roots\":[7,", "revoked_roots[0]"},
      {"\"level\":\"audit\"", "\"level\":\"audit\",\"level\":\"audit\"", "for the second time"},
  };
  for (const auto& [from, to, expected] : changes) {
    CAPTURE(from);
    CAPTURE(to);
    const auto policy = parse_policy(bytes_of(replaced(good, from, to)), "trust.json");
    REQUIRE_FALSE(policy.ok());
    CHECK(policy.status().code == Code::Usage);
    CHECK(policy.status().message.find("trust.json") == 0);
    CHECK(policy.status().message.find(expected) != std::string::npos);
  }
  for (const char* text : {"", "[]", "null", "{\"rules\":[{\"level\":\"strict\"}]}",
                           "{\"rules\":[{\"models\":[\"*/*\"],\"level\":\"skip\"}]}"})
    CHECK_FALSE(parse_policy(bytes_of(text), "t").ok());
}

TEST_CASE("the user's key is made once, is private, and is trusted") {
  TempFolder home;
  const std::string folder = home / "config/mlc";
  const auto first = user_key(folder);
  REQUIRE(first.ok());
  CHECK(first->public_key().type() == KeyType::P256);
  CHECK(static_cast<unsigned>(std::filesystem::status(folder + "/key.pem").permissions()) == 0600);
  CHECK(static_cast<unsigned>(std::filesystem::status(folder).permissions()) == 0700);
  const auto second = user_key(folder);
  REQUIRE(second.ok());
  CHECK(second->public_key() == first->public_key());

  const auto trust = TrustSet::load({.config_folder = folder});
  REQUIRE(trust.ok());
  REQUIRE(trust->keys().size() == 1);
  CHECK(trust->keys()[0].name == local_name(first->public_key()));
  const Sample sample(*first);
  const Verdict verdict = decide(*sample.authenticate(), sample.facts(), *trust, {.now = 1, .file = "f"});
  CHECK(verdict.trust == Trust::Trusted);
  CHECK(verdict.reason == "signed by local:" + first->public_key().id_prefix());

  std::filesystem::permissions(folder + "/key.pem", std::filesystem::perms(0644));
  const auto exposed = user_key(folder);
  CHECK(exposed.status().code == Code::Untrusted);
  CHECK(exposed.status().help == "chmod 600 " + folder + "/key.pem");
}

TEST_CASE("threads that start at once end up with one user key") {
  TempFolder home;
  std::array<std::string, 8> ids;
  {
    std::vector<std::jthread> threads;
    for (std::string& id : ids)
      threads.emplace_back([&id, folder = home / "mlc"] {
        const auto key = user_key(folder);
        id = key.ok() ? key->public_key().id_hex() : key.status().text();
      });
  }
  for (const std::string& id : ids) CHECK(id == ids[0]);
  CHECK(std::distance(std::filesystem::directory_iterator(home / "mlc"), {}) == 2);
}

TEST_CASE("damaged user keys are reported and never replaced") {
  TempFolder home;
  std::filesystem::create_directories(home / "mlc");
  write_file(home / "mlc/key.pem", "not a key");
  std::filesystem::permissions(home / "mlc/key.pem", std::filesystem::perms(0600));
  CHECK(user_key(home / "mlc").status().code == Code::Malformed);
  CHECK(read_file(home / "mlc/key.pem") == "not a key");
}

TEST_CASE("trusting a key writes one file per key and the last scope wins") {
  TempFolder home;
  const PrivateKey key = make_key(KeyType::Ed25519);
  REQUIRE(add_trusted_key(home.path(), key.public_key(), {}).ok());
  auto trust = TrustSet::load({.config_folder = home.path()});
  REQUIRE(trust->keys().size() == 1);
  CHECK(trust->keys()[0].models.empty());
  const std::vector<std::string> models{"acme/*", "a\"b/*"};
  REQUIRE(add_trusted_key(home.path(), key.public_key(), models).ok());
  trust = TrustSet::load({.config_folder = home.path()});
  REQUIRE(trust->keys().size() == 1);
  CHECK(trust->keys()[0].models == models);
  CHECK(trust->keys()[0].key == key.public_key());
  CHECK(trust->keys()[0].origin == KeyOrigin::UserFolder);
  REQUIRE(add_trusted_key(home.path(), key.public_key(), {}).ok());
  CHECK(TrustSet::load({.config_folder = home.path()})->keys()[0].models.empty());
}

TEST_CASE("damaged files of the trust folder grant nothing and are reported; explicit ones are errors") {
  TempFolder home;
  const PrivateKey good = make_key();
  REQUIRE(add_trusted_key(home.path(), good.public_key(), {}).ok());
  write_file(home / "trust/broken.pem", "-----BEGIN PUBLIC KEY-----\n");
  write_file(home / "trust/private.pem", *make_key().pem());
  write_file(home / "trust/broken.json", "{");
  write_file(home / "trust/notes.txt", "ignored");
  const auto trust = TrustSet::load({.config_folder = home.path()});
  REQUIRE(trust.ok());
  CHECK(trust->keys().size() == 1);
  CHECK(trust->warnings().size() == 3);

  CHECK(TrustSet::load({.key_files = {home / "trust/broken.pem"}}).status().code == Code::Malformed);
  CHECK(TrustSet::load({.key_files = {home / "absent.pem"}}).status().code == Code::NotFound);
  CHECK(TrustSet::load({.policy_file = home / "absent.json"}).status().code == Code::NotFound);
  write_file(home / "trust.json", "{\"keys\":[}");
  CHECK(TrustSet::load({.config_folder = home.path()}).status().code == Code::Usage);
  write_file(home / "trust.json", "{\"rules\":[{\"models\":[\"*\"],\"level\":\"strict\"}]}");
  CHECK(TrustSet::load({.config_folder = home.path()})->has_policy());
}

TEST_CASE("a system policy comes first, a binding one stays beside --policy") {
  TempFolder home;
  const auto strict = [](std::string_view more) {
    return R"({"rules":[{"models":["*"],"level":"strict"}])" + std::string(more) + "}";
  };
  write_file(home / "system.json", strict(""));
  write_file(home / "trust.json", R"({"rules":[{"models":["*"],"level":"permissive"}]})");
  write_file(home / "mine.json", R"({"rules":[{"models":["*"],"level":"audit"}]})");
  TrustSources sources{.config_folder = home.path(), .system_policy = home / "system.json"};
  CHECK(TrustSet::load(sources)->policy_path() == home / "system.json");
  sources.policy_file = home / "mine.json";
  auto trust = TrustSet::load(sources);
  REQUIRE(trust.ok());
  CHECK(trust->policy_path() == home / "mine.json");
  CHECK(trust->binding() == nullptr);

  write_file(home / "system.json", strict(R"(,"binding":true)"));
  trust = TrustSet::load(sources);
  REQUIRE(trust.ok());
  REQUIRE(trust->binding() != nullptr);
  CHECK(trust->binding()->policy_path() == home / "system.json");
  CHECK(trust->refuses_unsigned(true));
  sources.policy_file.clear();
  trust = TrustSet::load(sources);
  CHECK(trust->is_binding());
  CHECK(trust->binding() == nullptr);

  sources.system_policy = home / "none.json";
  CHECK(TrustSet::load(sources)->policy_path() == home / "trust.json");
  write_file(home / "system.json", strict(R"(,"binding":"yes")"));
  sources.system_policy = home / "system.json";
  CHECK(TrustSet::load(sources).status().number == 3302);
}

TEST_CASE("the config folder follows XDG and ignores a relative one") {
  TempFolder home;
  ::setenv("XDG_CONFIG_HOME", home.path().c_str(), 1);
  CHECK(*config_folder() == home / "mlc");
  ::setenv("XDG_CONFIG_HOME", "relative", 1);
  ::setenv("HOME", home.path().c_str(), 1);
  CHECK(*config_folder() == home / ".config/mlc");
}
