// Step 2 of trust: what a container may do, given who signed it and what the rules say. The order of the checks is the
// order of spec/signing.md, "Decision"; the first that fails names the verdict.
#include <algorithm>

#include "base/compose.h"
#include "base/json.h"
#include "signing/policy.h"

namespace mlc::signing {

namespace {

bool lenient(Level level) { return level == Level::Audit || level == Level::Skip; }

std::string join(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : ", ") + part;
  return out;
}

class Decision {
 public:
  Decision(const Authentication& authentication, const ModelFacts& facts, const TrustSet& trust,
           const DecideOptions& options)
      : authentication_(authentication), facts_(facts), trust_(trust), options_(options),
        rule_(trust.rule_for(facts.id)) {
    verdict_.warnings = trust.warnings();
  }

  Verdict run() && {
    if (authentication_.is_signed() && !statement_agrees()) return std::move(verdict_);
    judge_signatures();
    if (!check_root() || !check_age() || !check_version()) return std::move(verdict_);
    if (accepted_.size() >= rule_.threshold) {
      accept("signed by " + join(accepted_), Trust::Trusted);
    } else if (!check_lost_keys()) {
      return std::move(verdict_);
    } else if (authentication_.is_signed()) {
      not_trusted();
    } else {
      not_signed();
    }
    if (verdict_.may_run != MayRun::Refused) check_requirements();
    return std::move(verdict_);
  }

 private:
  void refuse(Trust trust, Status status) {
    verdict_.trust = trust;
    verdict_.may_run = MayRun::Refused;
    verdict_.reason = status.message;
    if (verdict_.help.empty()) verdict_.help = status.help;
    verdict_.status = std::move(status);
  }
  void accept(std::string reason, Trust trust, MayRun may_run = MayRun::AllVariants) {
    verdict_.trust = trust;
    verdict_.may_run = may_run;
    verdict_.reason = std::move(reason);
  }
  // A failed check of a lenient rule becomes a warning and passes.
  bool refuse_or_warn(bool warn, Trust trust, Status status) {
    if (warn) {
      verdict_.warnings.push_back(status.message);
      return true;
    }
    refuse(trust, std::move(status));
    return false;
  }
  std::string policy_name() const {
    return trust_.has_policy() ? "policy " + trust_.policy_path() : std::string("the default policy");
  }
  std::string model() const { return json_quote(facts_.id.substr(0, 255)); }

  bool statement_agrees() {
    const Statement& statement = *authentication_.statement();
    std::string what;
    if (statement.model_id != facts_.id)
      what = compose("model id {}, manifest has {}", json_quote(statement.model_id), model());
    if (statement.model_version != facts_.version)
      what = compose("model version {}, manifest has {}", statement.model_version, facts_.version);
    if (facts_.not_after != 0 && (statement.not_after == 0 || statement.not_after > facts_.not_after))
      what = "a later end of validity than the manifest";
    if (what.empty()) return true;
    refuse(Trust::BadSignature, Status(Code::BadSignature, 3103, "signed statement has {}", what));
    return false;
  }

