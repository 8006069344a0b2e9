// push, pull, copy, export and resolve.
#pragma once

namespace mlc::cli {
class Program;
}

namespace mlc::registry {

void add_registry_commands(cli::Program& program);

}  // namespace mlc::registry
