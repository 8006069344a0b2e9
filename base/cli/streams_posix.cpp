#include <fcntl.h>
#include <unistd.h>

#include "base/cli/streams.h"

namespace mlc::cli {

void open_closed_streams() {
  constexpr int kModes[] = {O_RDONLY, O_RDONLY, O_WRONLY};  // what is written to an output that is open for reading fails
  for (int stream = 0; stream < 3; ++stream)
    if (fcntl(stream, F_GETFD) < 0) [[maybe_unused]] const int lowest = open("/dev/null", kModes[stream]);  // becomes the lowest one that is free
}

std::vector<std::string> words_given(int argc, char** argv) { return {argv + 1, argv + argc}; }

}  // namespace mlc::cli
