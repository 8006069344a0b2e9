#include "packager/cli/keys_commands.h"

#include <memory>

#include <CLI/CLI.hpp>

#include "base/counted.h"
#include "base/cli/program.h"
#include "base/cli/report.h"
#include "packager/cli/signing_ops.h"
#include "runtime/trust/trust_command.h"

namespace mlc::cli {

namespace {

// The options of one command, kept alive by its callback.
template <class Options>
struct Command {
  Options options;
  bool as_json = false;
  std::string text;  // an option that is parsed further: a type, a date
};

std::string root_name(const Digest& root) { return "sha256:" + to_hex(root); }

Result<Report> run_keygen(Command<KeygenOptions>& command) {
  const auto type = signing::key_type_named(command.text);
  if (!type)
    return Status(Code::Usage, "unknown key type '" + command.text + "'").fact("known: p256 p384 p521 ed25519");
  command.options.type = *type;
  MLC_ASSIGN(const KeygenResult result, keygen(command.options));
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

Result<Report> run_sign(Command<SignOptions>& command) {
  if (!command.text.empty()) {
    MLC_ASSIGN(const uint64_t seconds, parse_date(command.text));
    command.options.not_after = seconds;
  }
  MLC_ASSIGN(const SignResult result, sign_container(command.options));
  Report report;
  report.text = "signed   " + result.output + "   root " + root_name(result.root) + "   by " + result.key_name + " (" +
                counted(result.num_signatures, "signature") + ")\n";
  report.json = {{"file", result.output}, {"root", root_name(result.root)}, {"key", result.key_name},
                 {"key_id", result.key_id}, {"signatures", result.num_signatures}};
  return report;
}

Result<Report> run_verify(Command<VerifyOptions>& command) {
  MLC_ASSIGN(const VerifyResult result, verify_container(command.options));
  const signing::Verdict& verdict = result.verdict;
  Report report;
  Json signatures = Json::array(), problems = Json::array();
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
  for (const std::string& warning : verdict.warnings) lines += "  warning    " + warning + "\n";
  report.text = command.options.file + "   " + result.model_id + " version " + std::to_string(result.model_version) +
                "\n  root       " + root_name(result.root) + "\n  verdict    " + verdict.reason + "\n" + lines;
  if (result.outcome.ok()) report.text += command.options.deep ? "  ok, every leaf\n" : "  ok, the weights not read: --deep reads them\n";
  report.json = {{"root", root_name(result.root)}, {"id", result.model_id},
                 {"version", std::to_string(result.model_version)}, {"trust", name_of(verdict.trust)},
                 {"reason", verdict.reason}, {"signatures", signatures}, {"problems", problems},
                 {"warnings", verdict.warnings}, {"deep", command.options.deep}};
  report.failure = result.outcome;
  return report;
}

template <class Options>
void on_run(CLI::App* app, const std::shared_ptr<Command<Options>>& command, int& exit_code,
            Result<Report> (*run)(Command<Options>&)) {
  app->callback([app, command, run, &exit_code] {
    exit_code = finish(app->get_name(), command->as_json, run(*command));
  });
}

}  // namespace

void add_keys_commands(CLI::App& app, int& exit_code) {
  {
    auto command = std::make_shared<Command<KeygenOptions>>();
    CLI::App* keygen = add_command(app, "keygen", "make a key pair, or show your own key",
                                   "  mlpack keygen\n  mlpack keygen -o prod.pem --type ed25519\n", command->as_json);
    keygen->add_option("-o,--output", command->options.output,
                       "private key file, mode 0600; public half beside it as .pub.pem; default: your own key");
    keygen->add_option("--type", command->text, "p256, p384, p521 or ed25519")->default_str("p256");
    command->text = "p256";
    on_run(keygen, command, exit_code, run_keygen);
  }
  {
    auto command = std::make_shared<Command<SignOptions>>();
    CLI::App* sign = add_command(app, "sign", "add or replace a signature, the body untouched",
                                 "  mlpack sign cat.mlc\n  mlpack sign cat.mlc --key prod.pem -o cat-prod.mlc\n",
                                 command->as_json);
    sign->add_option("file", command->options.file, "container")->required();
    sign->add_option("--key", command->options.key_file, "private key in PEM; default: your own key");
    sign->add_option("-o,--output", command->options.output, "where to write; default: the file itself");
    sign->add_option("--not-after", command->text, "last day or second of validity");
    sign->add_flag("--replace", command->options.replace, "drop the signatures that are there");
    sign->add_flag("-f,--force", command->options.force, "overwrite an output that is no container");
    on_run(sign, command, exit_code, run_sign);
  }
  {
    auto command = std::make_shared<Command<VerifyOptions>>();
    CLI::App* verify = add_command(app, "verify", "check signature, hash tree and structure",
                                   "  mlpack verify cat.mlc\n  mlpack verify cat.mlc --deep --key prod.pub.pem\n",
                                   command->as_json);
    verify->add_option("file", command->options.file, "container")->required();
    verify->add_flag("--deep", command->options.deep, "hash every leaf of every weight");
    verify->add_option("--key", command->options.keys, "public key in PEM: only it counts (repeatable)")->take_all();
    verify->add_option("--policy", command->options.policy, "trust policy file");
    verify->add_option("--expect-root", command->options.expect_root, "root digest that the file must have");
    verify->add_option("--expect-id", command->options.expect_id, "model id that the file must have");
    on_run(verify, command, exit_code, run_verify);
  }
  add_trust_command(app, exit_code);
}

}  // namespace mlc::cli