  // Which entry of the trust set speaks best for this signature.
  SignatureReport judge(const CheckedSignature& signature) {
    SignatureReport report;
    if (signature.key) report.key_id = signature.key->id_hex();
    if (!signature.valid) return report;  // Invalid
    report.status = SignatureStatus::UnknownKey;
    if (trust_.key_revoked(signature.key->id())) report.status = SignatureStatus::KeyRevoked;
    for (const TrustedKey* entry : trust_.find(signature.key->der())) {
      if (report.name.empty()) report.name = entry->name;
      if (report.status == SignatureStatus::KeyRevoked) break;
      const SignatureStatus status = judge(*entry);
      // Ok ends the search; an expired entry is reported before one that was never in scope.
      if (status == SignatureStatus::Ok || report.status != SignatureStatus::KeyExpired) {
        report.status = status;
        report.name = entry->name;
      }
      if (status == SignatureStatus::Ok) break;
    }
    return report;
  }
  SignatureStatus judge(const TrustedKey& entry) {
    if (rule_.level == Level::Strict && entry.origin == KeyOrigin::UserFolder) return SignatureStatus::OutOfScope;
    const bool in_scope =
        entry.models.empty() || std::any_of(entry.models.begin(), entry.models.end(),
                                            [&](auto& glob) { return glob_matches(glob, facts_.id); });
    if (!in_scope) return SignatureStatus::OutOfScope;
    // An extender's word counts only for what it added to a publisher's file, which needs the parent's record.
    if (entry.role == KeyRole::Extender) return SignatureStatus::WrongRole;
    if (options_.now < entry.not_before || (entry.not_after != 0 && options_.now > entry.not_after)) {
      if (rule_.level != Level::Permissive) return SignatureStatus::KeyExpired;
      verdict_.warnings.push_back(compose("key {} is outside its period of validity", entry.name));
    }
    return SignatureStatus::Ok;
  }
  void judge_signatures() {
    std::vector<Digest> seen;
    for (const CheckedSignature& signature : authentication_.signatures()) {
      SignatureReport report = judge(signature);
      const bool again = signature.valid && std::find(seen.begin(), seen.end(), signature.key->id()) != seen.end();
      if (again) report.status = SignatureStatus::Duplicate;  // t of n distinct keys
      if (signature.valid && !again) seen.push_back(signature.key->id());
      if (report.status == SignatureStatus::Ok) accepted_.push_back(report.name);
      verdict_.signatures.push_back(std::move(report));
    }
  }
  const SignatureReport* first_with(SignatureStatus status) const {
    for (const SignatureReport& report : verdict_.signatures)
      if (report.status == status) return &report;
    return nullptr;
  }

  bool check_root() {
    if (!trust_.root_revoked(authentication_.root())) return true;
    refuse(Trust::Revoked, Status(Code::Expired, 3202, "{} is revoked by {}", options_.file, policy_name())
                               .fact("root sha256:{}", to_hex(authentication_.root())));
    return false;
  }
  bool check_age() {
    uint64_t end = facts_.not_after;
    if (authentication_.is_signed() && authentication_.statement()->not_after != 0)
      end = authentication_.statement()->not_after;  // never later than the manifest's
    if (end == 0 || options_.now <= end) return true;
    const std::string when = format_time(end).value_or(compose("{} s", end));
    return refuse_or_warn(lenient(rule_.level) || rule_.level == Level::Permissive, Trust::Expired,
                          Status(Code::Expired, 3201, "{} has expired on {}", options_.file, when));
  }
  bool check_version() {
    if (facts_.version >= rule_.min_version) return true;
    return refuse_or_warn(lenient(rule_.level), Trust::TooOld,
                          Status(Code::Expired, 3203,
                                 "{} is version {} of {}, {} wants at least {}", options_.file, facts_.version,
                                 model(), policy_name(), rule_.min_version));
  }
  // Keys that would have counted, had they not been withdrawn or run out.
  bool check_lost_keys() {
    if (const SignatureReport* revoked = first_with(SignatureStatus::KeyRevoked)) {
      return refuse_or_warn(lenient(rule_.level), Trust::Revoked,
                            Status(Code::Expired, 3202, "{} is signed by the revoked key {}", options_.file,
                                   revoked->key_id.substr(0, kKeyIdPrefix)));
    }
    if (const SignatureReport* expired = first_with(SignatureStatus::KeyExpired)) {
      return refuse_or_warn(lenient(rule_.level), Trust::Expired,
                            Status(Code::Expired, 3201, "{} is signed by key {}, which is outside its period "
                                   "of validity", options_.file, expired->name));
    }
    return true;
  }

  void not_trusted() {
    std::string reason;
    const SignatureReport* unknown = first_with(SignatureStatus::UnknownKey);
    const SignatureReport* scoped = first_with(SignatureStatus::OutOfScope);
    if (!accepted_.empty()) {
      reason = compose("{} of {} signatures that {} asks for: {}", accepted_.size(), rule_.threshold, policy_name(),
                       join(accepted_));
    } else if (unknown) {
      reason = compose("signed by key {}, which is not trusted here", unknown->key_id);
      // The full id on the line: what is trusted is what was shown, whatever the file has become meanwhile.
      verdict_.help = compose("mlpack trust {} --id {}", options_.file, unknown->key_id);
    } else if (scoped) {
      reason = compose("signed by {}, which is not trusted for model {} by {}", scoped->name, model(), policy_name());
    } else {
      reason = "signed by a key whose role does not suffice";
    }
    settle(Trust::UnknownSigner, std::move(reason), Code::Untrusted, 3002);
  }
  void not_signed() {
    verdict_.help = compose("mlpack sign {} --key KEY, or mlrun --allow-unsigned for this run only", options_.file);
    settle(Trust::Unsigned, "not signed", Code::Unsigned, 3001);
  }
  // The three columns of the table for a file that nobody trusted signed.
  void settle(Trust trust, std::string reason, Code code, uint16_t number) {
    if (options_.allow_unsigned || lenient(rule_.level)) {
      if (!options_.allow_unsigned) verdict_.warnings.push_back(reason);
      return accept(std::move(reason), trust);
    }
    if (rule_.level != Level::Strict) return accept(std::move(reason), trust, MayRun::PortableOnly);
    Status status(code, number, "{} is {}, and {} is strict", options_.file, reason, policy_name());
    refuse(trust, std::move(status).hint(verdict_.help));
  }

