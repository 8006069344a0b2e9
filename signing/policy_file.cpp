// Trust policies as JSON. Administrators write them by hand, so every mistake is an error that names the entry: a
// misspelt key that is skipped silently would be a hole in the policy.
#include <algorithm>
#include <set>

#include "base/compose.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "signing/policy.h"

namespace mlc::signing {

namespace {

using Kind = JsonValue::Kind;

constexpr JsonLimits kPolicyLimits{.bytes = 4u << 20, .depth = 16, .values = 100'000};
constexpr size_t kMaxName = 255;
constexpr uint32_t kMaxThreshold = kMaxSignatures;
constexpr uint32_t kMaxAdministrators = kMaxSignatures;

// An entry of the file with its place, for messages such as `trust.json: keys[2]: 'models' is ...`.
struct Entry {
  const JsonValue& json;
  std::string place;

  Status refuse(const char* pattern, Pieces pieces = {}) const {
    return Status(Code::Usage, 3302, "{}: {}", place, compose_pieces(pattern, pieces));
  }
  Status wrong(const char* key, Piece expected) const { return refuse("'{}' is not {}", {key, expected}); }
  // `known`: the keys that may be there, with a blank between them.
  Status only(std::string_view known) const {
    if (!json.is(Kind::Object)) return refuse("found {}, expected an object", {name_of(json.kind())});
    for (const auto& [key, value] : json.members()) {
      if (is_word_of(known, key.text())) continue;
      return refuse("unknown key {}", {json_quote(key.text().substr(0, 64))}).fact("known here: {}", known);
    }
    return ok();
  }
  // The named member if it is a string, else "".
  std::string_view text(std::string_view key) const {
    const JsonValue* member = json.find(key);
    return member ? member->text() : std::string_view();
  }
  // The named member as an array of entries; absent: empty.
  Result<std::vector<Entry>> array(const char* key) const {
    std::vector<Entry> entries;
    const JsonValue* member = json.find(key);
    if (!member) return entries;
    if (!member->is(Kind::Array)) return wrong(key, "a list");
    for (const JsonValue& item : member->items())
      entries.push_back({item, compose("{}: {}[{}]", place, key, entries.size())});
    return entries;
  }
  Result<std::vector<std::string>> texts(const char* key) const {
    MLC_ASSIGN(const std::vector<Entry> entries, array(key));
    std::vector<std::string> out;
    for (const Entry& entry : entries) {
      const std::string_view text = entry.json.text();
      if (text.empty() || text.size() > kMaxName) return entry.refuse("not a string of 1 to 255 bytes");
      out.emplace_back(text);
    }
    return out;
  }
  Result<std::vector<std::string>> globs(const char* key) const {
    MLC_ASSIGN(std::vector<std::string> out, texts(key));
    if (json.find(key) && out.empty()) return refuse("'{}' is empty and matches nothing", {key});
    return out;
  }
  // Of roots, or of keys: ids of keys have no "sha256:" in front anywhere.
  Result<std::vector<Digest>> digests(const char* key, bool of_roots) const {
    MLC_ASSIGN(const std::vector<Entry> entries, array(key));
    std::vector<Digest> out;
    for (const Entry& entry : entries) {
      const auto digest = of_roots ? digest_named(entry.json.text()) : digest_from_hex(entry.json.text());
      if (!digest) return entry.refuse("not 64 lower-case hex digits");
      out.push_back(*digest);
    }
    return out;
  }
  Result<uint64_t> time(const char* key) const {
    const JsonValue* member = json.find(key);
    if (!member) return uint64_t{0};
    const auto seconds = parse_time(member->text());
    if (!seconds) return wrong(key, "a time such as 2027-11-20T00:00:00Z");
    return *seconds;
  }
  Result<bool> boolean(const char* key) const {
    const JsonValue* member = json.find(key);
    if (!member) return false;
    if (!member->is(Kind::Bool)) return wrong(key, "true or false");
    return member->boolean();
  }
  // As a number or as a decimal string: not every tool that writes JSON keeps 64 bits exact.
  Result<uint64_t> number(const char* key, uint64_t absent, uint64_t least, uint64_t most) const {
    const JsonValue* member = json.find(key);
    if (!member) return absent;
    const auto value = member->is(Kind::String) ? parse_decimal(member->text()) : member->as_u64();
    if (!value || *value < least || *value > most)
      return wrong(key, compose("a number from {} to {}", least, most));
    return *value;
  }
};

bool is_printable(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

constexpr std::string_view kKeyMembers = "id pem models not_before not_after role";
constexpr std::string_view kAdministratorMembers = "id pem not_before not_after";  // what they may say has no scope

Result<TrustedKey> read_key(const Entry& entry, KeyOrigin origin, std::string_view members) {
  MLC_RETURN_IF_ERROR(entry.only(members));
  const std::string_view id = entry.text("id");
  if (id.empty() || id.size() > kMaxName || !is_printable(id)) return entry.wrong("id", "a name of 1 to 255 bytes");
  const std::string_view pem = entry.text("pem");
  if (pem.empty()) return entry.wrong("pem", "the text of a public key");
  auto key = PublicKey::from_pem(pem);
  if (!key.ok()) return entry.refuse("'pem': {}", {key.status().message});
  TrustedKey trusted{std::move(key).value(), std::string(id)};
  trusted.origin = origin;
  MLC_ASSIGN(trusted.models, entry.globs("models"));
  MLC_ASSIGN(trusted.not_before, entry.time("not_before"));
  MLC_ASSIGN(trusted.not_after, entry.time("not_after"));
  if (trusted.not_after != 0 && trusted.not_after < trusted.not_before)
    return entry.refuse("'not_after' lies before 'not_before'");
  if (entry.json.find("role")) {
    const std::string_view role = entry.text("role");
    if (role == "extender") trusted.role = KeyRole::Extender;
    else if (role != "publisher") return entry.wrong("role", "publisher or extender");
  }
  return trusted;
}

Result<JsonDocument> read_document(Bytes json, const std::string& name) {
  auto document = parse_json({reinterpret_cast<const char*>(json.data()), json.size()}, name, kPolicyLimits);
  if (!document.ok()) return Status(Code::Usage, 3302, document.status().message);
  return document;
}

std::optional<Level> level_named(std::string_view name) {
  if (name == "strict") return Level::Strict;
  if (name == "permissive") return Level::Permissive;
  if (name == "audit") return Level::Audit;
  if (name == "skip") return Level::Skip;
  return std::nullopt;
}

Result<PolicyRule> read_rule(const Entry& entry) {
  MLC_RETURN_IF_ERROR(entry.only("models level threshold min_version require_complete require_variants require_marks"));
  PolicyRule rule;
  MLC_ASSIGN(rule.models, entry.globs("models"));
  if (rule.models.empty()) return entry.wrong("models", "an array of model ids or globs");
  const auto level = level_named(entry.text("level"));
  if (!level) return entry.wrong("level", "strict, permissive, audit or skip");
  rule.level = *level;
  const auto unrestricted = [](const std::string& glob) { return glob.find_first_not_of("*/") == std::string::npos; };
  if (rule.level == Level::Skip && std::any_of(rule.models.begin(), rule.models.end(), unrestricted))
    return entry.refuse("level skip cannot be combined with the scope *");
  MLC_ASSIGN(const uint64_t threshold, entry.number("threshold", 1, 1, kMaxThreshold));
  rule.threshold = static_cast<uint32_t>(threshold);
  MLC_ASSIGN(rule.min_version, entry.number("min_version", 0, 0, UINT64_MAX));
  MLC_ASSIGN(rule.require_complete, entry.boolean("require_complete"));
  MLC_ASSIGN(rule.require_variants, entry.texts("require_variants"));
  MLC_ASSIGN(rule.require_marks, entry.boolean("require_marks"));
  return rule;
}

Status read_administrators(const Entry& top, PolicyFile& policy) {
  const JsonValue* member = top.json.find("administrators");
  if (!member) return ok();
  const Entry entry{*member, compose("{}: administrators", top.place)};
  MLC_RETURN_IF_ERROR(entry.only("threshold keys"));
  if (policy.version == 0) return entry.refuse("a policy with administrators needs a 'version'");
  MLC_ASSIGN(const std::vector<Entry> keys, entry.array("keys"));
  if (keys.empty() || keys.size() > kMaxAdministrators) return entry.wrong("keys", compose("a list of 1 to {} keys", kMaxAdministrators));
  size_t able = 0;  // may sign the next policy
  for (const Entry& item : keys) {
    MLC_ASSIGN(TrustedKey key, read_key(item, KeyOrigin::PolicyFile, kAdministratorMembers));
    for (const TrustedKey& other : policy.administrators)
      if (other.name == key.name || other.key == key.key) return item.refuse("the id or the key of {} once more", {json_quote(other.name)});
    const auto& revoked = policy.revoked_keys;
    able += std::find(revoked.begin(), revoked.end(), key.key.id()) == revoked.end();
    policy.administrators.push_back(std::move(key));
  }
  MLC_ASSIGN(const uint64_t threshold, entry.number("threshold", 1, 1, kMaxAdministrators));
  if (threshold > able) return entry.refuse("'threshold' is {}, and {} of the keys are not revoked: no policy could follow", {threshold, able});
  policy.administrators_needed = static_cast<uint32_t>(threshold);
  return ok();
}

}  // namespace

Result<PolicyFile> parse_policy(Bytes json, const std::string& name) {
  MLC_ASSIGN(const JsonDocument document, read_document(json, name));
  const Entry top{document.root(), name};
  MLC_RETURN_IF_ERROR(top.only("version expires administrators binding keys rules revoked_keys revoked_roots"));
  PolicyFile policy;
  policy.path = name;
  MLC_ASSIGN(policy.binding, top.boolean("binding"));
  std::set<std::string> ids;
  MLC_ASSIGN(const std::vector<Entry> keys, top.array("keys"));
  for (const Entry& entry : keys) {
    MLC_ASSIGN(TrustedKey key, read_key(entry, KeyOrigin::PolicyFile, kKeyMembers));
    if (!ids.insert(key.name).second) return entry.refuse("id {} stands for two entries", {json_quote(key.name)});
    policy.keys.push_back(std::move(key));
  }
  MLC_ASSIGN(const std::vector<Entry> rules, top.array("rules"));
  for (const Entry& entry : rules) {
    MLC_ASSIGN(PolicyRule rule, read_rule(entry));
    policy.rules.push_back(std::move(rule));
  }
  MLC_ASSIGN(policy.revoked_keys, top.digests("revoked_keys", false));
  MLC_ASSIGN(policy.revoked_roots, top.digests("revoked_roots", true));
  MLC_ASSIGN(policy.version, top.number("version", 0, 1, UINT64_MAX));
  MLC_ASSIGN(policy.expires, top.time("expires"));
  MLC_RETURN_IF_ERROR(read_administrators(top, policy));
  return policy;
}

Result<TrustedKey> parse_trusted_key(Bytes json, const std::string& name) {
  MLC_ASSIGN(const JsonDocument document, read_document(json, name));
  return read_key({document.root(), name}, KeyOrigin::UserFolder, kKeyMembers);
}

std::string encode_trusted_key(const PublicKey& key, std::string_view name, std::span<const std::string> models) {
  std::string globs;
  for (const std::string& glob : models) globs += (globs.empty() ? "" : ", ") + json_quote(glob);
  return compose("{\n  \"id\": {},\n  \"pem\": {},\n  \"models\": [{}]\n}\n", json_quote(name), json_quote(key.pem()),
                 globs);
}

}  // namespace mlc::signing
