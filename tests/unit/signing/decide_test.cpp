#include "signing/policy.h"
#include "signing/version_marks.h"

#include "support.h"

using namespace mlc;
using namespace mlc::signing;
using namespace mlc::signing::test;

namespace {

constexpr uint64_t kNow = 1'800'000'000;

TrustedKey trusted(const PrivateKey& key, std::string name, KeyOrigin origin = KeyOrigin::UserFolder) {
  TrustedKey entry{key.public_key(), std::move(name)};
  entry.origin = origin;
  return entry;
}
PolicyFile policy(Level level, std::vector<TrustedKey> keys = {}, uint32_t threshold = 1) {
  PolicyFile file;
  file.path = "trust.json";
  file.keys = std::move(keys);
  PolicyRule rule;
  rule.models = {"*"};
  rule.level = level;
  rule.threshold = threshold;
  file.rules.push_back(rule);
  return file;
}
Verdict decide_on(const Sample& sample, const TrustSet& trust, DecideOptions options = {},
                  std::optional<ModelFacts> facts = {}) {
  options.now = kNow;
  options.file = "cat.mlc";
  const auto authentication = sample.authenticate();
  REQUIRE(authentication.ok());
  return decide(*authentication, facts ? *facts : sample.facts(), trust, options);
}
NativeCode native_code_of(const Authentication& authentication, const TrustSet& trust, const DecideOptions& options) {
  return native_code_before_manifest(decide_signer(authentication, trust, options), authentication, trust, options);
}
const DecideOptions kAllow{.allow_unsigned = true};

}  // namespace

TEST_CASE("the table of what may run holds for every row and column") {
  const PrivateKey known = make_key(), stranger = make_key();
  const TrustSet no_policy = TrustSet::of({trusted(known, "local:x")});
  const TrustSet strict = TrustSet::of({}, policy(Level::Strict, {trusted(known, "prod", KeyOrigin::PolicyFile)}));
  const Sample good(known), foreign(stranger), bare;

  for (const TrustSet* trust : {&no_policy, &strict}) {
    for (const bool allow : {false, true}) {
      const Verdict verdict = decide_on(good, *trust, {.allow_unsigned = allow});
      CHECK(verdict.trust == Trust::Trusted);
      CHECK(verdict.may_run == MayRun::AllVariants);
      CHECK(verdict.status.ok());
    }
  }
  Verdict verdict = decide_on(foreign, no_policy);
  CHECK(verdict.trust == Trust::UnknownSigner);
  CHECK(verdict.may_run == MayRun::PortableOnly);
  CHECK(verdict.status.ok());
  CHECK(verdict.reason.find(stranger.public_key().id_prefix()) != std::string::npos);
  CHECK(verdict.help == "mlrun trust cat.mlc --id " + stranger.public_key().id_hex());
  verdict = decide_on(foreign, strict);
  CHECK(verdict.may_run == MayRun::Refused);
  CHECK(verdict.status.code == Code::Untrusted);
  verdict = decide_on(bare, no_policy);
  CHECK(verdict.trust == Trust::Unsigned);
  CHECK(verdict.may_run == MayRun::PortableOnly);
  CHECK_FALSE(verdict.help.empty());
  verdict = decide_on(bare, strict);
  CHECK(verdict.may_run == MayRun::Refused);
  CHECK(verdict.status.code == Code::Unsigned);
  for (const TrustSet* trust : {&no_policy, &strict}) {
    verdict = decide_on(foreign, *trust, kAllow);
    CHECK(verdict.trust == Trust::UnknownSigner);
    CHECK(verdict.may_run == MayRun::AllVariants);
    verdict = decide_on(bare, *trust, kAllow);
    CHECK(verdict.trust == Trust::Unsigned);
    CHECK(verdict.may_run == MayRun::AllVariants);
  }
}

