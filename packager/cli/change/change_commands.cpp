#include "packager/cli/change/change_commands.h"

#include <memory>
#include <optional>

#include "base/cli/report.h"
#include "base/counted.h"
#include "packager/cli/change/add_ops.h"
#include "packager/cli/change/delta_ops.h"
#include "packager/cli/change/program_folder.h"
#include "packager/cli/change/relabel_ops.h"
#include "packager/cli/change/thin_ops.h"
#include "packager/cli/change/upgrade_ops.h"
#include "packager/cli/inspect/size_ops.h"
#include "packager/cli/inspect_json.h"
#include "packager/cli/model_flags.h"
#include "packager/compile/cache/code_cache.h"
#include "signing/hash_tree.h"

namespace mlc::cli {
namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + printable(name);
  return out;
}

Report report_of(const CopyResult& result, const std::string& what) {
  const std::string root = "sha256:" + to_hex(result.root);
  Report report;
  report.text = what + "   " + result.output + "   " + human_bytes(result.bytes_before) + " -> " + human_bytes(result.bytes_after) + "   root " + root + ", as before\n";
  report.text += "  variants   " + joined(result.present) + "\n";
  if (!result.absent.empty()) report.text += "  absent     " + joined(result.absent) + "\n";
  report.text += "  signature  " + (result.num_signatures == 0 ? std::string("none, as before") : counted(result.num_signatures, "signature") + ", valid as before") + "\n";
  report.json = {{"file", result.output}, {"root", root}, {"bytes", result.bytes_after}, {"bytes_before", result.bytes_before},
                 {"variants", result.present}, {"absent", result.absent}, {"changed", result.changed}, {"lacking", result.lacking}, {"signatures", result.num_signatures}};
  return report;
}

// What became of signatures is told in words: those that were there are of another root.
void add_rewritten(const Rewritten& result, const std::string& what, Report& report) {
  const std::string root = "sha256:" + to_hex(result.root);
  report.text = what + " " + result.output + "   " + human_bytes(result.bytes) + "   root " + root + "   from " + "sha256:" + to_hex(result.parent) + "\n";
  const std::string before = result.signatures_before == 0 ? "" : "   (" + counted(result.signatures_before, "signature") + " of the file before left out: of another root)";
  report.text += "  signature  " + (result.key_name.empty() ? "none" : "by " + result.key_name) + before + "\n";
  report.json = {{"file", result.output}, {"root", root}, {"parent", "sha256:" + to_hex(result.parent)}, {"bytes", result.bytes}, {"key", result.key_name},
                 {"signatures_before", result.signatures_before}};
}

void add_resign_flags(const Command& command, Resign& resign) {
  command.add_option("--key", resign.key_file, "private key to sign with; default: your own key where a key that you trust has signed the file, else none");
  command.add_option("--key-passphrase", resign.passphrase, "of an encrypted key: file:PATH, or fd:N for a descriptor");
  command.add_flag("--no-sign", resign.no_sign, "leave the container unsigned");
}

void add_output_flags(const Command& command, std::string& output, bool& force) {
  command.add_option("-o,--output", output, "where to write; default: the file itself");
  command.add_flag("-f,--force", force, "overwrite an output that is no container");
}

template <class Options>
struct Asked {
  Options options;
  bool as_json = false;
};

void add_thin(Program& program) {
  auto asked = std::make_shared<Asked<ThinOptions>>();
  const Command thin = program.add_command("thin", "leave variants out of a copy, which stays signed",
                                           "  mlpack thin cat.mlc --keep x86-64-v3 -o cat-thin.mlc\n  mlpack thin cat.mlc --keep x86-64-v3,armv8-a -o cat-two.mlc\n", asked->as_json);
  thin.add_option("file", asked->options.file, "container").required();
  thin.add_option("--keep", asked->options.keep, "variants that stay, separated by commas; the portable one always does").separated_by(',').required();
  add_output_flags(thin, asked->options.output, asked->options.force);
  thin.on_run([asked] {
    const auto run = [&]() -> Result<Report> {
      MLC_ASSIGN(const CopyResult result, thin_container(asked->options));
      return report_of(result, "thinned");
    };
    return finish("thin", asked->as_json, run());
  });
}

