#include "packager/cli/executable/executable_commands.h"

#include <memory>

#include "packager/cli/inspect/size_ops.h"

namespace mlc::cli {

Report report_of(const ExecutableResult& result) {
  const std::string root = "sha256:" + to_hex(result.root);
  Report report;
  report.text = "executable   " + result.output + "   " + human_bytes(result.bytes) + "   root " + root + "\n  runner     " + result.runner + "   " + result.machine + "   " +
                human_bytes(result.runner_bytes) + "\n  container  " + human_bytes(result.part.length) + " at " + std::to_string(result.part.offset) + "\n";
  report.json = {{"file", result.output}, {"root", root}, {"bytes", result.bytes}, {"runner", result.runner}, {"machine", result.machine},
                 {"runner_bytes", result.runner_bytes}, {"offset", result.part.offset}, {"container_bytes", result.part.length}};
  return report;
}

void add_executable_commands(Program& program) {
  struct Flags : ExecutableOptions {
    bool as_json = false;
  };
  auto flags = std::make_shared<Flags>();
  const Command command = program.add_command("executable", "a container and mlrun in one file that runs alone",
                                              "  mlpack executable cat.mlc -o cat\n  mlpack executable cat.mlc -o cat --runner mlrun-aarch64\n", flags->as_json);
  command.add_option("file", flags->file, "container").required();
  command.add_option("-o,--output", flags->output, "the executable to write").required();
  command.add_option("--runner", flags->runner, kRunnerHelp);
  command.add_flag("-f,--force", flags->force, "replace a file that is neither a container nor an executable with one");
  command.on_run([flags] {
    const auto run = [&]() -> Result<Report> {
      MLC_ASSIGN(const ExecutableResult result, write_executable(*flags));
      return report_of(result);
    };
    return finish("executable", flags->as_json, run());
  });
}

}  // namespace mlc::cli
