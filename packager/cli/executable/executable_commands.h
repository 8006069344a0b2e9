// executable: a container as a file that runs by itself.
#pragma once

#include "base/cli/program.h"
#include "base/cli/report.h"
#include "packager/cli/executable/executable_ops.h"

namespace mlc::cli {

void add_executable_commands(Program& program);

// What was written, as a line of text and as fields.
[[nodiscard]] Report report_of(const ExecutableResult& result);
// What --runner says in each command that has it.
inline constexpr char kRunnerHelp[] = "the program in front of the container: an mlrun for another processor or of another version (default: mlrun-alone, which came with mlpack)";

}  // namespace mlc::cli
