// Command lines that are refused, in the words of every other error: what is wrong, the nearest known word, where to read.
#pragma once

#include "base/status.h"

namespace CLI {
class App;
class ParseError;
}

namespace mlc::cli {

// `app` has parsed a command line and thrown `error`. Prints it as any failed command does and returns the exit code.
[[nodiscard]] int refuse(const CLI::App& app, const CLI::ParseError& error, int argc, const char* const* argv);

}  // namespace mlc::cli
