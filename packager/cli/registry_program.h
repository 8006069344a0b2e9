// push, pull, copy, export and resolve: commands of mlpack-oci, which is beside mlpack and is started in its place, so that mlpack has no sockets
// and is built where libcurl is missing.
#pragma once

#include <optional>

namespace mlc::cli {

class Program;

// Call first in main. None: the line is no such command, nor asks for help or completion of one. Else the exit code of a line that could
// not be handed over: mlpack-oci is not there. Where it is there, this does not return.
[[nodiscard]] std::optional<int> hand_over_to_registry_program(int argc, char** argv);

// Their names, for help and completion, where mlpack-oci is there.
void add_registry_commands(Program& program);

}  // namespace mlc::cli
