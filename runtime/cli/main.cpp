// mlrun: registers its commands and nothing else. The first word is a command only if it is one of them; otherwise it is
// a container to run.
#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "runtime/cli/commands.h"
#include "runtime/cli/crash.h"
#include "runtime/cli/handles.h"
#include "runtime/cli/report.h"
#include "runtime/cli/usage.h"

int main(int argc, char** argv) {
  using namespace mlc::cli;
  install_crash_handlers();
  CLI::App app("mlrun checks a container, picks the best variant for this machine and runs it", "mlrun");
  app.footer("Examples:\n  mlrun cat.mlc --input cat.jpg\n  mlrun explain cat.mlc\n");
  app.set_version_flag("--version", std::string("mlrun ") + mlc_version_string());
  app.require_subcommand(1);
  set_help_style(app);
  int exit_code = 0;
  add_run_command(app, exit_code);
  add_probe_command(app, exit_code);
  add_explain_command(app, exit_code);
  add_bench_command(app, exit_code);
  add_selftest_command(app, exit_code);
  add_help_command(app, exit_code);

  std::vector<std::string> words(argv + 1, argv + argc);
  const auto is_command = [&](const std::string& word) {
    const auto commands = app.get_subcommands([](CLI::App*) { return true; });
    return std::any_of(commands.begin(), commands.end(), [&](CLI::App* c) { return c->get_name() == word; });
  };
  const bool is_option = !words.empty() && (words[0] == "--help" || words[0] == "-h" || words[0] == "--version");
  if (!words.empty() && !is_option && !is_command(words[0])) words.insert(words.begin(), "run");
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // last word first, as CLI11 wants them
  } catch (const CLI::Success& answered) {
    return app.exit(answered);
  } catch (const CLI::ParseError& error) {
    return refuse(app, error, words);
  } catch (const std::bad_alloc&) {
    note("error: out of memory");
    return static_cast<int>(mlc::Code::Resource);
  } catch (const std::exception& bug) {
    note(std::string("error: internal failure: ") + bug.what());
    return static_cast<int>(mlc::Code::Internal);
  }
  return exit_code;
}
