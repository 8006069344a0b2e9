#include "packager/cli/keys/policy_commands.h"

#include <ctime>
#include <memory>

#include "base/cli/program.h"
#include "base/cli/report.h"
#include "base/counted.h"
#include "base/text/shell_word.h"
#include "signing/files/file.h"
#include "signing/rotation/rotation.h"
#include "signing/user_key.h"

namespace mlc::cli {

using namespace signing;

namespace {

struct PolicyFlags {
  std::string action, output, after, first_key, passphrase;
  std::vector<std::string> files, keys;
  bool force = false, as_json = false;
};

uint64_t current_time() { return static_cast<uint64_t>(std::time(nullptr)); }

// What an administrator has in hand: a policy that nothing has signed yet, or a bundle that another administrator has.
Result<PolicyBundle> bundle_to_sign(const std::string& path) {
  MLC_ASSIGN(std::string text, read_small_file(path, kMaxPolicyFile));
  if (text.find("\"payloadType\"") == std::string::npos) return unsigned_bundle(std::move(text), path);
  MLC_ASSIGN(std::vector<PolicyBundle> bundles, parse_policy_bundles(text, path));
  if (bundles.size() != 1)
    return Status(Code::Usage,
                  path + " is a chain of " + counted(bundles.size(), "bundle") + ", expected one that is to be signed");
  return std::move(bundles.front());
}

Status write_bundle(const PolicyBundle& bundle, const PolicyFlags& flags) {
  const bool in_place = flags.output == flags.files.front();
  MLC_ASSIGN(const bool is_there, file_exists(flags.output));
  if (is_there && !in_place && !flags.force)
    return Status(Code::Usage, flags.output + " exists already and is not overwritten")
        .hint("--force, or -o with another name");
  const std::string text = encode_bundle(bundle);
  return is_there ? replace_file(flags.output, text, 0644) : create_file(flags.output, text, 0644);
}

std::string listed(const std::vector<const TrustedKey*>& keys) {
  std::string names;
  for (const TrustedKey* key : keys) names += (names.empty() ? "" : " ") + printable(key->name);
  return names.empty() ? "none" : names;
}

// A bundle in one entry: what it is, and how far its signatures go.
Result<Json> tell(const PolicyBundle& bundle, std::string& text) {
  MLC_ASSIGN(const std::vector<const TrustedKey*> signers, own_signers(bundle, current_time()));
  const PolicyFile& policy = bundle.policy;
  const uint32_t needed = policy.administrators_needed;
  const auto count = static_cast<uint32_t>(signers.size());
  const uint32_t missing = count < needed ? needed - count : 0;
  const std::string expires = format_time(policy.expires).value_or("");
  text += "version   " + std::to_string(policy.version) + "\nuntil     " + expires + "\nsigned    " +
          std::to_string(count) + " of " + std::to_string(needed) + " of its administrators: " + listed(signers) + "\n";
  Json names = Json::array();
  for (const TrustedKey* key : signers) names.push_back(key->name);
  return Json{{"version", std::to_string(policy.version)},
              {"expires", expires},
              {"signatures", bundle.signatures.size()},
              {"signers", std::move(names)},
              {"needed", needed},
              {"missing", missing}};
}

Result<Report> sign_policy(PolicyFlags flags) {
  if (flags.files.size() != 1)
    return Status(Code::Usage, "one policy or bundle is signed at a time, found " + std::to_string(flags.files.size()));
  if (!flags.after.empty() || !flags.first_key.empty())
    return Status(Code::Usage, "--after and --trust-first belong to mlpack policy verify");
  MLC_ASSIGN(PolicyBundle bundle, bundle_to_sign(flags.files.front()));
  if (flags.output.empty()) {
    if (bundle.signatures.empty())
      return Status(Code::Usage, "where the bundle goes is missing")
          .hint("-o " + shell_path(flags.files.front() + ".bundle"));
    flags.output = flags.files.front();
  }
  if (flags.keys.empty()) flags.keys.emplace_back();  // the user's own
  std::string names;
  for (const std::string& file : flags.keys) {
    MLC_ASSIGN(const NamedKey key, named_key(file, flags.passphrase));
    MLC_RETURN_IF_ERROR(sign_bundle(bundle, key.key));
    names += (names.empty() ? "" : " ") + key.name;
  }
  std::string lines;
  MLC_ASSIGN(Json entry, tell(bundle, lines));
  MLC_RETURN_IF_ERROR(write_bundle(bundle, flags));
  Report report;
  report.text = "wrote     " + flags.output + "   by " + names + "\n" + lines;
  entry["file"] = flags.output;
  report.json = std::move(entry);
  return report;
}

Result<Report> verify_policy(const PolicyFlags& flags) {
  if (!flags.output.empty() || !flags.keys.empty() || flags.force)
    return Status(Code::Usage, "--key, -o and --force belong to mlpack policy sign");
  MLC_ASSIGN(const std::vector<PolicyBundle> chain, load_chain(flags.files));
  const uint64_t now = current_time();
  if (flags.after.empty() && flags.first_key.empty()) {
    MLC_RETURN_IF_ERROR(judge_alone(chain, now));
  } else {
    RotationBase base;
    if (!flags.after.empty()) {
      MLC_ASSIGN(base, base_in(flags.after));
    }
    if (!flags.first_key.empty()) {
      MLC_ASSIGN(base.first, PublicKey::load(flags.first_key));
    }
    base.now = now;
    MLC_ASSIGN(const Rotation accepted, judge_rotation(chain, base));
    (void)accepted;
  }
  Report report;
  Json bundles = Json::array();
  for (const PolicyBundle& bundle : chain) {
    MLC_ASSIGN(Json entry, tell(bundle, report.text));
    bundles.push_back(std::move(entry));
  }
  if (!flags.after.empty()) report.text += "follows   " + flags.after + "\n";
  report.json = {{"bundles", std::move(bundles)}};
  return report;
}

Result<Report> run_policy(const PolicyFlags& flags) {
  return flags.action == "sign" ? sign_policy(flags) : verify_policy(flags);
}

}  // namespace

void add_policy_commands(Program& program) {
  auto flags = std::make_shared<PolicyFlags>();
  const Command command = program.add_command("policy", "sign or verify trust policies that travel as bundles",
                                              "  mlpack policy sign trust.json --key admin.pem -o v2.bundle\n"
                                              "  mlpack policy verify v2.bundle --after v1.bundle\n",
                                              flags->as_json);
  command.add_option("action", flags->action, "what is done").required().one_of({"sign", "verify"});
  command.add_option("files", flags->files, "a policy or bundle to sign; bundles to verify, the oldest first")
      .required();
  command.add_option("--key", flags->keys, "sign with this private key (repeatable); default: your own");
  command.add_option("--key-passphrase", flags->passphrase, "passphrase of an encrypted key: file:PATH or fd:N");
  command.add_option("-o,--output", flags->output, "the bundle; default: the bundle that is signed once more");
  command.add_option("--after", flags->after, "the policy or bundle that the first must follow");
  command.add_option("--trust-first", flags->first_key, "public key that the first must be signed by");
  command.add_flag("--force", flags->force, "overwrite the output");
  command.on_run([flags] { return finish("policy", flags->as_json, run_policy(*flags)); });
}

}  // namespace mlc::cli
