#include "signing/rotation/policy_bundle.h"

#include <algorithm>

#include "base/compose.h"
#include "base/text/base64.h"
#include "base/text/json.h"
#include "base/text/text.h"

namespace mlc::signing {

namespace {

using Kind = JsonValue::Kind;

constexpr JsonLimits kEnvelopeLimits{.bytes = kMaxPolicyFile, .depth = 4, .values = 256};

Bytes bytes_in(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

std::vector<std::byte> signed_bytes(const PolicyBundle& bundle) {
  return pre_authentication_encoding(bytes_in(bundle.text), kPolicyPayloadType);
}

Status damaged_bundle(const std::string& name, const char* pattern, Pieces pieces = {}) {
  return Status(Code::Malformed, 3401, "{}: not a policy bundle: {}", name, compose_pieces(pattern, pieces));
}

// An object with exactly the members that `names` lists, with a blank between them: of what is passed over a changed
// bit would be as well.
Status require_members(const JsonValue& object, std::string_view names, const std::string& name) {
  if (!object.is(Kind::Object))
    return damaged_bundle(name, "found {}, expected an object with {}", {name_of(object.kind()), names});
  for (const auto& [key, value] : object.members())
    if (!is_word_of(names, key.text()))
      return damaged_bundle(name, "unknown key {}, expected {}", {json_quote(key.text().substr(0, 64)), names});
  const auto blanks = static_cast<size_t>(std::count(names.begin(), names.end(), ' '));
  if (object.size() == blanks + 1) return ok();  // a key stands once
  return damaged_bundle(name, "{} keys, expected {}", {object.size(), names});
}

Result<std::string> base64_member(const JsonValue& object, std::string_view key, const std::string& name) {
  std::optional<std::string> bytes = from_base64(object.find(key)->text());
  if (!bytes || bytes->empty()) return damaged_bundle(name, "'{}' is no base 64 of anything", {key});
  return *std::move(bytes);
}

Status read_signatures(const JsonValue& list, PolicyBundle& bundle) {
  if (!list.is(Kind::Array) || list.size() == 0 || list.size() > kMaxSignatures)
    return damaged_bundle(bundle.name, "'signatures' is not a list of 1 to {} of them", {kMaxSignatures});
  for (const JsonValue& item : list.items()) {
    MLC_RETURN_IF_ERROR(require_members(item, "keyid sig", bundle.name));
    const auto id = digest_from_hex(item.find("keyid")->text());
    if (!id) return damaged_bundle(bundle.name, "'keyid' is not 64 lower-case hex digits");
    for (const PolicySignature& other : bundle.signatures)
      if (other.key == *id) return damaged_bundle(bundle.name, "two signatures of the key {}", {to_hex(*id)});
    MLC_ASSIGN(const std::string value, base64_member(item, "sig", bundle.name));
    const Bytes bytes = bytes_in(value);
    bundle.signatures.push_back({*id, {bytes.begin(), bytes.end()}});
  }
  return ok();
}

Result<PolicyBundle> parse_line(std::string_view line, const std::string& name) {
  auto document = parse_json(line, name, kEnvelopeLimits);
  if (!document.ok())
    return Status(Code::Malformed, 3401, document.status().message)
        .fact("expected one line of JSON for each policy bundle");
  const JsonValue& json = document->root();
  MLC_RETURN_IF_ERROR(require_members(json, "payload payloadType signatures", name));
  const std::string_view type = json.find("payloadType")->text();
  if (type != kPolicyPayloadType)
    return damaged_bundle(name, "'payloadType' is {}, expected {}",
                          {json_quote(type.substr(0, 80)), kPolicyPayloadType});
  MLC_ASSIGN(std::string text, base64_member(json, "payload", name));
  MLC_ASSIGN(PolicyBundle bundle, unsigned_bundle(std::move(text), name));
  MLC_RETURN_IF_ERROR(read_signatures(*json.find("signatures"), bundle));
  return bundle;
}

}  // namespace

PolicyBundle::Signed PolicyBundle::by(const PublicKey& key) const {
  for (const PolicySignature& signature : signatures)
    if (signature.key == key.id())
      return key.verify(signed_bytes(*this), signature.value) ? Signed::Yes : Signed::Wrong;
  return Signed::No;
}

Result<PolicyBundle> unsigned_bundle(std::string text, const std::string& name) {
  PolicyBundle bundle{name, std::move(text), {}, {}};
  MLC_ASSIGN(bundle.policy, parse_policy(bytes_in(bundle.text), name));
  const PolicyFile& policy = bundle.policy;
  const char* missing = policy.version == 0             ? "version"
                        : policy.expires == 0           ? "expires"
                        : policy.administrators.empty() ? "administrators"
                                                        : nullptr;
  if (missing)
    return Status(Code::Usage, 3302, "{}: '{}' is missing: a policy that travels has it", name, missing)
        .hint("man mlc-trust");
  return bundle;
}

Status sign_bundle(PolicyBundle& bundle, const PrivateKey& key) {
  MLC_ASSIGN(std::vector<std::byte> value, key.sign(signed_bytes(bundle)));
  const Digest& id = key.public_key().id();
  for (PolicySignature& signature : bundle.signatures)
    if (signature.key == id) return signature.value = std::move(value), ok();
  if (bundle.signatures.size() == kMaxSignatures)
    return damaged_bundle(bundle.name, "it has {} signatures already, no more fit", {kMaxSignatures});
  bundle.signatures.push_back({id, std::move(value)});
  return ok();
}

std::string encode_bundle(const PolicyBundle& bundle) {
  std::string list;
  for (const PolicySignature& signature : bundle.signatures) {
    const std::string_view value(reinterpret_cast<const char*>(signature.value.data()), signature.value.size());
    list += compose("{}{\"keyid\":\"{}\",\"sig\":\"{}\"}", list.empty() ? "" : ",", to_hex(signature.key),
                    to_base64(value));
  }
  return compose("{\"payload\":\"{}\",\"payloadType\":\"{}\",\"signatures\":[", to_base64(bundle.text),
                 kPolicyPayloadType) +
         list + "]}\n";
}

Result<std::vector<PolicyBundle>> parse_policy_bundles(std::string_view text, const std::string& name) {
  if (text.size() > kMaxPolicyFile) return damaged_bundle(name, "longer than {} bytes", {kMaxPolicyFile});
  const auto lines = static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
  if (lines > kMaxPolicyChain)
    return damaged_bundle(name, "{} lines, at most {} are a chain", {lines, kMaxPolicyChain});
  std::vector<PolicyBundle> bundles;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return damaged_bundle(name, "its last line does not end: the file is cut off");
    MLC_ASSIGN(PolicyBundle bundle,
               parse_line(text.substr(0, end), lines == 1 ? name : compose("{} line {}", name, bundles.size() + 1)));
    bundles.push_back(std::move(bundle));
    text.remove_prefix(end + 1);
  }
  if (bundles.empty()) return damaged_bundle(name, "the file is empty");
  return bundles;
}

}  // namespace mlc::signing
