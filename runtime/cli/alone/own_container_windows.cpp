#include "runtime/cli/alone/own_container.h"

namespace mlc::cli {

// Executables with a container are those of Linux.
const Result<std::optional<OwnContainer>>& own_container() {
  static const Result<std::optional<OwnContainer>> none = std::optional<OwnContainer>();
  return none;
}

}  // namespace mlc::cli
