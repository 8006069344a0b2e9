#include "runtime/trust/trust_command.h"

#include <memory>

#include <CLI/CLI.hpp>

#include "base/cli/program.h"
#include "base/cli/report.h"
#include "runtime/trust/trust_key.h"

namespace mlc::cli {
namespace {

Result<Report> run_trust(const trust::TrustOptions& options) {
  MLC_ASSIGN(const trust::TrustResult result, trust::trust_key(options));
  Report report;
  std::string scope;
  for (const std::string& glob : options.models) scope += " " + glob;
  report.text = "trusted  " + result.key_id + "\nfor     " + (scope.empty() ? " every model" : scope) + "\nin       " +
                result.path + "\n";
  report.json = {{"key_id", result.key_id}, {"path", result.path}, {"models", options.models}};
  return report;
}

}  // namespace

void add_trust_command(CLI::App& app, int& exit_code) {
  struct Flags {
    trust::TrustOptions options;
    bool as_json = false;
  };
  auto flags = std::make_shared<Flags>();
  const std::string tool = app.get_name();
  flags->options.tool = tool;
  CLI::App* command = add_command(app, "trust", "add a key to your trusted keys",
                                  "  " + tool + " trust prod.pub.pem --models 'acme/*'\n  " + tool +
                                      " trust cat.mlc --id 5f0c21d3a09be4c7\n",
                                  flags->as_json);
  command->add_option("key", flags->options.source, "public key in PEM, or a container for its signer")->required();
  command->add_option("--id", flags->options.expect_id, "id of the key, or its first 16 or more digits");
  command->add_option("--models", flags->options.models, "model ids, * for any characters (repeatable)")->take_all();
  command->callback([flags, &exit_code] { exit_code = finish("trust", flags->as_json, run_trust(flags->options)); });
}

}  // namespace mlc::cli
