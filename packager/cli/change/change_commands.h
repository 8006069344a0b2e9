// Containers that change: thin, fill and relabel.
#pragma once

#include "base/cli/program.h"

namespace mlc::cli {

void add_change_commands(Program& program);

}  // namespace mlc::cli