  void check_requirements() {
    if (rule_.require_complete && !facts_.complete &&
        !refuse_or_warn(lenient(rule_.level), Trust::RequirementNotMet,
                        Status(Code::NoVariant, 3204, "{} is thinned, {} wants the complete file",
                               options_.file, policy_name())))
      return;
    for (const std::string& name : rule_.require_variants) {
      if (std::find(facts_.variants.begin(), facts_.variants.end(), name) != facts_.variants.end()) continue;
      if (!refuse_or_warn(lenient(rule_.level), Trust::RequirementNotMet,
                          Status(Code::NoVariant, 3204, "{} lacks variant {}, which {} wants", options_.file,
                                 json_quote(name), policy_name())))
        return;
    }
  }

  const Authentication& authentication_;
  const ModelFacts& facts_;
  const TrustSet& trust_;
  const DecideOptions& options_;
  const PolicyRule rule_;
  std::vector<std::string> accepted_;  // names of the distinct keys that count
  Verdict verdict_;
};

}  // namespace

Verdict decide(const Authentication& authentication, const ModelFacts& facts, const TrustSet& trust,
               const DecideOptions& options) {
  return Decision(authentication, facts, trust, options).run();
}

NativeCode native_code_before_manifest(const Authentication& authentication, const TrustSet& trust,
                                       const DecideOptions& options) {
  if (!authentication.is_signed()) {
    if (options.allow_unsigned) return NativeCode::Certain;
    return trust.has_policy() ? NativeCode::Depends : NativeCode::Never;  // the model's id says which rule counts
  }
  // A manifest that says anything else than the statement is refused. Of what the statement leaves out, every further
  // condition can only refuse.
  const Statement& statement = *authentication.statement();
  ModelFacts facts;
  facts.id = statement.model_id;
  facts.version = statement.model_version;
  facts.variants = trust.rule_for(facts.id).require_variants;
  const MayRun may_run = decide(authentication, facts, trust, options).may_run;
  return may_run == MayRun::AllVariants ? NativeCode::Certain : NativeCode::Never;
}

std::string_view name_of(Trust trust) {
  switch (trust) {
    case Trust::Trusted: return "trusted";
    case Trust::UnknownSigner: return "unknown-signer";
    case Trust::Unsigned: return "unsigned";
    case Trust::BadSignature: return "bad-signature";
    case Trust::Expired: return "expired";
    case Trust::Revoked: return "revoked";
    case Trust::TooOld: return "too-old";
    case Trust::RequirementNotMet: return "requirement-not-met";
  }
  return "?";
}
std::string_view name_of(MayRun may_run) {
  switch (may_run) {
    case MayRun::AllVariants: return "all";
    case MayRun::PortableOnly: return "portable";
    case MayRun::Refused: return "none";
  }
  return "?";
}
std::string_view name_of(SignatureStatus status) {
  switch (status) {
    case SignatureStatus::Ok: return "ok";
    case SignatureStatus::UnknownKey: return "unknown-key";
    case SignatureStatus::OutOfScope: return "out-of-scope";
    case SignatureStatus::WrongRole: return "wrong-role";
    case SignatureStatus::KeyExpired: return "key-expired";
    case SignatureStatus::KeyRevoked: return "key-revoked";
    case SignatureStatus::Duplicate: return "duplicate";
    case SignatureStatus::Invalid: return "invalid";
  }
  return "?";
}

}  // namespace mlc::signing
