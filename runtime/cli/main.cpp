// mlrun: registers its commands and nothing else. A first word that is none of them is a container to run.
#include <string_view>

#include "base/cli/program.h"
#include "base/cli/streams.h"
#include "runtime/cli/commands.h"
#include "runtime/cli/complete_values.h"
#include "runtime/cli/crash.h"
#include "runtime/trust/trust_command.h"

int main(int argc, char** argv) {
  using namespace mlc::cli;
  open_closed_streams();
  install_crash_handlers();
  if (argc == 3 && std::string_view(argv[1]) == "probe-child") return answer_probe(argv[2]);
  Program program("mlrun", "mlrun checks a container, picks the best variant for this machine and runs it",
                  "  mlrun cat.mlc --input cat.jpg\n  mlrun explain cat.mlc\n");
  add_run_command(program);
  add_embed_command(program);
  add_probe_command(program);
  add_explain_command(program);
  add_bench_command(program);
  add_profile_command(program);
  add_selftest_command(program);
  add_tune_command(program);
  add_trust_command(program);
  add_completion_command(program);
  program.set_neighbour({"mlpack", {"init", "build", "check", "targets", "inspect", "diff", "size", "extract", "keygen", "sign", "verify", "attest", "thin",
                                    "fill", "apply", "relabel", "add", "upgrade", "cache", "push", "pull", "export", "copy", "resolve"}});
  program.add_help_command("  mlrun help explain\n  mlrun help exit-codes\n");
  return program.run(words_given(argc, argv), "run", values_of_line);
}
