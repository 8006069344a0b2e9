// What the system gives a program when it starts.
#pragma once

#include <string>
#include <vector>

namespace mlc::cli {

// Call first. Standard streams that the parent process has closed are opened, so that no file which is opened later
// is taken for one of them: input is empty, output fails, errors go nowhere. Bytes go through them as they are.
void open_closed_streams();

// The words behind the program's name, in UTF-8.
[[nodiscard]] std::vector<std::string> words_given(int argc, char** argv);

}  // namespace mlc::cli
