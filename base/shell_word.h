// A word of a command line that a hint shows for pasting.
#pragma once
#include <string>
#include <string_view>

namespace mlc {

// `word` as a POSIX shell (and fish, for words without a backslash) reads it back as one argument: as it is where every character is plain,
// else in single quotes. A leading '-' would make an option of a file: "./" is put before it.
std::string shell_word(std::string_view word);

}  // namespace mlc
