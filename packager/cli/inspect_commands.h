// The commands inspect and size.
#pragma once

namespace mlc::cli {

class Program;

// Registers the commands. Running one prints its answer.
void add_inspect_commands(Program& program);

}  // namespace mlc::cli