TEST_CASE("what is said of native code before the manifest is known holds for every manifest") {
  const PrivateKey known = make_key(), stranger = make_key();
  TrustedKey elsewhere = trusted(known, "elsewhere");
  elsewhere.models = {"other/*"};
  PolicyFile demanding = policy(Level::Strict, {trusted(known, "prod", KeyOrigin::PolicyFile)});
  demanding.rules[0].require_variants = {"x86-64-v3"};
  PolicyFile by_id = policy(Level::Audit);
  by_id.rules[0].models = {"acme/*"};
  const TrustSet sets[] = {TrustSet::of({}), TrustSet::of({trusted(known, "k")}), TrustSet::of({elsewhere}),
                           TrustSet::of({}, policy(Level::Strict)), TrustSet::of({}, policy(Level::Audit)),
                           TrustSet::of({}, demanding), TrustSet::of({}, by_id), TrustSet::of({}, by_id, policy(Level::Permissive))};
  const Sample files[] = {Sample(known), Sample(stranger), Sample()};
  unsigned seen[3] = {};
  for (const TrustSet& trust : sets)
    for (const Sample& file : files)
      for (const bool allow : {false, true}) {
        const DecideOptions options{.allow_unsigned = allow, .now = kNow, .file = "cat.mlc"};
        const auto authentication = file.authenticate();
        REQUIRE(authentication.ok());
        const NativeCode before = native_code_of(*authentication, trust, options);
        ++seen[static_cast<int>(before)];
        for (const char* id : {"acme/cat", "other/cat", "x"})
          for (const uint64_t version : {0u, 3u, 900u})
            for (const bool complete : {false, true})
              for (const std::vector<std::string>& variants : {std::vector<std::string>{}, {"x86-64-v3"}}) {
                const ModelFacts facts{id, version, 0, complete, variants};
                const MayRun after = decide(*authentication, facts, trust, options).may_run;
                if (before == NativeCode::Never) CHECK(after != MayRun::AllVariants);
                if (before == NativeCode::Certain) CHECK(after != MayRun::PortableOnly);
              }
      }
  CHECK(seen[0] > 0);
  CHECK(seen[1] > 0);
  CHECK(seen[2] > 0);
  const auto signed_by = [](const PrivateKey& key) { return Sample(key).authenticate(); };
  const DecideOptions now{.now = kNow};
  CHECK(native_code_of(*signed_by(known), sets[1], now) == NativeCode::Certain);
  CHECK(native_code_of(*signed_by(known), sets[5], now) == NativeCode::Certain);
  CHECK(native_code_of(*signed_by(stranger), sets[1], now) == NativeCode::Never);
  CHECK(native_code_of(*Sample().authenticate(), sets[1], now) == NativeCode::Never);
  CHECK(native_code_of(*Sample().authenticate(), sets[6], now) == NativeCode::Depends);
}

TEST_CASE("nothing is trusted where nothing was said") {
  const Verdict verdict = decide_on(Sample(make_key()), TrustSet::of({}));
  CHECK(verdict.may_run == MayRun::PortableOnly);
}

TEST_CASE("a statement that disagrees with the manifest is refused whoever signed it") {
  const PrivateKey key = make_key();
  const TrustSet trust = TrustSet::of({trusted(key, "k")});
  const Sample sample(key);
  for (const bool allow : {false, true}) {
    ModelFacts facts = sample.facts();
    facts.id = "acme/dog";
    CHECK(decide_on(sample, trust, {.allow_unsigned = allow}, facts).status.code == Code::BadSignature);
    facts = sample.facts();
    facts.version = 4;
    CHECK(decide_on(sample, trust, {.allow_unsigned = allow}, facts).status.code == Code::BadSignature);
    facts = sample.facts();
    facts.not_after = kNow + 1;  // the statement claims that there is no end
    CHECK(decide_on(sample, trust, {.allow_unsigned = allow}, facts).status.code == Code::BadSignature);
  }
}

