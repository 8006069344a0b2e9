#include "packager/cli/change/change_commands.h"

#include <memory>

#include "base/cli/report.h"
#include "base/counted.h"
#include "packager/cli/change/relabel_ops.h"
#include "packager/cli/change/thin_ops.h"
#include "packager/cli/inspect_json.h"
#include "packager/cli/size_ops.h"
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
  thin.add_option("-o,--output", asked->options.output, "where to write; default: the file itself");
  thin.add_flag("-f,--force", asked->options.force, "overwrite an output that is no container");
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
  fill.add_option("-o,--output", asked->options.output, "where to write; default: the file itself");
  fill.add_flag("-f,--force", asked->options.force, "overwrite an output that is no container");
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
  relabel.add_option("-o,--output", o.output, "where to write; default: the file itself");
  add_resign_flags(relabel, o.resign);
  relabel.add_flag("-f,--force", o.force, "overwrite an output that is no container");
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

}  // namespace

void add_change_commands(Program& program) {
  add_thin(program);
  add_fill(program);
  add_relabel(program);
}

}  // namespace mlc::cli
