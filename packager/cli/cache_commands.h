// mlpack cache.
#pragma once

namespace mlc::cli {

class Program;

void add_cache_commands(Program& program);

}  // namespace mlc::cli