TEST_CASE("a key counts only for the models it is trusted for") {
  const PrivateKey key = make_key();
  TrustedKey entry = trusted(key, "acme-only");
  entry.models = {"other/*", "acme/c*"};
  CHECK(decide_on(Sample(key), TrustSet::of({entry})).trust == Trust::Trusted);
  entry.models = {"other/*", "acme/ca"};
  const Verdict verdict = decide_on(Sample(key), TrustSet::of({entry}));
  CHECK(verdict.trust == Trust::UnknownSigner);
  CHECK(verdict.may_run == MayRun::PortableOnly);
  CHECK(verdict.signatures[0].status == SignatureStatus::OutOfScope);
  CHECK(verdict.reason.find("acme-only") != std::string::npos);
  // A second entry for the same key widens the scope.
  CHECK(decide_on(Sample(key), TrustSet::of({entry, trusted(key, "everywhere")})).trust == Trust::Trusted);
}

TEST_CASE("a threshold counts distinct keys, however often and under however many names they appear") {
  const PrivateKey a = make_key(), b = make_key(KeyType::Ed25519), c = make_key();
  const auto from_policy = [](const PrivateKey& key, std::string name) {
    return trusted(key, std::move(name), KeyOrigin::PolicyFile);
  };
  const TrustSet trust = TrustSet::of(
      {},
      policy(Level::Strict, {from_policy(a, "a"), from_policy(a, "a-again"), from_policy(b, "b")}, /*threshold=*/2));
  Sample sample(a);
  CHECK(decide_on(sample, trust).status.code == Code::Untrusted);

  auto block = *parse_block(sample.tail);  // the same key with a second, different and valid signature value
  block.envelope.signatures.push_back(
      {block.envelope.signatures[0].key, *a.sign(pre_authentication_encoding(block.envelope.payload))});
  sample.tail = *encode_block(block);
  const Verdict twice = decide_on(sample, trust);
  CHECK(twice.status.code == Code::Untrusted);
  CHECK(twice.signatures[1].status == SignatureStatus::Duplicate);
  CHECK(twice.reason.find("1 of the 2") != std::string::npos);

  sample.also_sign(c);
  CHECK(decide_on(sample, trust).status.code == Code::Untrusted);
  sample.also_sign(b);
  CHECK(decide_on(sample, trust).trust == Trust::Trusted);
}

TEST_CASE("an invalid signature under a trusted key does not use up the valid one behind it") {
  const PrivateKey key = make_key();
  Sample sample(key);
  auto block = *parse_block(sample.tail);
  auto broken = block.envelope.signatures[0];
  broken.value.back() ^= std::byte{1};
  block.envelope.signatures.insert(block.envelope.signatures.begin(), broken);
  sample.tail = *encode_block(block);
  CHECK(decide_on(sample, TrustSet::of({trusted(key, "k")})).trust == Trust::Trusted);
}

TEST_CASE("revoked keys and revoked roots are refused with code 13 even with allow-unsigned") {
  const PrivateKey key = make_key(), other = make_key();
  PolicyFile file =
      policy(Level::Permissive, {trusted(key, "k", KeyOrigin::PolicyFile), trusted(other, "o", KeyOrigin::PolicyFile)});
  file.revoked_keys = {key.public_key().id()};
  Verdict verdict = decide_on(Sample(key), TrustSet::of({}, file), kAllow);
  CHECK(verdict.trust == Trust::Revoked);
  CHECK(verdict.status.code == Code::Expired);
  CHECK(verdict.signatures[0].status == SignatureStatus::KeyRevoked);
  Sample both(key);
  both.also_sign(other);
  CHECK(decide_on(both, TrustSet::of({}, file)).trust == Trust::Trusted);

  file.revoked_keys.clear();
  file.revoked_roots = {Sample().statement.root};
  for (const Sample& sample : {Sample(key), Sample()})
    CHECK(decide_on(sample, TrustSet::of({}, file), kAllow).status.code == Code::Expired);
}