void add_fill(Program& program) {
  auto asked = std::make_shared<Asked<FillOptions>>();
  const Command fill = program.add_command("fill", "put back what thin left out",
                                           "  mlpack fill cat-thin.mlc --from cat.mlc\n  mlpack fill cat-thin.mlc --from cat.mlc -o cat-full.mlc\n", asked->as_json);
  fill.add_option("file", asked->options.file, "container that was thinned").required();
  fill.add_option("--from", asked->options.from, "a copy of the same container that has what is absent").required();
  add_output_flags(fill, asked->options.output, asked->options.force);
  fill.on_run([asked] {
    const auto run = [&]() -> Result<Report> {
      MLC_ASSIGN(const CopyResult result, fill_container(asked->options));
      return report_of(result, "filled ");
    };
    return finish("fill", asked->as_json, run());
  });
}

void add_relabel(Program& program) {
  auto asked = std::make_shared<Asked<RelabelOptions>>();
  auto& o = asked->options;
  const Command relabel = program.add_command("relabel", "change labels and metadata without compiling",
                                              "  mlpack relabel cat.mlc --labels german.txt -o katze.mlc\n  mlpack relabel cat.mlc --metadata version=2 --metadata title=Cats\n", asked->as_json);
  relabel.add_option("file", o.file, "container").required();
  relabel.add_option("--labels", o.labels, "[NAME=]FILE: lines in place of the labels or characters that the pipeline calls NAME (repeatable)");
  relabel.add_option("--pipeline", o.pipeline, "pipeline.json in place of the one inside, if what is compiled is the same");
  relabel.add_option("--metadata", o.metadata, "KEY=VALUE: id, version, title or licence (repeatable)");
  add_output_flags(relabel, o.output, o.force);
  add_resign_flags(relabel, o.resign);
  relabel.on_run([asked] {
    const auto run = [&]() -> Result<Report> {
      MLC_ASSIGN(const Relabelled result, relabel_container(asked->options));
      Report report;
      add_rewritten(result, "relabelled", report);
      report.text += "  changed    " + joined(result.changed) + "\n";
      report.json["changed"] = result.changed;
      return report;
    };
    return finish("relabel", asked->as_json, run());
  });
}

struct AddFlags : Asked<AddOptions> {
  std::vector<std::string> targets;
  ModelFlags model;
};

Result<Report> run_add(AddFlags& flags) {
  compile::BuildOptions& build = flags.options.build;
  MLC_ASSIGN(build.targets, targets_named(flags.targets));
  std::optional<ProgramFolder> program;
  if (flags.model.path.empty()) {
    if (!build.pipeline_path.empty() || to_text(flags.model) != to_text(ModelFlags()) || !flags.model.operator_folders.empty())
      return Status(Code::Usage, "options of the build are given, and no model").hint("--from MODEL with them, or neither: the file knows how it was built");
    const std::string& output = flags.options.output.empty() ? flags.options.file : flags.options.output;
    MLC_ASSIGN(ProgramFolder found, ProgramFolder::of(flags.options.file, output));
    program.emplace(std::move(found));
    flags.model = program->flags();
    build.pipeline_path = program->pipeline_path();
  }
  MLC_RETURN_IF_ERROR(apply(flags.model, build));
  if (auto folder = compile::code_cache_folder(); folder.ok()) build.cache_folder = std::move(folder).value();
  MLC_ASSIGN(const Added result, add_targets(flags.options));
  Report report;
  add_rewritten(result, "added to  ", report);
  if (result.added.empty()) report.text.resize(report.text.find("\n") + 1), report.text += "  signature  as before: nothing is new to the manifest\n";
  for (const auto& [what, names] : {std::pair("added     ", &result.added), {"restored  ", &result.restored}, {"there     ", &result.equal}})
    if (!names->empty()) report.text += std::string("  ") + what + " " + joined(*names) + "\n";
  report.json["added"] = result.added;
  report.json["restored"] = result.restored;
  report.json["equal"] = result.equal;
  return report;
}

