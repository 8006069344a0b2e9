#include "runtime/cli/alone/own_help.h"

#include <string>

#include "base/cli/columns.h"
#include "base/cli/program.h"
#include "base/cli/report.h"
#include "runtime/cli/complete_values.h"
#include "runtime/cli/inputs/program_io.h"
#include "runtime/cli/isolation.h"
#include "runtime/cli/options.h"

namespace mlc::cli {
namespace {

std::string port_lines(const OpenModel& model, uint32_t program, bool is_output, uint32_t count) {
  std::string out;
  for (uint32_t i = 0; i < count; ++i) {
    const MlcPort port = mlio::port_at(model, program, is_output, i);
    out += "  " + padded(is_output ? "output" : "input", 10) + printable(port.name) + "   " + port_text(port) + "\n";
  }
  return out;
}

Result<std::string> interface_of(const OpenModel& model) {
  std::string out = "Model: " + printable(model.info.id) + ", version " + std::to_string(model.info.version) + "\n";
  MLC_ASSIGN(const std::vector<std::string> pipelines, mlio::pipeline_names(model));
  for (const std::string& name : pipelines) {
    InputOptions options;
    options.pipeline = name;
    MLC_ASSIGN(const mlio::Target target, choose_target(model, options));
    out += "  " + padded("pipeline", 10) + printable(name) + "\n";
    for (const std::string& input : input_names(model, target)) out += "  " + padded("input", 10) + printable(input) + "\n";
  }
  for (uint32_t i = 0; pipelines.empty() && i < mlio::num_programs(model); ++i) {
    const MlcProgram program = mlio::program_at(model, i);
    out += "  " + padded("program", 10) + printable(program.name) + "\n" + port_lines(model, i, false, program.num_inputs) + port_lines(model, i, true, program.num_outputs);
  }
  return out;
}

}  // namespace

int help_of_own_container(Program& program) {
  if (const int code = program.run({"run", "--help"}, "run", values_of_line); code != 0) return code;
  ContainerOptions container;
  container.remember = false;
  use_own_container(container);
  return answer({.name = "help", .container = container}, [&](OpenFiles& files) -> Result<Report> {
    MLC_ASSIGN(const OpenModel model, open_model(files));
    Report report;
    MLC_ASSIGN(report.text, interface_of(model));
    report.text += "\nMore commands: " + program.name() + " help\n";
    return report;
  });
}

}  // namespace mlc::cli
