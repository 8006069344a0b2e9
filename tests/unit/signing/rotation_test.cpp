// Policies that travel: which may follow which. Sequences are lines of text, so that a reader sees all of them at once.
#include "signing/rotation/rotation.h"

#include <map>
#include <sstream>

#include "base/text/base64.h"
#include "base/text/json.h"
#include "support.h"

namespace mlc::signing::test {
namespace {

constexpr uint64_t kNow = 1'800'000'000;  // 2027-01-15T08:00:00Z

const PrivateKey& administrator(char name) {
  static std::map<char, PrivateKey> keys;
  const auto found = keys.find(name);
  return found != keys.end()
             ? found->second
             : keys.emplace(name, make_key(name == 'E' ? KeyType::Ed25519 : KeyType::P256)).first->second;
}

// "3:AB/2" is version 3, administrators A and B, of which 2 have to sign. Marks behind: "x" it has expired, "-A" A is
// revoked, "~A" A's period has ended, "+A" A's has not begun, "*" another text of the same version.
std::string policy_text(const std::string& form) {
  const size_t colon = form.find(':'), slash = form.find('/');
  REQUIRE(colon != std::string::npos);
  REQUIRE(slash != std::string::npos);
  const std::string marks = form.substr(slash + 2);
  const auto has = [&](const std::string& mark) { return marks.find(mark) != std::string::npos; };
  std::string keys, revoked;
  for (const char name : form.substr(colon + 1, slash - colon - 1)) {
    const PublicKey& key = administrator(name).public_key();
    const std::string id(1, name);
    keys += std::string(keys.empty() ? "" : ",") + R"({"id":")" + id + R"(","pem":)" + json_quote(key.pem());
    if (has("~" + id)) keys += R"(,"not_after":"2027-01-01T00:00:00Z")";
    if (has("+" + id)) keys += R"(,"not_before":"2028-01-01T00:00:00Z")";
    keys += "}";
    if (has("-" + id)) revoked = "\"" + key.id_hex() + "\"";
  }
  return R"({"version":")" + form.substr(0, colon) + R"(","expires":")" + (has("x") ? "2026-12-31" : "2027-12-31") +
         R"(T00:00:00Z","administrators":{"threshold":)" + form[slash + 1] + R"(,"keys":[)" + keys +
         R"(]},"revoked_keys":[)" + revoked + "]" + (has("*") ? R"(,"binding":true)" : "") + "}\n";
}

// "3:AB/2<AB" is that policy signed by A and B; "!" behind a name: that signature is wrong.
PolicyBundle bundle_of(const std::string& form) {
  const size_t arrow = form.find('<');
  REQUIRE(arrow != std::string::npos);
  auto bundle = unsigned_bundle(policy_text(form.substr(0, arrow)), form);
  REQUIRE_MESSAGE(bundle.ok(), bundle.status().message);
  for (size_t i = arrow + 1; i < form.size(); ++i) {
    if (form[i] == '!') {
      bundle->signatures.back().value.back() ^= std::byte{1};
      continue;
    }
    REQUIRE(sign_bundle(*bundle, administrator(form[i])).ok());
  }
  auto read = parse_policy_bundles(encode_bundle(*bundle), form);  // as they travel
  REQUIRE(read.ok());
  REQUIRE(read->size() == 1);
  return std::move(read->front());
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

struct Sequence {
  const char* there;  // the installed policy, or "-"
  const char* root;   // the key to trust first, or "-"
  const char* chain;  // bundles, the oldest first
  unsigned number;    // of the error; 0: installed, 1: it is there already
};

constexpr Sequence kSequences[] = {
    // One step.
    {"1:A/1", "-", "2:A/1<A", 0},
    {"1:A/1", "-", "2:E/1<AE", 0},     // another key, of another kind
    {"1:A/1", "-", "2:B/1<AB", 0},     // the key is replaced in one step
    {"1:A/1", "-", "2:B/1<B", 3402},   // the new key alone vouches for itself
    {"1:A/1", "-", "2:B/1<A", 3402},   // the old key cannot name one that does not answer
    {"1:A/1", "-", "2:A/1<C", 3402},   // a stranger
    {"1:AB/2", "-", "2:ABC/2<AB", 0},  // thresholds
    {"1:AB/2", "-", "2:ABC/2<A", 3402},
    {"1:AB/2", "-", "2:BC/2<BC", 3402},  // enough of the new ones, too few of the old ones
    {"1:AB/2", "-", "2:BC/2<ABC", 0},
    {"1:AB/1", "-", "2:AB/2<A", 3402},  // the new threshold counts as well
    {"1:AB/1", "-", "2:AB/2<AB", 0},
    // Roll-back, repetition, gaps.
    {"3:A/1", "-", "2:A/1<A", 3405},
    {"3:A/1", "-", "3:A/1*<A", 3405},
    {"3:A/1", "-", "3:A/1<A", 1},
    {"3:A/1", "-", "5:A/1<A", 3406},
    {"3:A/1", "-", "18446744073709551615:A/1<A", 3406},
    // Ends.
    {"1:A/1", "-", "2:A/1x<A", 3404},
    {"1:A/1x", "-", "2:A/1<A", 0},            // a machine that was off for long
    {"1:A/1", "-", "2:AB/1x<AB 3:B/1<B", 0},  // what lies between may have expired
    // The rotation of the design: add the key, sign with both, end the old one by its period; or revoke it.
    {"1:A/1", "-", "2:AB/1~A<AB", 0},
    {"2:AB/1~A", "-", "3:AB/1~A<A", 3402},
    {"2:AB/1~A", "-", "3:B/1<B", 0},
    {"1:AB/1", "-", "2:AB/1-A<AB", 0},
    {"2:AB/1-A", "-", "3:AB/1-A<A", 3402},
    {"2:AB/1-A", "-", "3:BC/1<BC", 0},
    {"1:A/1", "-", "2:AB/1+B<B", 3402},  // not yet
    // Wrong signatures refuse the bundle, also where others would do.
    {"1:A/1", "-", "2:A/1<A!", 3403},
    {"1:AB/1", "-", "2:AB/1<AB!", 3403},
    // Chains.
    {"1:A/1", "-", "1:A/1<A 2:AB/2<AB 3:B/1<AB 4:C/1<BC", 0},  // versions that are there are passed over
    {"1:A/1", "-", "3:B/1<AB 4:C/1<BC", 3406},
    {"1:A/1", "-", "2:B/1<AB 4:C/1<BC", 3406},
    {"1:A/1", "-", "3:B/1<AB 2:B/1<AB", 3401},
    {"1:A/1", "-", "2:B/1<AB 3:C/1<AC", 3402},  // each link needs the one before, not the first
    {"4:C/1", "-", "2:B/1<AB 3:C/1<BC", 3405},
    // A first installation.
    {"-", "A", "7:AB/2<AB", 0},
    {"-", "A", "7:AB/2<A", 3402},
    {"-", "C", "7:AB/2<AB", 3402},
    {"-", "A", "7:AB/1x<A", 3404},
    {"-", "A", "6:A/1<A 7:B/1<AB", 0},
    {"-", "A", "6:B/1<B 7:A/1<AB", 3402},  // the root has to have signed the first
    {"-", "-", "1:A/1<A", 3407},
    {"1:A/1", "B", "2:B/1<B", 3407},  // no root beside administrators
};

RotationBase base_of(const Sequence& row) {
  RotationBase base;
  base.now = kNow;
  if (row.there[0] != '-') {
    base.text = policy_text(row.there);
    auto policy = parse_policy(bytes_of(base.text), "trust.json");
    REQUIRE_MESSAGE(policy.ok(), policy.status().message);
    base.policy = std::move(*policy);
  }
  if (row.root[0] != '-') base.first = administrator(row.root[0]).public_key();
  return base;
}

TEST_CASE("which policies follow which") {
  for (const Sequence& row : kSequences) {
    CAPTURE(row.there);
    CAPTURE(row.root);
    CAPTURE(row.chain);
    std::vector<PolicyBundle> chain;
    for (const std::string& form : words_of(row.chain)) chain.push_back(bundle_of(form));
    const auto verdict = judge_rotation(chain, base_of(row));
    const unsigned number = verdict.ok() ? verdict->already : verdict.status().number;
    CHECK_MESSAGE(number == row.number, (verdict.ok() ? std::string("accepted") : verdict.status().message));
  }
}

TEST_CASE("exit codes of refused bundles") {
  const auto refused = [](const Sequence& row) {
    std::vector<PolicyBundle> chain;
    for (const std::string& form : words_of(row.chain)) chain.push_back(bundle_of(form));
    return judge_rotation(chain, base_of(row)).status().code;
  };
  CHECK(refused({"3:A/1", "-", "2:A/1<A", 0}) == Code::Expired);
  CHECK(refused({"3:A/1", "-", "5:A/1<A", 0}) == Code::NotFound);
  CHECK(refused({"3:A/1", "-", "4:A/1x<A", 0}) == Code::Expired);
  CHECK(refused({"3:A/1", "-", "4:B/1<B", 0}) == Code::Untrusted);
  CHECK(refused({"3:A/1", "-", "4:A/1<A!", 0}) == Code::BadSignature);
  CHECK(refused({"-", "-", "4:A/1<A", 0}) == Code::Usage);
}

TEST_CASE("a bundle with any bit changed, or cut anywhere, is refused") {
  const PolicyBundle good = bundle_of("2:AE/2<AE");
  const std::string line = encode_bundle(good);
  const RotationBase base = base_of({"1:A/1", "-", "", 0});
  const auto accepted = [&](const std::string& text) {
    const auto bundles = parse_policy_bundles(text, "b");
    if (!bundles.ok()) {
      CHECK_FALSE(bundles.status().message.empty());
      return false;
    }
    return judge_rotation(*bundles, base).ok();
  };
  REQUIRE(accepted(line));
  size_t wrong = 0;
  for (size_t bit = 0; bit < line.size() * 8; ++bit) {
    std::string changed = line;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    if (!accepted(changed)) continue;
    ++wrong;
    MESSAGE("bit ", bit, ": ", changed.substr(bit / 8, 8));
  }
  CHECK(wrong == 0);
  for (size_t length = 0; length < line.size(); ++length) wrong += accepted(line.substr(0, length));
  CHECK(wrong == 0);
}

TEST_CASE("bundles that are none are refused with a sentence") {
  const std::string line = encode_bundle(bundle_of("2:A/1<A"));
  const std::string payload = to_base64(policy_text("2:A/1"));
  const std::string entry = line.substr(line.find("{\"keyid\""), line.rfind(']') - line.find("{\"keyid\""));
  const auto envelope = [](const std::string& text, const std::string& type, const std::string& list) {
    return R"({"payload":")" + text + R"(","payloadType":")" + type + R"(","signatures":[)" + list + "]}\n";
  };
  REQUIRE(envelope(payload, "urn:mlc:policy/v1", entry) == line);
  std::string many = entry;
  for (int i = 0; i < 16; ++i) many += R"(,{"keyid":")" + to_hex(sha256(std::to_string(i))) + R"(","sig":"AAAA"})";
  std::string longer;
  for (size_t i = 0; i <= kMaxPolicyChain; ++i) longer += line;
  const std::pair<std::string, unsigned> cases[] = {
      {"", 3401},
      {"\n", 3401},
      {line.substr(0, line.size() - 1), 3401},
      {line + "\n", 3401},
      {" " + line.substr(0, line.size() - 1) + "x\n", 3401},
      {longer, 3401},
      {"[]\n", 3401},
      {std::string(1000, '[') + "\n", 3401},
      {envelope(payload, "application/vnd.in-toto+json", entry), 3401},
      {envelope(payload, "urn:mlc:policy/v1", ""), 3401},
      {envelope(payload, "urn:mlc:policy/v1", entry + "," + entry), 3401},
      {envelope(payload, "urn:mlc:policy/v1", many), 3401},
      {envelope("", "urn:mlc:policy/v1", entry), 3401},
      {envelope("!", "urn:mlc:policy/v1", entry), 3401},
      {envelope(payload, "urn:mlc:policy/v1", R"({"keyid":"ab","sig":"AAAA"})"), 3401},
      {envelope(payload, "urn:mlc:policy/v1", R"({"keyid":7,"sig":7})"), 3401},
      {R"({"payload":")" + payload + "\"}\n", 3401},
      {envelope(to_base64("{}"), "urn:mlc:policy/v1", entry), 3302},
      {envelope(to_base64(R"({"version":1,"expires":"2027-01-01T00:00:00Z"})"), "urn:mlc:policy/v1", entry), 3302},
      {std::string(kMaxPolicyFile + 1, ' '), 3401},
  };
  for (const auto& [text, number] : cases) {
    CAPTURE(text.substr(0, 200));
    const auto bundles = parse_policy_bundles(text, "b");
    REQUIRE_FALSE(bundles.ok());
    CHECK(bundles.status().number == number);
    CHECK_FALSE(bundles.status().message.empty());
  }
  CHECK(parse_policy_bundles(line + line, "b")->size() == 2);
}

TEST_CASE("administrators of a policy are read strictly") {
  const std::string key = R"({"id":"A","pem":)" + json_quote(administrator('A').public_key().pem()) + "}";
  const auto number = [&](const std::string& members) {
    const auto policy = parse_policy(bytes_of("{" + members + "}"), "p");
    return policy.ok() ? 0 : policy.status().number;
  };
  const auto with = [&](const std::string& inside) { return number(R"("version":1,"administrators":)" + inside); };
  CHECK(with(R"({"threshold":1,"keys":[)" + key + "]}") == 0);
  CHECK(number(R"("administrators":{"keys":[)" + key + "]}") == 3302);  // no version
  CHECK(number(R"("version":0)") == 3302);
  CHECK(with("7") == 3302);
  CHECK(with("{}") == 3302);
  CHECK(with(R"({"keys":[]})") == 3302);
  CHECK(with(R"({"threshold":2,"keys":[)" + key + "]}") == 3302);
  CHECK(with(R"({"threshold":0,"keys":[)" + key + "]}") == 3302);
  CHECK(with(R"({"keys":[)" + key + "," + key + "]}") == 3302);
  CHECK(with(R"({"keys":[)" + key + R"(],"who":1})") == 3302);
  CHECK(with(R"({"keys":[{"id":"A","models":["*"],"pem":)" + json_quote(administrator('A').public_key().pem()) +
             "}]}") == 3302);
  const std::string revoked = R"(,"revoked_keys":[")" + administrator('A').public_key().id_hex() + R"("])";
  CHECK(with(R"({"keys":[)" + key + "]}" + revoked) == 3302);
}

TEST_CASE("limits of bundles hold on both sides") {
  const std::string line = encode_bundle(bundle_of("2:A/1<A"));
  const std::string blank = line.substr(0, line.size() - 1) + std::string(kMaxPolicyFile - line.size(), ' ') + "\n";
  CHECK(parse_policy_bundles(blank, "b").ok());
  CHECK(parse_policy_bundles(" " + blank, "b").status().message.find("longer than 8388608") != std::string::npos);
  std::string lines;
  for (size_t i = 0; i < kMaxPolicyChain; ++i) lines += line;
  CHECK(parse_policy_bundles(lines, "b").ok());
  CHECK(parse_policy_bundles(lines + line, "b").status().message.find("65 lines, at most 64") != std::string::npos);
  std::string keys;
  const auto read = [&] {
    return parse_policy(bytes_of(R"({"version":1,"administrators":{"keys":[)" + keys + "]}}"), "p");
  };
  for (int i = 0; i < 17; ++i) {
    if (i == 16) CHECK(read().ok());
    keys += std::string(keys.empty() ? "" : ",") + R"({"id":")" + std::to_string(i) + R"(","pem":)" +
            json_quote(make_key(KeyType::Ed25519).public_key().pem()) + "}";
  }
  CHECK(read().status().message.find("1 to 16") != std::string::npos);
}

// An installation into a folder of its own.
struct Machine {
  TempFolder folder;
  std::string policy() const { return folder / "etc/trust.json"; }
  std::string put(const std::string& name, const std::string& text) const {
    return write_file(folder / name, text), folder / name;
  }
  unsigned install(const std::string& forms, const std::string& root = "") const {
    InstallOptions options{
        policy(), {}, root.empty() ? "" : put("root.pem", administrator(root[0]).public_key().pem()), kNow};
    std::string chain;
    for (const std::string& form : words_of(forms)) chain += encode_bundle(bundle_of(form));
    options.files = {put("chain", chain)};
    const auto result = install_policy(options);
    return result.ok() ? result->already : result.status().number;
  }
};

TEST_CASE("what is installed is the signed text, and what is refused changes nothing") {
  const Machine machine;
  CHECK(machine.install("1:A/1<A") == 3407);
  CHECK_FALSE(std::filesystem::exists(machine.policy()));
  CHECK(machine.install("1:A/1<A", "A") == 0);
  CHECK(read_file(machine.policy()) == policy_text("1:A/1"));
  CHECK((std::filesystem::status(machine.policy()).permissions() & std::filesystem::perms(0777)) ==
        std::filesystem::perms(0644));
  CHECK(machine.install("1:A/1<A", "A") == 1);  // as a script does at each start
  CHECK(machine.install("3:A/1<A") == 3406);
  CHECK(machine.install("2:B/1<B") == 3402);
  CHECK(read_file(machine.policy()) == policy_text("1:A/1"));
  CHECK(machine.install("2:B/1<AB 3:C/1<BC") == 0);
  CHECK(read_file(machine.policy()) == policy_text("3:C/1"));
  CHECK(machine.install("2:B/1<AB") == 3405);
}

TEST_CASE("a policy that was taken away does not bring an older one back") {
  const Machine machine;
  CHECK(machine.install("5:A/1<A", "A") == 0);
  std::filesystem::remove(machine.policy());
  CHECK(machine.install("4:A/1<A", "A") == 3405);
  CHECK(machine.install("5:A/1<A", "A") == 0);
  // Nor does a backup of the file: the list beside it knows better.
  write_file(machine.policy(), policy_text("2:A/1"));
  CHECK(machine.install("3:A/1<A") == 3405);
  CHECK(machine.install("3:A/1<A 4:A/1<A 5:A/1<A") == 0);
  write_file(machine.folder / "etc/versions", "garbage\n");
  CHECK(machine.install("6:A/1<A") == 3306);
  CHECK(read_file(machine.policy()) == policy_text("5:A/1"));
}

TEST_CASE("a policy without administrators is replaced only where a root is named") {
  const Machine machine;
  std::filesystem::create_directory(machine.folder / "etc");
  write_file(machine.policy(), R"({"rules":[{"models":["*"],"level":"strict"}]})");
  CHECK(machine.install("1:A/1<A") == 3407);
  CHECK(machine.install("1:A/1<A", "A") == 0);
}

TEST_CASE("a damaged policy, and one that others may change, are not replaced") {
  const Machine machine;
  CHECK(machine.install("1:A/1<A", "A") == 0);
  write_file(machine.policy(), "{");
  CHECK(machine.install("2:A/1<A") == 3302);
  CHECK(read_file(machine.policy()) == "{");
  write_file(machine.policy(), policy_text("1:A/1"));
  std::filesystem::permissions(machine.policy(), std::filesystem::perms(0666));
  CHECK(machine.install("2:A/1<A") == 3304);
}

TEST_CASE("signing again replaces, and a bundle has a limit of signatures") {
  PolicyBundle bundle = bundle_of("2:A/1<A");
  REQUIRE(sign_bundle(bundle, administrator('A')).ok());
  CHECK(bundle.signatures.size() == 1);
  while (bundle.signatures.size() < kMaxSignatures) REQUIRE(sign_bundle(bundle, make_key(KeyType::Ed25519)).ok());
  CHECK(sign_bundle(bundle, make_key()).number == 3401);
  CHECK(parse_policy_bundles(encode_bundle(bundle), "b").ok());
}

}  // namespace
}  // namespace mlc::signing::test
