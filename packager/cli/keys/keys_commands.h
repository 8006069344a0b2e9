// The commands keygen, sign, verify and trust.
#pragma once

namespace mlc::cli {

class Program;

// Registers the commands. Running one prints its answer.
void add_keys_commands(Program& program);

}  // namespace mlc::cli