void add_add(Program& program) {
  auto flags = std::make_shared<AddFlags>();
  auto& o = flags->options;
  const Command add = program.add_command("add", "compile one more target into a container",
                                          "  mlpack add cat.mlc --target rv64gc\n  mlpack add cat.mlc --target native --from cat.onnx --pipeline p.json\n",
                                          flags->as_json);
  add.add_option("file", o.file, "container").required();
  add.add_option("--target", flags->targets, "targets, separated by commas, as build takes them").separated_by(',').required();
  add.add_option("--from", flags->model.path, "the model that the container was built from; default: the program that it keeps");
  add.add_option("--pipeline", o.build.pipeline_path, "with --from: the pipeline that it was built with, if it was");
  add_compile_flags(add, flags->model);
  add_output_flags(add, o.output, o.force);
  add_resign_flags(add, o.resign);
  add.on_run([flags] { return finish("add", flags->as_json, run_add(*flags)); });
}

void add_apply(Program& program) {
  auto asked = std::make_shared<Asked<ApplyOptions>>();
  const Command apply = program.add_command("apply", "make a container of an older one and a delta",
                                            "  mlpack apply cat-1.mlc cat.mld -o cat-2.mlc\n  mlpack apply cat.mlc cat.mld\n", asked->as_json);
  apply.add_option("file", asked->options.file, "container that the delta is for: the first one of mlpack diff --delta").required();
  apply.add_option("delta", asked->options.delta, "what mlpack diff --delta wrote").required();
  add_output_flags(apply, asked->options.output, asked->options.force);
  apply.on_run([asked] {
    const auto run = [&]() -> Result<Report> {
      MLC_ASSIGN(const ApplyResult result, apply_delta(asked->options));
      const std::string root = "sha256:" + to_hex(result.root), from = "sha256:" + to_hex(result.from);
      Report report;
      report.text = "applied   " + result.output + "   " + human_bytes(result.bytes_before) + " and " + human_bytes(result.bytes_delta) + " -> " + human_bytes(result.bytes) + "   root " + root + "   from " + from + "\n";
      report.text += "  signature  " + (result.num_signatures == 0 ? std::string("none") : counted(result.num_signatures, "signature") + ", of the file that the delta was made of") + "\n";
      report.json = {{"file", result.output}, {"root", root}, {"from", from}, {"bytes", result.bytes}, {"bytes_before", result.bytes_before}, {"bytes_delta", result.bytes_delta},
                     {"signatures", result.num_signatures}};
      return report;
    };
    return finish("apply", asked->as_json, run());
  });
}

Report report_of_upgrade(const Upgraded& result) {
  Report report;
  add_rewritten(result, result.is_current ? "as before" : "upgraded ", report);
  if (result.is_current) {
    const std::string before = result.signatures_before == 0 ? "none, as before" : counted(result.signatures_before, "signature") + ", valid as before";
    report.text = "as before " + result.output + "   " + human_bytes(result.bytes) + "   root sha256:" + to_hex(result.root) + "   it is in the form of this mlpack already\n  signature  " + before + "\n";
  }
  report.text += "  golden     " + result.tested.text() + "\n";
  report.json["is_current"] = result.is_current;
  report.json["vectors"] = result.tested.vectors;
  Json& variants = report.json["variants"] = Json::array();
  for (const SelfTestReport::Variant& v : result.tested.variants) {
    Json variant = {{"name", v.name}, {"vectors", v.vectors}};
    if (!v.reason.empty()) variant["reason"] = v.reason;
    variants.push_back(std::move(variant));
  }
  return report;
}

void add_upgrade(Program& program) {
  auto asked = std::make_shared<Asked<UpgradeOptions>>();
  const Command upgrade = program.add_command("upgrade", "write a container anew in the form of this mlpack",
                                              "  mlpack upgrade cat.mlc -o cat-new.mlc\n  mlpack upgrade cat.mlc --key release.pem\n", asked->as_json);
  upgrade.add_option("file", asked->options.file, "container").required();
  add_output_flags(upgrade, asked->options.output, asked->options.force);
  add_resign_flags(upgrade, asked->options.resign);
  upgrade.on_run([asked] {
    const auto run = [&]() -> Result<Report> {
      MLC_ASSIGN(const Upgraded result, upgrade_container(asked->options));
      return report_of_upgrade(result);
    };
    return finish("upgrade", asked->as_json, run());
  });
}

}  // namespace

void add_change_commands(Program& program) {
  add_thin(program);
  add_fill(program);
  add_apply(program);
  add_relabel(program);
  add_add(program);
  add_upgrade(program);
}

}  // namespace mlc::cli
