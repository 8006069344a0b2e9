// mlpack build, check, targets.
#pragma once

namespace mlc::cli {

class Program;

void add_build_commands(Program& program);

}  // namespace mlc::cli
