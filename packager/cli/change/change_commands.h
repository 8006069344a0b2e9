// Containers that change: thin, fill, relabel and add.
#pragma once

#include "base/cli/program.h"

namespace mlc::cli {

void add_change_commands(Program& program);

}  // namespace mlc::cli
