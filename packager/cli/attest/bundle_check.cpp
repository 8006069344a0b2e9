#include "packager/cli/attest/bundle_check.h"

#include "base/counted.h"
#include "base/text/json.h"
#include "base/text/shell_word.h"
#include "packager/cli/attest/statements.h"
#include "signing/envelope.h"

namespace mlc::cli {

namespace {

using Kind = JsonValue::Kind;
using signing::PublicKey;

constexpr uint16_t kNotSigned = 3101, kOtherFile = 3102, kUntrusted = 3002;
constexpr JsonLimits kPayloadLimits{.bytes = signing::kMaxBundle, .depth = 32, .values = 400'000};

// Of the trusted keys the one that signed it: first those that the hint names, since each check costs a multiplication on a curve.
const PublicKey* signer_of(const signing::Bundle& bundle, const signing::TrustSet& trust, bool& is_known) {
  std::vector<const PublicKey*> candidates, others;
  for (const signing::TrustedKey& entry : trust.keys()) (signing::hint_of(entry.key) == bundle.hint ? candidates : others).push_back(&entry.key);
  is_known = !candidates.empty();
  candidates.insert(candidates.end(), others.begin(), others.end());
  for (const PublicKey* key : candidates)
    if (signing::is_signed_by(bundle, *key)) return key;
  return nullptr;
}

Status judge(const signing::Bundle& bundle, const BundleQuestion& question, BundleAnswer& answer) {
  bool is_known = false;
  const PublicKey* key = signer_of(bundle, question.trust, is_known);
  if (key == nullptr && is_known)
    return Status(Code::BadSignature, kNotSigned, "{}: the signature is not one of the key that it names", answer.path).fact("key hint {}", bundle.hint);
  if (key == nullptr)
    return Status(Code::Untrusted, kUntrusted, "{} is signed by none of {} that are trusted here", answer.path, counted(question.trust.keys().size(), "key"))
        .hint("--key with the public half of the key that signed it");
  signing::DecideOptions options;
  options.now = question.now;
  options.file = question.file_name;
  const signing::SignatureReport report = signing::judge_key(*key, question.model_id, question.authentication, question.trust, options);
  answer.key = report.name.empty() ? report.key_id : report.name;
  answer.key_id = report.key_id;
  if (report.status == signing::SignatureStatus::Ok) return ok();
  return Status(Code::Untrusted, kUntrusted, "{} is signed by {}, which does not count for {}: {}", answer.path, answer.key, question.model_id, signing::name_of(report.status));
}

// One common digest that is equal suffices, as in-toto has it: the file's, or the root.
bool is_about(const signing::StatementHead& head, const BundleQuestion& question) {
  const std::string file = to_hex(question.file), root = to_hex(question.root);
  for (const signing::StatementHead::Subject& subject : head.subjects)
    for (const auto& [algorithm, digits] : subject.digests)
      if ((algorithm == "sha256" && digits == file) || (algorithm == signing::kTreeId && digits == root)) return true;
  return false;
}

Status other_file(const std::string& name, const BundleQuestion& question) {
  return Status(Code::BadSignature, kOtherFile, "{} is about another file than {}", name, question.file_name).fact("found     sha256:{}", to_hex(question.file));
}

struct Resources {
  const JsonValue* list = nullptr;
};
// What a predicate of OMS has to say before its resources mean anything.
Result<Resources> resources_in(const JsonValue& json, const std::string& name) {
  const JsonValue* predicate = json.find("predicate");
  const JsonValue* how = predicate != nullptr ? predicate->find("serialization") : nullptr;
  const JsonValue* list = predicate != nullptr ? predicate->find("resources") : nullptr;
  if (how == nullptr || list == nullptr || !list->is(Kind::Array)) return Status(Code::Malformed, "{}: a model signature without 'serialization' and 'resources'", name);
  const auto is = [&](const char* key, std::string_view expected) {
    const JsonValue* value = how->find(key);
    return value != nullptr && value->text() == expected;
  };
  if (!is("method", "files") || !is("hash_type", "sha256"))
    return Status(Code::Malformed, "{}: the model is hashed in another way, whole files by sha256 expected", name).hint("model_signing sign, without shards, with --hash-algorithm sha256");
  return Resources{list};
}

}  // namespace

Status check_oms(std::string_view payload, const signing::StatementHead& head, const BundleQuestion& question, const std::string& name) {
  MLC_ASSIGN(const auto document, parse_json(payload, name, kPayloadLimits));
  MLC_ASSIGN(const Resources resources, resources_in(document.root(), name));
  Sha256 all;
  std::optional<Digest> ours;
  for (const JsonValue& resource : resources.list->items()) {
    const JsonValue *called = resource.find("name"), *digits = resource.find("digest");
    const std::optional<Digest> digest = digits != nullptr ? digest_from_hex(digits->text()) : std::nullopt;
    if (called == nullptr || !digest) return Status(Code::Malformed, "{}: a resource without name or sha256 digest", name);
    all.update(*digest);
    const bool is_single = called->text() == "." && resources.list->size() == 1;
    if (is_single || called->text() == question.file_name) ours = digest;
  }
  const auto& digests = head.subjects.front().digests;
  const bool adds_up = head.subjects.size() == 1 && digests.size() == 1 && digests.front().first == "sha256" && digests.front().second == to_hex(all.finish());
  if (!adds_up) return Status(Code::BadSignature, kOtherFile, "{}: the digest of the model is not that of its resources", name);
  if (!ours) return Status(Code::BadSignature, kOtherFile, "{} is about a model that has no file {}", name, question.file_name);
  return *ours == question.file ? ok() : other_file(name, question);
}

BundleAnswer check_bundle(const std::string& path, std::string_view text, const BundleQuestion& question) {
  BundleAnswer answer;
  answer.path = path;
  answer.status = [&]() -> Status {
    MLC_ASSIGN(const signing::Bundle bundle, signing::parse_bundle(text, path));
    // Nothing is parsed that has no trusted signature.
    MLC_RETURN_IF_ERROR(judge(bundle, question, answer));
    MLC_ASSIGN(const signing::StatementHead head, signing::parse_statement_head(bundle.payload, path));
    answer.predicate_type = head.predicate_type;
    if (head.predicate_type == kOmsPredicate) return check_oms(bundle.payload, head, question, path);
    return is_about(head, question) ? ok() : other_file(path, question);
  }();
  return answer;
}

}  // namespace mlc::cli