TEST_CASE("validity ends for files and keys; permissive and audit log it") {
  const PrivateKey key = make_key();
  Sample expired;
  expired.statement.not_after = kNow - 1;
  expired.sign(key);
  Sample current;
  current.statement.not_after = kNow;
  current.sign(key);
  const TrustSet plain = TrustSet::of({trusted(key, "k")});
  CHECK(decide_on(expired, plain).status.code == Code::Expired);
  CHECK(decide_on(expired, plain, kAllow).status.code == Code::Expired);
  CHECK(decide_on(current, plain).trust == Trust::Trusted);
  ModelFacts facts = Sample().facts();
  facts.not_after = kNow - 1;
  CHECK(decide_on(Sample(), plain, {}, facts).status.code == Code::Expired);

  TrustedKey old = trusted(key, "old", KeyOrigin::PolicyFile);
  old.not_after = kNow - 1;
  TrustedKey early = trusted(key, "early", KeyOrigin::PolicyFile);
  early.not_before = kNow + 1;
  for (const TrustedKey& entry : {old, early}) {
    CHECK(decide_on(Sample(key), TrustSet::of({}, policy(Level::Strict, {entry}))).status.code == Code::Expired);
    const Verdict permissive = decide_on(Sample(key), TrustSet::of({}, policy(Level::Permissive, {entry})));
    CHECK(permissive.trust == Trust::Trusted);
    CHECK(permissive.warnings.size() == 1);
  }
  const Verdict audited = decide_on(expired, TrustSet::of({}, policy(Level::Audit, {trusted(key, "k")})));
  CHECK(audited.may_run == MayRun::AllVariants);
  CHECK(audited.warnings.size() == 1);
}

TEST_CASE("levels differ in what an unknown signer may run") {
  const Sample foreign(make_key());
  CHECK(decide_on(foreign, TrustSet::of({}, policy(Level::Permissive))).may_run == MayRun::PortableOnly);
  for (const Level level : {Level::Audit, Level::Skip}) {
    const Verdict verdict = decide_on(foreign, TrustSet::of({}, policy(level)));
    CHECK(verdict.may_run == MayRun::AllVariants);
    CHECK(verdict.trust == Trust::UnknownSigner);
    CHECK_FALSE(verdict.warnings.empty());
  }
  PolicyFile silent = policy(Level::Audit);
  silent.rules[0].models = {"other/*"};
  CHECK(decide_on(foreign, TrustSet::of({}, silent)).status.code == Code::Untrusted);
}

TEST_CASE("strict does not count the user's folder, but a key named on the command line") {
  const PrivateKey key = make_key();
  CHECK(decide_on(Sample(key), TrustSet::of({trusted(key, "k")}, policy(Level::Strict))).status.code ==
        Code::Untrusted);
  CHECK(
      decide_on(Sample(key), TrustSet::of({trusted(key, "k", KeyOrigin::CommandLine)}, policy(Level::Strict))).trust ==
      Trust::Trusted);
  CHECK(decide_on(Sample(key), TrustSet::of({trusted(key, "k")}, policy(Level::Permissive))).trust == Trust::Trusted);
}

TEST_CASE("an extender's key alone does not make a file trusted") {
  const PrivateKey key = make_key();
  TrustedKey entry = trusted(key, "vendor", KeyOrigin::PolicyFile);
  entry.role = KeyRole::Extender;
  const Verdict verdict = decide_on(Sample(key), TrustSet::of({}, policy(Level::Strict, {entry})));
  CHECK(verdict.status.code == Code::Untrusted);
  CHECK(verdict.signatures[0].status == SignatureStatus::WrongRole);
}

TEST_CASE("minimum version, completeness and required variants are enforced") {
  const PrivateKey key = make_key();
  PolicyFile file = policy(Level::Strict, {trusted(key, "k", KeyOrigin::PolicyFile)});
  file.rules[0].min_version = 4;
  CHECK(decide_on(Sample(key), TrustSet::of({}, file)).trust == Trust::TooOld);
  file.rules[0].min_version = 3;
  CHECK(decide_on(Sample(key), TrustSet::of({}, file)).trust == Trust::Trusted);
  file.rules[0].require_complete = true;
  ModelFacts facts = Sample().facts();
  facts.complete = false;
  facts.variants = {"portable"};
  CHECK(decide_on(Sample(key), TrustSet::of({}, file), {}, facts).status.code == Code::NoVariant);
  file.rules[0].require_complete = false;
  file.rules[0].require_variants = {"portable", "x86-64-v3"};
  CHECK(decide_on(Sample(key), TrustSet::of({}, file), {}, facts).trust == Trust::RequirementNotMet);
  facts.variants = {"x86-64-v3", "portable"};
  CHECK(decide_on(Sample(key), TrustSet::of({}, file), {}, facts).trust == Trust::Trusted);
}

