// mlpack tune, and the files it writes.
#pragma once

#include <string>

#include "base/status.h"
#include "packager/tune/records.h"

namespace mlc::cli {

class Program;

void add_tune_commands(Program& program);

Result<tune::Records> read_records(const std::string& path);

}  // namespace mlc::cli
