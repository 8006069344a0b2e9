// Steps 2 and 3 of trust: what a container may do, given who signed it and what the rules say. The order of the checks is
// the order of spec/signing.md, "Decision"; the first that fails names the verdict.
#include <algorithm>
#include <utility>

#include "base/compose.h"
#include "base/counted.h"
#include "base/text/json.h"
#include "base/text/shell_word.h"
#include "signing/policy.h"
#include "signing/version_marks.h"

namespace mlc::signing {

namespace {

bool lenient(Level level) { return level == Level::Audit || level == Level::Skip; }

std::string join(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : ", ") + part;
  return out;
}

// What one policy says. A caller with two (a binding one and that of the command line) takes the stricter verdict.
class Decision {
 public:
  Decision(const Authentication& authentication, const TrustSet& trust, const DecideOptions& options)
      : authentication_(authentication), trust_(trust), options_(options) {}

  Verdict signer() && {
    verdict_.warnings = trust_.warnings();
    if (!authentication_.is_signed()) {
      if (check_root()) not_signed_by_anybody();
      return std::move(verdict_);
    }
    const Statement& statement = *authentication_.statement();
    consider(statement.model_id, statement.model_version, statement.not_after);
    judge_signatures();
    if (!check_root() || !check_age() || !check_version()) return std::move(verdict_);
    if (accepted_.size() >= rule_.threshold) {
      if (check_marks()) accept("signed by " + join(accepted_), Trust::Trusted);
    } else if (check_lost_keys()) {
      not_trusted();
    }
    return std::move(verdict_);
  }

  SignatureReport key(const PublicKey& key, const std::string& model_id) && {
    consider(model_id, 0, 0);
    return judge(CheckedSignature{key, true});
  }

  Verdict model(const Verdict& signer, const ModelFacts& facts) && {
    verdict_ = signer;
    if (authentication_.is_signed()) {
      const Statement& statement = *authentication_.statement();
      consider(statement.model_id, statement.model_version, statement.not_after);
      if (!statement_agrees(facts)) return std::move(verdict_);
    } else {
      consider(facts.id, facts.version, facts.not_after);
      if (!check_age() || !check_version()) return std::move(verdict_);
      not_signed();
    }
    if (verdict_.may_run != MayRun::Refused) check_requirements(facts);
    return std::move(verdict_);
  }

