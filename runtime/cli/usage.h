// Command lines that are refused, in the words of every other error: what is wrong, the nearest known word, where to read.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
}

namespace mlc::cli {

// `app` has parsed `words` and thrown `error`. Prints it as any failed command does and returns the exit code.
int refuse(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words);

}  // namespace mlc::cli
