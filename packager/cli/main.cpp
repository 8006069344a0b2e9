// mlpack: registers its groups of commands and nothing else.
#include <CLI/CLI.hpp>

#include "base/cli/program.h"
#include "packager/cli/build_commands.h"
#include "packager/cli/cache_commands.h"
#include "packager/cli/complete_values.h"
#include "packager/cli/early_end.h"
#include "packager/cli/inspect_commands.h"
#include "packager/cli/keys_commands.h"
#include "packager/cli/tune_commands.h"

int main(int argc, char** argv) {
  using namespace mlc::cli;
  open_closed_streams();
  handle_early_ends(argc, argv);
  CLI::App app("mlpack makes, signs and inspects containers of machine-learning models", "mlpack");
  app.footer("Examples:\n  mlpack check model.onnx\n  mlpack build model.onnx -o model.mlc\n");
  set_up(app);
  int exit_code = 0;
  add_build_commands(app, exit_code);
  add_tune_commands(app, exit_code);
  add_inspect_commands(app, exit_code);
  add_keys_commands(app, exit_code);
  add_cache_commands(app, exit_code);
  add_completion_command(app, exit_code);
  add_help_command(app, "  mlpack help build\n  mlpack help exit-codes\n", exit_code);
  return run_program(app, {argv + 1, argv + argc}, "", values_of_line, exit_code);
}