 private:
  // The model in question: of the statement where one is signed, else what the manifest says.
  void consider(const std::string& id, uint64_t version, uint64_t not_after) {
    id_ = id;
    version_ = version;
    not_after_ = not_after;
    rule_ = trust_.rule_for(id);
  }
  void refuse(Trust trust, Status status) {
    if (trust_.is_binding())
      status = std::move(status).fact("{} is binding: options (policy, trust, allow-unsigned, allow-older) cannot weaken it",
                                      trust_.policy_path());
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
  std::string model() const { return json_quote(id_.substr(0, 255)); }
  // What the command line asks for counts unless the policy is binding.
  bool asked(bool option) const { return option && !trust_.is_binding(); }

  bool statement_agrees(const ModelFacts& facts) {
    std::string what;
    if (id_ != facts.id)
      what = compose("model id {}, manifest has {}", model(), json_quote(facts.id.substr(0, 255)));
    if (version_ != facts.version)
      what = compose("model version {}, manifest has {}", version_, facts.version);
    if (facts.not_after != 0 && (not_after_ == 0 || not_after_ > facts.not_after))
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
  bool in_scope(const TrustedKey& entry) const {
    if (rule_.level == Level::Strict && entry.origin == KeyOrigin::UserFolder) return false;
    if (trust_.is_binding() && entry.origin == KeyOrigin::CommandLine) return false;
    return entry.models.empty() || std::any_of(entry.models.begin(), entry.models.end(),
                                               [&](auto& glob) { return glob_matches(glob, id_); });
  }
  SignatureStatus judge(const TrustedKey& entry) {
    if (!in_scope(entry)) return SignatureStatus::OutOfScope;
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
      if (report.status == SignatureStatus::Ok) {
        accepted_.push_back(report.name);
        verdict_.signers.push_back(signature.key->id());
      }
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
    if (not_after_ == 0 || options_.now <= not_after_) return true;
    const std::string when = format_time(not_after_).value_or(compose("{} s", not_after_));
    return refuse_or_warn(lenient(rule_.level) || rule_.level == Level::Permissive, Trust::Expired,
                          Status(Code::Expired, 3201, "{} has expired on {}", options_.file, when));
  }
  bool check_version() {
    if (version_ >= rule_.min_version) return true;
    return refuse_or_warn(lenient(rule_.level), Trust::TooOld,
                          Status(Code::Expired, 3203,
                                 "{} is version {} of {}, {} wants at least {}", options_.file, version_,
                                 model(), policy_name(), rule_.min_version));
  }
  // The marks of every key that may speak for this model count, not only of those that signed this file: otherwise an
  // older file would pass as soon as one of its signatures is removed.
  bool check_marks() {
    verdict_.marks_required = rule_.require_marks;
    if (options_.marks == nullptr) {
      return !rule_.require_marks ||
             refuse_or_warn(lenient(rule_.level), Trust::RequirementNotMet,
                            Status(Code::NotFound, 3306, "{} wants the versions of {} to be remembered, and there is no "
                                   "folder for that", policy_name(), model())
                                .hint("export HOME=/path/to/a/folder"));
    }
    uint64_t seen = 0;
    for (const TrustedKey& entry : trust_.keys())
      if (in_scope(entry) && entry.role == KeyRole::Publisher && !trust_.key_revoked(entry.key.id()))
        seen = std::max(seen, options_.marks->version(entry.key.id(), id_));
    if (version_ >= seen) return true;
    return refuse_or_warn(asked(options_.allow_older) || lenient(rule_.level), Trust::TooOld,
                          Status(Code::Expired, 3205, "{} is version {} of {}, and version {} was accepted here before",
                                 options_.file, version_, model(), seen)
                              .hint("mlrun --allow-older, or allow_older, if you mean this version"));
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
      reason = compose("signed by {} only, {} of the {} that {} asks for", join(accepted_), accepted_.size(),
                       counted(rule_.threshold, "signer"), policy_name());
    } else if (scoped) {  // of several signatures a key that is trusted elsewhere says more than an unknown one
      reason = compose("signed by {}, which is not trusted for model {} by {}", scoped->name, model(), policy_name());
      verdict_.help = how_to_widen(*scoped);
    } else if (unknown) {
      reason = compose("signed by key {}, which is not trusted here", unknown->key_id.substr(0, kKeyIdPrefix));
      verdict_.help = how_to_trust(*unknown);
    } else {
      reason = "signed by a key whose role does not suffice";
    }
    settle(Trust::UnknownSigner, std::move(reason), Code::Untrusted, 3002);
  }
  // The full id on the line: what is trusted is what was shown, whatever the file has become meanwhile. Where keys of the
  // user's folder do not count, trusting one more there changes nothing.
  std::string how_to_trust(const SignatureReport& report) const {
    if (trust_.is_binding() || rule_.level == Level::Strict) return compose("add key {} to {}, whose rule for this model is strict", report.key_id, policy_name());
    return compose("mlrun trust {} --id {}", shell_path(options_.file), report.key_id);
  }
  // What lets a key that is trusted for other models speak for this one.
  std::string how_to_widen(const SignatureReport& report) const {
    for (const TrustedKey& entry : trust_.keys()) {
      if (entry.key.id_hex() != report.key_id || entry.name != report.name) continue;
      if (entry.origin == KeyOrigin::PolicyFile) return compose("add {} to the models of key {} in {}", model(), entry.name, policy_name());
      if (entry.origin != KeyOrigin::UserFolder) return {};
      if (rule_.level == Level::Strict) return compose("add the key to {}: under its strict rule your own trust folder does not count", policy_name());
      std::string command = compose("mlrun trust {} --id {}", shell_path(options_.file), report.key_id);
      for (const std::string& glob : entry.models) command += " --models " + shell_word(glob);
      return command + " --models " + shell_word(id_);
    }
    return {};
  }
  // Before the model is known: refused if it would be refused as any model.
  void not_signed_by_anybody() {
    if (trust_.demands_signer(options_.allow_unsigned)) {
      rule_.level = Level::Strict;
      return not_signed();
    }
    accept("not signed", Trust::Unsigned, MayRun::PortableOnly);
  }
  void not_signed() {
    verdict_.help = compose("mlpack sign {} --key KEY{}", shell_path(options_.file),
                            trust_.is_binding() ? "" : ", or for this run only mlrun --allow-unsigned, allow_unsigned");
    settle(Trust::Unsigned, "not signed", Code::Unsigned, 3001);
  }
  // The three columns of the table for a file without a trusted signature.
  void settle(Trust trust, std::string reason, Code code, uint16_t number) {
    if (asked(options_.allow_unsigned) || lenient(rule_.level)) {
      if (!asked(options_.allow_unsigned)) verdict_.warnings.push_back(reason);
      return accept(std::move(reason), trust);
    }
    if (options_.allow_unsigned)
      verdict_.warnings.push_back(compose("that unsigned files are allowed does not count, {} is binding", policy_name()));
    if (rule_.level != Level::Strict) return accept(std::move(reason), trust, MayRun::PortableOnly);
    Status status(code, number, "{} is {}, and {} is strict", options_.file, reason, policy_name());
    refuse(trust, std::move(status).hint(verdict_.help));
  }

  void check_requirements(const ModelFacts& facts) {
    if (rule_.require_complete && !facts.complete &&
        !refuse_or_warn(lenient(rule_.level), Trust::RequirementNotMet,
                        Status(Code::NoVariant, 3204, "{} is thinned, {} wants the complete file",
                               options_.file, policy_name())))
      return;
    for (const std::string& name : rule_.require_variants) {
      if (std::find(facts.variants.begin(), facts.variants.end(), name) != facts.variants.end()) continue;
      if (!refuse_or_warn(lenient(rule_.level), Trust::RequirementNotMet,
                          Status(Code::NoVariant, 3204, "{} lacks variant {}, which {} wants", options_.file,
                                 json_quote(name), policy_name())))
        return;
    }
  }

  const Authentication& authentication_;
  const TrustSet& trust_;
  const DecideOptions& options_;
  std::string id_;
  uint64_t version_ = 0, not_after_ = 0;
  PolicyRule rule_;
  std::vector<std::string> accepted_;  // names of the distinct keys that count
  Verdict verdict_;
};

static_assert(MayRun::AllVariants < MayRun::PortableOnly && MayRun::PortableOnly < MayRun::Refused);

// What both allow, with the warnings of both. Where both refuse, the binding policy, `b`, says why.
Verdict stricter(Verdict a, Verdict b) {
  if (b.may_run > a.may_run || b.may_run == MayRun::Refused) std::swap(a, b);
  for (std::string& warning : b.warnings)
    if (std::find(a.warnings.begin(), a.warnings.end(), warning) == a.warnings.end())
      a.warnings.push_back(std::move(warning));
  a.marks_required |= b.marks_required;
  return a;
}

}  // namespace

Verdict decide_signer(const Authentication& authentication, const TrustSet& trust, const DecideOptions& options) {
  Verdict verdict = Decision(authentication, trust, options).signer();
  if (!trust.binding()) return verdict;
  return stricter(std::move(verdict), Decision(authentication, *trust.binding(), options).signer());
}

Verdict decide_model(const Verdict& signer, const Authentication& authentication, const ModelFacts& facts,
                     const TrustSet& trust, const DecideOptions& options) {
  Verdict verdict = Decision(authentication, trust, options).model(signer, facts);
  if (!trust.binding()) return verdict;
  return stricter(std::move(verdict), Decision(authentication, *trust.binding(), options).model(signer, facts));
}

SignatureReport judge_key(const PublicKey& key, const std::string& model_id, const Authentication& authentication, const TrustSet& trust,
                          const DecideOptions& options) {
  SignatureReport report = Decision(authentication, trust, options).key(key, model_id);
  if (!trust.binding() || report.status != SignatureStatus::Ok) return report;
  return Decision(authentication, *trust.binding(), options).key(key, model_id);
}

NativeCode native_code_before_manifest(const Verdict& signer, const Authentication& authentication,
                                       const TrustSet& trust, const DecideOptions& options) {
  if (signer.may_run == MayRun::Refused) return NativeCode::Never;
  if (authentication.is_signed())
    return signer.may_run == MayRun::AllVariants ? NativeCode::Certain : NativeCode::Never;
  if (trust.binding() || trust.is_binding()) return NativeCode::Depends;
  if (options.allow_unsigned) return NativeCode::Certain;
  return trust.has_policy() ? NativeCode::Depends : NativeCode::Never;  // the model's id says which rule counts
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