TEST_CASE("a binding policy is not weakened by another policy, by --trust or by --allow-unsigned") {
  const PrivateKey admins = make_key(), mine = make_key();
  PolicyFile system = policy(Level::Strict, {trusted(admins, "admins", KeyOrigin::PolicyFile)});
  system.path = "/etc/mlc/trust.json";
  system.binding = true;
  const TrustedKey from_command_line = trusted(mine, "mine.pem", KeyOrigin::CommandLine);
  const PolicyFile lax = policy(Level::Audit, {trusted(mine, "mine", KeyOrigin::PolicyFile)});

  const TrustSet alone = TrustSet::of({from_command_line}, system);
  const TrustSet beside = TrustSet::of({from_command_line}, lax, system);
  for (const TrustSet* trust : {&alone, &beside})
    for (const bool allow : {false, true}) {
      Verdict verdict = decide_on(Sample(mine), *trust, {.allow_unsigned = allow});
      CHECK(verdict.may_run == MayRun::Refused);
      CHECK(verdict.status.code == Code::Untrusted);
      CHECK(verdict.status.text().find("/etc/mlc/trust.json is binding") != std::string::npos);
      verdict = decide_on(Sample(), *trust, {.allow_unsigned = allow});
      CHECK(verdict.may_run == MayRun::Refused);
      CHECK(verdict.status.code == Code::Unsigned);
      CHECK(verdict.status.text().find("/etc/mlc/trust.json is binding") != std::string::npos);
      CHECK(trust->refuses_unsigned(allow));
    }
  CHECK(decide_on(Sample(admins), alone).trust == Trust::Trusted);
  // Tightening counts: the other policy knows the administrator's key, or does not.
  CHECK(decide_on(Sample(admins), TrustSet::of({}, policy(Level::Strict), system)).status.code == Code::Untrusted);
  const PolicyFile both = policy(Level::Strict, {trusted(admins, "a", KeyOrigin::PolicyFile)});
  CHECK(decide_on(Sample(admins), TrustSet::of({}, both, system)).trust == Trust::Trusted);

  // A binding policy that lets strangers run their portable form lets them run no more than that.
  PolicyFile permissive = system;
  permissive.rules[0].level = Level::Permissive;
  for (const TrustSet& trust : {TrustSet::of({from_command_line}, permissive), TrustSet::of({}, lax, permissive)})
    for (const Sample& sample : {Sample(), Sample(mine)}) {
      const Verdict verdict = decide_on(sample, trust, kAllow);
      CHECK(verdict.may_run == MayRun::PortableOnly);
      REQUIRE_FALSE(verdict.warnings.empty());
      CHECK(verdict.warnings.back().find("/etc/mlc/trust.json is binding") != std::string::npos);
    }
}

TEST_CASE("revocation by a binding policy counts beside another policy") {
  const PrivateKey key = make_key();
  PolicyFile system = policy(Level::Permissive);
  system.binding = true;
  system.revoked_keys = {key.public_key().id()};
  const PolicyFile lax = policy(Level::Audit, {trusted(key, "k", KeyOrigin::PolicyFile)});
  CHECK(decide_on(Sample(key), TrustSet::of({}, lax, system)).status.code == Code::Expired);
}

