// The container in the file of this program: what mlpack executable wrote behind it (spec/container.md, section 13).
#pragma once

#include <optional>
#include <string>

#include "base/status.h"

namespace mlc::cli {

// Stays open as long as the process lives.
struct OwnContainer {
  std::string name;     // of the file, for messages
  std::string command;  // how the program is called: the last part of that name
  int fd = -1;
};

// Looked for once. None: there is no container in it, as of mlrun itself. Malformed: there was one, and the file is cut off or changed. NotFound:
// the own file cannot be read, so that it is not known.
[[nodiscard]] const Result<std::optional<OwnContainer>>& own_container();

}  // namespace mlc::cli
