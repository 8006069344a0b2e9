// mlpack: registers its groups of commands and nothing else.
#include "base/cli/program.h"
#include "base/cli/streams.h"
#include "packager/cli/attest/attest_commands.h"
#include "packager/cli/build/build_commands.h"
#include "packager/cli/cache_commands.h"
#include "packager/cli/change/change_commands.h"
#include "packager/cli/complete_values.h"
#include "packager/cli/early_end.h"
#include "packager/cli/executable/executable_commands.h"
#include "packager/cli/extract/extract_commands.h"
#include "packager/cli/inspect_commands.h"
#include "packager/cli/keys/keys_commands.h"
#include "packager/cli/keys/policy_commands.h"
#include "packager/cli/registry_program.h"
#include "packager/cli/tune/tune_commands.h"

int main(int argc, char** argv) {
  using namespace mlc::cli;
  open_closed_streams();
  if (const auto code = hand_over_to_registry_program(argc, argv)) return *code;
  handle_early_ends(argc, argv);
  Program program("mlpack", "mlpack makes, signs and inspects containers of machine-learning models",
                  "  mlpack check model.onnx\n  mlpack build model.onnx -o model.mlc\n");
  add_build_commands(program);
  add_tune_commands(program);
  add_inspect_commands(program);
  add_extract_commands(program);
  add_executable_commands(program);
  add_keys_commands(program);
  add_policy_commands(program);
  add_attest_commands(program);
  add_change_commands(program);
  add_cache_commands(program);
  add_registry_commands(program);
  add_completion_command(program);
  program.set_neighbour({"mlrun", {"run", "embed", "probe", "explain", "bench", "profile", "selftest"}});
  program.add_help_command("  mlpack help build\n  mlpack help exit-codes\n");
  return program.run(words_given(argc, argv), "", values_of_line);
}
