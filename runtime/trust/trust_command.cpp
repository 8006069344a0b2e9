#include "runtime/trust/trust_command.h"

#include <memory>

#include "base/cli/columns.h"
#include "base/cli/program.h"
#include "base/cli/report.h"
#include "runtime/trust/trust_key.h"
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
  struct Flags {
    trust::TrustOptions options;
    std::string remove;
    bool list = false, as_json = false;
  };
  auto flags = std::make_shared<Flags>();
  const std::string tool = program.name();
  flags->options.tool = tool;
  const Command command = program.add_command("trust", "add, list or remove the keys that you trust",
                                              "  " + tool + " trust prod.pub.pem --models 'acme/*'\n  " + tool +
                                                  " trust cat.mlc --id 5f0c21d3a09be4c7\n",
                                              flags->as_json);
  const Option key = command.add_option("key", flags->options.source, "public key in PEM, or a container for its signer");
  command.add_option("--id", flags->options.expect_id, "id of the key, or its first 16 or more digits");
  command.add_option("--models", flags->options.models, "model ids, * for any characters (repeatable); in place of those that the key is trusted for");
  const Option list = command.add_flag("--list", flags->list, "list the keys of your trust folder").excludes(key);
  command.add_option("--remove", flags->remove, "remove the key with this id, or its first 16 or more digits").excludes(key).excludes(list);
  command.on_run([flags] {
    const auto run = [&]() -> Result<Report> {
      if (flags->list) return list_keys();
      if (!flags->remove.empty()) return remove_key(flags->remove);
      if (flags->options.source.empty())
        return Status(Code::Usage, "a key, --list or --remove is missing").hint(flags->options.tool + " trust --help");
      return run_trust(flags->options);
    };
    return finish("trust", flags->as_json, run());
  });
}

}  // namespace mlc::cli
