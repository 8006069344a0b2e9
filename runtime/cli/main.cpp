// mlrun: registers its commands and nothing else. A first word that is none of them is a container to run, or, where a container is in
// the program's own file, belongs to a run of that.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/cli/program.h"
#include "base/cli/report.h"
#include "base/cli/streams.h"
#include "runtime/cli/alone/own_container.h"
#include "runtime/cli/alone/own_help.h"
#include "runtime/cli/commands.h"
#include "runtime/cli/complete_values.h"
#include "runtime/cli/crash.h"
#include "runtime/trust/trust_command.h"

int main(int argc, char** argv) {
  using namespace mlc::cli;
  open_closed_streams();
  install_crash_handlers();
  if (argc == 3 && std::string_view(argv[1]) == "probe-child") return answer_probe(argv[2]);
  const auto& own = own_container();
  if (!own.ok() && own.status().code == mlc::Code::Malformed) return finish("run", false, own.status());
  const bool is_alone = own.ok() && own->has_value();
  Program program(is_alone ? (*own)->command : "mlrun", "mlrun checks a container, picks the best variant for this machine and runs it",
                  "  mlrun cat.mlc --input cat.jpg\n  mlrun explain cat.mlc\n", is_alone ? "mlrun" : "");
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
  program.set_neighbour({"mlpack", {"init", "build", "check", "targets", "inspect", "diff", "size", "extract", "executable", "keygen", "sign", "verify", "policy", "attest", "thin",
                                    "fill", "apply", "relabel", "add", "upgrade", "cache", "push", "pull", "export", "copy", "resolve"}});
  program.add_help_command("  mlrun help explain\n  mlrun help exit-codes\n");
  std::vector<std::string> words = words_given(argc, argv);
  if (is_alone && !words.empty() && (words[0] == "--help" || words[0] == "-h")) return help_of_own_container(program);
  if (is_alone && words.empty()) words.push_back("run");
  return program.run(std::move(words), "run", values_of_line);
}
