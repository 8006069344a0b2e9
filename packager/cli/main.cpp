// mlpack: registers its groups of commands and nothing else.
#include <cstdio>
#include <exception>

#include <CLI/CLI.hpp>

#include "packager/cli/build_commands.h"
#include "packager/cli/help_commands.h"
#include "packager/cli/inspect_commands.h"
#include "packager/cli/keys_commands.h"
#include "packager/cli/report.h"
#include "packager/cli/usage.h"

int main(int argc, char** argv) {
  CLI::App app("mlpack makes, signs and inspects containers of machine-learning models", "mlpack");
  app.require_subcommand(1);
  mlc::cli::set_help_style(app);
  int exit_code = 0;
  mlc::cli::add_build_commands(app, exit_code);
  mlc::cli::add_inspect_commands(app, exit_code);
  mlc::cli::add_keys_commands(app, exit_code);
  mlc::cli::add_help_commands(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return mlc::cli::refuse(app, error, argc, argv);
  } catch (const std::exception& bug) {
    std::fprintf(stderr, "error: internal failure: %s\n", bug.what());
    return 70;
  }
  return exit_code;
}
