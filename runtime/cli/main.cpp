// mlrun: registers its commands and nothing else. A first word that is none of them is a container to run.
#include <string_view>

#include <CLI/CLI.hpp>

#include "base/cli/program.h"
#include "runtime/cli/commands.h"
#include "runtime/cli/complete_values.h"
#include "runtime/cli/crash.h"
#include "runtime/trust/trust_command.h"

int main(int argc, char** argv) {
  using namespace mlc::cli;
  open_closed_streams();
  install_crash_handlers();
  if (argc == 3 && std::string_view(argv[1]) == "probe-child") return answer_probe(argv[2]);
  CLI::App app("mlrun checks a container, picks the best variant for this machine and runs it", "mlrun");
  app.footer("Examples:\n  mlrun cat.mlc --input cat.jpg\n  mlrun explain cat.mlc\n");
  set_up(app);
  int exit_code = 0;
  add_run_command(app, exit_code);
  add_probe_command(app, exit_code);
  add_explain_command(app, exit_code);
  add_bench_command(app, exit_code);
  add_profile_command(app, exit_code);
  add_selftest_command(app, exit_code);
  add_trust_command(app, exit_code);
  add_completion_command(app, exit_code);
  add_help_command(app, "  mlrun help explain\n  mlrun help exit-codes\n", exit_code);
  return run_program(app, {argv + 1, argv + argc}, "run", values_of_line, exit_code);
}
