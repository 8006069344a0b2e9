// mlpack tune, and the files it writes.
#pragma once

#include <string>

#include "base/status.h"
#include "packager/tune/records.h"

namespace CLI {
class App;
}

namespace mlc::cli {

void add_tune_commands(CLI::App& app, int& exit_code);

Result<tune::Records> read_records(const std::string& path);

}  // namespace mlc::cli
