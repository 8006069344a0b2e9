// mlpack-oci: the part of mlpack that talks to networks, a program of its own so that no other one has sockets. `mlpack push` starts it.
#include <signal.h>

#include <string>

#include <curl/curl.h>

#include "base/cli/program.h"
#include "base/cli/streams.h"
#include "base/files/unfinished.h"
#include "base/status.h"
#include "registry/commands.h"

namespace {

// What was begun to be written goes with the process.
void on_end(int number) {
  mlc::remove_unfinished();
  ::signal(number, SIG_DFL);
  ::raise(number);
}

// `mlpack push` is this program under that name, and its help says so.
std::string name_of_caller(const char* word) {
  const std::string path = word == nullptr ? "" : word;
  return path.substr(path.rfind('/') + 1) == "mlpack" ? "mlpack" : "mlpack-oci";
}

}  // namespace

int main(int argc, char** argv) {
  using namespace mlc::cli;
  open_closed_streams();
  ::signal(SIGPIPE, SIG_IGN);  // a connection that ends is an answer
  for (const int number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXCPU}) {
    if (::signal(number, on_end) == SIG_IGN) ::signal(number, SIG_IGN);
  }
  if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0) return static_cast<int>(mlc::Code::Resource);
  Program program(name_of_caller(argv[0]), "mlpack-oci moves containers in and out of registries",
                  "  mlpack-oci push cat.mlc registry.example.org/acme/cat:2\n  mlpack-oci pull registry.example.org/acme/cat:2 -o cat.mlc\n");
  mlc::registry::add_registry_commands(program);
  program.add_help_command("  mlpack-oci help pull\n  mlpack-oci help exit-codes\n");
  return program.run(words_given(argc, argv), "", {});
}
