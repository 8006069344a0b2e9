#include "packager/cli/attest/attest_commands.h"

#include <memory>

#include "base/cli/report.h"
#include "packager/cli/attest/attest_ops.h"

namespace mlc::cli {

namespace {

struct AttestFlags : AttestOptions {
  bool slsa = false, sbom = false, as_json = false;
};

Result<Report> run_attest(AttestFlags& flags) {
  if (flags.slsa == flags.sbom) return Status(Code::Usage, "what is to be stated: one of --slsa and --sbom");
  flags.kind = flags.slsa ? AttestKind::Provenance : AttestKind::Bill;
  MLC_ASSIGN(const AttestResult result, attest(flags));
  Report report;
  report.text = "stated   " + result.output + "   " + std::string(result.predicate_type) + "   " + (result.key_name.empty() ? "not signed" : "by " + result.key_name) + "\n";
  report.json = {{"file", result.output}, {"predicate", result.predicate_type}, {"subject", "sha256:" + to_hex(result.file)}, {"root", "sha256:" + to_hex(result.root)}};
  if (!result.key_name.empty()) report.json["key"] = result.key_name, report.json["key_id"] = result.key_id;
  return report;
}

}  // namespace

void add_attest_commands(Program& program) {
  auto flags = std::make_shared<AttestFlags>();
  const Command command = program.add_command("attest", "state beside a file how it was built",
                                              "  mlpack attest cat.mlc --slsa --builder-id https://ci.example.org/models\n  mlpack attest cat.mlc --sbom --bare -o cat.cdx.json\n",
                                              flags->as_json);
  command.add_option("file", flags->file, "container").required();
  command.add_flag("--slsa", flags->slsa, "SLSA provenance: source, targets and options of the build");
  command.add_flag("--sbom", flags->sbom, "a CycloneDX bill of materials with the model's card");
  command.add_option("--builder-id", flags->builder_id, "with --slsa: a URI of what built the file");
  command.add_option("--key", flags->key_file, "private key in PEM; default: your own key");
  command.add_option("--key-passphrase", flags->passphrase, "of an encrypted key: file:PATH, or fd:N for a descriptor");
  command.add_flag("--bare", flags->bare, "the document alone, without statement and signature");
  command.add_option("-o,--output", flags->output, "where to write; default: beside the file");
  command.add_flag("-f,--force", flags->force, "overwrite what is there");
  command.on_run([flags] { return finish("attest", flags->as_json, run_attest(*flags)); });
}

}  // namespace mlc::cli
