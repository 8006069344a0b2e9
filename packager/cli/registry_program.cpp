#include "packager/cli/registry_program.h"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/cli/program.h"
#include "base/cli/report.h"

namespace mlc::cli {
namespace {

struct RegistryCommand {
  const char *name, *summary;
};
constexpr RegistryCommand kRegistryCommands[] = {{"push", "put a container or policy into a registry"},
                                                 {"pull", "get a container or policy from a registry, checked"},
                                                 {"export", "write a container for those who serve it"},
                                                 {"copy", "copy an artifact with all that refers to it"},
                                                 {"resolve", "what a reference leads to, without fetching it"}};

bool is_registry_command(std::string_view word) {
  return std::any_of(std::begin(kRegistryCommands), std::end(kRegistryCommands), [&](const RegistryCommand& command) { return word == command.name; });
}

// "/usr/bin/mlpack-oci"; empty if it is not there.
std::string registry_program() {
  char path[4096];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
  if (length <= 0 || static_cast<size_t>(length) == sizeof path) return {};
  std::string program(path, static_cast<size_t>(length));
  program = program.substr(0, program.rfind('/') + 1) + "mlpack-oci";
  return ::access(program.c_str(), X_OK) == 0 ? program : std::string();
}

}  // namespace

std::optional<int> hand_over_to_registry_program(int argc, char** argv) {
  const std::vector<std::string_view> words(argv + std::min(argc, 1), argv + argc);
  // "push ...", "help push", "__complete push ..."; "__complete pus" is answered by the parser here.
  const bool is_about = !words.empty() && ((words[0] == kHelpCommand && words.size() > 1) || (words[0] == kCompleteWord && words.size() > 2));
  const std::string_view command = words.empty() ? std::string_view() : words[is_about ? 1 : 0];
  if (!is_registry_command(command)) return std::nullopt;
  if (const std::string program = registry_program(); !program.empty()) {
    char name[] = "mlpack";  // so the program's help is about the command that was typed
    argv[0] = name;
    ::execv(program.c_str(), argv);
  }
  const bool as_json = std::find(words.begin(), words.end(), "--json") != words.end();
  return finish(command, as_json, Status(Code::NotFound, "mlpack {} is done by mlpack-oci, which is not beside mlpack", command).hint("install mlpack-oci, or build with libcurl"));
}

void add_registry_commands(Program& program) {
  if (registry_program().empty()) return;
  static bool as_json = false;  // never set: the line is handed over before it is parsed
  for (const RegistryCommand& command : kRegistryCommands) (void)program.add_command(command.name, command.summary, "", as_json);
}

}  // namespace mlc::cli
