#include "packager/cli/extract/extract_commands.h"

#include <memory>

#include "base/cli/report.h"
#include "base/counted.h"
#include "packager/cli/executable/executable_ops.h"
#include "packager/cli/extract/extract_ops.h"
#include "packager/cli/inspect/size_ops.h"

namespace mlc::cli {
namespace {

struct ExtractFlags : ExtractOptions {
  bool as_json = false;
};

Result<Report> run_extract(const ExtractFlags& flags) {
  MLC_ASSIGN(const ExtractResult result, extract(flags));
  uint64_t bytes = 0;
  Report report;
  Json files = Json::array();
  for (const ExtractedFile& file : result.files) {
    bytes += file.bytes;
    report.text += "  " + file.path + "   " + human_bytes(file.bytes) + (file.name.empty() ? "" : "   " + printable(file.name)) + "\n";
    files.push_back({{"file", file.path}, {"what", file.what}, {"name", file.name}, {"bytes", file.bytes}});
  }
  report.text = "extracted " + counted(result.files.size(), "file") + "   " + human_bytes(bytes) + "   in " + flags.output + "\n" + report.text;
  report.json = {{"file", flags.file}, {"root", "sha256:" + to_hex(result.root)}, {"folder", flags.output}, {"files", files}};
  return report;
}

Result<Report> run_take(const ExtractFlags& flags) {
  MLC_ASSIGN(const TakenContainer taken, take_container(flags.file, flags.output, flags.force));
  const std::string root = "sha256:" + to_hex(taken.root);
  Report report;
  report.text = "extracted " + flags.output + "   " + human_bytes(taken.bytes) + "   root " + root + ", as in " + flags.file + "\n";
  report.json = {{"file", flags.file}, {"root", root}, {"container", flags.output}, {"bytes", taken.bytes}};
  return report;
}

}  // namespace

void add_extract_commands(Program& program) {
  auto flags = std::make_shared<ExtractFlags>();
  const Command command = program.add_command("extract", "parts of a container, or it out of an executable",
                                              "  mlpack extract cat.mlc --what golden -o vectors/\n  mlpack extract cat.mlc --what weights,interface -o cat/\n"
                                              "  mlpack extract ./cat -o cat.mlc\n", flags->as_json);
  command.add_option("file", flags->file, "container, or an executable with one").required();
  command.add_option("--what", flags->what, "interface, pipeline, assets, golden, weights, modules; separated by commas; without it the container of an executable, as it is")
      .separated_by(',');
  command.add_option("-o,--output", flags->output, "a new folder, or one that is empty; without --what the container to write").required();
  command.add_flag("-f,--force", flags->force, "into a folder that has files: those of the same names are replaced; without --what: replace a file that is no container");
  command.on_run([flags] { return finish("extract", flags->as_json, flags->what.empty() ? run_take(*flags) : run_extract(*flags)); });
}

}  // namespace mlc::cli
