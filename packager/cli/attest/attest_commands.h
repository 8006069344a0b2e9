// attest: what is stated about a container beside it.
#pragma once

#include "base/cli/program.h"

namespace mlc::cli {

void add_attest_commands(Program& program);

}  // namespace mlc::cli
