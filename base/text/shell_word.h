// A word of a command line that a hint shows for pasting.
#pragma once
#include <string>
#include <string_view>

namespace mlc {

// `word` as a POSIX shell reads it back as one argument: as it is where every character is plain, else in single quotes.
std::string shell_word(std::string_view word);
// The same for a file, which a leading '-' would make an option: "./" is put before it.
std::string shell_path(std::string_view path);

}  // namespace mlc
