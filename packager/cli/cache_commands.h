// mlpack cache.
#pragma once

namespace CLI {
class App;
}

namespace mlc::cli {

void add_cache_commands(CLI::App& app, int& exit_code);

}  // namespace mlc::cli
