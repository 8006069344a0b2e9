// --help of a program with a container in its own file.
#pragma once

namespace mlc::cli {

class Program;

// The help of `run`, then what the model is and takes, as far as the file may be looked into: in the process that may. Returns the exit code.
[[nodiscard]] int help_of_own_container(Program& program);

}  // namespace mlc::cli