TEST_CASE("who signed is decided without the manifest") {
  const PrivateKey known = make_key(), stranger = make_key();
  const TrustSet strict = TrustSet::of({}, policy(Level::Strict, {trusted(known, "prod", KeyOrigin::PolicyFile)}));
  const DecideOptions options{.now = kNow, .file = "cat.mlc"};
  const auto signer = [&](const Sample& sample, const TrustSet& trust) {
    return decide_signer(*sample.authenticate(), trust, options);
  };
  CHECK(signer(Sample(known), strict).trust == Trust::Trusted);
  CHECK(signer(Sample(known), strict).may_run == MayRun::AllVariants);
  CHECK(signer(Sample(known), strict).signers == std::vector<Digest>{known.public_key().id()});
  CHECK(signer(Sample(stranger), strict).status.code == Code::Untrusted);
  CHECK(signer(Sample(), strict).status.code == Code::Unsigned);
  // Where some model may be unsigned, the manifest has to say which one this is; until then nothing native runs.
  PolicyFile mixed = policy(Level::Strict);
  mixed.rules.insert(mixed.rules.begin(), PolicyRule{.models = {"local/*"}, .level = Level::Skip});
  CHECK(signer(Sample(), TrustSet::of({}, mixed)).may_run == MayRun::PortableOnly);
  CHECK(decide_on(Sample(), TrustSet::of({}, mixed)).status.code == Code::Unsigned);
  ModelFacts local;
  local.id = "local/x";
  CHECK(decide_on(Sample(), TrustSet::of({}, mixed), {}, local).may_run == MayRun::AllVariants);
}

TEST_CASE("a version below one that was accepted is refused unless asked for") {
  const PrivateKey key = make_key(), other = make_key(), stranger = make_key();
  const TrustSet trust = TrustSet::of({trusted(key, "k"), trusted(other, "o")});
  VersionMarks marks;
  REQUIRE(marks.raise(stranger.public_key().id(), "acme/cat", 100));  // what others sign raises only their own marks
  REQUIRE(marks.raise(key.public_key().id(), "acme/dog", 100));
  CHECK(decide_on(Sample(key), trust, {.marks = &marks}).trust == Trust::Trusted);
  REQUIRE(marks.raise(key.public_key().id(), "acme/cat", 3));
  CHECK(decide_on(Sample(key), trust, {.marks = &marks}).trust == Trust::Trusted);  // the same version again
  REQUIRE(marks.raise(key.public_key().id(), "acme/cat", 4));
  for (const bool unsigned_too : {false, true}) {
    const Verdict verdict = decide_on(Sample(key), trust, {.allow_unsigned = unsigned_too, .marks = &marks});
    CHECK(verdict.trust == Trust::TooOld);
    CHECK(verdict.status.code == Code::Expired);
    CHECK(verdict.status.number == 3205);
    CHECK(verdict.status.message.find("version 4 was accepted") != std::string::npos);
  }
  const Verdict asked = decide_on(Sample(key), trust, {.allow_older = true, .marks = &marks});
  CHECK(asked.trust == Trust::Trusted);
  CHECK(asked.warnings.size() == 1);
  // Taking a signature away does not help: the mark is of a key that may still speak for the model.
  Sample both(key);
  both.also_sign(other);
  CHECK(decide_on(both, trust, {.marks = &marks}).status.number == 3205);
  CHECK(decide_on(Sample(other), trust, {.marks = &marks}).status.number == 3205);
  CHECK(decide_on(Sample(other), TrustSet::of({trusted(other, "o")}), {.marks = &marks}).trust == Trust::Trusted);
  // Nobody trusted, nothing remembered: the portable form of a stranger's file runs as before.
  CHECK(decide_on(Sample(stranger), trust, {.marks = &marks}).may_run == MayRun::PortableOnly);
}

TEST_CASE("a policy can demand that versions are remembered") {
  const PrivateKey key = make_key();
  PolicyFile file = policy(Level::Strict, {trusted(key, "k", KeyOrigin::PolicyFile)});
  CHECK_FALSE(decide_on(Sample(key), TrustSet::of({}, file)).marks_required);
  file.rules[0].require_marks = true;
  const Verdict verdict = decide_on(Sample(key), TrustSet::of({}, file));
  CHECK(verdict.may_run == MayRun::Refused);
  CHECK(verdict.status.number == 3306);
  VersionMarks marks;
  CHECK(decide_on(Sample(key), TrustSet::of({}, file), {.marks = &marks}).marks_required);
  file.binding = true;
  REQUIRE(marks.raise(key.public_key().id(), "acme/cat", 4));
  CHECK(decide_on(Sample(key), TrustSet::of({}, file), {.allow_older = true, .marks = &marks}).status.number == 3205);
}
