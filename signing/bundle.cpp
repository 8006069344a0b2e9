#include "signing/bundle.h"

#include <utility>

#include "base/compose.h"
#include "base/text/base64.h"
#include "base/text/json.h"
#include "signing/envelope.h"
#include "signing/hash_tree.h"

namespace mlc::signing {

namespace {

using Kind = JsonValue::Kind;

constexpr JsonLimits kBundleLimits{.bytes = kMaxBundle, .depth = 32, .values = 400'000};
constexpr size_t kMaxSubjects = 1024;

Bytes bytes_of_text(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

// A member of an object that must be there, of one kind.
Result<const JsonValue*> member(const JsonValue& object, std::string_view key, Kind kind, const std::string& name) {
  const JsonValue* found = object.find(key);
  if (found == nullptr) return Status(Code::Malformed, "{}: '{}' is missing", name, key);
  if (!found->is(kind)) return Status(Code::Malformed, "{}: '{}' is {}, expected {}", name, key, name_of(found->kind()), name_of(kind));
  return found;
}

Result<std::string> decoded(const JsonValue& object, std::string_view key, const std::string& name) {
  MLC_ASSIGN(const JsonValue* text, member(object, key, Kind::String, name));
  std::optional<std::string> bytes = from_base64(text->text());
  if (!bytes) return Status(Code::Malformed, "{}: '{}' is no base 64", name, key);
  return *std::move(bytes);
}

Status require_text(const JsonValue& object, std::string_view key, std::string_view expected, const std::string& name) {
  MLC_ASSIGN(const JsonValue* found, member(object, key, Kind::String, name));
  if (found->text() == expected) return ok();
  return Status(Code::Malformed, "{}: '{}' is {}, expected {}", name, key, json_quote(found->text().substr(0, 80)), json_quote(expected));
}

// The hint of a bundle that a key signed. Signatures that hang on certificates or on a log need a network and a clock to be judged.
Result<std::string> hint_in(const JsonValue& material, const std::string& name) {
  for (const auto& [key, value] : material.members()) {
    if (key.text() == "publicKey" || value.is(Kind::Null) || (value.is(Kind::Array) && value.size() == 0)) continue;
    return Status(Code::Malformed, "{}: the signature hangs on '{}', expected one by a key alone", name, json_quote(key.text().substr(0, 80)))
        .hint("sign with a key: such a signature can be checked without a network");
  }
  MLC_ASSIGN(const JsonValue* key, member(material, "publicKey", Kind::Object, name));
  const JsonValue* hint = key->find("hint");
  if (hint == nullptr || hint->is(Kind::Null)) return std::string();
  if (!hint->is(Kind::String)) return Status(Code::Malformed, "{}: 'hint' is {}, expected a string", name, name_of(hint->kind()));
  return std::string(hint->text());
}

}  // namespace

std::string hint_of(const PublicKey& key) { return to_hex(sha256(key.pem())); }

Result<std::string> sign_bundle(std::string_view payload, const PrivateKey& key) {
  if (key.public_key().type() == KeyType::Ed25519)
    return Status(Code::Usage, "the key is of type ed25519, and verifiers of bundles take p256, p384 or p521").hint("mlpack keygen -o KEY.pem --type p256");
  MLC_ASSIGN(const std::vector<std::byte> signature, key.sign(pre_authentication_encoding(bytes_of_text(payload))));
  const std::string_view value(reinterpret_cast<const char*>(signature.data()), signature.size());
  return compose("{\"mediaType\":\"{}\",\"verificationMaterial\":{\"publicKey\":{\"hint\":\"{}\"},\"tlogEntries\":[]},", kBundleType, hint_of(key.public_key())) +
         compose("\"dsseEnvelope\":{\"payload\":\"{}\",\"payloadType\":\"{}\",\"signatures\":[{\"sig\":\"{}\",\"keyid\":\"\"}]}}\n", to_base64(payload),
                 kPayloadType, to_base64(value));
}

Result<Bundle> parse_bundle(std::string_view text, const std::string& name) {
  MLC_ASSIGN(const auto document, parse_json(text, name, kBundleLimits));
  const JsonValue& json = document.root();
  MLC_RETURN_IF_ERROR(require_text(json, "mediaType", kBundleType, name));
  Bundle bundle;
  MLC_ASSIGN(const JsonValue* material, member(json, "verificationMaterial", Kind::Object, name));
  MLC_ASSIGN(bundle.hint, hint_in(*material, name));
  MLC_ASSIGN(const JsonValue* envelope, member(json, "dsseEnvelope", Kind::Object, name));
  MLC_RETURN_IF_ERROR(require_text(*envelope, "payloadType", kPayloadType, name));
  MLC_ASSIGN(bundle.payload, decoded(*envelope, "payload", name));
  MLC_ASSIGN(const JsonValue* signatures, member(*envelope, "signatures", Kind::Array, name));
  if (signatures->size() != 1) return Status(Code::Malformed, "{}: {} signatures, expected one", name, signatures->size());
  MLC_ASSIGN(const std::string value, decoded(*signatures->items().begin(), "sig", name));
  const Bytes bytes = bytes_of_text(value);
  bundle.signature.assign(bytes.begin(), bytes.end());
  return bundle;
}

bool is_signed_by(const Bundle& bundle, const PublicKey& key) {
  return key.verify(pre_authentication_encoding(bytes_of_text(bundle.payload)), bundle.signature);
}

Result<StatementHead> parse_statement_head(std::string_view payload, const std::string& name) {
  MLC_ASSIGN(const auto document, parse_json(payload, name, kBundleLimits));
  const JsonValue& json = document.root();
  MLC_RETURN_IF_ERROR(require_text(json, "_type", kStatementType, name));
  StatementHead head;
  MLC_ASSIGN(const JsonValue* type, member(json, "predicateType", Kind::String, name));
  head.predicate_type = type->text();
  MLC_ASSIGN(const JsonValue* subjects, member(json, "subject", Kind::Array, name));
  if (subjects->size() == 0 || subjects->size() > kMaxSubjects)
    return Status(Code::Malformed, "{}: {} subjects, from 1 to {} expected", name, subjects->size(), kMaxSubjects);
  for (const JsonValue& item : subjects->items()) {
    StatementHead::Subject subject;
    if (const JsonValue* called = item.find("name")) subject.name = called->text();
    MLC_ASSIGN(const JsonValue* digests, member(item, "digest", Kind::Object, name));
    for (const auto& [algorithm, digits] : digests->members()) subject.digests.emplace_back(algorithm.text(), digits.text());
    head.subjects.push_back(std::move(subject));
  }
  return head;
}

}  // namespace mlc::signing
