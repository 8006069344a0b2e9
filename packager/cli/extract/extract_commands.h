// extract: parts of a container as files.
#pragma once

#include "base/cli/program.h"

namespace mlc::cli {

void add_extract_commands(Program& program);

}  // namespace mlc::cli
