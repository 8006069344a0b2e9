// mlrun: registers its commands and nothing else. The first word is a command only if it is one of them; otherwise it is
// a container to run.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "runtime/cli/commands.h"
#include "runtime/cli/crash.h"
#include "runtime/cli/handles.h"
#include "runtime/cli/report.h"

namespace {

constexpr const char* kExitCodes =
    "exit codes\n"
    "   0  done, or yes                          10  not signed, and the policy wants it\n"
    "   1  differences, or no                    11  signer not trusted\n"
    "   2  usage: flag, key, value, pipeline     12  signature or digest does not match\n"
    "   3  file missing or not readable          13  expired, revoked, or too old\n"
    "   4  not a valid container                 20  unsupported\n"
    "   5  no such variant fits                  21  self-test failed\n"
    "   6  input does not fit the model          22  performance gate failed\n"
    "   7  out of memory, device lost            70  a bug of ours\n"
    "   8  cancelled                             128+n  ended by signal n\n";

}  // namespace

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
  CLI::App* help = app.add_subcommand("help", "topics: exit-codes");
  std::string topic;
  help->add_option("topic", topic, "exit-codes");
  help->callback([&] {
    if (topic.empty()) std::printf("%s", app.help().c_str());
    else if (topic == "exit-codes") std::printf("%s", kExitCodes);
    else note("error: no help about '" + printable(topic) + "'\n  help: mlrun help exit-codes"), exit_code = 2;
  });

  std::vector<std::string> words(argv + 1, argv + argc);
  const auto is_command = [&](const std::string& word) {
    const auto commands = app.get_subcommands([](CLI::App*) { return true; });
    return std::any_of(commands.begin(), commands.end(), [&](CLI::App* c) { return c->get_name() == word; });
  };
  const bool is_option = !words.empty() && (words[0] == "--help" || words[0] == "-h" || words[0] == "--version");
  if (!words.empty() && !is_option && !is_command(words[0])) words.insert(words.begin(), "run");
  std::reverse(words.begin(), words.end());  // as CLI11 wants them
  try {
    app.parse(std::move(words));
  } catch (const CLI::Success& answered) {
    return app.exit(answered);
  } catch (const CLI::ParseError& error) {
    app.exit(error);
    return static_cast<int>(mlc::Code::Usage);
  } catch (const std::bad_alloc&) {
    note("error: out of memory");
    return static_cast<int>(mlc::Code::Resource);
  } catch (const std::exception& bug) {
    note(std::string("error: internal failure: ") + bug.what());
    return static_cast<int>(mlc::Code::Internal);
  }
  return exit_code;
}
