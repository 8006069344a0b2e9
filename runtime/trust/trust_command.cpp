#include "runtime/trust/trust_command.h"

#include <ctime>
#include <memory>

#include "base/cli/columns.h"
#include "base/cli/program.h"
#include "base/cli/report.h"
#include "runtime/trust/trust_key.h"
#include "signing/rotation/rotation.h"
#include "signing/user_key.h"

namespace mlc::cli {
namespace {

std::string scope_text(const std::vector<std::string>& models) {
  std::string out;
  for (const std::string& glob : models) out += (out.empty() ? "" : " ") + printable(glob);
  return out.empty() ? "every model" : out;
}

Result<Report> run_trust(const trust::TrustOptions& options) {
  MLC_ASSIGN(const trust::TrustResult result, trust::trust_key(options));
  Report report;
  report.text = "trusted  " + result.key_id + "\nfor      " + scope_text(options.models) + "\nin       " + result.path + "\n";
  report.json = {{"key_id", result.key_id}, {"path", result.path}, {"models", options.models}};
  if (result.models_before) {
    if (*result.models_before != options.models) report.text += "before   " + scope_text(*result.models_before) + "\n";
    report.json["models_before"] = *result.models_before;
  }
  return report;
}

Result<Report> list_keys() {
  MLC_ASSIGN(const std::string folder, signing::config_folder());
  MLC_ASSIGN(const signing::FolderKeys found, signing::list_trusted_keys(folder));
  Report report;
  Json keys = Json::array();
  for (const auto& [path, key] : found.keys) {
    report.text += padded(printable(key.name), 24) + " " + key.key.id_hex() + "  " + scope_text(key.models) + "\n";
    keys.push_back({{"name", key.name}, {"key_id", key.key.id_hex()}, {"models", key.models}, {"path", path}});
  }
  if (found.keys.empty()) report.text = "no trusted keys in " + signing::trust_folder(folder) + "\n";
  for (const std::string& warning : found.warnings) report.text += "warning  " + printable(warning) + "\n";
  report.json = {{"folder", signing::trust_folder(folder)}, {"keys", std::move(keys)}, {"warnings", found.warnings}};
  return report;
}

Result<Report> remove_key(const std::string& id) {
  MLC_ASSIGN(const std::string folder, signing::config_folder());
  MLC_ASSIGN(const std::vector<std::string> removed, signing::remove_trusted_key(folder, id));
  Report report;
  for (const std::string& path : removed) report.text += "removed  " + path + "\n";
  report.json = {{"removed", removed}};
  return report;
}

struct TrustFlags {
  trust::TrustOptions options;
  signing::InstallOptions install;
  std::string remove;
  bool list = false, as_json = false;
};

Result<Report> install(signing::InstallOptions options) {
  if (options.path.empty()) options.path = signing::system_policy_path();
  options.now = static_cast<uint64_t>(std::time(nullptr));
  auto installed = signing::install_policy(options);
  if (!installed) {
    Status status = std::move(installed).status();
    return std::move(status).fact("{}: unchanged", options.path);
  }
  const signing::InstallResult& result = *installed;
  const std::string expires = signing::format_time(result.expires).value_or("");
  std::string signers;
  for (const std::string& name : result.signers) signers += (signers.empty() ? "" : " ") + printable(name);
  Report report;
  report.text =
      (result.already ? "is there " : "installed ") + options.path + "\nversion   " + std::to_string(result.version);
  if (result.version_before != 0 && !result.already)
    report.text += " (before " + std::to_string(result.version_before) + ")";
  report.text += "\nuntil     " + expires + "\nby        " + signers + "\n";
  report.json = {{"path", options.path},
                 {"version", std::to_string(result.version)},
                 {"expires", expires},
                 {"installed", !result.already},
                 {"signers", result.signers}};
  if (result.version_before != 0) report.json["version_before"] = std::to_string(result.version_before);
  return report;
}

Result<Report> do_as_told(const TrustFlags& flags) {
  const std::string tool_help = flags.options.tool + " trust --help";
  if (!flags.install.files.empty()) return install(flags.install);
  if (!flags.install.first_key.empty() || !flags.install.path.empty())
    return Status(Code::Usage, "--trust-first and --policy belong to --install").hint(tool_help);
  if (flags.list) return list_keys();
  if (!flags.remove.empty()) return remove_key(flags.remove);
  if (flags.options.source.empty())
    return Status(Code::Usage, "a key, --list, --remove or --install is missing").hint(tool_help);
  return run_trust(flags.options);
}

}  // namespace

Completions trusted_key_ids() {
  Completions out;
  const auto folder = signing::config_folder();
  const auto found = folder ? signing::list_trusted_keys(*folder) : Result<signing::FolderKeys>(folder.status());
  if (!found) return out;
  for (const signing::FolderKey& entry : found->keys) out.words.push_back({entry.key.key.id_hex(), entry.key.name});
  return out;
}

void add_trust_command(Program& program) {
  auto flags = std::make_shared<TrustFlags>();
  const std::string tool = program.name();
  flags->options.tool = tool;
  const Command command = program.add_command(
      "trust", "trust keys, list or remove them; install policies",
      "  " + tool + " trust prod.pub.pem --models 'acme/*'\n  " + tool + " trust cat.mlc --id 5f0c21d3a09be4c7\n",
      flags->as_json);
  const Option key = command.add_option("key", flags->options.source, "public key in PEM, or a container for its signer");
  command.add_option("--id", flags->options.expect_id, "id of the key, or its first 16 or more digits");
  command.add_option("--models", flags->options.models, "model ids, * for any characters (repeatable); in place of those that the key is trusted for");
  const Option list = command.add_flag("--list", flags->list, "list the keys of your trust folder").excludes(key);
  const Option remove =
      command.add_option("--remove", flags->remove, "remove the key with this id, or its first 16 or more digits")
          .excludes(key)
          .excludes(list);
  command
      .add_option("--install", flags->install.files, "policy bundle to install (repeatable: a chain, the oldest first)")
      .excludes(key)
      .excludes(list)
      .excludes(remove);
  command.add_option("--trust-first", flags->install.first_key,
                     "public key that must have signed the first bundle of this machine");
  command.add_option("--policy", flags->install.path, "where --install puts the policy")
      .shows_default(signing::system_policy_path());
  command.on_run([flags] { return finish("trust", flags->as_json, do_as_told(*flags)); });
}

}  // namespace mlc::cli
