#include "packager/cli/keys/keys_commands.h"

#include <ctime>
#include <memory>

#include "base/counted.h"
#include "base/cli/program.h"
#include "base/cli/report.h"
#include "packager/cli/attest/attest_ops.h"
#include "packager/cli/inspect_json.h"
#include "packager/cli/keys/signing_ops.h"
#include "runtime/trust/trust_command.h"
#include "signing/files/file.h"

namespace mlc::cli {

namespace {

// What one command is given.
template <class Options>
struct Given {
  Options options;
  bool as_json = false;
  std::string text;  // an option that is parsed further: a type, a date
};

std::string root_name(const Digest& root) { return "sha256:" + to_hex(root); }

Result<Report> run_keygen(Given<KeygenOptions>& given) {
  const auto type = signing::key_type_named(given.text);
  if (!type)
    return Status(Code::Usage, "unknown key type '" + given.text + "'").fact("known: p256 p384 p521 ed25519");
  given.options.type = *type;
  MLC_ASSIGN(const KeygenResult result, keygen(given.options));
  Report report;
  report.text = "key      " + result.name + "\nprivate  " + result.private_path + "\npublic   " + result.public_path +
                "\nid       " + result.key_id + "\n";
  report.json = {{"key", result.name}, {"key_id", result.key_id}, {"private", result.private_path},
                 {"public", result.public_path}};
  return report;
}

// A day means its last second: "--not-after 2027-11-20" is good for all of that day.
Result<uint64_t> parse_date(const std::string& text) {
  auto seconds = signing::parse_time(text);
  if (!seconds) seconds = signing::parse_time(text + "T23:59:59Z");
  if (!seconds || *seconds == 0)
    return Status(Code::Usage, "--not-after: '" + text + "' is no date such as 2027-11-20 or 2027-11-20T12:00:00Z");
  return *seconds;
}

struct GivenSign : Given<SignOptions> {
  std::string emit_input;
  bool oms = false;
};

// An OpenSSF model signature beside the container, which stays as it is.
Result<Report> signed_for_others(const GivenSign& given) {
  const SignOptions& options = given.options;
  if (!given.emit_input.empty() || !options.attach.empty() || !given.text.empty() || options.replace)
    return Status(Code::Usage, "--oms writes a signature beside the file: --emit-input, --attach, --not-after and --replace belong to the one inside of it");
  MLC_ASSIGN(const AttestResult result, attest({.file = options.file, .kind = AttestKind::Oms, .key_file = options.key_file, .passphrase = options.passphrase,
                                                .output = options.output, .builder_id = {}, .bare = false, .force = options.force}));
  Report report;
  report.text = "signed   " + options.file + "   in " + result.output + "   by " + result.key_name + "\n";
  report.json = {{"file", result.output}, {"root", root_name(result.root)}, {"key", result.key_name}, {"key_id", result.key_id}, {"signatures", 1}};
  return report;
}

Result<Report> emitted(const GivenSign& given) {
  if (!given.options.attach.empty()) return Status(Code::Usage, "--emit-input writes what is to be signed, --attach takes the signature: one of the two");
  MLC_ASSIGN(const SignResult result, write_signing_input(given.options, given.emit_input));
  Report report;
  report.text = "to sign  " + result.output + "   root " + root_name(result.root) + "\n";
  report.json = {{"file", result.output}, {"root", root_name(result.root)}, {"signatures", result.num_signatures}};
  if (result.not_after != 0) report.json["not_after"] = exact(result.not_after);
  return report;
}

Result<Report> run_sign(GivenSign& given) {
  if (given.oms) return signed_for_others(given);
  if (!given.text.empty()) {
    MLC_ASSIGN(const uint64_t seconds, parse_date(given.text));
    given.options.not_after = seconds;
  }
  if (!given.emit_input.empty()) return emitted(given);
  MLC_ASSIGN(const SignResult result, sign_container(given.options));
  Report report;
  report.text = "signed   " + result.output + "   root " + root_name(result.root) + "   by " + result.key_name + " (" +
                counted(result.num_signatures, "signature") + ")\n";
  if (result.not_after != 0) {
    report.text += "valid    " + validity_text(result.not_after) + "\n";
    if (result.not_after < static_cast<uint64_t>(std::time(nullptr))) note("warning: the signature ends before today: no machine will run " + result.output);
  }
  report.json = {{"file", result.output}, {"root", root_name(result.root)}, {"key", result.key_name},
                 {"key_id", result.key_id}, {"signatures", result.num_signatures}};
  if (result.not_after != 0) report.json["not_after"] = exact(result.not_after);
  return report;
}

// A line and an entry for each statement beside the file.
std::string tell_bundles(const VerifyResult& result, Json& list) {
  std::string lines;
  for (const BundleAnswer& bundle : result.bundles) {
    Json entry = {{"file", bundle.path}, {"ok", bundle.status.ok()}};
    if (!bundle.predicate_type.empty()) entry["predicate"] = bundle.predicate_type;
    if (!bundle.key.empty()) entry["key"] = bundle.key, entry["key_id"] = bundle.key_id;
    if (!bundle.status.ok()) entry["error"] = to_json(bundle.status);
    list.push_back(std::move(entry));
    lines += "  statement  " + (bundle.status.ok() ? printable(bundle.predicate_type) + "  by " + bundle.key + "  " + bundle.path : printable(bundle.status.message)) + "\n";
  }
  return lines;
}

Result<Report> verified(const Given<VerifyOptions>& given, SealedContainer& sealed, const signing::TrustSet& trust, const std::vector<BundleText>& bundles) {
  MLC_ASSIGN(const VerifyResult result, verify_container(sealed, trust, given.options, bundles));
  const signing::Verdict& verdict = result.verdict;
  Report report;
  Json signatures = Json::array(), problems = Json::array(), statements = Json::array();
  std::string lines;
  for (const signing::SignatureReport& signature : verdict.signatures) {
    const std::string name = signature.name.empty() ? signature.key_id : signature.name;
    signatures.push_back({{"key", name}, {"key_id", signature.key_id}, {"status", name_of(signature.status)}});
    lines += "  signature  " + std::string(name_of(signature.status)) + "  " + name + "\n";
  }
  for (const Status& problem : result.problems) {
    problems.push_back(to_json(problem));
    if (&problem != &result.problems.front())
      lines += "  damaged    " + problem.message + "\n";  // the first is the error
  }
  lines += tell_bundles(result, statements);
  for (const std::string& warning : verdict.warnings) lines += "  warning    " + warning + "\n";
  report.text = given.options.file + "   " + result.model_id + " version " + std::to_string(result.model_version) +
                "\n  root       " + root_name(result.root) + "\n  verdict    " + verdict.reason + "\n" + lines;
  if (result.not_after != 0) report.text += "  valid      " + validity_text(result.not_after) + "\n";
  if (result.outcome.ok()) report.text += given.options.deep ? "  ok, every leaf\n" : "  ok, the weights not read: --deep reads them\n";
  report.json = {{"root", root_name(result.root)}, {"id", result.model_id},
                 {"version", std::to_string(result.model_version)}, {"trust", name_of(verdict.trust)},
                 {"reason", verdict.reason}, {"signatures", signatures}, {"problems", problems},
                 {"warnings", verdict.warnings}, {"deep", given.options.deep}};
  if (!statements.empty()) report.json["statements"] = statements;
  if (result.not_after != 0) report.json["not_after"] = exact(result.not_after);
  report.failure = result.outcome;
  return report;
}

int run_verify(const Given<VerifyOptions>& given) {
  const auto trust = trust_for(given.options);
  if (!trust.ok()) return finish("verify", given.as_json, trust.status());
  std::vector<BundleText> bundles;
  for (const std::string& path : given.options.bundles) bundles.push_back({path, signing::read_small_file(path, signing::kMaxBundle)});
  return look({.name = "verify", .as_json = given.as_json, .trust = trust, .paths = {given.options.file}},
              [&](std::vector<SealedContainer>& sealed) { return verified(given, sealed[0], *trust, bundles); });
}

template <class Given>
void set_run(const Command& command, const std::shared_ptr<Given>& given, Result<Report> (*run)(Given&)) {
  command.on_run([command, given, run] { return finish(command.name(), given->as_json, run(*given)); });
}

}  // namespace

void add_keys_commands(Program& program) {
  {
    auto given = std::make_shared<Given<KeygenOptions>>();
    const Command keygen = program.add_command("keygen", "make a key pair, or show your own key",
                                               "  mlpack keygen\n  mlpack keygen -o prod.pem --type ed25519\n", given->as_json);
    keygen.add_option("-o,--output", given->options.output,
                       "private key file, mode 0600; public half beside it as .pub.pem; default: your own key");
    keygen.add_option("--type", given->text, "p256, p384, p521 or ed25519").shows_default("p256");
    given->text = "p256";
    set_run(keygen, given, run_keygen);
  }
  {
    auto given = std::make_shared<GivenSign>();
    const Command sign = program.add_command("sign", "add or replace a signature, the body untouched",
                                             "  mlpack sign cat.mlc\n  mlpack sign cat.mlc --key prod.pem -o cat-prod.mlc\n",
                                             given->as_json);
    sign.add_option("file", given->options.file, "container").required();
    sign.add_option("--key", given->options.key_file, "private key in PEM; default: your own key. With --attach the public one");
    sign.add_option("--key-passphrase", given->options.passphrase, "of an encrypted key: file:PATH, or fd:N for a descriptor");
    sign.add_option("--emit-input", given->emit_input, "write what is to be signed to this file, for a key that is elsewhere, and stop");
    sign.add_option("--attach", given->options.attach, "add this file's signature, which was made elsewhere");
    sign.add_option("-o,--output", given->options.output, "where to write; default: the file itself");
    sign.add_option("--not-after", given->text, "last day or second of validity");
    sign.add_flag("--oms", given->oms, "write an OpenSSF model signature beside the file instead, FILE.sig, for model_signing and others");
    sign.add_flag("--replace", given->options.replace, "drop the signatures that are there");
    sign.add_flag("-f,--force", given->options.force, "overwrite an output that is no container; with --oms any file");
    set_run(sign, given, run_sign);
  }
  {
    auto given = std::make_shared<Given<VerifyOptions>>();
    const Command verify = program.add_command("verify", "check signature, hash tree and structure",
                                               "  mlpack verify cat.mlc\n  mlpack verify cat.mlc --deep --key prod.pub.pem\n",
                                               given->as_json);
    verify.add_option("file", given->options.file, "container, or a folder with its parts").required();
    verify.add_flag("--deep", given->options.deep, "hash every leaf of every weight");
    verify.add_option("--key", given->options.keys, "public key in PEM: only it counts (repeatable)");
    verify.add_option("--policy", given->options.policy, "trust policy file");
    verify.add_option("--bundle", given->options.bundles, "a statement beside the file (model signature, provenance, bill of materials) that a trusted key must have made of it (repeatable)");
    verify.add_option("--expect-root", given->options.expect_root, "root digest that the file must have");
    verify.add_option("--expect-id", given->options.expect_id, "model id that the file must have");
    verify.on_run([given] { return run_verify(*given); });
  }
  add_trust_command(program);
}

}  // namespace mlc::cli
